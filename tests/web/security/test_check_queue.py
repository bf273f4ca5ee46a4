from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.web.security.check_queue import CheckQueue, PasswordCheck
from spec_decode_exporter.web.server.fair_queue import QueueFullError


class Client:
    """A client that waits for results until it disconnects."""

    def __init__(self):
        self.is_closing = False

    def request(self, queue, password, address="a", user=b"prometheus"):
        check = PasswordCheck(password, "hash", password)
        queue.add(check, address, user)
        return check.result(lambda: self.is_closing)


def popped(queue):
    """Return the passwords in the order of their checks."""
    passwords = []
    while (check := queue.pop()) is not None:
        passwords.append(check.password)
    return passwords


def first(checks):
    return checks[0]


async def test_addresses_take_turns_for_any_number_of_guesses():
    queue, client = CheckQueue(choose=first), Client()
    for guess in range(40):
        client.request(queue, b"%d" % guess, "hostile")
    client.request(queue, b"right", "prometheus")
    assert popped(queue).index(b"right") == 1


async def test_no_address_and_no_name_starves_while_new_ones_arrive():
    queue, client = CheckQueue(choose=first), Client()
    client.request(queue, b"right", "prometheus")
    for guess in range(5):
        client.request(queue, b"%d" % guess, f"hostile-{guess}")
        client.request(queue, b"as prometheus", "prometheus", b"name-%d" % guess)
    order = []
    for guess in range(40):
        order.append(queue.pop().password)
        client.request(queue, b"more", f"hostile-{guess + 5}")
        client.request(queue, b"more", "prometheus", b"name-%d" % (guess + 5))
    assert b"right" in order[:12]


async def test_a_full_queue_drops_a_check_of_the_address_with_most_of_them():
    queue, client = CheckQueue(4, first), Client()
    results = [client.request(queue, b"%d" % guess, "hostile") for guess in range(4)]
    with pytest.raises(QueueFullError):
        client.request(queue, b"one more", "hostile")
    client.request(queue, b"right", "prometheus")
    assert isinstance(results[-1].exception(), QueueFullError)
    assert popped(queue) == [b"0", b"right", b"1", b"2"]


async def test_checks_of_disconnected_clients_are_dropped():
    queue, gone, client = CheckQueue(4, first), Client(), Client()
    results = [gone.request(queue, b"%d" % guess, "hostile") for guess in range(4)]
    gone.is_closing = True
    client.request(queue, b"right", "hostile")
    assert len(queue) == 1
    assert all(isinstance(result.exception(), QueueFullError) for result in results)
    assert popped(queue) == [b"right"]


async def test_a_check_with_one_connected_client_is_done():
    queue, gone = CheckQueue(), Client()
    check = PasswordCheck(b"key", "hash", b"password")
    queue.add(check, "a", b"user")
    left, stays = check.result(lambda: gone.is_closing), check.result(lambda: False)
    gone.is_closing = True
    assert queue.pop() is check
    check.finish(outcome=True)
    assert isinstance(left.exception(), QueueFullError)
    assert stays.result()


ASKED = st.tuples(st.sampled_from("abc"), st.sampled_from([b"x", b"y"]), st.booleans())


@given(st.lists(ASKED, max_size=40), st.integers(1, 8))
def test_every_check_is_done_once_or_rejected(asked, most):
    async def scenario():
        queue, client, results = CheckQueue(most), Client(), []
        for number, (address, user, take) in enumerate(asked):
            try:
                results.append(client.request(queue, b"%d" % number, address, user))
            except QueueFullError:
                results.append(None)
            assert len(queue) <= most
            if take and (check := queue.pop()) is not None:
                check.finish(outcome=False)
        while (check := queue.pop()) is not None:
            check.finish(outcome=False)
        assert all(result is None or result.done() for result in results)
        assert not any(result and not result.exception() and result.result() for result in results)
        assert (len(queue), queue._queue._clients) == (0, {})

    asyncio.run(scenario())
