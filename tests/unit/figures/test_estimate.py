"""Bounds: hand-made examples, what must hold of any window, and whether they are right on average."""

from __future__ import annotations

from dataclasses import replace
from math import inf, isclose, sqrt
from random import Random
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.analysis.statistics import ratio_bounds
from spec_decode_exporter.figures.estimate import Estimate
from spec_decode_exporter.window.answer_lengths import NO_ANSWERS, AnswerLengths

REQUESTS = {"first_tokens": 100, "generation_tokens": 1000, "gauges": (1.0, None, None)}
"""Enough requests, one at a time, for as many cosines as the length of a window allows."""


def estimate(numerators, denominators, cosines=3, **more):
    limits = {"lowest": -inf, "highest": inf} | more
    return ratio_bounds.ratio_estimate(numerators, denominators, cosines, **limits)


@pytest.fixture(scope="session", name="make_busy_window")
def make_busy_window_fixture(make_window):
    def make_busy_window(accepted, drafts=10, tokens=4, **more):
        """Return a window of increments with these drafts and accepted tokens."""
        increments = [
            {
                "drafts": drafts,
                "draft_tokens": tokens * drafts,
                "accepted_tokens": one,
                "generation_tokens": drafts + one,
            }
            for one in accepted
        ]
        number, total = len(increments), sum(accepted)
        positions = [total // tokens + (place < total % tokens) for place in range(tokens)]
        return make_window(
            number * drafts,
            number * tokens * drafts,
            total,
            **({"increments": increments, "positions": positions} | REQUESTS | more),
        )

    return make_busy_window


ALTERNATING = (20, 30) * 15
ESTIMATES = [ratio_bounds.acceptance_length_estimate, ratio_bounds.acceptance_ratio_estimate]


# How many cosines


def test_bounds_rest_on_more_cosines_the_longer_a_window_is(make_busy_window):
    def cosines(seconds):
        return ratio_bounds.cosines(make_busy_window(ALTERNATING, length=seconds, seconds=seconds))

    assert [cosines(seconds) for seconds in (10.0, 30.0, 31.4)] == [3, 3, 3]
    assert [cosines(seconds) for seconds in (60.0, 120.0, 300.0, 3600.0)] == [5, 7, 12, 12]


def test_the_covered_time_counts_not_the_length_of_the_window(make_busy_window):
    assert ratio_bounds.cosines(make_busy_window(ALTERNATING, length=300.0, seconds=160.0)) == 8


@pytest.mark.parametrize(
    ("first_tokens", "running", "cosines"),
    [
        (69, 10.0, 0),
        (70, 10.0, 2),
        (149, 10.0, 2),
        (150, 10.0, 3),
        (249, 10.0, 4),
        (600, 10.0, 12),
        (6000, 10.0, 12),
        (6, 0.0, 0),  # all so short that no poll saw one
        (6, 0.1, 0),
        (35, 0.0, 7),
        (None, 10.0, 0),
        (70, None, 0),
    ],
)
def test_the_fewer_requests_pass_through_the_fewer_cosines(make_busy_window, first_tokens, running, cosines):
    window = make_busy_window(
        ALTERNATING, length=300.0, seconds=300.0, first_tokens=first_tokens, gauges=(running, None, None)
    )
    assert ratio_bounds.cosines(window) == cosines


def test_idle_time_lets_no_requests_pass(make_window):
    # 12 requests, 1.5 at a time: 8 after one another. In half of the time, with 3 at a time, it is 4.
    def cosines(busy, gauge):
        increments = [{"drafts": 10, "generation_tokens": 30}] * busy + [{}] * (30 - busy)
        requests = {"generation_tokens": 30 * busy, "first_tokens": 12, "gauges": (gauge, None, None)}
        return ratio_bounds.cosines(make_window(10 * busy, 40 * busy, increments=increments, **requests))

    assert cosines(30, 1.5) == 2
    assert cosines(15, 1.5) == 0
    assert cosines(15, 0.75) == 2


def test_with_unknown_generated_tokens_a_server_is_busy_while_it_drafts(make_window):
    increments = [{"drafts": 10}] * 15 + [{}] * 15
    requests = {"first_tokens": 12, "gauges": (1.5, None, None)}
    assert ratio_bounds.cosines(make_window(150, 600, increments=increments, **requests)) == 0
    assert ratio_bounds.cosines(make_window(300, 900, increments=increments[:15] * 2, **requests)) == 2


def test_increments_without_a_draft_are_no_idle_time_while_tokens_are_generated(make_window):
    # n-gram: nothing to propose half of the time
    increments = [{"drafts": 10, "generation_tokens": 30}, {"generation_tokens": 30}] * 15
    requests = {"generation_tokens": 900, "first_tokens": 12, "gauges": (1.5, None, None)}
    assert ratio_bounds.cosines(make_window(150, 600, increments=increments, **requests)) == 2


def test_an_idle_window_lets_no_requests_pass(make_window):
    idle = make_window(0, 0, increments=[{}] * 30, **REQUESTS)
    assert ratio_bounds.passing_requests(idle) is None
    assert ratio_bounds.effective_requests(idle) is None
    assert ratio_bounds.cosines(make_window(10, 30, increments=[{"drafts": 1}] * 10)) == 0


# How much the lengths of answers differ


def answers(requests, *lengths):
    """Return the sums of answers of which equal numbers have these lengths, in tokens."""
    each = requests // len(lengths)
    powers = (sum(each * length**power for length in lengths) for power in (1, 2, 3))
    tokens, squares, cubes = powers
    return AnswerLengths(requests, 1000 * tokens, squares, cubes)


@pytest.fixture(name="passing")
def fixture_passing(make_busy_window):
    def passing(requests, lengths):
        """Make five minutes in which requests with these answers pass one after the other."""
        window = make_busy_window(
            ALTERNATING, length=300.0, seconds=300.0, first_tokens=requests, gauges=(1.0, None, None)
        )
        return replace(window, answers=lengths)

    return passing


def test_equal_answers_count_as_many_as_they_are(passing):
    assert ratio_bounds.effective_requests(passing(20, answers(20, 300))) == pytest.approx(20.0)


def test_unequal_answers_count_less_by_their_variation(passing):
    # Lengths of 100 and 300: a mean of 200, a standard deviation of 100, so cv² is 1/4.
    assert ratio_bounds.effective_requests(passing(20, answers(20, 100, 300))) == pytest.approx(20 / 1.25)


@pytest.mark.parametrize("few", [NO_ANSWERS, answers(9, 300), answers(9, 10, 10, 9000)])
def test_of_unknown_answers_a_common_variation_is_assumed(passing, few):
    assert ratio_bounds.effective_requests(passing(14, few)) == pytest.approx(14 / 1.4)
    assert ratio_bounds.cosines(passing(40, few)) == 8


@pytest.mark.parametrize(("requests", "cosines"), [(4, 0), (5, 2), (9, 2), (10, 3), (40, 12)])
def test_equal_answers_have_bounds_from_five_requests_on(passing, requests, cosines):
    assert ratio_bounds.cosines(passing(requests, answers(20, 300))) == cosines


def test_a_few_long_answers_among_short_ones_take_the_bounds_of_short_windows(passing):
    agents = answers(2000, *(200,) * 19, 5000)
    # The mean is 440, cv² 5.65, and a request chosen by its part in the variance has 4860 tokens.
    assert ratio_bounds.effective_requests(passing(30, agents)) == pytest.approx(30 / 6.65, rel=0.01)
    assert ratio_bounds.cosines(passing(30, agents)) == 0
    assert ratio_bounds.cosines(passing(150, agents)) == int(150 * 440 / 4860 / 3.3)
    assert ratio_bounds.cosines(passing(150, answers(2000, 440))) == 12


def test_fewer_increments_leave_fewer_cosines():
    # t is 4.303 for two and 3.182 for three.
    for increments, t in ([11, 10, 9], 4.303), ([11, 10, 10, 9], 3.182), ([11, 10, 10, 10, 9], 3.182):
        found = estimate(increments, [5] * len(increments))
        assert (found.upper - found.value) / found.standard_error == pytest.approx(t)


# The estimator


def test_a_standard_error_by_hand():
    # Residuals 1 1 -1 -1; cos(π/8) = .92388, cos(3π/8) = .38268: Σ r cos = 2·(.92388 + .38268) = 2.61313 for
    # b = 1, 0 for b = 2 and 2·(.38268 - .92388) = -1.08239 for b = 3.
    residuals = [1, 1, -1, -1]
    assert ratio_bounds.standard_error(residuals, 1) == pytest.approx(sqrt(2 * 2.61313**2), rel=1e-5)
    assert ratio_bounds.standard_error(residuals, 2) == pytest.approx(sqrt(2.61313**2), rel=1e-5)
    error = sqrt(2 / 3 * (2.61313**2 + 1.08239**2))
    assert ratio_bounds.standard_error(residuals, 3) == pytest.approx(error, rel=1e-5)


def test_with_every_cosine_it_is_that_of_independent_increments():
    # Then the cosines are a whole basis, and the mean of L² is the variance of the increments: here 20 / 3.
    assert ratio_bounds.standard_error([3, -1, -3, 1], 3) == pytest.approx(sqrt(4 * 20 / 3))
    assert ratio_bounds.standard_error([3, -1, -3, 1], 12) == pytest.approx(sqrt(4 * 20 / 3))


def test_without_cosines_or_differences_there_is_no_standard_error():
    assert ratio_bounds.standard_error([1, -1], 0) is None
    assert ratio_bounds.standard_error([0], 3) is None
    assert ratio_bounds.standard_error([], 3) is None


def test_an_estimate_by_hand():
    # 40 accepted of 20 drafts: 2; residuals 1 1 -1 -1 as above; t of 3 degrees of freedom is 3.182.
    found = estimate([11, 11, 9, 9], [5, 5, 5, 5])
    error = sqrt(2 / 3 * (2.61313**2 + 1.08239**2)) / 20
    assert found.value == 2
    assert found.standard_error == pytest.approx(error, rel=1e-5)
    assert (found.lower, found.upper) == pytest.approx((2 - 3.182 * error, 2 + 3.182 * error), rel=1e-5)


def test_idle_increments_change_nothing():
    found = estimate([11, 11, 9, 9], [5, 5, 5, 5])
    assert estimate([0, 11, 11, 0, 0, 9, 9, 0], [0, 5, 5, 0, 0, 5, 5, 0]) == found


def test_an_increment_is_not_idle_if_either_side_of_the_ratio_moved():
    # 6 over 4 is 1.5; what is more or less than that follows.
    for numerators, denominators, residuals in (
        ([2, 0, 2, 2], [1, 1, 1, 1], [0.5, -1.5, 0.5, 0.5]),
        ([2, 1, 2, 1], [1, 0, 1, 2], [0.5, 1, 0.5, -2]),
    ):
        error = ratio_bounds.standard_error(residuals, 3) / 4
        assert estimate(numerators, denominators).standard_error == pytest.approx(error)


def test_bounds_are_clipped_to_what_is_possible():
    found = estimate([11, 11, 9, 9], [5, 5, 5, 5], lowest=1.9, highest=2.05)
    assert (found.lower, found.upper) == (1.9, 2.05)


def test_bounds_contain_a_value_that_a_torn_page_made_impossible():
    found = estimate([11, 11, 9, 9], [5, 5, 5, 5], lowest=0.0, highest=1.0)
    assert found.upper == found.value == 2
    assert estimate([11, 11, 9, 9], [5, 5, 5, 5], lowest=3.0, highest=4.0).lower == 2


def test_the_minimum_error_applies_if_the_increments_agree_by_chance():
    assert estimate([2, 2, 2, 2], [1, 1, 1, 1]) == Estimate(2, 2, 2, 0)
    found = estimate([2, 2, 2, 2], [1, 1, 1, 1], min_error=0.1)
    assert found.standard_error == 0.1
    assert (found.lower, found.upper) == pytest.approx((2 - 0.3182, 2 + 0.3182))


@pytest.mark.parametrize(
    ("numerators", "denominators", "cosines"),
    [
        ([11, 11, 9, 9], [5, 5, 5, 5], 0),
        ([11, 11, 9, 9], [5, 5, 5, 5], 1),
        ([11, 9], [5, 5], 3),
        ([11, 0, 0, 9], [5, 0, 0, 5], 3),
        ([0, 0, 0, 0], [0, 0, 0, 0], 3),
        ([1, 1, 1, 1], [0, 0, 0, 0], 3),
        ([], [], 3),
    ],
)
def test_an_estimate_needs_two_cosines_and_something_to_divide_by(numerators, denominators, cosines):
    assert estimate(numerators, denominators, cosines) is None


increments_strategy = st.lists(st.tuples(st.integers(0, 1000), st.integers(1, 1000)), min_size=3, max_size=50)


@given(increments_strategy, st.integers(2, 20), st.integers(1, 1000))
def test_an_estimate_has_the_units_of_its_sums(increments, cosines, factor):
    numerators, denominators = zip(*increments, strict=True)
    found = estimate(numerators, denominators, cosines)
    more = estimate([factor * one for one in numerators], denominators, cosines)
    less = estimate(numerators, [factor * one for one in denominators], cosines)
    for scaled, times in ((more, factor), (less, 1 / factor)):
        assert scaled.value == pytest.approx(times * found.value)
        assert scaled.standard_error == pytest.approx(times * found.standard_error, abs=1e-9)
        assert scaled.lower == pytest.approx(times * found.lower, abs=1e-9)
        assert scaled.upper == pytest.approx(times * found.upper, abs=1e-9)


@given(increments_strategy, st.integers(2, 20))
def test_time_has_no_direction(increments, cosines):
    numerators, denominators = zip(*increments, strict=True)
    found = estimate(numerators, denominators, cosines)
    assert estimate(numerators[::-1], denominators[::-1], cosines).standard_error == pytest.approx(
        found.standard_error, abs=1e-9
    )


# Acceptance


def test_the_variance_of_independent_drafts(make_window):
    # p = .74 .54 .41: v = 4.41 - 2.8561
    window = make_window(100, 300, 169, positions=(74, 54, 41))
    assert ratio_bounds.independent_variance(window) == pytest.approx(1.5539)


def test_one_position_has_the_variance_of_a_coin(make_window):
    assert ratio_bounds.independent_variance(make_window(100, 100, 30, positions=(30,))) == pytest.approx(
        0.21
    )


@given(st.lists(st.integers(0, 5), min_size=1, max_size=60))
def test_the_variance_from_the_positions_is_that_of_the_accepted_lengths(make_window, lengths):
    positions = [sum(length > place for length in lengths) for place in range(5)]
    window = make_window(len(lengths), 5 * len(lengths), sum(lengths), positions=positions)
    average = fmean(lengths)
    expected = fmean([(length - average) ** 2 for length in lengths])
    assert ratio_bounds.independent_variance(window) == pytest.approx(expected, abs=1e-12)


def test_a_torn_page_has_no_negative_variance(make_window):
    assert ratio_bounds.independent_variance(make_window(10, 10, 11, positions=(11,))) == 0


def test_without_drafts_or_positions_the_variance_is_unknown(make_window):
    for window in (make_window(0, 0, 0, positions=(0,)), make_window(positions=(0,)), make_window(10, 10, 5)):
        assert ratio_bounds.independent_variance(window) is None


def test_the_length_and_the_rate_have_the_bounds_of_their_ratios(make_busy_window):
    accepted = range(10, 34)
    window = make_busy_window(accepted)
    length, rate = (of(window) for of in ESTIMATES)
    total = sum(accepted) / 240
    ratio = estimate(accepted, [10] * 24)
    assert length == Estimate(1 + total, 1 + ratio.lower, 1 + ratio.upper, ratio.standard_error)
    # Every draft has 4 tokens, so the rate is as sure as the length.
    assert rate.value == pytest.approx(total / 4)
    assert rate.standard_error == pytest.approx(length.standard_error / 4)
    assert rate.lower == pytest.approx((length.lower - 1) / 4)


def test_variation_within_a_fortieth_of_a_window_has_no_effect(make_busy_window):
    accepted = [second // 10 + second % 2 for second in range(300)]
    found = ratio_bounds.acceptance_length_estimate(make_busy_window(accepted, length=300.0, seconds=300.0))
    eights = [sum(accepted[:4]), *(sum(accepted[first : first + 8]) for first in range(4, 300, 8))]
    merged = estimate(eights, [40] + [80] * 37, 12)
    assert found.standard_error == pytest.approx(merged.standard_error)
    assert found.standard_error == pytest.approx(estimate(accepted, [10] * 300, 12).standard_error, rel=0.02)


def test_increments_that_agree_by_chance_have_the_bounds_of_independent_drafts(make_busy_window):
    window = make_busy_window((20,) * 30, positions=(200, 200, 150, 50))
    v = ratio_bounds.independent_variance(window)
    length, rate = (of(window) for of in ESTIMATES)
    assert length.standard_error == pytest.approx(sqrt(v / 300))
    assert length.upper == pytest.approx(3 + 3.182 * sqrt(v / 300))
    assert rate.standard_error == pytest.approx(sqrt(v / 300) / 4)


def test_drafts_of_any_length_may_have_narrower_bounds_of_the_rate(make_window):
    # Half of the drafts have 4 tokens and half none; 2 of the 4 are accepted, every time. Nothing is unsure
    # about the rate, though the length varies.
    increments = [{"drafts": 2, "draft_tokens": 4, "accepted_tokens": 2, "generation_tokens": 4}] * 30
    window = make_window(60, 120, 60, increments=increments, positions=(30, 30, 0, 0), **REQUESTS)
    assert ratio_bounds.independent_variance(window) == 1
    length, rate = (of(window) for of in ESTIMATES)
    assert length.standard_error == pytest.approx(sqrt(1 / 60))
    assert rate == Estimate(0.5, 0.5, 0.5, 0)


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=2, max_size=50).filter(
        lambda drafts: any(tokens for tokens, _ in drafts)
    )
)
def test_the_minimum_error_of_the_rate_is_no_more_than_that_of_independent_drafts(make_window, drafts):
    drafts = [(tokens, min(tokens, accepted)) for tokens, accepted in drafts]
    drafted, total = sum(tokens for tokens, _ in drafts), sum(accepted for _, accepted in drafts)
    positions = [sum(accepted > place for _, accepted in drafts) for place in range(4)]
    window = make_window(len(drafts), drafted, total, positions=positions)
    true = sqrt(sum((accepted - total / drafted * tokens) ** 2 for tokens, accepted in drafts)) / drafted
    assert 0 <= ratio_bounds._min_ratio_error(window) <= true + 1e-9


