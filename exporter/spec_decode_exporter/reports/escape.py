"""Escape untrusted text for terminals, and measure its display width."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from typing import Final

_WIDE: Final = frozenset("WF")
_JOINED: Final = frozenset({"Mn", "Me"})
"""Unicode categories of characters that combine with the previous one."""


def escaped(text: str) -> str:
    """Return a text with control, format and line-break characters as escape sequences."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def cells(text: str) -> int:
    """Return the number of terminal columns of a printable text."""
    return sum(map(_cells, text))


def clipped(text: str, width: int, ellipsis: str) -> str:
    """Shorten a text to ``width`` columns, with an ``ellipsis`` in the middle.

    Model names differ at both ends.
    """
    if cells(text) <= width:
        return text
    room = max(width - cells(ellipsis), 0)
    head, tail = _fitting(text, room - room // 2), _fitting(text[::-1], room // 2)[::-1]
    return f"{head}{ellipsis}{tail}" if width >= cells(ellipsis) else ""


def wrapped(text: str, width: int) -> list[str]:
    """Break a printable text between words into lines of at most ``width`` columns; at least one line."""
    lines = [""]
    for word in text.split():
        joined = f"{lines[-1]} {word}" if lines[-1] else word
        if cells(joined) <= width:
            lines[-1] = joined
            continue
        pieces = list(_pieces(word, width))
        lines = [*(lines if lines[-1] else lines[:-1]), *pieces]
    return lines


def _pieces(word: str, width: int) -> Iterator[str]:
    """Split a word that is longer than a line."""
    while word:
        piece = _fitting(word, width) or word[0]
        yield piece
        word = word[len(piece) :]


def _fitting(text: str, width: int) -> str:
    """Return the longest beginning of a text that fits into ``width`` columns."""
    used = 0
    for place, char in enumerate(text):
        used += _cells(char)
        if used > width:
            return text[:place]
    return text


def _cells(char: str) -> int:
    if char.isascii():
        return 1
    if unicodedata.category(char) in _JOINED:
        return 0
    return 2 if unicodedata.east_asian_width(char) in _WIDE else 1
