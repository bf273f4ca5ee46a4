"""Times of arms at one mix of request types."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.experiments.standardised import TypeTimes, standardised_paces

CELLS = 40
EASY, HARD = 0.010, 0.030
"""Seconds per token of the slower arm."""


def arm(easy_share, factor=1.0, tokens=10_000, noise=0.0, seed=1):
    """Return an arm whose times are ``factor`` of the slower one's."""
    random = Random(seed)
    types = {}
    for name, share, pace in (("easy", easy_share, EASY), ("hard", 1 - easy_share, HARD)):
        each = [share * tokens * random.uniform(0.5, 1.5) for _ in range(CELLS)]
        seconds = [factor * pace * number * random.gauss(1, noise) for number in each]
        types[name] = TypeTimes(seconds, each)
    return types


def pooled(types):
    return sum(sum(each.seconds) for each in types.values()) / sum(
        sum(each.tokens) for each in types.values()
    )


def speedup(baseline, other):
    its, own = standardised_paces(baseline, other, 12)
    return own.speedup_over(its)


def test_the_arm_that_is_faster_on_both_types_is_faster_whatever_the_mix():
    # A needs 0.9 of B's time on each type, but serves 25 % easy requests, and B 75 %.
    a, b = arm(0.25, factor=0.9, noise=0.02), arm(0.75, noise=0.02, seed=2)
    assert pooled(a) > 1.3 * pooled(b)
    found = speedup(b, a)
    assert found.value == pytest.approx(1 / 0.9, rel=0.02)
    assert found.estimate.lower > 1


def test_one_drafter_in_two_arms_has_no_winner():
    inside = 0
    for seed in range(200):
        found = speedup(arm(0.25, noise=0.05, seed=seed), arm(0.75, noise=0.05, seed=seed + 1000))
        inside += found.estimate.lower <= 1 <= found.estimate.upper
    assert inside >= 180


def test_the_mix_alone_is_no_error():
    its, own = standardised_paces(arm(0.25), arm(0.75), 12)
    assert its.value == pytest.approx(own.value)
    assert own.relative_error == pytest.approx(0, abs=1e-9)


def test_the_weights_are_the_shares_in_the_tokens_of_both():
    one = {"easy": TypeTimes([10.0], [1000.0]), "hard": TypeTimes([90.0], [3000.0])}
    other = {"easy": TypeTimes([60.0], [3000.0]), "hard": TypeTimes([40.0], [1000.0])}
    its, own = standardised_paces(one, other, 12)
    assert its.value == pytest.approx((0.010 + 0.030) / 2)
    assert own.value == pytest.approx((0.020 + 0.040) / 2)
    assert own.relative_error is None


@given(st.floats(0.05, 0.95), st.floats(0.05, 0.95), st.floats(0.2, 5))
def test_a_common_factor_is_the_speedup_at_every_mix(mine, its, factor):
    assert speedup(arm(its), arm(mine, factor=factor)).value == pytest.approx(1 / factor)


def test_types_that_only_one_arm_has_prevent_the_comparison_above_a_tenth_of_its_tokens():
    few = arm(0.5) | {"rare": TypeTimes([1.0] * CELLS, [500.0] * CELLS)}
    many = arm(0.5) | {"rare": TypeTimes([1.0] * CELLS, [5000.0] * CELLS)}
    assert standardised_paces(arm(0.5), few, 12) is not None
    assert standardised_paces(arm(0.5), many, 12) is None
    assert standardised_paces(many, arm(0.5), 12) is None
    assert standardised_paces({}, arm(0.5), 12) is None
    assert (
        standardised_paces({"easy": TypeTimes([1.0], [9.0])}, {"hard": TypeTimes([1.0], [9.0])}, 12) is None
    )