@pytest.mark.parametrize("of", ESTIMATES)
def test_a_partial_window_has_no_bounds(make_busy_window, of):
    assert of(make_busy_window(ALTERNATING, seconds=14.0)) is None
    assert of(make_busy_window(ALTERNATING, seconds=16.0)) is not None


@pytest.mark.parametrize("of", ESTIMATES)
def test_a_window_without_drafts_has_no_bounds(make_window, of):
    assert (
        of(make_window(0, 0, 0, positions=(0,), increments=[{"generation_tokens": 9}] * 30, **REQUESTS))
        is None
    )
    assert of(make_window(increments=[{"generation_tokens": 9}] * 30, **REQUESTS)) is None


@pytest.mark.parametrize("of", ESTIMATES)
def test_too_few_requests_leave_no_bounds(make_busy_window, of):
    assert of(make_busy_window(ALTERNATING, first_tokens=6)) is None


@pytest.mark.parametrize("of", ESTIMATES)
def test_drafts_in_too_few_increments_leave_no_bounds(make_window, of):
    drafting = {"drafts": 5, "draft_tokens": 20, "accepted_tokens": 9, "generation_tokens": 30}

    def bounded(number):
        increments = [drafting] * number + [{"generation_tokens": 30}] * (30 - number)
        sums = number * 5, number * 20, number * 9
        return of(make_window(*sums, increments=increments, positions=(9,), **REQUESTS)) is not None

    assert [bounded(number) for number in (2, 3)] == [False, True]


