"""Requests that say enough of their drafts: a thousand of them at most, by number of draft tokens."""

from __future__ import annotations

from spec_decode_exporter.requests.informative_requests import MOST_REQUESTS, by_tokens, picked


def rows(number, tokens=4):
    return [(tokens, 10 + place, 40, 20, 1.0) for place in range(number)]


def test_few_are_all_taken():
    assert [each.drafts for each in picked(rows(3))] == [10, 11, 12]
    assert picked([]) == []


def test_many_are_picked_evenly():
    found = picked(rows(5 * MOST_REQUESTS))
    assert [each.drafts for each in found] == list(range(10, 10 + 5 * MOST_REQUESTS, 5))


def test_the_commonest_number_of_tokens_is_first():
    found = by_tokens(picked([*rows(2, tokens=1), *rows(5, tokens=8), *rows(3, tokens=2)]))
    assert [(each[0].tokens, len(each)) for each in found] == [(8, 5), (2, 3), (1, 2)]
