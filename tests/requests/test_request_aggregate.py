"""Sums of requests add up over groups; percentiles equal those of the standard library."""

from __future__ import annotations

import statistics
from collections import Counter
from dataclasses import astuple
from math import isnan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.analysis.cost import CostSource
from spec_decode_exporter.requests.group_totals import RequestGroup
from spec_decode_exporter.requests.request_aggregate import RequestSums, add_sums, percentiles, sums
from spec_decode_exporter.requests.request_findings import GroupKey
from spec_decode_exporter.requests.request_record import RequestRecord
from spec_decode_exporter.requests.stored_requests import StoredRequests
from tests.fixtures.costs import make_cost

COSTS = {
    "": make_cost(0.2),
    "a": make_cost(0.05, 0.0, CostSource.TYPICAL),
    "b": None,
}

requests = st.builds(
    lambda drafts, share, seconds, target: RequestRecord(
        "llama",
        drafts,
        4 * drafts,
        int(4 * drafts * share),
        4,
        completion_tokens=50,
        decode_seconds=seconds,
        target=target,
    ),
    st.integers(0, 300),
    st.sampled_from([0.0, 0.3, 0.5, 1.0]),
    st.none() | st.floats(0, 10),
    st.sampled_from(sorted(COSTS)),
)


def sums_of(some):
    stored, group = StoredRequests(10_000), RequestGroup(GroupKey("llama", "chat", "0"))
    for request in some:
        stored.add(request, group, 0.0)
    return sums(stored.since(0.0), COSTS.get)


def numbers_of(speedup):
    """Return the numbers of sums, those of nested sums too."""
    return [part for each in astuple(speedup) for part in (each if isinstance(each, tuple) else [each])]


@given(st.lists(st.lists(requests, max_size=30), max_size=5))
def test_the_sums_of_parts_are_those_of_the_whole(parts):
    whole = sums_of([request for part in parts for request in part])
    added = add_sums([sums_of(part) for part in parts])
    assert added.totals == whole.totals
    assert list(added.ratios) == list(whole.ratios)
    assert list(added.lengths) == list(whole.lengths)
    assert list(added.seconds_per_token) == list(whole.seconds_per_token)
    assert Counter(map(str, added.informative)) == Counter(map(str, whole.informative))
    assert (added.rejected, added.repetitive) == (whole.rejected, whole.repetitive)
    assert numbers_of(added.speedup) == pytest.approx(numbers_of(whole.speedup))


def test_sums_of_no_requests_are_empty():
    assert add_sums([]).totals == RequestSums().totals
    assert sums_of([]).speedup == RequestSums().speedup


def test_a_typical_cost_is_counted():
    pay = sums_of(
        [RequestRecord("llama", 10, 40, 20, 4, target=target) for target in ("", "a", "a", "b")]
    ).speedup
    assert (pay.requests, pay.typical_costs) == (3, 2)
    assert pay.costs / pay.drafts == pytest.approx((0.2 + 2 * 0.05) / 3)


def test_a_request_of_few_tokens_is_not_informative():
    some = [RequestRecord("llama", 10, 40, accepted, 4) for accepted in (21, 22)]
    # Break-even is c0 + 4·c accepted tokens per draft.
    assert sums_of(some).informative == [(4, 10, 40, 22, pytest.approx(0.9))]


@pytest.mark.parametrize(("answer_tokens", "informative"), [(32, 0), (33, 2)])
def test_the_length_of_the_answer_decides_not_the_accepted_tokens(answer_tokens, informative):
    some = [RequestRecord("llama", 4, 16, each, 4, completion_tokens=answer_tokens) for each in (0, 16)]
    assert len(sums_of(some).informative) == informative


@pytest.mark.parametrize(("every_step", "break_even"), [(False, 0.1 + 0.8), (True, 0.1 * 49 / 10 + 0.8)])
def test_break_even_counts_the_steps_that_pay_the_fixed_cost(every_step, break_even):
    cost = make_cost(0.2, every_step=every_step)
    stored, group = StoredRequests(10), RequestGroup(GroupKey("llama", "chat", "0"))
    stored.add(RequestRecord("llama", 10, 40, 20, 4, completion_tokens=70), group, 0.0)  # 49 steps
    ((*_, found),) = sums(stored.since(0.0), lambda target: cost).informative
    assert found == pytest.approx(break_even)


def test_tokens_beyond_the_end_of_an_answer_raise_break_even():
    # 10 drafts accepted 30 tokens, of which 37 - 1 - 10 = 26 are in the answer.
    some = [RequestRecord("llama", 10, 40, 30, 4, completion_tokens=37)]
    ((*_, found),) = sums_of(some).informative
    assert found == pytest.approx(0.1 + 4 * 0.2 + (30 - 26) / 10)


def test_break_even_is_nan_without_a_known_cost():
    ((*counts, break_even),) = sums_of([RequestRecord("llama", 10, 40, 22, 4, target="b")]).informative
    assert counts == [4, 10, 40, 22]
    assert isnan(break_even)


numbers = st.lists(st.floats(0, 100, allow_subnormal=False), min_size=2, max_size=200)


@given(numbers)
def test_percentiles_are_those_of_the_standard_library(values):
    deciles = statistics.quantiles(values, n=10, method="inclusive")
    found = percentiles(sorted(values))
    assert (found.p10, found.p50, found.p90) == pytest.approx((deciles[0], deciles[4], deciles[8]))


def test_one_value_is_equal_to_its_percentiles():
    found = percentiles([0.4])
    assert (found.p10, found.p50, found.p90) == (0.4, 0.4, 0.4)


def test_no_values_have_no_percentiles():
    assert percentiles([]) is None
