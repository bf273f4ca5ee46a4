"""What each user's requests say."""

from __future__ import annotations

import asyncio

from spec_decode_exporter.requests.request_sums import sums
from spec_decode_exporter.requests.slices import SLICE


def test_where_no_users_are_sent_there_are_none(make_board, make_request, look):
    board = make_board()
    board.take(make_request(), 1000.0)
    assert look(board, 1000.0).users == []


def test_users_are_those_of_the_longest_window(make_board, make_request, look, users):
    board = make_board(users=users)
    board.take(make_request(30, 60, user="a"), 1000.0)
    board.take(make_request(30, 90, user="b"), 1200.0)
    board.take(make_request(30, 30, user="b"), 1290.0)
    (user,) = look(board, 1320.0).users
    assert (user.user, user.summary.totals.requests) == ("b", 2)
    assert user.summary.acceptance_ratio.p50 == 0.5


def test_of_many_users_and_targets_only_a_slice_is_looked_at_in_one_go(
    make_board, make_request, make_cost, users, monkeypatch
):
    """Senders choose the names of targets: 20,000 of them took minutes in one go."""
    board, cost = make_board(users=users), make_cost()
    for number in range(20_000):
        board.take(make_request(target=f"pod {number}", user=f"user {number % 5000}"), 1000.0)
    slices, asked = [], []

    def counted(rows, cost_of):
        slices.append(len(rows))
        return sums(rows, cost_of)

    monkeypatch.setattr("spec_decode_exporter.requests.slices.sums", counted)
    asyncio.run(board.findings((30.0, 300.0), 1000.0, lambda *place: asked.append(place) or cost))
    assert max(slices) <= SLICE
    assert len(slices) < 5 * 20_000 / SLICE
    assert len(asked) < 5 * 20_000
    assert {one.user: one.summary.totals.requests for one in board.last.users}["other"] == 20_000 - 40
