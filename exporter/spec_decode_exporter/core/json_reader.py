"""Incremental JSON reader: decode a document value by value, without building the whole of it.

The decoder of the standard library is one C call that holds the GIL, and a document of ``{},`` takes 100
times its size. Here it sees at most ``MAX_VALUE_CHARACTERS`` at a time, and the caller bounds the items.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from spec_decode_exporter.core.cooperative_yield import Pausing

MAX_VALUE_CHARACTERS: Final = 64 * 1024
"""Characters of one decoded value by default: some milliseconds of work for the decoder."""
MAX_MEMBERS: Final = 10_000
"""Members of one object that is read member by member."""
SLICE_CHARACTERS: Final = 16 * 1024
SLICE_VALUES: Final = 200
"""Characters, or values, from one cooperative yield to the next: a millisecond of work or less."""

_CUT: Final = 3
"""Characters before the end of a window in which a number may end that continues there: 1, 1., 1e, 1e+."""
_ESCAPE: Final = 8
"""Characters before the end of a window in which an error may come from the cut: an escape, a literal."""
_SPACE: Final = re.compile(r"[ \t\n\r]*")
_PLAIN: Final = re.compile(r'[^"\[\]{}]*')
_IN_STRING: Final = re.compile(r'[^"\\]*')
_NOTHING: Final = re.compile(r"")
_DEPTH: Final = {"{": 1, "[": 1, "}": -1, "]": -1}

Shape: TypeAlias = "Mapping[str, Shape] | tuple[Shape] | None"
"""The parts of a value to keep: members of an object, ``(shape,)`` for each element, None for a scalar."""


class JsonError(ValueError):
    """A text is not JSON or is beyond a bound. The message names the line, never the text itself."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line
        """The line of the text, from 1."""


class TooLongError(JsonError):
    """One value has more characters than the reader decodes at a time."""


