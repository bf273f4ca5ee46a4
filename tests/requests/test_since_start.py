"""What a group adds up to since the start."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.requests.request import Request
from spec_decode_exporter.requests.since_start import (
    ACCEPTANCE_LENGTH_BOUNDS,
    ACCEPTANCE_RATIO_BOUNDS,
    SinceStart,
)


@given(st.lists(st.tuples(st.integers(0, 100), st.floats(0, 1)), max_size=100))
def test_each_request_that_drafted_is_in_one_bucket(requests):
    group = SinceStart()
    values = []
    for drafts, share in requests:
        accepted = int(5 * drafts * share)
        group.add(Request("llama", drafts, 5 * drafts, accepted, 5))
        if drafts:
            values.append((accepted / (5 * drafts), 1 + accepted / drafts))
    found = group.totals()
    assert found.totals.requests == len(requests)
    assert found.totals.drafts == sum(drafts for drafts, _ in requests)
    for histogram, own in (
        (found.acceptance_ratio, [ratio for ratio, _ in values]),
        (found.acceptance_length_tokens, [length for _, length in values]),
    ):
        below = [sum(value <= bound for value in own) for bound in histogram.upper_bounds]
        counts = list(histogram.counts)
        assert [sum(counts[: place + 1]) for place in range(len(below))] == below
        assert histogram.count == len(own)
        assert abs(histogram.sum - sum(own)) < 1e-9 * max(1, len(own))


def test_everything_accepted_is_in_the_last_bucket_of_the_ratio():
    group = SinceStart()
    group.add(Request("llama", 10, 40, 40, 4))
    counts = group.totals().acceptance_ratio.counts
    assert counts[len(ACCEPTANCE_RATIO_BOUNDS) - 1] == 1
    assert counts[-1] == 0


def test_the_bounds_ascend():
    for bounds in (ACCEPTANCE_RATIO_BOUNDS, ACCEPTANCE_LENGTH_BOUNDS):
        assert list(bounds) == sorted(set(bounds))


def test_what_was_told_does_not_change_with_the_next_request():
    group = SinceStart()
    told = group.totals()
    group.add(Request("llama", 10, 40, 40, 4))
    assert told.totals.requests == told.acceptance_ratio.count == 0
