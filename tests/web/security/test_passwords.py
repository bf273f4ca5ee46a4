from __future__ import annotations

import asyncio
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from spec_decode_exporter.web.security import passwords as module
from spec_decode_exporter.web.security.check_queue import MAX_CHECKS
from spec_decode_exporter.web.security.passwords import Passwords
from spec_decode_exporter.web.server.fair_queue import QueueFullError


@pytest.fixture(scope="module")
def users(hashed):
    return {"alice": SecretStr(hashed(b"wonderland")), "bob": SecretStr(hashed(b"builder"))}


@pytest.fixture
def compared(monkeypatch):
    """Return the passwords that bcrypt compared."""
    done, real = [], module._matches

    def matches(password, written):
        done.append((password, written))
        return real(password, written)

    monkeypatch.setattr(module, "_matches", matches)
    return done


@pytest.mark.parametrize(
    ("name", "password", "right"),
    [
        ("alice", b"wonderland", True),
        ("bob", b"builder", True),
        ("alice", b"builder", False),
        ("alice", b"", False),
        ("alice", b"wonderland\0", False),
        ("alice", b"wonderland" * 50, False),
        ("carol", b"wonderland", False),
        ("", b"wonderland", False),
        ("al\udcffice", b"wonderland", False),
    ],
)
async def test_only_the_users_own_password_matches(users, name, password, right):
    passwords = Passwords()
    assert await passwords.match(users, name, password) is right
    assert await passwords.match(users, name, password) is right


async def test_a_password_matches_by_its_first_72_bytes(hashed):
    users = {"alice": SecretStr(hashed(b"x" * 72))}
    assert await Passwords().match(users, "alice", b"x" * 80)


async def test_results_are_cached(users, compared):
    passwords = Passwords()
    for _ in range(3):
        assert await passwords.match(users, "alice", b"wonderland")
        assert not await passwords.match(users, "alice", b"wrong")
        assert not await passwords.match(users, "mallory", b"wrong")
    assert len(compared) == 3


async def test_concurrent_equal_requests_share_one_comparison(users, compared):
    passwords = Passwords()
    asked = [passwords.match(users, "alice", b"wonderland") for _ in range(MAX_CHECKS)]
    assert all(await asyncio.gather(*asked))
    assert len(compared) == 1


async def test_an_unknown_name_costs_one_comparison(users, compared):
    assert not await Passwords().match(users, "mallory", b"wonderland")
    ((_, written),) = compared
    assert written[:7] == users["alice"].get_secret_value()[:7]
    assert written not in {user.get_secret_value() for user in users.values()}


async def test_an_unknown_name_never_matches(users, monkeypatch):
    monkeypatch.setattr(module, "_matches", lambda *_: True)
    assert not await Passwords().match(users, "mallory", b"wonderland")


async def test_an_unknown_name_always_costs_the_same(hashed, compared):
    users = {"cheap": SecretStr(hashed(b"a", 4)), "dear": SecretStr(hashed(b"b", 5))}
    passwords = Passwords()
    for attempt in range(5):
        for name in ("one", "two", "three", "four", "five", "six"):
            assert not await passwords.match(users, name, b"%d" % attempt)
    costs = [written[4:6] for _, written in compared]
    assert all(set(costs[first::6]) == {costs[first]} for first in range(6))


async def test_a_comparison_does_not_block_the_event_loop(users, monkeypatch, until):
    going, ended = threading.Event(), threading.Event()

    def slow(_password, _written):
        going.set()
        return ended.wait(10)

    monkeypatch.setattr(module, "_matches", slow)
    asked = asyncio.create_task(Passwords().match(users, "alice", b"x"))
    await until(going.is_set)
    ended.set()
    assert await asked


async def test_a_full_queue_rejects_a_check_unless_its_result_is_cached(users, monkeypatch):
    passwords = Passwords()
    assert await passwords.match(users, "alice", b"wonderland")
    ended = threading.Event()
    monkeypatch.setattr(module, "_matches", lambda *_: not ended.wait(10))
    asked = [asyncio.create_task(passwords.match(users, "alice", b"%d" % each)) for each in range(MAX_CHECKS)]
    await asyncio.sleep(0)
    with pytest.raises(QueueFullError):
        await passwords.match(users, "alice", b"one more")
    assert await passwords.match(users, "alice", b"wonderland")
    ended.set()
    assert not any(await asyncio.gather(*asked))
    assert not await passwords.match(users, "alice", b"one more")


