"""A claim counts only after it has held at every test."""

from __future__ import annotations

import pytest

from spec_decode_exporter.core.persistence_filter import PersistenceFilter


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
