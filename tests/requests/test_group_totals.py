"""Totals of a group since the start."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.requests.group_totals import (
    RunningTotals,
)
from spec_decode_exporter.requests.request_record import RequestRecord


@given(st.lists(st.tuples(st.integers(0, 100), st.floats(0, 1)), max_size=100))
def test_each_request_that_drafted_is_in_one_bucket(requests):
    group = RunningTotals()
    values = []
    for drafts, share in requests:
        accepted = int(5 * drafts * share)
        group.add(RequestRecord("llama", drafts, 5 * drafts, accepted, 5))
        if drafts:
            values.append((accepted / (5 * drafts), 1 + accepted / drafts))
    snapshot = group.snapshot()
    assert snapshot.totals.requests == len(requests)
    assert snapshot.totals.drafts == sum(drafts for drafts, _ in requests)
    for histogram, own in (
        (snapshot.acceptance_ratio, [ratio for ratio, _ in values]),
        (snapshot.acceptance_length_tokens, [length for _, length in values]),
    ):
        below = [sum(value <= bound for value in own) for bound in histogram.upper_bounds]
        counts = list(histogram.counts)
        assert [sum(counts[: place + 1]) for place in range(len(below))] == below
        assert histogram.count == len(own)
        assert abs(histogram.sum - sum(own)) < 1e-9 * max(1, len(own))


def test_a_snapshot_does_not_change_with_the_next_request():
    group = RunningTotals()
    snapshot = group.snapshot()
    group.add(RequestRecord("llama", 10, 40, 40, 4))
    assert snapshot.totals.requests == snapshot.acceptance_ratio.count == 0
