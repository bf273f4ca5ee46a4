"""Figures of a window: worked examples, a recorded page, unknown counters, and the bounds of figures."""

from dataclasses import replace
from math import sqrt
from statistics import pstdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.analysis.figure_table import FIGURE
from spec_decode_exporter.figures.estimate import Estimate, estimate_of
from spec_decode_exporter.figures.window_figures import WindowFigures
from spec_decode_exporter.window.engine_windows import NANO, sum_of
from spec_decode_exporter.window.histograms import Answers
from tests.fakes.windows import summed, window

REQUESTS = {"first_tokens": 100, "generation_tokens": 1000, "gauges": (1.0, None, None)}
"""Enough requests, one at a time, for as many cosines as the length of a window allows."""
STEPS = {"decode_steps": 100, "generation_tokens": 202, "first_tokens": 2}
SPECULATION = (
    *("draft_acceptance_ratio", "acceptance_length_tokens", "draft_length_tokens"),
    *("coverage_ratio", "effective_tokens_per_step"),
)


# Values


@pytest.mark.parametrize(
    ("its", "expected"),
    [
        # p = .80 .65 .50 .35, and p = .40 .15 .05 .01 of docs/explanation/semantics.md
        (
            window(100, 400, 230, decode_steps=100, generation_tokens=335, first_tokens=5),
            (0.575, 3.30, 4, 1, 3.30),
        ),
        (window(100, 400, 61), (0.1525, 1.61, 4, None, None)),
        (window(50, 200, 100, **STEPS), (0.5, 3, 4, 0.5, 2)),  # half of the steps draft and give 3 tokens
        (window(10, 40, 0), (0, 1, 4, None, None)),
        (window(102, decode_steps=100), (None, None, None, 1.02, None)),  # a torn page, shown as it is
        (window(0, 0, 0, decode_steps=0, generation_tokens=0, first_tokens=0), (None,) * 5),
        (window(decode_steps=100, generation_tokens=10, first_tokens=11), (None,) * 5),
    ],
)
def test_figures_of_speculation(its, expected):
    found = WindowFigures(its)
    assert [getattr(found, name) for name in SPECULATION] == [pytest.approx(each) for each in expected]


@pytest.mark.parametrize(
    ("counts", "more", "expected"),
    [
        ((50, 200, 100), STEPS, (200, 100, 50, 200)),
        # Unknown steps: a step gave one token and the accepted ones of its draft, and drafts are steps.
        ((50, 200, 100), STEPS | {"decode_steps": None}, (200, 100, 50, 200)),
        ((50, 200, 100), {"generation_tokens": 122, "first_tokens": 2}, (120, 50, 50, 200)),
        ((50, 200, 100), {}, (150, 50, 50, 200)),  # unknown tokens: every step drafts
        ((50, 200, 100), STEPS | {"decode_steps": 45, "generation_tokens": 102}, (100, 45, 45, 200)),
        ((50, 200, 100), dict.fromkeys(STEPS, 0), None),
        ((50, 200, 100), {"decode_steps": 50, "generation_tokens": 1, "first_tokens": 2}, None),  # torn
        ((0, 0, 0), {}, None),
        ((), STEPS, None),
    ],
)
def test_the_work_of_steps(counts, more, expected):
    its = WindowFigures(window(*counts, **more))
    assert its.work == expected
    assert its.speedup_ceiling_ratio == (None if expected is None else expected[0] / expected[1])


@pytest.mark.parametrize(
    ("waited", "decoding", "generated", "first", "expected"),
    [
        (2 * NANO, 6 * NANO, 16, 4, (0.5, 0.5, (2.0, 6.0), 0.25)),
        (2 * NANO, 6 * NANO, 4, 4, (None, 0.5, (2.0, 6.0), 0.25)),
        (2 * NANO, 6 * NANO, 3, 4, (None, 0.5, (2.0, 6.0), 0.25)),  # torn: no negative time
        (2 * NANO, None, 16, 4, (None, 0.5, None, None)),
        (None, 6 * NANO, 16, 4, (0.5, None, None, None)),
        (0, 0, 0, 0, (None, None, None, None)),
        (0, 0, 16, 4, (0.0, 0.0, None, None)),
        (2 * NANO, 6 * NANO, None, None, (None, None, None, None)),
    ],
)
def test_figures_of_time(waited, decoding, generated, first, expected):
    times = {"first_token_nanoseconds": waited, "decode_nanoseconds": decoding}
    its = WindowFigures(window(**times, generation_tokens=generated, first_tokens=first))
    first_token, share = (
        FIGURE[key].of(its) for key in ("time_to_first_token_seconds", "first_token_time_ratio")
    )
    assert (its.time_per_output_token_seconds, first_token, its.request_seconds, share) == expected


