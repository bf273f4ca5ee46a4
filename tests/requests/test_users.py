"""What each user's requests say."""

from __future__ import annotations


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
