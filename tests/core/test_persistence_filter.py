"""A claim counts only after it has held for some time."""

from __future__ import annotations

from spec_decode_exporter.core.persistence_filter import PersistenceFilter


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
