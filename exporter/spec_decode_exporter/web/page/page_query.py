"""What the page's address asks for: a filter, and the engines that are open. It is all the state there is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Self
from urllib.parse import urlencode

from multidict import MultiMapping

_MOST_OPEN: Final = 8
"""Engines that are open at a time: each of them is rendered whole, once a second."""
_LONGEST: Final = 200
"""Characters of a filter that are read."""
_LONGEST_ID: Final = 64
"""Characters of an engine's id that are read; those that there are have 12. Every link repeats them."""
_WORD: Final = re.compile(r'(?:[^\s"]|"[^"]*(?:"|$))+')

Words = Mapping[str, Sequence[str]]
"""What a filter looks at: the values of each key, all in small letters."""


@dataclass(frozen=True, slots=True)
class PageQuery:
    """A filter and the engines that are open, in the order in which they were opened."""

    text: str = ""
    opened: tuple[str, ...] = ()

    @classmethod
    def read(cls, parameters: MultiMapping[str]) -> Self:
        """Read an address; what it holds too much of is left out."""
        given = (engine[:_LONGEST_ID] for engine in parameters.getall("engine", []))
        opened = tuple(dict.fromkeys(given))[-_MOST_OPEN:]
        return cls(parameters.get("q", "")[:_LONGEST].strip(), opened)

    def filtered(self, text: str) -> PageQuery:
        """Return the same with another filter."""
        return replace(self, text=text)

    def toggled(self, engine: str) -> PageQuery:
        """Return the same with the engine opened, or closed if it is open."""
        others = tuple(one for one in self.opened if one != engine)
        return replace(self, opened=others if engine in self.opened else (*others, engine))

    @property
    def href(self) -> str:
        """The address, relative to the page's own: it works behind any prefix."""
        pairs = [("q", self.text)] if self.text else []
        pairs += [("engine", engine) for engine in self.opened]
        return f"./?{urlencode(pairs)}" if pairs else "./"

    def matches(self, words: Words) -> bool:
        """Return whether something is shown: every word of the filter must be found.

        A word ``key=value`` must be a value of that key, whole; any other may be a part of any value. The
        case of letters does not count, and quotes hold together what has spaces: ``verdict="too early"``.
        """
        return all(_found(word, words) for word in _words(self.text.casefold()))


def _words(text: str) -> Iterable[str]:
    """Split a filter at its spaces; a quote that is not closed yet reaches to the end."""
    return (match.replace('"', "") for match in _WORD.findall(text))


def _found(word: str, words: Words) -> bool:
    key, separator, value = word.partition("=")
    if separator and key in words:
        return value in words[key]
    return any(word in each for values in words.values() for each in values)


def folded(words: Iterable[tuple[str, str]]) -> Words:
    """Return pairs of a key and a value as a filter looks at them: the values by key, in small letters."""
    found: dict[str, list[str]] = {}
    for key, value in words:
        found.setdefault(key.casefold(), []).append(value.casefold())
    return found
