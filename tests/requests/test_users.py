"""What each user's requests say."""

from __future__ import annotations

import asyncio
import time


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


def test_of_many_users_and_targets_nothing_is_held_up_for_long(make_board, make_request, make_cost, users):
    """Senders choose the names of targets: 20,000 of them took minutes in one go."""
    board, cost = make_board(users=users), make_cost()
    for number in range(20_000):
        board.take(make_request(target=f"pod {number}", user=f"user {number % 5000}"), 1000.0)
    holds = [
        asyncio.run(longest_hold(board.findings((30.0, 300.0), now, lambda *_: cost)))
        for now in (1000.0, 1010.0, 1020.0)
    ]
    # Some 5 ms; in process time, of which other programs take none, and once without Python's own tidying up.
    assert min(holds) < 0.03
    assert {one.user: one.summary.totals.requests for one in board.last.users}["other"] == 20_000 - 40


async def longest_hold(looking):
    """The most process time from one turn of the loop to the next, until it is done."""
    task, longest = asyncio.ensure_future(looking), 0.0
    while not task.done():
        before = time.process_time()
        await asyncio.sleep(0)
        longest = max(longest, time.process_time() - before)
    await task
    return longest
