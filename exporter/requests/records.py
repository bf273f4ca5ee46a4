"""A body to its records: JSON and NDJSON of strangers, one record at a time, so that others have their turn.

The decoder of the standard library reads a document in one go, and holds up everything for a tenth of a
second if it is made for that. So it never sees more than ``MOST_CHARACTERS`` at a time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

MOST_CHARACTERS: Final = 64 * 1024
"""Of one record: a hundred times what one needs."""

_CUT: Final = 3
"""Characters before the end of a part in which a number may end that goes on there: 1, 1., 1e, 1e+."""

_SPACE: Final = re.compile(r"[ \t\n\r]*")
_LINE: Final = re.compile(r"[^ \t\n\r][^\n]*")

TWICE: Final = object()
"""In the place of an object that says a key twice."""
NO_JSON: Final = object()
"""In the place of a line that is no JSON."""
TOO_LONG: Final = object()
"""In the place of a line that is longer than a record may be."""


class NotJsonError(ValueError):
    """A body that is no JSON; the text says what is wrong with it, and not what it is."""


class Record(NamedTuple):
    """One of them."""

    end: int
    """Where it ends in the body, in characters."""
    value: Any


def records(body: bytes, *, lines: bool) -> Iterator[Record]:
    """Yield the records of an object, of an array of objects, or of NDJSON, which ``lines`` is for certain.

    A byte-order mark, with which some systems begin a text, is passed over.

    Raises:
        NotJsonError: it is no JSON, as far as it was read.
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
    try:
        return _Part(text[begin:end]).alone()
    except NotJsonError:
        return NO_JSON


def _document(text: str) -> Iterator[Record]:
    begin = _after_space(text, 0)
    if text.startswith("[", begin):
        yield from _array(text, begin + 1)
    else:
        yield from _object_or_lines(text)


def _object_or_lines(text: str) -> Iterator[Record]:
    """Yield one object, or several lines of them: some log shippers call those JSON too."""
    value, end = _Part(text).next(0)
    rest = _after_space(text, end)
    if "\n" in text[end:rest]:
        yield from _lines(text)
        return
    _check_end(text, rest)
    yield Record(rest, value)


def _array(text: str, begin: int) -> Iterator[Record]:
    """Yield what is between the brackets, of which the first is before ``begin``."""
    place = _after_space(text, begin)
    more = not text.startswith("]", place)
    part = _Part(text, place)
    while more:
        value, place = part.next(place)
        yield Record(place, value)
        place = _after_space(text, place)
        more = text.startswith(",", place)
        place += more
    if not text.startswith("]", place):
        raise NotJsonError("The body is not JSON: an array neither goes on nor ends.")
    _check_end(text, place + 1)


class _Part:
    """The part of a text that the decoder sees now."""

    def __init__(self, text: str, begin: int = 0) -> None:
        self._text = text
        self._see(begin)

    def alone(self) -> object:
        """Return the one value of the text."""
        value, place = self.next(0)
        _check_end(self._text, place)
        return value

    def next(self, place: int) -> tuple[object, int]:
        """Return the value that begins here, and where it ends."""
        place = _after_space(self._text, place)
        found = self._decoded(place)
        if found is None and place > self._begin:
            self._see(place)
            found = self._decoded(place)
        if found is None:
            raise NotJsonError(
                f"The body is not JSON, or one of its requests has more than {MOST_CHARACTERS} characters."
            )
        return found

    def _see(self, begin: int) -> None:
        self._begin = begin
        self._seen = self._text[begin : begin + MOST_CHARACTERS]

    def _decoded(self, place: int) -> tuple[object, int] | None:
        """Return what begins here and where it ends; None where it is no JSON as far as can be seen."""
        if place - self._begin > len(self._seen):
            return None
        try:
            value, end = _DECODER.raw_decode(self._seen, place - self._begin)
        except RecursionError:
            raise NotJsonError("The body is nested too deeply.") from None
        except ValueError:  # its text may repeat what is there
            return None
        cut = end > len(self._seen) - _CUT and self._begin + len(self._seen) < len(self._text)
        return None if cut else (value, self._begin + end)


def _after_space(text: str, place: int) -> int:
    match = _SPACE.match(text, place)
    return match.end() if match else place


def _check_end(text: str, place: int) -> None:
    if _after_space(text, place) != len(text):
        raise NotJsonError("The body is not JSON: something follows its end.")


def _object(pairs: list[tuple[str, Any]]) -> object:
    """Return an object; one that says a key twice is none: each reader takes another of the two."""
    found = dict(pairs)
    return found if len(found) == len(pairs) else TWICE


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_object)
