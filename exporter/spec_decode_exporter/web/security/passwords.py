"""Check passwords with bcrypt in a thread, one at a time, and remember each result."""

from __future__ import annotations

import asyncio
import secrets
from collections import OrderedDict
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from spec_decode_exporter.core.background_tasks import spawn
from spec_decode_exporter.web.security.check_queue import CheckQueue, PasswordCheck
from spec_decode_exporter.web.server.client_address import LOCAL

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import SecretStr

    from spec_decode_exporter.web.security.check_queue import Gone

_MOST_REMEMBERED: Final = 128
"""Results of each kind that are remembered. Wrong passwords, which have no end, push out no right one."""
_SIGNIFICANT: Final = 72
"""Bytes of a password that bcrypt looks at; those after them never counted."""


class Passwords:
    """Compares passwords with bcrypt hashes, and remembers the results, never a password.

    A name that is unknown takes as long as one that is known: its password is compared with a hash that
    nothing matches, which costs as much as a user's. Which user's is always the same for a name, so that
    names cannot be told apart where hashes cost differently.
    """

    def __init__(self) -> None:
        self._secret = secrets.token_bytes(32)
        self._results: dict[bool, OrderedDict[bytes, None]] = {True: OrderedDict(), False: OrderedDict()}
        self._queue = CheckQueue()
        self._current: PasswordCheck | None = None
        self._working: asyncio.Task[None] | None = None

    async def match(
        self,
        users: Mapping[str, SecretStr],
        name: str,
        password: bytes,
        address: str = LOCAL,
        gone: Gone = lambda: False,
    ) -> bool:
        """Return whether ``password`` is that of the user ``name``.

        Args:
            users: The hash of each user's password.
            name: The user name that a client sent.
            password: The password that it sent.
            address: The address that the client is counted by.
            gone: Whether the client has ended its connection.

        Raises:
            BusyError: Too many checks wait, and no other address has more of them.
        """
        password = password[:_SIGNIFICANT]
        known = users.get(name)
        written = known.get_secret_value() if known is not None else self._nobodys(users, name)
        user = self._digest(name.encode("utf-8", "surrogateescape"))
        key = self._digest(written.encode(), user, password)
        found = self._recall(key)
        if found is None:
            check = self._check(PasswordCheck(key, written, password), address, user)
            found = await check.asked(gone) and known is not None
            self._remember(key, found)
        return found

    def _check(self, check: PasswordCheck, address: str, user: bytes) -> PasswordCheck:
        """Return the check to wait for: the same one, if somebody has asked for it already."""
        current = self._current
        same = current if current and current.key == check.key else self._queue.find(check.key)
        if same is None:
            self._queue.add(check, address, user)
        if self._working is None or self._working.done():
            self._working = spawn(self._work())
        return same or check

    async def _work(self) -> None:
        """Do the checks that wait, one at a time, until there are none."""
        while (check := self._queue.take()) is not None:
            self._current = check
            try:
                check.end(await asyncio.to_thread(_matches, check.password, check.written))
            except Exception as error:  # noqa: BLE001  those who asked deal with it
                check.end(error)
            finally:
                self._current = None

    def _recall(self, key: bytes) -> bool | None:
        for result, keys in self._results.items():
            if key in keys:
                keys.move_to_end(key)
                return result
        return None

    def _remember(self, key: bytes, result: bool) -> None:  # noqa: FBT001
        keys = self._results[result]
        keys[key] = None
        if len(keys) > _MOST_REMEMBERED:
            keys.popitem(last=False)

    def _nobodys(self, users: Mapping[str, SecretStr], name: str) -> str:
        """Return a hash of nobody's password, with the cost of some user's."""
        hashes = [written.get_secret_value() for written in users.values()]
        chosen = int.from_bytes(self._digest(name.encode("utf-8", "surrogateescape"))) % len(hashes)
        return hashes[chosen][:29] + "." * 31

    def _digest(self, *parts: bytes) -> bytes:
        """Return what stands for the parts: with their lengths, so that none can pass for another's end."""
        digest = blake2b(key=self._secret, digest_size=32)
        for part in parts:
            digest.update(len(part).to_bytes(8))
            digest.update(part)
        return digest.digest()


def _matches(password: bytes, written: str) -> bool:
    """Compare in the time that bcrypt takes, whatever the result. It lets other threads run meanwhile."""
    import bcrypt

    return bcrypt.checkpw(password, written.encode())
