"""What is claimed only once it has stood for some time."""

from __future__ import annotations

from spec_decode_exporter.core.persistence_filter import PersistenceFilter


def looks(standing, *claims, every=10.0, seconds=20.0):
    return [set(standing.look(each, every * number, seconds)) for number, each in enumerate(claims)]


def test_a_claim_stands_once_it_was_made_at_every_look_for_so_long():
    assert looks(PersistenceFilter(), "a", "a", "a", "a") == [set(), set(), {"a"}, {"a"}]


def test_one_look_without_it_ends_it_and_it_begins_again():
    assert looks(PersistenceFilter(), "a", "a", "a", "", "a", "a", "a") == [
        set(),
        set(),
        {"a"},
        set(),
        set(),
        set(),
        {"a"},
    ]


def test_each_claim_stands_by_itself():
    assert looks(PersistenceFilter(), "a", "ab", "ab", "b") == [set(), set(), {"a"}, {"b"}]


def test_without_a_time_to_stand_it_stands_at_once():
    assert looks(PersistenceFilter(), "a", "b", seconds=0.0) == [{"a"}, {"b"}]
