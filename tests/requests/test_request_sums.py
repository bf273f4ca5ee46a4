"""Sums of groups make those of their model."""

from __future__ import annotations

from collections import Counter
from dataclasses import astuple
from math import isnan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.analysis.cost import Cost, CostSource
from spec_decode_exporter.requests.request import Request
from spec_decode_exporter.requests.request_findings import GroupKey
from spec_decode_exporter.requests.request_group import RequestGroup
from spec_decode_exporter.requests.request_sums import Sums, sums, together
from spec_decode_exporter.requests.stored_requests import StoredRequests

COSTS = {
    "": Cost(0.2, 0.1, CostSource.CONFIGURED, None),
    "a": Cost(0.05, 0.0, CostSource.DEFAULT, None),
    "b": None,
}

requests = st.builds(
    lambda drafts, share, seconds, target: Request(
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


def of(some):
    kept, group = StoredRequests(10_000), RequestGroup(GroupKey("llama", "chat", "0"))
    for request in some:
        kept.add(request, group, 0.0)
    return sums(kept.since(0.0), COSTS.get)


@given(st.lists(st.lists(requests, max_size=30), max_size=5))
def test_the_sums_of_parts_are_those_of_the_whole(parts):
    whole = of([request for part in parts for request in part])
    added = together([of(part) for part in parts])
    assert added.totals == whole.totals
    assert list(added.ratios) == list(whole.ratios)
    assert list(added.lengths) == list(whole.lengths)
    assert list(added.seconds_per_token) == list(whole.seconds_per_token)
    assert Counter(map(str, added.telling)) == Counter(map(str, whole.telling))
    assert (added.rejected, added.repetitive) == (whole.rejected, whole.repetitive)
    assert astuple(added.pay) == pytest.approx(astuple(whole.pay))


def test_of_nothing_the_sums_are_empty():
    assert together([]).totals == Sums().totals
    assert of([]).pay == Sums().pay


def test_a_cost_that_is_only_usual_is_counted_as_guessed():
    pay = of([Request("llama", 10, 40, 20, 4, target=target) for target in ("", "a", "a", "b")]).pay
    assert (pay.requests, pay.guessed) == (3, 2)
    assert pay.costs / pay.drafts == pytest.approx((0.2 + 2 * 0.05) / 3)


def test_a_request_of_few_tokens_tells_little():
    some = [Request("llama", 10, 40, accepted, 4) for accepted in (21, 22)]
    # c0 + 4·c accepted tokens a draft are needed.
    assert of(some).telling == [(4, 10, 40, 22, pytest.approx(0.9))]


def test_what_a_request_needs_is_not_known_where_the_cost_is_not():
    ((*counts, needed),) = of([Request("llama", 10, 40, 22, 4, target="b")]).telling
    assert counts == [4, 10, 40, 22]
    assert isnan(needed)
