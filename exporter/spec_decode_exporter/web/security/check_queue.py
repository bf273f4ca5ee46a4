"""Queue of password checks: addresses take turns, and so do the user names of an address.

Among the passwords for one name from one address the choice is random. So the right password is checked in
time even if an attacker at the same address guesses faster than the queue is served.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from spec_decode_exporter.web.server.fair_queue import FairQueue, QueueFullError

MAX_CHECKS: Final = 128
"""Checks in the queue: as many as there are connections."""

IsClosing = Callable[[], bool]
"""Return whether a client has closed its connection, so that its result is not needed."""


@dataclass(slots=True, eq=False)
class PasswordCheck:
    """A password to compare with a hash, and the requests that wait for the result."""

    key: bytes
    """Digest of the hash, the user and the password."""
    password_hash: str
    password: bytes
    _waiting: dict[asyncio.Future[bool], IsClosing] = field(default_factory=dict)

    def result(self, is_closing: IsClosing) -> asyncio.Future[bool]:
        """Return the future result for one more request; QueueFullError if the check is dropped."""
        result: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting[result] = is_closing
        return result

    @property
    def is_abandoned(self) -> bool:
        """Return whether all clients that wait are gone; their requests get QueueFullError."""
        for result in [each for each, is_closing in self._waiting.items() if is_closing() or each.done()]:
            del self._waiting[result]
            if not result.done():
                result.set_exception(QueueFullError())
        return not self._waiting

    def finish(self, outcome: bool | Exception) -> None:  # noqa: FBT001
        """Set the outcome, or the exception, for all requests that wait."""
        for result in self._waiting:
            if result.done():
                continue
            if isinstance(outcome, Exception):
                result.set_exception(outcome)
            else:
                result.set_result(outcome)


class CheckQueue:
    """Password checks in a fair queue, by address and user name."""

    def __init__(
        self,
        max_checks: int = MAX_CHECKS,
        choose: Callable[[Sequence[PasswordCheck]], PasswordCheck] = secrets.choice,
    ) -> None:
        """Hold ``max_checks``; ``choose`` selects one of those with the same address and user name."""
        self._queue = FairQueue(max_checks, choose)

    def __len__(self) -> int:
        return len(self._queue)

    def find(self, key: bytes) -> PasswordCheck | None:
        """Return the check with this key, if it is in the queue."""
        return next((check for check in self._queue if check.key == key), None)

    def add(self, check: PasswordCheck, address: str, user: bytes) -> None:
        """Add a check for a user name; a full queue drops one of the address with the most checks.

        Raises:
            QueueFullError: No other address has more checks.
        """
        if self._queue.is_full:
            self._discard_abandoned()
        dropped = self._queue.add(check, address, user)
        if dropped is not None:
            dropped.finish(QueueFullError())

    def pop(self) -> PasswordCheck | None:
        """Remove and return the next check; None if no client waits for one."""
        self._discard_abandoned()
        following = self._queue.pop()
        return following[1] if following is not None else None

    def _discard_abandoned(self) -> None:
        for check in [each for each in self._queue if each.is_abandoned]:
            self._queue.discard(check)
