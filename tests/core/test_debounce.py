"""Hysteresis: a value is held until another one has stayed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.core.debounce import Debounce, PersistenceFilter


@pytest.fixture(name="held")
def held_fixture():
    return Debounce(300.0)


def test_the_first_value_is_shown_at_once(held):
    assert held.offer(4, 1000.0) == 4


def test_none_is_a_value(held):
    assert held.offer(None, 0.0) is None
    assert held.offer(4, 1.0) is None
    assert held.offer(4, 301.0) == 4


def test_another_value_is_shown_once_it_was_offered_for_the_time(held):
    held.offer(4, 0.0)
    assert held.offer(5, 10.0) == 4
    assert held.offer(5, 309.9) == 4
    assert held.offer(5, 310.0) == 5


def test_the_value_that_is_shown_interrupts_another(held):
    held.offer(4, 0.0)
    held.offer(5, 10.0)
    held.offer(4, 20.0)
    assert held.offer(5, 30.0) == 4
    assert held.offer(5, 329.9) == 4
    assert held.offer(5, 330.0) == 5


def test_a_third_value_interrupts_another(held):
    held.offer(4, 0.0)
    held.offer(5, 10.0)
    held.offer(6, 200.0)
    assert held.offer(5, 310.0) == 4
    assert held.offer(5, 599.9) == 4


def test_a_value_that_was_absent_for_twice_the_time_is_replaced_by_the_newest(held):
    held.offer(4, 0.0)
    for moment in range(100, 600, 100):
        assert held.offer(5 + moment // 100 % 2, float(moment)) == 4
    assert held.offer(5, 600.0) == 5


def test_without_a_time_every_value_is_shown_at_once():
    held = Debounce(0.0)
    assert [held.offer(value, 0.0) for value in (4, 5, 4)] == [4, 5, 4]


@given(st.lists(st.tuples(st.integers(0, 2), st.floats(0, 200)), min_size=1), st.floats(0, 500))
def test_the_shown_value_has_stayed_or_the_previous_one_is_long_absent(offers, seconds):
    """Compare with a search of the whole past at every offer."""
    held, now, past, shown = Debounce(seconds), 0.0, [], None
    for value, later in offers:
        now += later
        past.append((value, now))
        since = now
        for earlier, when in reversed(past):
            if earlier != value:
                break
            since = when
        gone = now - max((when for earlier, when in past if earlier == shown), default=now)
        if shown is None or now - since >= seconds or gone >= 2 * seconds:
            shown = value
        assert held.offer(value, now) == shown


def looks(standing, *claims, every=10.0, seconds=20.0):
    return [set(standing.confirmed(each, every * number, seconds)) for number, each in enumerate(claims)]


def test_a_claim_counts_once_it_has_held_at_every_test_for_the_time():
    assert looks(PersistenceFilter(), "a", "a", "a", "a") == [set(), set(), {"a"}, {"a"}]


def test_one_test_without_a_claim_resets_it():
    assert looks(PersistenceFilter(), "a", "a", "a", "", "a", "a", "a") == [
        set(),
        set(),
        {"a"},
        set(),
        set(),
        set(),
        {"a"},
    ]


def test_claims_are_independent():
    assert looks(PersistenceFilter(), "a", "ab", "ab", "b") == [set(), set(), {"a"}, {"b"}]


def test_without_a_time_a_claim_counts_at_once():
    assert looks(PersistenceFilter(), "a", "b", seconds=0.0) == [{"a"}, {"b"}]