@pytest.mark.parametrize(
    ("seen", "decoding", "began", "expected"),
    [
        (10.0, 9.0, 5, ()),
        (20.0, 12.0, 5, (12.0,)),  # a burst is over when the poll ends
        (1.0, 4.0, 30, (4.0, 30.0)),  # requests shorter than a poll: all that began may have run at once
        (1.0, 4.0, 5, (4.0, 5.0)),
        (4.0, 6.0, 3, (6.0,)),
        (1.0, 4.0, 2, ()),  # requests that last two polls are seen: the clock of the server is faster
    ],
)
def test_a_burst_may_have_had_other_loads_than_polls_see(seen, decoding, began, expected):
    row = {"draft_tokens": 300, "decode_steps": 100, "decode_nanoseconds": round(decoding * NANO)}
    rows = [row | {"first_tokens": began, "drafts": 100, "gauges": (seen, 0, 0)}] * 30
    window = summed(rows, gauges=(seen, 0.0, 0.0))
    assert WindowFigures(window).other_requests == pytest.approx(expected)
    assert WindowFigures(replace(window, seconds=0.0)).other_requests == (), "time stood still"


def test_the_load_of_drafts_is_weighted_by_their_tokens_and_the_decoding_of_polls_by_steps_and_time():
    rows = [
        {"draft_tokens": 100, "decode_steps": 50, "decode_nanoseconds": 3 * NANO, "gauges": (2.0, 0, 0)},
        {"draft_tokens": 300, "decode_steps": 10, "decode_nanoseconds": 8 * NANO, "gauges": (6.0, 0, 0), "seconds": 4.0},
    ]  # fmt: skip
    its = WindowFigures(summed(rows, gauges=(1.0, 0.0, 0.0)))
    assert its.drafting_requests == pytest.approx((2 * 100 + 6 * 300) / 400)
    assert sum_of(its.window.increments, "decoding_by_steps") / NANO == pytest.approx(50 * 3 + 10 * 8 / 4)
    idle = [{**row, "draft_tokens": 0} for row in rows]
    assert WindowFigures(summed(idle, gauges=(1.0, 0.0, 0.0))).drafting_requests == 1.0


# Polls


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), max_size=20))
def test_it_is_the_spread_of_as_many_equal_rates_as_there_are_draft_tokens(increments):
    increments = [(drafted, min(drafted, accepted)) for drafted, accepted in increments]
    rows = [{"draft_tokens": drafted, "accepted_tokens": accepted} for drafted, accepted in increments]
    its = WindowFigures(window(increments=rows))
    each = sorted(accepted / drafted for drafted, accepted in increments for _ in range(drafted))
    if not each:
        assert its.poll_rate_deviation is its.poll_rate_quantiles([0.5])[0] is None
        return
    assert its.poll_rate_deviation == pytest.approx(pstdev(each))
    for share in (0.1, 0.5, 0.9):
        rank = next(n for n in range(1, len(each) + 1) if n >= share * len(each))
        assert its.poll_rate_quantiles([share]) == [each[rank - 1]]


