"""What was sent to us, to requests: JSON of strangers, of which nothing is kept but numbers and three names.

A mistake is told by the name of its field, never by what stands there: it may be what somebody asked a model.
docs/requests.md describes the format.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final

from spec_decode_exporter.requests.record_reader import (
    MOST_CHARACTERS,
    NO_JSON,
    TOO_LONG,
    NotJsonError,
    Record,
    records,
)
from spec_decode_exporter.requests.request import Refusal, Request
from spec_decode_exporter.requests.request_record import RefusedError, request_of

MOST_REQUESTS: Final = 5000
"""Requests of one body."""
MOST_MISTAKES: Final = 10
"""Mistakes that are told of one body; the others are only counted."""
_SLICE_CHARACTERS: Final = 16 * 1024
_SLICE_RECORDS: Final = 64
"""So many are read in one go, or so many characters: a millisecond or two of work."""
_USER_BYTES: Final = 8


class TooManyError(ValueError):
    """A body of more requests than are taken at a time."""


@dataclass(frozen=True, slots=True)
class Mistake:
    """Why one of the requests is not taken."""

    index: int
    """Its place in the body, from 0; lines without anything do not count."""
    detail: str


@dataclass(slots=True)
class Batch:
    """What a body says."""

    requests: list[Request] = field(default_factory=list)
    refused: Counter[Refusal] = field(default_factory=Counter)
    mistakes: list[Mistake] = field(default_factory=list)
    """The first of them."""

    @property
    def above_the_rate(self) -> bool:
        """Whether more comes in a second than is taken, and nothing of this was."""
        return bool(self.refused[Refusal.RATE]) and not self.requests

    def refuse(self, index: int, error: RefusedError) -> None:
        """Note that one is not taken."""
        self.refused[error.reason] += 1
        if len(self.mistakes) < MOST_MISTAKES:
            self.mistakes.append(Mistake(index, str(error)))


async def read(body: bytes, *, lines: bool, salt: bytes | None) -> Batch:
    """Read a body: an object or an array of them, or with ``lines`` one object in each line (NDJSON).

    The event loop has its turn in between. Users are hashed with ``salt`` at once, or not looked at without.

    Raises:
        NotJsonError: it is no JSON, or none of its lines is.
        TooManyError: it holds more than ``MOST_REQUESTS``.
    """
    batch = Batch()
    was_json = begun = False
    async for index, record in _paced(records(body, lines=lines)):
        if index >= MOST_REQUESTS:
            raise TooManyError(f"The body has more than {MOST_REQUESTS} requests; send them in parts.")
        begun = True
        was_json |= record.value is not NO_JSON
        try:
            batch.requests.append(_request(record.value, salt))
        except RefusedError as error:
            batch.refuse(index, error)
    if begun and not was_json:
        raise NotJsonError("No line of the body is JSON.")
    return batch


def _request(value: object, salt: bytes | None) -> Request:
    if value is NO_JSON:
        raise RefusedError(Refusal.MALFORMED, "is not JSON")
    if value is TOO_LONG:
        raise RefusedError(Refusal.MALFORMED, f"has more than {MOST_CHARACTERS} characters")
    return request_of(value, lambda user: _hashed(user, salt))


def _hashed(user: str, salt: bytes | None) -> str:
    """Return what stands for a user, the same each time for the same salt: a keyed hash of 64 bits."""
    if salt is None or not user:
        return ""
    # A key has 64 bytes at most; a longer salt is brought down to so many first.
    key = blake2b(salt).digest()
    return blake2b(user.encode("utf-8", "surrogatepass"), key=key, digest_size=_USER_BYTES).hexdigest()


async def _paced(found: Iterator[Record]) -> AsyncIterator[tuple[int, Record]]:
    """Yield each with its number, and let others have their turn in between."""
    done = 0
    for index, record in enumerate(found):
        if record.end - done >= _SLICE_CHARACTERS or index % _SLICE_RECORDS == 0:
            done = record.end
            await asyncio.sleep(0)
        yield index, record
