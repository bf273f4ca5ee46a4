"""Cardinality limits: slots of label values, their takeover, and temperature buckets."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.requests.cardinality import (
    MAX_WAITING,
    CardinalityLimiter,
)

PERIOD = 300.0


def bring(limiter, **requests):
    for value, number in requests.items():
        for _ in range(number):
            limiter.admit(value)


def started(number, **requests):
    """Return a limiter with these requests of each value in the first period."""
    limiter = CardinalityLimiter(number)
    limiter.end_period(0.0, PERIOD)
    bring(limiter, **requests)
    return limiter


def test_the_first_values_get_the_slots():
    limiter = CardinalityLimiter(2)
    assert [limiter.admit(value) for value in ("a", "b", "c", "a")] == [True, True, False, True]
    assert limiter.folded == 1


@pytest.mark.parametrize(
    ("slots", "released", "requests", "evicted", "kept"),
    [
        (2, "", {"a": 10, "b": 3, "c": 6}, ["b"], "ac"),  # twice the requests
        (2, "", {"a": 10, "b": 3, "c": 5}, [], "ab"),
        (3, "", {"a": 100, "b": 1, "c": 2, "d": 50, "e": 20}, ["b", "c"], "ade"),
        (3, "c", {"a": 10, "b": 1, "c": 5, "d": 2, "e": 4}, ["b"], "ade"),  # a free slot; d has twice b's
        (3, "c", {"a": 10, "b": 3, "c": 5, "d": 2, "e": 7}, [], "abe"),
    ],
)
def test_at_the_end_of_a_period_values_with_twice_the_requests_take_over_slots(
    slots, released, requests, evicted, kept
):
    limiter = started(slots, **requests)
    for value in released:
        limiter.release(value)
    assert limiter.end_period(PERIOD - 1, PERIOD) == []
    assert limiter.end_period(PERIOD, PERIOD) == evicted
    assert set(limiter) == set(kept)


def test_a_holder_without_requests_in_a_period_loses_its_slot_to_any_value():
    limiter = started(1, a=50)
    limiter.end_period(PERIOD, PERIOD)
    bring(limiter, b=1)
    assert limiter.end_period(2 * PERIOD, PERIOD) == ["a"]


def test_a_holder_without_requests_keeps_its_slot_if_no_value_waits():
    limiter = started(1, a=50)
    assert limiter.end_period(PERIOD, PERIOD) == []
    assert limiter.end_period(5 * PERIOD, PERIOD) == []
    assert "a" in limiter


def test_a_forgotten_value_gets_no_slot():
    limiter = started(1, a=1, b=9, c=4)
    limiter.forget_waiting(lambda value: value == "b")
    assert limiter.end_period(PERIOD, PERIOD) == ["a"]
    assert set(limiter) == {"c"}


def test_a_frequent_value_among_thousands_of_others_gets_a_slot():
    limiter = started(1, a=2)
    for number in range(20 * MAX_WAITING):
        limiter.admit(f"once {number}")
        limiter.admit("frequent")
    assert limiter.end_period(PERIOD, PERIOD) == ["a"]
    assert "frequent" in limiter


@given(st.lists(st.tuples(st.sampled_from("abcdefgh"), st.floats(0, 200)), max_size=200), st.integers(1, 4))
def test_the_slots_are_limited_and_every_request_is_counted(requests, number):
    limiter, now, admitted = CardinalityLimiter(number), 0.0, Counter()
    for value, later in requests:
        now += later
        limiter.end_period(now, PERIOD)
        admitted[limiter.admit(value)] += 1
        assert len(set(limiter)) <= number
    assert admitted[False] == limiter.folded
    assert admitted.total() == len(requests)