def test_without_positions_any_length_is_possible_and_no_error_is_the_least(make_busy_window):
    length, rate = (of(make_busy_window((40,) * 30, positions=())) for of in ESTIMATES)
    assert length == Estimate(5, 5, 5, 0)
    assert rate == Estimate(1, 1, 1, 0)
    assert ratio_bounds.acceptance_length_estimate(make_busy_window(range(10, 40), positions=())).upper > 3.5


def test_without_acceptance_the_bounds_are_narrow(make_busy_window):
    length, rate = (of(make_busy_window((0,) * 30)) for of in ESTIMATES)
    assert length == Estimate(1, 1, 1, 0)
    assert rate == Estimate(0, 0, 0, 0)


@given(st.lists(st.integers(0, 40), min_size=3, max_size=40))
def test_bounds_contain_the_value_and_are_possible(make_busy_window, accepted):
    window = make_busy_window(accepted)
    length, rate = (of(window) for of in ESTIMATES)
    assert 1 <= length.lower <= length.value <= length.upper <= 5
    assert 0 <= rate.lower <= rate.value <= rate.upper <= 1
    least = ratio_bounds.independent_variance(window) / (10 * len(accepted))
    assert length.standard_error**2 >= least or isclose(length.standard_error**2, least)


# Whether they are right