async def test_wrong_passwords_do_not_evict_the_right_one(users, compared, monkeypatch):
    monkeypatch.setattr(module, "_MAX_CACHED", 3)
    passwords = Passwords()
    assert await passwords.match(users, "alice", b"wonderland")
    for attempt in range(10):
        assert not await passwords.match(users, "alice", b"%d" % attempt)
    known = len(compared)
    assert await passwords.match(users, "alice", b"wonderland")
    assert len(compared) == known
    assert all(len(keys) <= 3 for keys in passwords._cache.values())


TEXTS = st.sampled_from([b"", b"a", b"b", b"ab", b"aa"])


@given(st.tuples(TEXTS, TEXTS, TEXTS), st.tuples(TEXTS, TEXTS, TEXTS))
def test_different_checks_have_different_keys(one, other):
    passwords = Passwords()
    assert (passwords._digest(*one) == passwords._digest(*other)) is (one == other)


async def test_the_cache_contains_no_password(users):
    passwords = Passwords()
    await passwords.match(users, "alice", b"wonderland")
    assert b"wonderland" not in repr(vars(passwords)).encode()


class Bcrypt:
    """Comparisons that continue one by one."""

    def __init__(self, monkeypatch):
        self.done, self._going = [], threading.Semaphore(0)
        real = module._matches

        def matches(password, written):
            self._going.acquire()
            self.done.append(password)
            return real(password, written)

        monkeypatch.setattr(module, "_matches", matches)

    def go_on(self, times=1):
        self._going.release(times)


@pytest.mark.parametrize(
    ("address", "name"), [("10.0.0.9", "alice"), ("loopback", "bob"), ("10.0.0.9", "bob")]
)
async def test_a_right_password_is_checked_soon_during_an_attack(users, monkeypatch, address, name):
    """It waits for the running comparison, and for one of the attacker."""
    bcrypt, passwords = Bcrypt(monkeypatch), Passwords()
    right = {"alice": b"wonderland", "bob": b"builder"}[name]
    guesses = [
        asyncio.create_task(passwords.match(users, "alice", b"%d" % guess, "loopback")) for guess in range(40)
    ]
    await asyncio.sleep(0)
    asked = [asyncio.create_task(passwords.match(users, name, right, address)) for _ in range(36)]
    await asyncio.sleep(0)
    bcrypt.go_on(3)
    assert all(await asyncio.gather(*asked))
    assert len(bcrypt.done) <= 3
    bcrypt.go_on(40)
    assert not any(await asyncio.gather(*guesses))


async def test_a_right_password_with_the_attackers_address_and_name_is_checked_in_time(users, monkeypatch):
    bcrypt, passwords = Bcrypt(monkeypatch), Passwords()
    guesses = [asyncio.create_task(passwords.match(users, "alice", b"%d" % guess)) for guess in range(40)]
    asked = asyncio.create_task(passwords.match(users, "alice", b"wonderland"))
    bcrypt.go_on(41)
    assert await asked
    assert not any(await asyncio.gather(*guesses))
    assert len(bcrypt.done) == 41


async def test_a_result_is_cached_until_the_hash_changes(users, hashed, compared):
    passwords = Passwords()
    assert await passwords.match(users, "alice", b"wonderland")
    changed = {"carol": SecretStr(hashed(b"new")), **users, "bob": SecretStr(hashed(b"other"))}
    assert await passwords.match(changed, "alice", b"wonderland")
    assert len(compared) == 1


async def test_a_failed_comparison_raises_and_the_next_is_done(users, monkeypatch):
    real, failing = module._matches, [ValueError("a defect")]

    def matches(password, written):
        if failing:
            raise failing.pop()
        return real(password, written)

    monkeypatch.setattr(module, "_matches", matches)
    passwords = Passwords()
    with pytest.raises(ValueError, match="a defect"):
        await passwords.match(users, "alice", b"wonderland")
    assert await passwords.match(users, "alice", b"wonderland")


async def test_a_new_hash_applies_immediately(users, hashed):
    passwords = Passwords()
    assert await passwords.match(users, "alice", b"wonderland")
    changed = {**users, "alice": SecretStr(hashed(b"looking glass"))}
    assert not await passwords.match(changed, "alice", b"wonderland")
    assert await passwords.match(changed, "alice", b"looking glass")
