"""Summaries of requests: speed-up with bounds, effect, percentiles and histograms."""

from functools import reduce
from math import sqrt

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spec_decode_exporter.costs.cost import CostSource
from spec_decode_exporter.requests.record import RequestRecord, RequestSource
from spec_decode_exporter.requests.summary import (
    MIN_REQUESTS,
    Effect,
    GroupKey,
    KeptRequest,
    RequestSummary,
    RequestTotals,
    RequestWork,
)
from tests.fakes.costs import make_cost

KEY = GroupKey("llama", "chat", "0")


def summary_of(requests, *, cost=None, **keys):
    """Summarise requests, or (drafts, accepted tokens) at K = 4; by default at c = c0 = 0.1."""
    cost, kept = cost or make_cost(**keys), []
    for one in requests:
        record = RequestRecord("llama", one[0], 4 * one[0], one[1], 4) if isinstance(one, tuple) else one
        work = RequestWork.of(record, cost)
        kept.append(KeptRequest(0.0, KEY, "", "", record, record.pathology, work))
    return RequestSummary(kept)


def test_too_few_requests_have_no_estimate():
    assert summary_of([(100, 230)] * (MIN_REQUESTS - 1)).speedup_ratio is None
    assert summary_of([(100, 230)] * MIN_REQUESTS).speedup_ratio is not None
    found = summary_of([(0, 0)] * 50 + [(10, 20)])
    assert (found.evaluated, found.speedup_ratio) == (1, None)


def test_the_error_is_that_of_a_ratio_estimator():
    # Half of the requests give 30 tokens and half 50, each in the time of 15 plain steps: 40 / 15, ± 10 / 15.
    found = summary_of([(10, 20), (10, 40)] * 20).speedup_ratio
    error = sqrt(40 / 39 * 40 * 10**2) / (40 * 15)
    assert (found.value, found.standard_error) == pytest.approx((40 / 15, error))
    assert found.lower < found.value < found.upper


@pytest.mark.parametrize(
    ("drafts", "accepted", "completion_tokens", "every_step", "ratio"),
    [
        # An n-gram request: 20 of 80 steps drafted, and 100 tokens came after the first.
        (20, 20, 101, False, 100 / (80 + 0.1 * 20 + 0.1 * 80)),
        (20, 20, 101, True, 100 / (1.1 * 80 + 8)),
        # Half of the steps draft in vain: the truth is nearer to 1 than that of the steps that draft.
        (50, 0, 101, False, 100 / 125),
        (50, 0, None, False, 1 / 1.5),
        # Tokens beyond the end of an answer are no gain.
        (10, 30, 37, False, 36 / 15),
        # A request without drafts pays only if every step searches.
        (0, 0, 101, True, 1 / 1.1),
        (0, 0, 101, False, 1.0),
    ],
)
def test_the_speed_up_counts_all_steps_and_tokens(drafts, accepted, completion_tokens, every_step, ratio):
    request = RequestRecord("llama", drafts, 4 * drafts, accepted, 4, completion_tokens=completion_tokens)
    found = summary_of([request] * 40, every_step=every_step)
    assert found.speedup_ratio.value == pytest.approx(ratio)
    assert found.below_break_even == (40 if ratio < 1 else 0)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(0.05, 0.10, Effect.GAINS), (0.05, 0.5, Effect.UNCLEAR), (0.4, 0.5, Effect.LOSES)],
)
@pytest.mark.parametrize("source", CostSource)
def test_the_effect_holds_at_both_corners_of_the_cost(low, high, expected, source):
    cost = make_cost((low + high) / 2, source=source, low=low, high=high)
    requests = [RequestRecord("llama", 100, 400, 100, 4)] * 40  # 2 tokens in 1.1 + 4·c plain steps
    total = summary_of(requests, cost=cost)
    found = total.speedup_ratio
    bounds = (found.lower, found.value, found.upper)
    assert bounds == pytest.approx([2 / (1.1 + 4 * c) for c in (high, (low + high) / 2, low)], abs=1e-6)
    assert total.effect is expected


def test_percentiles_lie_between_the_neighbours_of_a_sort_and_leave_out_what_is_unknown():
    times = [{"decode_seconds": 4.9 * n, "first_token_seconds": n, "completion_tokens": 50} for n in range(6)]
    requests = [RequestRecord("m", 5, 20, 4 * n, 4, **times[n]) for n in (3, 0, 5, 1, 4, 2)]
    found = summary_of([*requests, RequestRecord("m", 0, 0, 0, 4)])
    for percentiles, least, most in (
        (found.acceptance_ratio, 0.0, 1.0),
        (found.acceptance_length_tokens, 1.0, 5.0),
        (found.time_per_output_token_seconds, 0.0, 0.5),
        (found.time_to_first_token_seconds, 0.0, 5.0),
    ):
        expected = [least + share * (most - least) for share in (0.1, 0.5, 0.9)]
        assert [percentiles.p10, percentiles.p50, percentiles.p90] == pytest.approx(expected)
    unknown = summary_of([RequestRecord("m", 0, 0, 0, 4)])
    assert (unknown.acceptance_ratio, unknown.time_to_first_token_seconds) == (None, None)


def test_only_requests_that_report_cached_tokens_count_for_their_share():
    reports = [{"prompt_tokens": 100, "cached_tokens": 25}, {"prompt_tokens": 900}, {}]
    requests = [RequestRecord("m", 10, 40, 20, 4, **each) for each in reports]
    assert summary_of(requests).cached_ratio == 0.25
    assert summary_of(requests[1:]).cached_ratio is None


@settings(max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 100), st.floats(0, 1)), max_size=100))
def test_each_request_that_drafted_is_in_one_bucket_of_the_histograms(shares):
    requests = [(drafts, int(5 * drafts * share)) for drafts, share in shares]
    records = [RequestRecord("m", each, 5 * each, accepted, 5) for each, accepted in requests]
    totals = reduce(RequestTotals.with_request, records, RequestTotals())
    drafted = [(accepted / (5 * drafts), 1 + accepted / drafts) for drafts, accepted in requests if drafts]
    for place, histogram in enumerate(
        (totals.acceptance_ratio_histogram, totals.acceptance_length_tokens_histogram)
    ):
        values = [pair[place] for pair in drafted]
        below = [sum(value <= bound for value in values) for bound in histogram.upper_bounds]
        assert [sum(histogram.counts[: bound + 1]) for bound in range(len(below))] == below
        assert (sum(histogram.counts), histogram.sum) == (len(values), pytest.approx(sum(values)))
    assert totals.requests == len(records)
    assert totals.accepted_tokens == sum(record.accepted_tokens for record in records)
    counts = [0] * 20
    for accepted, tokens in ((accepted, 5 * drafts) for drafts, accepted in requests if drafts):
        counts[min(20 * accepted // tokens, 19)] += 1
    assert summary_of(records).acceptance_counts == counts


def test_a_rate_alone_has_no_length_no_speed_up_and_no_pathology():
    known = {"completion_tokens": 900, "source": RequestSource.USAGE}
    total = summary_of([RequestRecord("m", 0, 400, 396, 0, **known)] * 100)
    assert (total.draft_tokens, total.accepted_tokens) == (40_000, 39_600)
    assert total.acceptance_ratio.p50 == 0.99
    assert (total.acceptance_length_tokens, total.acceptance_length, total.speedup_ratio) == (None,) * 3
    assert (total.evaluated, total.repetitive, total.effect) == (0, 0, Effect.UNCLEAR)
