"""Speed-up of an arm over its baseline, with bounds."""

from __future__ import annotations

from functools import partial
from math import exp, log
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.experiments.pace import ArmSpeedup, Pace
from tests.fixtures.arms import TIME, arm_with, second_of, window_of


class TestSpeedup:
    def test_by_hand(self):
        found = Pace(0.0125, 0.04, 12).speedup_over(Pace(0.025, 0.03, 12))
        # √(0.03² + 0.04²) = 0.05. Welch: 0.05⁴ / (0.03⁴ + 0.04⁴) · 12 = 22.3, rounded down.
        assert found.value == 2.0
        assert found.estimate.lower == pytest.approx(2.0 * exp(-2.074 * 0.05))
        assert found.estimate.upper == pytest.approx(2.0 * exp(2.074 * 0.05))
        assert found.estimate.standard_error == pytest.approx(0.1)

    def test_the_degrees_are_those_of_the_arm_with_the_larger_error(self):
        found = Pace(1.0, 0.0, 12).speedup_over(Pace(1.0, 0.1, 2))
        assert log(found.estimate.upper) == pytest.approx(4.303 * 0.1)

    def test_without_bounds_of_both_there_are_none(self):
        assert Pace(1.0, 0.1, 5).speedup_over(Pace(2.0)) == ArmSpeedup(2.0, None)
        assert Pace(1.0).speedup_over(Pace(2.0, 0.1, 5)) == ArmSpeedup(2.0, None)

    def test_without_variation_the_bounds_are_exact(self):
        estimate = Pace(1.0, 0.0, 12).speedup_over(Pace(3.0, 0.0, 12)).estimate
        assert (estimate.lower, estimate.upper) == (3.0, 3.0)

    @given(
        *[st.floats(1e-6, 1e6)] * 2,
        *[st.floats(0, 1)] * 2,
        *[st.integers(1, 12)] * 2,
    )
    def test_to_change_sides_inverts_it_and_its_bounds(self, mine, its, my_error, its_error, freedom, other):
        one, two = Pace(mine, my_error, freedom), Pace(its, its_error, other)
        there, back = one.speedup_over(two).estimate, two.speedup_over(one).estimate
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
            arm_with(window_of(partial(second_of, random, per_token, [0.0]))).paces[TIME]
            for per_token in (0.02, 0.01)
        )
        estimate = arm.speedup_over(base).estimate
        held += estimate.lower <= 2.0 <= estimate.upper
    # 95 % of 400, give or take three standard errors.
    assert 367 <= held <= 394