def wanderings(memory, number, increments=60):
    """Make series of increments that remember so much of the one before (a seeded AR(1))."""
    random = Random(20260726)
    for _ in range(number):
        level = random.gauss(0, 1)
        series = []
        for _ in range(increments):
            level = memory * level + sqrt(1 - memory**2) * random.gauss(0, 1)
            series.append(level)
        yield series


def errors(memory, cosines, number=2000):
    """Return the mean squared sum of series, and the mean square that they claim as their standard error."""
    true, claimed = [], []
    for series in wanderings(memory, number):
        average = fmean(series)
        true.append(sum(series) ** 2)
        claimed.append(ratio_bounds.standard_error([one - average for one in series], cosines) ** 2)
    return fmean(true), fmean(claimed)


@pytest.mark.parametrize("cosines", [3, 12])
def test_the_standard_error_of_independent_increments_is_right(cosines):
    true, claimed = errors(0.0, cosines)
    assert claimed == pytest.approx(60, rel=0.05)
    assert claimed == pytest.approx(true, rel=0.1)


def test_the_standard_error_of_correlated_increments_is_right():
    # Scatter of the increments alone would claim 60 here; the sums vary by 60·(1 + .7)/(1 - .7) = 340.
    true, claimed = errors(0.7, 3)
    assert true == pytest.approx(340, rel=0.15)
    assert claimed == pytest.approx(true, rel=0.15)


def test_bounds_hold_in_95_of_100_windows():
    held = [
        abs(found.value - 5) <= found.upper - found.value
        for series in wanderings(0.5, 2000)
        if (found := estimate([one + 5 for one in series], [1] * 60, 3))
    ]
    assert len(held) == 2000
    assert fmean(held) == pytest.approx(0.95, abs=0.015)
