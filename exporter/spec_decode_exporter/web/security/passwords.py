"""Check passwords with bcrypt in a thread, one at a time, and cache the results."""

from __future__ import annotations

import asyncio
import secrets
from collections import OrderedDict
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from spec_decode_exporter.core.tasks import PASSWORDS, spawn
from spec_decode_exporter.web.security.check_queue import CheckQueue, PasswordCheck
from spec_decode_exporter.web.server.client_address import LOCAL

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import SecretStr

    from spec_decode_exporter.web.security.check_queue import IsClosing

_MAX_CACHED: Final = 128
"""Cached results of each kind. So wrong passwords, which have no limit, evict no right one."""
_SIGNIFICANT_BYTES: Final = 72
"""Bytes of a password that bcrypt reads; it ignores the rest."""
_SALT_LENGTH: Final = 29
"""Characters of a bcrypt hash before the digest: version, cost and salt."""
_DIGEST_LENGTH: Final = 31


class Passwords:
    """Compares passwords with bcrypt hashes, and caches digests of the results, never a password.

    An unknown name takes as long as a known one: its password is compared with a hash that matches nothing.
    That hash has the cost of some user's hash. The name selects the user, so repeated requests for a name
    take equally long where costs differ.
    """

    def __init__(self) -> None:
        self._secret = secrets.token_bytes(32)
        self._cache: dict[bool, OrderedDict[bytes, None]] = {True: OrderedDict(), False: OrderedDict()}
        self._queue = CheckQueue()
        self._current: PasswordCheck | None = None
        self._worker: asyncio.Task[None] | None = None

    async def match(
        self,
        users: Mapping[str, SecretStr],
        name: str,
        password: bytes,
        address: str = LOCAL,
        is_closing: IsClosing = lambda: False,
    ) -> bool:
        """Return whether ``password`` is that of the user ``name``.

        Args:
            users: The hash of each user's password.
            name: The user name that a client sent.
            password: The password that it sent.
            address: The address that the client is counted by.
            is_closing: Return whether the client has closed its connection.

        Raises:
            QueueFullError: Too many checks wait, and no other address has more of them.
        """
        password = password[:_SIGNIFICANT_BYTES]
        known = users.get(name)
        password_hash = known.get_secret_value() if known is not None else self._unmatchable(users, name)
        user = self._digest(name.encode("utf-8", "surrogateescape"))
        key = self._digest(password_hash.encode(), user, password)
        result = self._cached(key)
        if result is None:
            check = self._enqueue(PasswordCheck(key, password_hash, password), address, user)
            result = await check.result(is_closing) and known is not None
            self._store(key, result)
        return result

    def _enqueue(self, check: PasswordCheck, address: str, user: bytes) -> PasswordCheck:
        """Return the check to wait for: an equal one if it runs or waits already, else this one."""
        current = self._current
        same = current if current and current.key == check.key else self._queue.find(check.key)
        if same is None:
            self._queue.add(check, address, user)
        if self._worker is None or self._worker.done():
            self._worker = spawn(self._work())
        return same or check

    async def _work(self) -> None:
        """Run the checks one at a time, until the queue is empty."""
        while (check := self._queue.pop()) is not None:
            self._current = check
            try:
                check.finish(await PASSWORDS.run(_matches, check.password, check.password_hash))
            except Exception as error:  # noqa: BLE001  the requests that wait for the check raise it
                check.finish(error)
            finally:
                self._current = None

    def _cached(self, key: bytes) -> bool | None:
        for result, keys in self._cache.items():
            if key in keys:
                keys.move_to_end(key)
                return result
        return None

    def _store(self, key: bytes, result: bool) -> None:  # noqa: FBT001
        keys = self._cache[result]
        keys[key] = None
        if len(keys) > _MAX_CACHED:
            keys.popitem(last=False)

    def _unmatchable(self, users: Mapping[str, SecretStr], name: str) -> str:
        """Return a hash that no password matches, with the cost of some user's hash."""
        hashes = [password_hash.get_secret_value() for password_hash in users.values()]
        chosen = int.from_bytes(self._digest(name.encode("utf-8", "surrogateescape"))) % len(hashes)
        return hashes[chosen][:_SALT_LENGTH] + "." * _DIGEST_LENGTH

    def _digest(self, *parts: bytes) -> bytes:
        """Return a keyed digest of the parts with their lengths, so that different splits differ."""
        digest = blake2b(key=self._secret, digest_size=32)
        for part in parts:
            digest.update(len(part).to_bytes(8))
            digest.update(part)
        return digest.digest()


def _matches(password: bytes, password_hash: str) -> bool:
    """Compare in constant time for a given cost. bcrypt releases the GIL, so other threads run."""
    import bcrypt

    return bcrypt.checkpw(password, password_hash.encode())
