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


@pytest.mark.parametrize(
    ("claims", "seconds", "counted"),
    [
        (["a", "a", "a", "a"], 20.0, ["", "", "a", "a"]),
        (["a", "a", "a", "", "a", "a", "a"], 20.0, ["", "", "a", "", "", "", "a"]),  # one test without it
        (["a", "ab", "ab", "b"], 20.0, ["", "", "a", "b"]),  # each for itself
        (["a", "b"], 0.0, ["a", "b"]),
    ],
)
def test_a_claim_counts_once_it_has_held_at_every_test_for_the_time(claims, seconds, counted):
    standing = PersistenceFilter()
    found = [set(standing.confirmed(each, 10.0 * number, seconds)) for number, each in enumerate(claims)]
    assert found == [set(each) for each in counted]
