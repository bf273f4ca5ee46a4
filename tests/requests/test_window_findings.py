"""Findings of users, and the evaluation in slices."""

from __future__ import annotations

import asyncio

from spec_decode_exporter.requests.request_aggregate import SLICE_SUMMED, sums
from tests.fixtures.costs import make_cost


def test_user_findings_are_about_the_longest_window(make_store, make_request, evaluate, users):
    store = make_store(users=users)
    store.take(make_request(30, 60, user="a"), 1000.0)
    store.take(make_request(30, 90, user="b"), 1200.0)
    store.take(make_request(30, 30, user="b"), 1290.0)
    (user,) = evaluate(store, 1320.0).users
    assert (user.user, user.summary.totals.requests) == ("b", 2)
    assert user.summary.acceptance_ratio.p50 == 0.5


def test_many_users_and_targets_are_evaluated_in_slices(make_store, make_request, users, monkeypatch):
    """Senders choose the names of targets: 20,000 once took minutes without a yield."""
    store, cost = make_store(users=users), make_cost()
    for number in range(20_000):
        store.take(make_request(target=f"pod {number}", user=f"user {number % 5000}"), 1000.0)
    slices, asked = [], []

    def counted(rows, cost_of):
        slices.append(len(rows))
        return sums(rows, cost_of)

    monkeypatch.setattr("spec_decode_exporter.requests.request_aggregate.sums", counted)
    asyncio.run(store.findings((30.0, 300.0), 1000.0, lambda *place: asked.append(place) or cost))
    assert max(slices) <= SLICE_SUMMED
    assert len(slices) < 5 * 20_000 / SLICE_SUMMED
    assert len(asked) < 5 * 20_000
    assert {each.user: each.summary.totals.requests for each in store.last.users}["other"] == 20_000 - 40
