"""Bounded label values: who has a slot, who gets it, and that nobody loses one to chance."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.requests.cardinality import MOST_WAITING, CardinalityLimiter

PERIOD = 300.0


def bring(slots, **requests):
    for value, number in requests.items():
        for _ in range(number):
            slots.admit(value)


def started(most, **requests):
    """Slots in which so many requests of each value came in the first period."""
    slots = CardinalityLimiter(most)
    slots.turn(0.0, PERIOD)
    bring(slots, **requests)
    return slots


def test_the_first_values_have_the_slots():
    slots = CardinalityLimiter(2)
    assert [slots.admit(value) for value in ("a", "b", "c", "a")] == [True, True, False, True]
    assert slots.folded == 1


def test_who_brings_twice_as_much_takes_a_slot_over_at_the_end_of_the_period():
    slots = started(2, a=10, b=3, c=6)
    assert slots.turn(PERIOD - 1, PERIOD) == []
    assert slots.turn(PERIOD, PERIOD) == ["b"]
    assert set(slots) == {"a", "c"}


def test_who_brings_a_little_more_does_not():
    slots = started(2, a=10, b=3, c=5)
    assert slots.turn(PERIOD, PERIOD) == []
    assert set(slots) == {"a", "b"}


def test_who_brought_nothing_in_a_period_goes_for_anybody():
    slots = started(1, a=50)
    slots.turn(PERIOD, PERIOD)
    bring(slots, b=1)
    assert slots.turn(2 * PERIOD, PERIOD) == ["a"]


def test_who_brought_nothing_keeps_a_slot_that_nobody_wants():
    slots = started(1, a=50)
    assert slots.turn(PERIOD, PERIOD) == []
    assert slots.turn(5 * PERIOD, PERIOD) == []
    assert "a" in slots


def test_the_greatest_takes_the_slot_of_the_least():
    slots = started(3, a=100, b=1, c=2, d=50, e=20)
    assert slots.turn(PERIOD, PERIOD) == ["b", "c"]
    assert set(slots) == {"a", "d", "e"}


def test_a_slot_that_became_free_goes_to_the_greatest_who_waits_and_nobody_loses_one():
    slots = started(3, a=10, b=1, c=5, d=2, e=4)
    slots.release("c")
    assert slots.turn(PERIOD, PERIOD) == ["b"]  # d brought twice as much as b
    assert set(slots) == {"a", "d", "e"}
    slots = started(3, a=10, b=3, c=5, d=2, e=7)
    slots.release("c")
    assert slots.turn(PERIOD, PERIOD) == []
    assert set(slots) == {"a", "b", "e"}


def test_who_will_not_come_again_waits_for_nothing():
    slots = started(1, a=1, b=9, c=4)
    slots.forget_waiting(lambda value: value == "b")
    assert slots.turn(PERIOD, PERIOD) == ["a"]
    assert set(slots) == {"c"}


def test_a_great_value_among_thousands_of_others_gets_a_slot():
    slots = started(1, a=2)
    for number in range(20 * MOST_WAITING):
        slots.admit(f"once {number}")
        slots.admit("great")
    assert slots.turn(PERIOD, PERIOD) == ["a"]
    assert "great" in slots


@given(st.lists(st.tuples(st.sampled_from("abcdefgh"), st.floats(0, 200)), max_size=200), st.integers(1, 4))
def test_there_are_never_more_slots_and_no_request_is_lost(requests, most):
    slots, now, admitted = CardinalityLimiter(most), 0.0, Counter()
    for value, later in requests:
        now += later
        slots.turn(now, PERIOD)
        admitted[slots.admit(value)] += 1
        assert len(set(slots)) <= most
    assert admitted[False] == slots.folded
    assert admitted.total() == len(requests)