class JsonReader:
    """Pull parser: the caller takes each value, or enters it, in the order of the text.

    Memory: one window of the text besides the text itself. Bytes are decoded window by window: one emoji
    would make the whole text four times as large.
    """

    def __init__(
        self,
        source: bytes | str,
        max_characters: int = MAX_VALUE_CHARACTERS,
        pairs: Callable[[list[tuple[str, Any]]], object] | None = None,
    ) -> None:
        """Read UTF-8 bytes, with or without a byte-order mark, or a text.

        Args:
            source: The document.
            max_characters: Characters of one decoded value at most.
            pairs: Makes an object of its keys and values, as in ``json.JSONDecoder``.
        """
        self._source = source
        self._max = max_characters
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._scanner = json.JSONDecoder(object_pairs_hook=pairs)
        self._taken = 0
        self._window = ""
        self._at = 0
        self._before = 0
        self._lines = 1
        self._values = 0
        self._paused = (0, 0)
        self._refill()

    @property
    def position(self) -> int:
        """Characters that were read."""
        return self._before + self._at

    @property
    def line(self) -> int:
        """The line of the next value, from 1."""
        return self._line_of(self._at)

    def due(self) -> bool:
        """Return whether enough was read since the last cooperative yield for another one."""
        characters, values = self._paused
        if self.position - characters < SLICE_CHARACTERS and self._values - values < SLICE_VALUES:
            return False
        self._paused = (self.position, self._values)
        return True

    def kind(self) -> str:
        """Return the first character of the next value; empty at the end of the text."""
        self._skip_space()
        return self._window[self._at : self._at + 1]

    def value(self) -> Any:  # noqa: ANN401  any JSON
        """Return the next value.

        Raises:
            TooLongError: It has more than ``max_characters``.
            JsonError: It is not JSON.
        """
        self._values += 1
        self._skip_space()
        problem: tuple[str, int] | None = None
        # The value may end beyond the window: then decode it again from its beginning.
        for may_refill in (bool(self._at), False):
            try:
                found, end = self._scanner.raw_decode(self._window, self._at)
            except RecursionError:
                raise self._error("is nested too deeply") from None
            except json.JSONDecodeError as error:
                problem = (error.msg, error.pos)
            except ValueError:  # an integer with more digits than Python converts
                raise self._error("has a number with too many digits") from None
            else:
                if end <= len(self._window) - _CUT or self._is_last():
                    self._at = end
                    return found
                problem = None
            if not may_refill or not self._refill():
                break
        raise self._failure(problem)

    def elements(self) -> Iterator[int]:
        """Enter an array; yield the index of each element, which the caller takes before the next.

        Raises:
            JsonError: It is not an array, or not JSON.
        """
        self._take("[")
        if self._took("]"):
            return
        index = 0
        yield index
        while self._took(","):
            index += 1
            yield index
        self._take("]")

    def members(self) -> Iterator[str]:
        """Enter an object; yield the key of each member, whose value the caller takes before the next.

        Raises:
            JsonError: It is not an object, not JSON, has a key twice, or more than ``MAX_MEMBERS``.
        """
        self._take("{")
        if self._took("}"):
            return
        keys: set[str] = set()
        while True:
            if self.kind() != '"':
                raise self._error("is not JSON: Expecting property name enclosed in double quotes")
            key = self.value()
            self._take(":")
            if key in keys:
                raise self._error("has a key twice in one object; remove one of the two")
            if len(keys) == MAX_MEMBERS:
                raise self._error(f"has an object with more than {MAX_MEMBERS} members")
            keys.add(key)
            yield key
            if not self._took(","):
                break
        self._take("}")

    def skip(self) -> Pausing[None]:
        """Skip the next value, of any size, without building it.

        Raises:
            JsonError: It does not end. Only a short value is validated.
        """
        kind = self.kind()
        try:
            self.value()
        except TooLongError:
            if kind in _DEPTH:
                yield from self._skip_container()
            elif kind == '"':
                self._at += 1
                yield from self._skip_string()
            else:
                raise
        if self.due():
            yield

    def end(self) -> None:
        """Check that the text ends here.

        Raises:
            JsonError: More text follows.
        """
        if self.kind():
            raise self._error("is not JSON: Extra data")

    def _skip_container(self) -> Pausing[None]:
        depth = 0
        while True:
            found = yield from self._find(_PLAIN)
            if found == '"':
                yield from self._skip_string()
                continue
            depth += _DEPTH[found]
            self._values += 1
            if not depth:
                return

    def _skip_string(self) -> Pausing[None]:
        """Skip the rest of a string after its first quote."""
        while (yield from self._find(_IN_STRING)) != '"':
            yield from self._find(_NOTHING)

    def _find(self, pattern: re.Pattern[str]) -> Pausing[str]:
        """Skip the match of a pattern, and return the character after it."""
        while True:
            match = pattern.match(self._window, self._at)
            self._at = match.end() if match else self._at
            if self.due():
                yield
            if self._at < len(self._window):
                self._at += 1
                return self._window[self._at - 1]
            if not self._refill():
                raise self._error("is not JSON: it ends in the middle of a value")

    def _take(self, character: str) -> None:
        if not self._took(character):
            raise self._error(f"is not JSON: Expecting {character!r}")

    def _took(self, character: str) -> bool:
        found = self.kind() == character
        self._at += found
        return found

    def _skip_space(self) -> None:
        while True:
            match = _SPACE.match(self._window, self._at)
            self._at = match.end() if match else self._at
            if self._at < len(self._window) or not self._refill():
                return

    def _is_last(self) -> bool:
        return self._taken >= len(self._source)

    def _refill(self) -> bool:
        """Move the window on, so that it begins at the next character; return whether it has one."""
        rest = self._window[self._at :]
        self._lines += self._window.count("\n", 0, self._at)
        self._before += self._at
        self._at = 0
        missing = self._max - len(rest)
        part = self._source[self._taken : self._taken + missing]
        self._taken += len(part)
        self._window = rest + (part if isinstance(part, str) else self._decoded(part))
        return bool(self._window)

    def _decoded(self, part: bytes) -> str:
        try:
            return self._decoder.decode(part, final=self._is_last())
        except UnicodeDecodeError:
            raise JsonError("is not UTF-8", self._lines) from None

    def _failure(self, problem: tuple[str, int] | None) -> JsonError:
        """Return the error of a value that could not be decoded: invalid, or longer than the window."""
        if problem is not None:
            message, place = problem
            cut = message.startswith("Unterminated") or place >= len(self._window) - _ESCAPE
            if self._is_last() or not cut:
                return JsonError(f"is not JSON: {message}", self._line_of(place))
        return TooLongError(f"has a value of more than {self._max} characters", self.line)

    def _error(self, message: str) -> JsonError:
        return JsonError(message, self.line)

    def _line_of(self, place: int) -> int:
        return self._lines + self._window.count("\n", 0, place)


class Picker:
    """Keeps the wanted parts of values and skips the rest, whatever its size."""

    def __init__(self, reader: JsonReader, max_values: int) -> None:
        """Keep at most ``max_values`` values, then none."""
        self._reader = reader
        self._left = max_values

    def pick(self, shape: Shape) -> Pausing[Any]:
        """Return the wanted parts of the next value; None for a value of another kind, or a too long one.

        Parts that are None are absent from their object or array.

        Raises:
            JsonError: It is not JSON.
        """
        if self._reader.due():
            yield
        kind = self._reader.kind()
        self._left -= 1
        if self._left >= 0:
            if isinstance(shape, tuple) and kind == "[":
                return (yield from self._elements(shape[0]))
            if isinstance(shape, Mapping) and kind == "{":
                return (yield from self._members(shape))
            if shape is None and kind not in _DEPTH:
                return (yield from self._scalar())
        yield from self._reader.skip()
        return None

    def _elements(self, shape: Shape) -> Pausing[list[Any]]:
        found = []
        for _ in self._reader.elements():
            element = yield from self.pick(shape)
            # Where the limit was reached within an element, it is not complete.
            if element is not None and self._left >= 0:
                found.append(element)
        return found

    def _members(self, shape: Mapping[str, Shape]) -> Pausing[dict[str, Any]]:
        found = {}
        for key in self._reader.members():
            if key not in shape:
                yield from self._reader.skip()
                continue
            member = yield from self.pick(shape[key])
            if member is not None:
                found[key] = member
        return found

    def _scalar(self) -> Pausing[Any]:
        try:
            return self._reader.value()
        except TooLongError:
            yield from self._reader.skip()
            return None
