"""Queue of password checks: fair to the addresses that ask, and to the user names that each asks for.

Addresses take turns, and so do the user names of an address. Among the passwords for one name from one
address the choice is random: the right one is checked in time even if somebody guesses faster than it comes.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

MOST_WAITING: Final = 128
"""Checks in the queue: as many as there are connections."""

Gone = Callable[[], bool]
"""Returns whether a client has ended its connection, so that its result is not needed."""


class CheckQueueFullError(Exception):
    """Too many passwords wait to be checked."""


@dataclass(slots=True, eq=False)
class PasswordCheck:
    """A password that waits to be compared with a hash, for all who asked for it."""

    key: bytes
    """Identifies hash, user and password."""
    written: str
    """The hash."""
    password: bytes
    _asking: dict[asyncio.Future[bool], Gone] = field(default_factory=dict)

    def asked(self, gone: Gone) -> asyncio.Future[bool]:
        """Return the result to come for one more who asks; BusyError if the check is dropped."""
        result: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._asking[result] = gone
        return result

    @property
    def abandoned(self) -> bool:
        """Return whether all clients that asked are gone; their requests get BusyError."""
        for result in [result for result, gone in self._asking.items() if gone() or result.done()]:
            del self._asking[result]
            if not result.done():
                result.set_exception(CheckQueueFullError())
        return not self._asking

    def end(self, outcome: bool | Exception) -> None:  # noqa: FBT001
        """Give all who asked the outcome, or raise it where they wait."""
        for result in self._asking:
            if result.done():
                continue
            if isinstance(outcome, Exception):
                result.set_exception(outcome)
            else:
                result.set_result(outcome)


class CheckQueue:
    """The checks that wait, by address and user name."""

    def __init__(
        self,
        most: int = MOST_WAITING,
        choose: Callable[[Sequence[PasswordCheck]], PasswordCheck] = secrets.choice,
    ) -> None:
        """Hold ``most`` checks; ``choose`` picks one of those with the same address and user name."""
        self._most = most
        self._choose = choose
        self._waiting: dict[str, dict[bytes, list[PasswordCheck]]] = {}
        """By address and user name; whose turn is next comes first."""

    def __len__(self) -> int:
        return sum(1 for _ in self._all())

    def find(self, key: bytes) -> PasswordCheck | None:
        """Return the check with this key, if it is in the queue."""
        return next((check for check in self._all() if check.key == key), None)

    def add(self, check: PasswordCheck, address: str, user: bytes) -> None:
        """Add a check for a digest of a user name; a full queue drops one of the address with most checks.

        Raises:
            BusyError: it is this address.
        """
        if len(self) >= self._most:
            self._drop_abandoned()
        if len(self) >= self._most:
            most = max(self._waiting, key=self._count)
            if self._count(most) <= self._count(address):
                raise CheckQueueFullError
            name = max(self._waiting[most], key=lambda each: len(self._waiting[most][each]))
            dropped = self._waiting[most][name][-1]
            self._remove(most, name, dropped)
            dropped.end(CheckQueueFullError())
        self._waiting.setdefault(address, {}).setdefault(user, []).append(check)

    def take(self) -> PasswordCheck | None:
        """Remove and return the check whose turn it is; None if all who asked are gone."""
        self._drop_abandoned()
        if not self._waiting:
            return None
        address, users = next(iter(self._waiting.items()))
        user, checks = next(iter(users.items()))
        check = self._choose(checks)
        self._remove(address, user, check)
        # Behind the others, if there is more of it.
        if user in users:
            users[user] = users.pop(user)
        if address in self._waiting:
            self._waiting[address] = self._waiting.pop(address)
        return check

    def _all(self) -> Iterator[PasswordCheck]:
        return (each for users in self._waiting.values() for checks in users.values() for each in checks)

    def _count(self, address: str) -> int:
        return sum(map(len, self._waiting.get(address, {}).values()))

    def _drop_abandoned(self) -> None:
        for address, users in list(self._waiting.items()):
            for user, checks in list(users.items()):
                for check in [each for each in checks if each.abandoned]:
                    self._remove(address, user, check)

    def _remove(self, address: str, user: bytes, check: PasswordCheck) -> None:
        users = self._waiting[address]
        users[user].remove(check)
        if not users[user]:
            del users[user]
        if not users:
            del self._waiting[address]
