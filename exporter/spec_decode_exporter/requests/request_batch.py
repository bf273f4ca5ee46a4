"""Body of requests: JSON or NDJSON, read one record at a time and validated.

No record has more than ``MAX_RECORD_CHARACTERS``, so that no decoding blocks the event loop. A mistake names
a field, never its value: it may be a prompt. docs/guide/requests.md describes the format.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Final, NamedTuple

from spec_decode_exporter.core.json_reader import MAX_VALUE_CHARACTERS as MAX_RECORD_CHARACTERS
from spec_decode_exporter.core.json_reader import JsonError, JsonReader
from spec_decode_exporter.core.tasks import yield_to_event_loop
from spec_decode_exporter.requests.request_record import (
    Refusal,
    RefusedError,
    RequestRecord,
    parse_record,
)

MAX_BATCH_REQUESTS: Final = 5000
"""Requests of one body."""
MAX_MISTAKES: Final = 10
"""Mistakes that are returned for one body; the others are only counted."""
_SLICE_CHARACTERS: Final = 16 * 1024
_SLICE_RECORDS: Final = 64
"""Characters or records between two yields to the event loop: one or two milliseconds of work."""
_USER_BYTES: Final = 8
_LINE: Final = re.compile(r"[^ \t\n\r][^\n]*")

_DUPLICATE_KEY: Final = object()
"""Stands for an object that has a key twice."""
_NO_JSON: Final = object()
"""Stands for a line that is not JSON."""
_TOO_LONG: Final = object()
"""Stands for a line that is longer than a record may be."""


class NotJsonError(ValueError):
    """A body is not JSON. The text gives the reason and never repeats the body."""


class TooManyError(ValueError):
    """A body has more requests than ``MAX_BATCH_REQUESTS``."""


class _Record(NamedTuple):
    """One decoded record of a body."""

    end: int
    """Its end in the body, in characters."""
    value: Any


@dataclass(frozen=True, slots=True)
class Mistake:
    """Reason why one request of a body is refused."""

    index: int
    """Position in the body, from 0; empty lines do not count."""
    detail: str


@dataclass(slots=True)
class Batch:
    """Requests of one body, and those that are refused."""

    requests: list[RequestRecord] = field(default_factory=list)
    refused: Counter[Refusal] = field(default_factory=Counter)
    mistakes: list[Mistake] = field(default_factory=list)
    """The first ``MAX_MISTAKES``."""

    @property
    def above_the_rate(self) -> bool:
        """True if requests exceed the rate and none of the body is counted."""
        return bool(self.refused[Refusal.RATE]) and not self.requests

    def refuse(self, index: int, error: RefusedError) -> None:
        """Count a refused request."""
        self.refused[error.reason] += 1
        if len(self.mistakes) < MAX_MISTAKES:
            self.mistakes.append(Mistake(index, str(error)))


async def read(body: bytes, *, lines: bool, salt: bytes | None) -> Batch:
    """Read a body: an object or an array of objects; with ``lines``, NDJSON.

    Reading yields to the event loop. Users are hashed with ``salt`` at once; without one, they are ignored.

    Raises:
        NotJsonError: The body is not JSON, or none of its lines is.
        TooManyError: The body has more than ``MAX_BATCH_REQUESTS``.
    """
    batch = Batch()
    was_json = has_records = False
    async for index, record in _with_yields(_records(body, lines=lines)):
        if index >= MAX_BATCH_REQUESTS:
            raise TooManyError(f"The body has more than {MAX_BATCH_REQUESTS} requests; send them in parts.")
        has_records = True
        was_json |= record.value is not _NO_JSON
        try:
            batch.requests.append(_request(record.value, salt))
        except RefusedError as error:
            batch.refuse(index, error)
    if has_records and not was_json:
        raise NotJsonError("No line of the body is JSON.")
    return batch


def _request(value: object, salt: bytes | None) -> RequestRecord:
    if value is _NO_JSON:
        raise RefusedError(Refusal.MALFORMED, "is not JSON")
    if value is _TOO_LONG:
        raise RefusedError(Refusal.MALFORMED, f"has more than {MAX_RECORD_CHARACTERS} characters")
    return parse_record(value, lambda user: _hashed(user, salt))


def _hashed(user: str, salt: bytes | None) -> str:
    """Return a keyed hash of 64 bits, the same for the same salt; empty without a salt or a user."""
    if salt is None or not user:
        return ""
    # A key has at most 64 bytes: hash the salt first, which may be longer.
    key = blake2b(salt).digest()
    return blake2b(user.encode("utf-8", "surrogatepass"), key=key, digest_size=_USER_BYTES).hexdigest()


async def _with_yields(records: Iterator[_Record]) -> AsyncIterator[tuple[int, _Record]]:
    """Yield each record with its index, and yield to the event loop between slices."""
    done = 0
    for index, record in enumerate(records):
        if record.end - done >= _SLICE_CHARACTERS or index % _SLICE_RECORDS == 0:
            done = record.end
            await yield_to_event_loop()
        yield index, record


def _records(body: bytes, *, lines: bool) -> Iterator[_Record]:
    """Decode the records of a body; ``lines`` excludes an array. A byte-order mark is skipped.

    Raises:
        NotJsonError: The body is not JSON, as far as it was read.
    """
    try:
        text = body.decode("utf-8-sig").strip(" \t\r\n")
    except UnicodeDecodeError:
        raise NotJsonError("The body is not UTF-8.") from None
    return _lines(text) if lines else _document(text)


def _lines(text: str) -> Iterator[_Record]:
    for match in _LINE.finditer(text):
        yield _Record(match.end(), _line(text, *match.span()))


def _line(text: str, begin: int, end: int) -> object:
    if end - begin > MAX_RECORD_CHARACTERS:
        return _TOO_LONG
    reader = JsonReader(text[begin:end], pairs=_object)
    try:
        value = reader.value()
        reader.end()
    except JsonError:
        return _NO_JSON
    return value


def _document(text: str) -> Iterator[_Record]:
    reader = JsonReader(text, pairs=_object)
    try:
        if reader.kind() == "[":
            yield from _array(reader)
        else:
            yield from _object_or_lines(reader, text)
    except JsonError as error:
        raise NotJsonError(f"The body is not usable: line {error.line} {error}.") from None


def _object_or_lines(reader: JsonReader, text: str) -> Iterator[_Record]:
    """Yield one object, or NDJSON: some log shippers send it with the content type of JSON."""
    value = reader.value()
    end = reader.position
    reader.kind()
    if "\n" in text[end : reader.position]:
        yield from _lines(text)
        return
    reader.end()
    yield _Record(reader.position, value)


def _array(reader: JsonReader) -> Iterator[_Record]:
    for _ in reader.elements():
        value = reader.value()
        yield _Record(reader.position, value)
    reader.end()


def _object(pairs: list[tuple[str, Any]]) -> object:
    """Return an object, or ``_DUPLICATE_KEY``: JSON readers differ in which of two values they take."""
    members = dict(pairs)
    return members if len(members) == len(pairs) else _DUPLICATE_KEY