@pytest.mark.parametrize(
    ("polls", "expected"),
    [
        ([(20, 20, 80)] * 20, (0, 20)),
        ([(20, 20, 80)] * 19 + [(9, 9, 36)] * 9, None),  # polls of a few steps do not count
        ([(20, 20, 80), (20, 20, 40)] * 10, (19, 20)),
        ([(20, 20, 80)] * 19 + [(20, 0, 0)], (1, 20)),  # K = 0
        ([(20, 20, 80)] * 19 + [(20, 20, 70)] * 2, (2, 21)),  # K changed within each of the last two
        ([(20, 20, 80)] * 19 + [(20, 18, 72)], (1, 20)),
        ([(20, 20, 80)] * 19 + [(20, 19, 76)], (0, 20)),  # a torn page
    ],
)
def test_changes_of_k_by_polls(polls, expected):
    rows = [{"decode_steps": s, "drafts": d, "draft_tokens": t} for s, d, t in polls]
    assert WindowFigures(window(increments=rows)).draft_length_changes == expected


# Requests and cosines


def busy(accepted, drafts=10, tokens=4, **more):
    one = {"drafts": drafts, "draft_tokens": tokens * drafts, "decode_steps": drafts}
    increments = [{**one, "accepted_tokens": each, "generation_tokens": drafts + each} for each in accepted]
    number, total = len(increments), sum(accepted)
    positions = [total // tokens + (place < total % tokens) for place in range(tokens)]
    defaults = {"increments": increments, "positions": positions} | REQUESTS
    return WindowFigures(window(number * drafts, number * tokens * drafts, total, **(defaults | more)))


ALTERNATING = (20, 30) * 15
LONG = {"length": 300.0, "seconds": 300.0}


@pytest.mark.parametrize(
    ("length", "seconds", "cosines"),
    [
        *((10.0, 10.0, 3), (30.0, 30.0, 3), (58.8, 58.8, 4), (60.0, 60.0, 5), (300.0, 300.0, 12)),
        *((300.0, 160.0, 8), (300.0, 149.0, 0)),  # the covered time counts; less than half is partial
    ],
)
def test_bounds_rest_on_more_cosines_the_longer_a_window_is(length, seconds, cosines):
    its = busy(ALTERNATING, length=length, seconds=seconds)
    assert (its.cosines, its.request_cosines) == (cosines, cosines)


@pytest.mark.parametrize(
    ("first_tokens", "running", "cosines"),
    [
        *((69, 10.0, 0), (70, 10.0, 2), (149, 10.0, 2), (150, 10.0, 3), (600, 10.0, 12), (6000, 10.0, 12)),
        *((6, 0.0, 0), (6, 0.1, 0), (35, 0.0, 7), (None, 10.0, 0), (70, None, 0)),
    ],
)
def test_the_fewer_requests_pass_through_the_fewer_cosines(first_tokens, running, cosines):
    assert busy(ALTERNATING, **LONG, first_tokens=first_tokens, gauges=(running,)).cosines == cosines


def test_a_window_without_drafts_has_cosines_for_other_figures_alone():
    its = WindowFigures(window(0, 0, 0, increments=[{"generation_tokens": 9}] * 30, **REQUESTS))
    assert (its.cosines, its.request_cosines) == (0, 3)
    idle = WindowFigures(window(0, 0, 0, increments=[{}] * 30, **REQUESTS))
    assert idle.passing_requests is idle.effective_requests is None


@pytest.mark.parametrize(("counts_at_end", "busy"), [(False, 3 * 10 / 2), (True, 3 * 10 / 5)])
def test_polls_in_which_no_request_ended_are_busy_if_requests_ran(counts_at_end, busy):
    """Of ten polls five have running requests, and two the tokens of those that ended."""
    rows = [{"generation_tokens": 500 * (n in {1, 4}), "gauges": (6.0 * (n < 5), 0, 0)} for n in range(10)]
    its = window(generation_tokens=1000, gauges=(3.0,), increments=rows, counts_at_end=counts_at_end)
    assert WindowFigures(its).busy_requests == pytest.approx(busy)


WORKING, QUIET = {"drafts": 10, "generation_tokens": 30}, {"generation_tokens": 30}


@pytest.mark.parametrize(
    ("increments", "running", "generated", "cosines"),
    [
        # 12 requests, 1.5 at a time: 8 after one another. In half of the time, with 3 at a time, it is 4.
        ([WORKING] * 30, 1.5, 900, 2),
        ([WORKING] * 15 + [{}] * 15, 1.5, 900, 0),
        ([WORKING] * 15 + [{}] * 15, 0.75, 900, 2),
        ([WORKING, QUIET] * 15, 1.5, 900, 2),  # n-gram: nothing to propose half of the time
        # With unknown generated tokens a server is busy while it drafts.
        ([WORKING] * 30, 1.5, None, 2),
        ([WORKING] * 15 + [QUIET] * 15, 1.5, None, 0),
    ],
)
def test_idle_time_lets_no_requests_pass(increments, running, generated, cosines):
    more = {"generation_tokens": generated, "first_tokens": 12, "gauges": (running,)}
    assert WindowFigures(window(150, 600, increments=increments, **more)).cosines == cosines


def answers(requests, *lengths):
    """The sums of answers of which equal numbers have these lengths, in tokens."""
    each = requests // len(lengths)
    tokens, squares, cubes = (sum(each * length**power for length in lengths) for power in (1, 2, 3))
    return Answers(requests, 1000 * tokens, squares, cubes)


AGENTS = answers(2000, *(200,) * 19, 5000)
"""The mean is 440, cv² 5.65, and a request chosen by its part in the variance has 4860 tokens."""


@pytest.mark.parametrize(
    ("requests", "lengths", "effective", "cosines"),
    [
        *((4, answers(20, 300), 4, 0), (5, answers(20, 300), 5, 2), (9, answers(20, 300), 9, 2)),
        *((10, answers(20, 300), 10, 3), (40, answers(20, 300), 40, 12)),
        # Lengths of 100 and 300: a mean of 200, a standard deviation of 100, so cv² is 1/4.
        (20, answers(20, 100, 300), 20 / 1.25, 4),
        # Of unknown answers a common variation is assumed; a few always look alike.
        *((40, unknown, 40 / 1.4, 8) for unknown in (Answers(), answers(9, 300))),
        (30, AGENTS, 30 / 6.65, 0),
        (150, AGENTS, 150 / 6.65, int(150 * 440 / 4860 / 3.3)),
    ],
)
def test_requests_count_less_the_more_their_lengths_differ(requests, lengths, effective, cosines):
    its = busy(ALTERNATING, **LONG, first_tokens=requests, answers=lengths)
    assert its.effective_requests == pytest.approx(effective, rel=0.01)
    assert its.cosines == cosines


# Bounds


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 5)), min_size=1, max_size=50))
def test_the_variances_from_positions_are_those_of_single_drafts_or_less(drafts):
    """That of the accepted tokens is exact; the least one of the rate is unknown beyond the positions."""
    drafts = [(tokens, min(tokens, accepted)) for tokens, accepted in drafts]
    drafted, total = map(sum, zip(*drafts, strict=True))
    positions = [sum(accepted > place for _, accepted in drafts) for place in range(5)]
    its, rate = WindowFigures(window(len(drafts), drafted, total, positions=positions)), total / drafted
    assert its.draft_variance == pytest.approx(pstdev(accepted for _, accepted in drafts) ** 2, abs=1e-12)
    true = sqrt(sum((accepted - rate * tokens) ** 2 for tokens, accepted in drafts) / len(drafts))
    assert 0 <= its.least_deviation(rate) <= true + 1e-9


