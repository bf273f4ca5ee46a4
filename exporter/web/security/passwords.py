"""Whether a password is a user's: by bcrypt, in a thread, one at a time, and each result only once."""

from __future__ import annotations

import asyncio
import secrets
from collections import OrderedDict
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import SecretStr

MOST_WAITING: Final = 8
"""How many passwords wait to be compared; who comes then is told to come again."""
_MOST_REMEMBERED: Final = 128
"""Results of each kind that are remembered. Wrong passwords, which have no end, push out no right one."""
_SIGNIFICANT: Final = 72
"""Bytes of a password that bcrypt looks at; those after them never counted."""


class BusyError(Exception):
    """Too many passwords wait to be compared."""


class Passwords:
    """Compares passwords with bcrypt hashes, and remembers the results, never a password.

    A name that is unknown takes as long as one that is known: its password is compared with a hash that
    nothing matches, which costs as much as a user's. Which user's is always the same for a name, so that
    names cannot be told apart where hashes cost differently.
    """

    def __init__(self) -> None:
        self._secret = secrets.token_bytes(32)
        self._results: dict[bool, OrderedDict[bytes, None]] = {True: OrderedDict(), False: OrderedDict()}
        self._one_at_a_time = asyncio.Lock()
        self._waiting = 0

    async def match(self, users: Mapping[str, SecretStr], name: str, password: bytes) -> bool:
        """Return whether ``password`` is that of the user ``name``.

        Raises:
            BusyError: Too many others wait for an answer that is not known yet.
        """
        known = users.get(name)
        written = known.get_secret_value() if known is not None else self._nobodys(users, name)
        key = self._digest(written.encode(), name.encode("utf-8", "surrogateescape"), password)
        found = self._recall(key)
        if found is None:
            found = await self._compare(key, written, password, possible=known is not None)
        return found

    async def _compare(self, key: bytes, written: str, password: bytes, *, possible: bool) -> bool:
        if self._waiting >= MOST_WAITING:
            raise BusyError
        self._waiting += 1
        try:
            async with self._one_at_a_time:
                found = self._recall(key)  # the one before may have asked the same
                if found is None:
                    found = await asyncio.to_thread(_matches, password, written) and possible
                    self._remember(key, found)
                return found
        finally:
            self._waiting -= 1

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

    return bcrypt.checkpw(password[:_SIGNIFICANT], written.encode())
