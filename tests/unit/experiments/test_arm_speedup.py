"""Speed-up of an arm over its baseline, with bounds."""

from __future__ import annotations

from functools import partial
from math import exp, log
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.experiments.arm import ArmPace
from spec_decode_exporter.experiments.arm_speedup import ArmSpeedup, arm_speedup
from tests.fixtures.arms import TIME, arm_with, second_of, window_of


class TestSpeedup:
    def test_by_hand(self):
        found = arm_speedup(ArmPace(0.025, 0.03, 12), ArmPace(0.0125, 0.04, 12))
        # √(0.03² + 0.04²) = 0.05. Welch: 0.05⁴ / (0.03⁴ + 0.04⁴) · 12 = 22.3, rounded down.
        assert found.value == 2.0
        assert found.estimate.lower == pytest.approx(2.0 * exp(-2.074 * 0.05))
        assert found.estimate.upper == pytest.approx(2.0 * exp(2.074 * 0.05))
        assert found.estimate.standard_error == pytest.approx(0.1)

    def test_the_degrees_are_those_of_the_arm_with_the_larger_error(self):
        found = arm_speedup(ArmPace(1.0, 0.1, 2), ArmPace(1.0, 0.0, 12))
        assert log(found.estimate.upper) == pytest.approx(4.303 * 0.1)

    def test_without_bounds_of_both_there_are_none(self):
        assert arm_speedup(ArmPace(2.0, None, 0), ArmPace(1.0, 0.1, 5)) == ArmSpeedup(2.0, None)
        assert arm_speedup(ArmPace(2.0, 0.1, 5), ArmPace(1.0, None, 0)) == ArmSpeedup(2.0, None)

    def test_without_variation_the_bounds_are_exact(self):
        estimate = arm_speedup(ArmPace(3.0, 0.0, 12), ArmPace(1.0, 0.0, 12)).estimate
        assert (estimate.lower, estimate.upper) == (3.0, 3.0)

    @given(
        *[st.floats(1e-6, 1e6)] * 2,
        *[st.floats(0, 1)] * 2,
        *[st.integers(1, 12)] * 2,
    )
    def test_to_change_sides_inverts_it_and_its_bounds(self, mine, its, my_error, its_error, freedom, other):
        one, two = ArmPace(mine, my_error, freedom), ArmPace(its, its_error, other)
        there, back = arm_speedup(one, two).estimate, arm_speedup(two, one).estimate
        assert there.lower <= there.value <= there.upper
        assert there.value * back.value == pytest.approx(1.0)
        assert there.lower * back.upper == pytest.approx(1.0)
        assert there.upper * back.lower == pytest.approx(1.0)


def test_the_bounds_have_their_nominal_coverage():
    """Requests differ, and so does what each takes a token; the arms are independent, the truth is 2."""

    held = 0
    for seed in range(400):
        random = Random(seed)
        base, arm = (
            arm_with(window_of(partial(second_of, random, per_token, [0.0]))).measures()[TIME]
            for per_token in (0.02, 0.01)
        )
        estimate = arm_speedup(base, arm).estimate
        held += estimate.lower <= 2.0 <= estimate.upper
    # 95 % of 400, give or take three standard errors.
    assert 367 <= held <= 394