def test_the_length_and_the_rate_have_the_bounds_of_their_ratios():
    its = busy(range(10, 34))
    length, rate = its.acceptance_length_bounds, its.draft_acceptance_bounds
    plain = estimate_of(range(10, 34), [10] * 24, 3, (0.0, 4.0))
    assert length == plain._replace(value=1 + plain.value, lower=1 + plain.lower, upper=1 + plain.upper)
    # Every draft has 4 tokens, so the rate is as sure as the length.
    assert rate[:4] == pytest.approx([each / 4 for each in plain[:4]])


def test_an_increment_without_drafts_says_nothing_of_the_length():
    accepted, step = [20, 30, 25, 22, 31] * 5, {"decode_steps": 10, "generation_tokens": 30}
    rows = [{"drafts": 10, "draft_tokens": 40, "accepted_tokens": each, **step} for each in accepted]
    rows[9:9] = [step] * 5
    its = WindowFigures(window(250, 1000, sum(accepted), increments=rows, **REQUESTS))
    alone = estimate_of(accepted, [10] * 25, 3, (0.0, 4.0))
    assert its.acceptance_length_bounds.standard_error == pytest.approx(alone.standard_error)


def test_increments_that_agree_by_chance_have_the_bounds_of_independent_drafts():
    its = busy((20,) * 30, positions=(200, 200, 150, 50))
    error, length = sqrt(its.draft_variance / 300), its.acceptance_length_bounds
    assert length.standard_error == pytest.approx(error)
    assert length.upper == pytest.approx(3 + 3.182 * error)
    assert its.draft_acceptance_bounds.standard_error == pytest.approx(error / 4)


