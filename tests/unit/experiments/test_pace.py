"""Speed-up of an arm over its baseline, with bounds, and what their mixes of request types explain."""

from math import exp

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.experiments.pace import Pace, TypeTimes, mix_ratio


class TestSpeedup:
    def test_by_hand(self):
        found = Pace(0.0125, 0.04, 12).speedup_over(Pace(0.025, 0.03, 12), {})
        # √(0.03² + 0.04²) = 0.05. Welch: 0.05⁴ / (0.03⁴ + 0.04⁴) · 12 = 22.3, rounded down.
        assert found.value == 2.0
        assert found.estimate.lower == pytest.approx(2.0 * exp(-2.074 * 0.05))
        assert found.estimate.upper == pytest.approx(2.0 * exp(2.074 * 0.05))
        assert found.estimate.standard_error == pytest.approx(0.1)

    @given(*[st.floats(1e-6, 1e6)] * 2, *[st.floats(0, 1)] * 2, *[st.integers(1, 12)] * 2)
    def test_to_change_sides_inverts_it_and_its_bounds(self, mine, its, my_error, its_error, freedom, other):
        one, two = Pace(mine, my_error, freedom), Pace(its, its_error, other)
        there, back = one.speedup_over(two, {}).estimate, two.speedup_over(one, {}).estimate
        assert there.lower <= there.value <= there.upper
        assert there.value * back.value == pytest.approx(1.0)
        assert there.lower * back.upper == pytest.approx(1.0)
        assert there.upper * back.lower == pytest.approx(1.0)


EASY, HARD = 0.010, 0.030  # seconds per token of the slower arm


def arm(easy, hard, factor=1.0):
    """Return the times of an arm with these tokens of two types, ``factor`` of the slower one's."""
    pairs = {"easy": (easy, EASY), "hard": (hard, HARD)}
    return {name: TypeTimes(factor * pace * tokens, tokens) for name, (tokens, pace) in pairs.items()}


SHARES = st.floats(0.05, 0.95)


class TestMix:
    @given(SHARES, SHARES, st.floats(0.2, 5))
    def test_the_rest_of_a_difference_is_the_factor_of_both_types(self, mine, its, factor):
        one, other = arm(mine, 1 - mine, factor), arm(its, 1 - its)
        pace, other_pace = (
            sum(each.seconds for each in types.values()) / sum(each.tokens for each in types.values())
            for types in (one, other)
        )
        assert other_pace / pace * mix_ratio(one, other) == pytest.approx(1 / factor)

    def test_the_weights_are_the_shares_in_the_tokens_of_both(self):
        one = {"easy": TypeTimes(60.0, 3000.0), "hard": TypeTimes(40.0, 1000.0)}
        other = {"easy": TypeTimes(10.0, 1000.0), "hard": TypeTimes(90.0, 3000.0)}
        # At half easy tokens: (0.020 + 0.040) / 2 and (0.010 + 0.030) / 2; at their own mixes both 0.025.
        assert mix_ratio(one, other) == pytest.approx((0.025 / 0.030) / (0.025 / 0.020))

    def test_types_that_one_arm_lacks_leave_it_unknown_above_a_tenth_of_the_tokens(self):
        both = arm(5000.0, 5000.0)
        few, many = (both | {"rare": TypeTimes(10.0, tokens)} for tokens in (1111.0, 1112.0))
        assert mix_ratio(both, few) == pytest.approx(1)
        assert mix_ratio(both, many) is mix_ratio(many, both) is None
        assert mix_ratio({}, both) is None
        assert mix_ratio(both, {name: TypeTimes(0.0, times.tokens) for name, times in both.items()}) is None
        assert mix_ratio({"easy": TypeTimes(1.0, 9.0)}, {"hard": TypeTimes(1.0, 9.0)}) is None
