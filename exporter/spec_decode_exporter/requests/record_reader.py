"""Read the records of a request body: JSON or NDJSON, one record at a time.

No record has more than ``MOST_CHARACTERS``, so that no decoding holds up the event loop.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from spec_decode_exporter.core.json_reader import MOST_CHARACTERS, JsonError, JsonReader

__all__ = ["MOST_CHARACTERS", "NO_JSON", "TOO_LONG", "TWICE", "NotJsonError", "Record", "records"]

_LINE: Final = re.compile(r"[^ \t\n\r][^\n]*")

TWICE: Final = object()
"""In place of an object that has a key twice."""
NO_JSON: Final = object()
"""In place of a line that is not JSON."""
TOO_LONG: Final = object()
"""In place of a line that is longer than a record may be."""


class NotJsonError(ValueError):
    """A body is not JSON. The text says why, and never repeats the body."""


class Record(NamedTuple):
    """One record of a body."""

    end: int
    """Its end in the body, in characters."""
    value: Any


def records(body: bytes, *, lines: bool) -> Iterator[Record]:
    """Yield the records of an object, of an array of objects, or of NDJSON, which ``lines`` is for certain.

    A byte-order mark, with which some systems begin a text, is skipped.

    Raises:
        NotJsonError: The body is not JSON, as far as it was read.
    """
    try:
        text = body.decode("utf-8-sig").strip(" \t\r\n")
    except UnicodeDecodeError:
        raise NotJsonError("The body is not UTF-8.") from None
    return _lines(text) if lines else _document(text)


def _lines(text: str) -> Iterator[Record]:
    for match in _LINE.finditer(text):
        yield Record(match.end(), _line(text, *match.span()))


def _line(text: str, begin: int, end: int) -> object:
    if end - begin > MOST_CHARACTERS:
        return TOO_LONG
    reader = JsonReader(text[begin:end], pairs=_object)
    try:
        value = reader.value()
        reader.end()
    except JsonError:
        return NO_JSON
    return value


def _document(text: str) -> Iterator[Record]:
    reader = JsonReader(text, pairs=_object)
    try:
        if reader.kind() == "[":
            yield from _array(reader)
        else:
            yield from _object_or_lines(reader, text)
    except JsonError as error:
        raise NotJsonError(f"The body is not usable: line {error.line} {error}.") from None


def _object_or_lines(reader: JsonReader, text: str) -> Iterator[Record]:
    """Yield one object, or several lines of them: some log shippers call those JSON too."""
    value = reader.value()
    end = reader.position
    reader.kind()
    if "\n" in text[end : reader.position]:
        yield from _lines(text)
        return
    reader.end()
    yield Record(reader.position, value)


def _array(reader: JsonReader) -> Iterator[Record]:
    for _ in reader.elements():
        value = reader.value()
        yield Record(reader.position, value)
    reader.end()


def _object(pairs: list[tuple[str, Any]]) -> object:
    """Return an object, or ``TWICE`` if a key is in it twice: each reader takes another of the two."""
    found = dict(pairs)
    return found if len(found) == len(pairs) else TWICE