def test_drafts_of_any_length_may_have_narrower_bounds_of_the_rate():
    # Half of the drafts have 4 tokens and half none; 2 of the 4 are accepted, every time. Nothing is unsure
    # about the rate, though the length varies.
    increments = [{"drafts": 2, "draft_tokens": 4, "accepted_tokens": 2, "generation_tokens": 4}] * 30
    its = WindowFigures(window(60, 120, 60, increments=increments, positions=(30, 30, 0, 0), **REQUESTS))
    assert its.acceptance_length_bounds.standard_error == pytest.approx(sqrt(1 / 60))
    assert its.draft_acceptance_bounds == Estimate(0.5, 0.5, 0.5, 0, 3)


def test_without_a_number_of_drafts_the_rate_has_the_bounds_of_independent_draft_tokens():
    increments = [{"draft_tokens": 4, "accepted_tokens": 2, "generation_tokens": 4}] * 30
    its = WindowFigures(window(None, 120, 60, increments=increments, **REQUESTS))
    assert its.draft_acceptance_bounds.standard_error == pytest.approx(sqrt(0.25 / 120))


def positioned(first, second, drafts=100, number=30):
    """Increments of drafts of two tokens with these accepted tokens at each position."""
    one = {"drafts": drafts, "generation_tokens": drafts, "positions": (first, second)}
    sums, positions = (number * drafts, 2 * number * drafts), (number * first, number * second)
    its = window(*sums, sum(positions), positions=positions, increments=[one] * number, **REQUESTS)
    return WindowFigures(its)


def test_the_conditional_acceptance_has_bounds_of_the_drafts_that_reach_the_position():
    its = positioned(80, 40)
    for position, share, reached in ((0, 0.8, 3000), (1, 0.5, 2400)):
        found = its.conditional_bounds(position)
        assert found.value == share
        assert found.standard_error == pytest.approx(sqrt(share * (1 - share) / reached))
    assert positioned(40, 60).conditional_bounds(1) is None  # torn
    assert positioned(0, 0).conditional_bounds(1) is None


BOUNDS = ("acceptance_length_bounds", "draft_acceptance_bounds", "tokens_per_step_bounds")


@pytest.mark.parametrize("name", BOUNDS)
def test_some_windows_have_no_bounds(name):
    steps = {"decode_steps": 300}
    assert getattr(busy(ALTERNATING, **steps), name) is not None
    assert getattr(busy(ALTERNATING, seconds=14.0, **steps), name) is None  # partial
    assert getattr(busy(ALTERNATING, first_tokens=6, **steps), name) is None
    none = WindowFigures(window(0, 0, 0, increments=[{"generation_tokens": 9}] * 30, **REQUESTS, **steps))
    assert getattr(none, name) is None
    assert getattr(WindowFigures(busy(ALTERNATING, **steps).window, is_partial=True), name) is None


@pytest.mark.parametrize("name", BOUNDS[:2])
@pytest.mark.parametrize(("number", "has_bounds"), [(2, False), (3, True)])
def test_drafts_in_too_few_increments_leave_no_bounds(name, number, has_bounds):
    drafting = {"drafts": 5, "draft_tokens": 20, "accepted_tokens": 9, "generation_tokens": 30}
    increments = [drafting] * number + [{"generation_tokens": 30}] * (30 - number)
    totals = number * 5, number * 20, number * 9
    its = WindowFigures(window(*totals, increments=increments, positions=(9,), **REQUESTS))
    assert (getattr(its, name) is not None) is has_bounds
