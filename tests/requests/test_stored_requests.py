"""Ring of stored requests: removal of the oldest, and memory of each."""

from __future__ import annotations

import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.requests.group_totals import RequestGroup
from spec_decode_exporter.requests.request_findings import GroupKey
from spec_decode_exporter.requests.request_record import RequestRecord
from spec_decode_exporter.requests.stored_requests import MAX_POOLED_STRINGS, StoredRequests

GROUP = RequestGroup(GroupKey("llama", "chat", "0"))


def numbered(number):
    return RequestRecord("llama", number, 4 * number, number, 4, completion_tokens=11, decode_seconds=1.0)


@given(st.integers(1, 60), st.lists(st.floats(0, 5), max_size=300), st.floats(0, 400))
def test_the_newest_requests_are_stored_up_to_the_capacity(capacity, pauses, back):
    stored, now, moments = StoredRequests(capacity), 0.0, []
    for number, pause in enumerate(pauses):
        now += pause
        moments.append(now)
        stored.add(numbered(number), GROUP, now)
        assert len(stored) <= capacity
    expected = [number for number, moment in enumerate(moments) if moment >= now - back][-capacity:]
    assert list(stored.since(now - back).drafts) == expected
    assert stored.newest_removed == (moments[-capacity - 1] if len(moments) > capacity else None)


@given(st.lists(st.floats(0, 5), max_size=200), st.lists(st.floats(0, 500), max_size=5))
def test_removal_removes_only_older_requests(pauses, moments):
    stored, now, taken_at = StoredRequests(1000), 0.0, []
    for number, pause in enumerate(pauses):
        now += pause
        taken_at.append(now)
        stored.add(numbered(number), GROUP, now)
    for moment in sorted(moments):
        stored.remove_before(moment)
        assert len(stored) == sum(each >= moment for each in taken_at)
        assert stored.newest_removed == max((each for each in taken_at if each < moment), default=None)


def test_a_window_is_a_copy():
    stored = StoredRequests(100)
    stored.add(numbered(1), GROUP, 1.0)
    rows = stored.since(0.0)
    stored.add(numbered(2), GROUP, 2.0)
    assert list(rows.drafts) == [1]


def test_a_request_without_a_time_or_tokens_has_no_time_per_token():
    stored = StoredRequests(10)
    for request in (
        numbered(1),
        RequestRecord("llama", 1, 4, 1, 4, completion_tokens=11),
        RequestRecord("llama", 1, 4, 1, 4, decode_seconds=1.0),
        RequestRecord("llama", 1, 4, 1, 4, completion_tokens=1, decode_seconds=1.0),
    ):
        stored.add(request, GROUP, 1.0)
    first, *others = stored.since(0.0).seconds_per_token
    assert first == 0.1
    assert all(seconds != seconds for seconds in others)  # noqa: PLR0124


def test_a_stored_request_takes_less_than_the_documented_200_bytes():
    tracemalloc.start()
    try:
        stored = StoredRequests(20_000)
        before, _ = tracemalloc.get_traced_memory()
        for number in range(40_000):
            request = RequestRecord(
                "llama", number, 4 * number, number, 4, target="pod-1", user=f"user {number % 20}"
            )
            stored.add(request, GROUP, float(number))
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (after - before) / 20_000 < 120


def test_equal_names_are_stored_once():
    stored = StoredRequests(10)
    for number in range(10):
        stored.add(
            RequestRecord("llama", 1, 4, 1, 4, target=f"pod {number * 0}", user=f"user {number % 2}"),
            GROUP,
            1.0,
        )
    rows = stored.since(0.0)
    assert len({id(target) for target in rows.targets}) == 1
    assert len({id(user) for user in rows.users}) == 2


def test_memory_of_names_is_freed():
    """Before Python 3.12.6 interned strings are never freed."""
    tracemalloc.start()
    try:
        stored = StoredRequests(100)
        for number in range(5 * MAX_POOLED_STRINGS):
            stored.add(
                RequestRecord("llama", 1, 4, 1, 4, target=f"{number} {'x' * 1000}"), GROUP, float(number)
            )
        now, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert now < 1.5 * 1100 * MAX_POOLED_STRINGS
