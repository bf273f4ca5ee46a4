"""Hysteresis: a value is held until another one has stayed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.core.debounce import Debounce, PersistenceFilter


@pytest.fixture(name="held")
def held_fixture():
    return Debounce(300.0)


def test_none_is_a_value(held):
    assert held.offer(None, 0.0) is None
    assert held.offer(4, 1.0) is None
    assert held.offer(4, 301.0) == 4


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
