"""The ring of kept requests: the oldest go first, and each takes as little room as is said."""

from __future__ import annotations

import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.requests.request import Request
from spec_decode_exporter.requests.request_findings import GroupKey
from spec_decode_exporter.requests.request_group import RequestGroup
from spec_decode_exporter.requests.stored_requests import MOST_SHARED, StoredRequests

GROUP = RequestGroup(GroupKey("llama", "chat", "0"))


def numbered(number):
    return Request("llama", number, 4 * number, number, 4, completion_tokens=11, decode_seconds=1.0)


@given(st.integers(1, 60), st.lists(st.floats(0, 5), max_size=300), st.floats(0, 400))
def test_the_newest_are_kept_and_never_more_than_there_is_room_for(most, pauses, back):
    kept, now, moments = StoredRequests(most), 0.0, []
    for number, pause in enumerate(pauses):
        now += pause
        moments.append(now)
        kept.add(numbered(number), GROUP, now)
        assert len(kept) <= most
    expected = [number for number, moment in enumerate(moments) if moment >= now - back][-most:]
    assert list(kept.since(now - back).drafts) == expected
    assert kept.newest_lost == (moments[-most - 1] if len(moments) > most else None)


@given(st.lists(st.floats(0, 5), max_size=200), st.lists(st.floats(0, 500), max_size=5))
def test_what_is_forgotten_is_gone_and_nothing_else(pauses, moments):
    kept, now, taken_at = StoredRequests(1000), 0.0, []
    for number, pause in enumerate(pauses):
        now += pause
        taken_at.append(now)
        kept.add(numbered(number), GROUP, now)
    for moment in sorted(moments):
        kept.forget(moment)
        assert len(kept) == sum(each >= moment for each in taken_at)
        assert kept.newest_lost == max((each for each in taken_at if each < moment), default=None)


def test_a_window_does_not_change_while_requests_come():
    kept = StoredRequests(100)
    kept.add(numbered(1), GROUP, 1.0)
    rows = kept.since(0.0)
    kept.add(numbered(2), GROUP, 2.0)
    assert list(rows.drafts) == [1]


def test_a_request_that_does_not_say_how_long_it_took_has_no_time_for_a_token():
    kept = StoredRequests(10)
    for request in (
        numbered(1),
        Request("llama", 1, 4, 1, 4, completion_tokens=11),
        Request("llama", 1, 4, 1, 4, decode_seconds=1.0),
        Request("llama", 1, 4, 1, 4, completion_tokens=1, decode_seconds=1.0),
    ):
        kept.add(request, GROUP, 1.0)
    first, *others = kept.since(0.0).seconds_per_token
    assert first == 0.1
    assert all(seconds != seconds for seconds in others)  # noqa: PLR0124


def test_a_kept_request_takes_less_than_the_200_bytes_that_the_configuration_says():
    tracemalloc.start()
    try:
        kept = StoredRequests(20_000)
        before, _ = tracemalloc.get_traced_memory()
        for number in range(40_000):
            request = Request(
                "llama", number, 4 * number, number, 4, target="pod-1", user=f"user {number % 20}"
            )
            kept.add(request, GROUP, float(number))
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (after - before) / 20_000 < 120


def test_the_same_name_is_kept_once():
    kept = StoredRequests(10)
    for number in range(10):
        kept.add(
            Request("llama", 1, 4, 1, 4, target=f"pod {number * 0}", user=f"user {number % 2}"), GROUP, 1.0
        )
    rows = kept.since(0.0)
    assert len({id(target) for target in rows.targets}) == 1
    assert len({id(user) for user in rows.users}) == 2


def test_names_that_senders_choose_are_given_back():
    """Python before 3.12.6 keeps an interned string for ever."""
    tracemalloc.start()
    try:
        kept = StoredRequests(100)
        for number in range(5 * MOST_SHARED):
            kept.add(Request("llama", 1, 4, 1, 4, target=f"{number} {'x' * 1000}"), GROUP, float(number))
        now, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert now < 1.5 * 1100 * MOST_SHARED
