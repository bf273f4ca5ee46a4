"""What the page's address asks for: a filter, and the engines that are open. It is all the state there is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, Self
from urllib.parse import urlencode

from multidict import MultiMapping

_MOST_OPEN: Final = 8
"""Engines that are open at a time: each of them is rendered whole, once a second."""
_LONGEST: Final = 200
"""Characters of a filter that are read."""


@dataclass(frozen=True, slots=True)
class Query:
    """A filter and the engines that are open, in the order in which they were opened."""

    text: str = ""
    opened: tuple[str, ...] = ()

    @classmethod
    def read(cls, parameters: MultiMapping[str]) -> Self:
        """Read an address; what it holds too much of is left out."""
        opened = tuple(dict.fromkeys(parameters.getall("engine", [])))[-_MOST_OPEN:]
        return cls(parameters.get("q", "")[:_LONGEST].strip(), opened)

    def filtered(self, text: str) -> Query:
        """Return the same with another filter."""
        return replace(self, text=text)

    def toggled(self, engine: str) -> Query:
        """Return the same with the engine opened, or closed if it is open."""
        others = tuple(one for one in self.opened if one != engine)
        return replace(self, opened=others if engine in self.opened else (*others, engine))

    @property
    def href(self) -> str:
        """The address, relative to the page's own: it works behind any prefix."""
        pairs = [("q", self.text)] if self.text else []
        pairs += [("engine", engine) for engine in self.opened]
        return f"./?{urlencode(pairs)}" if pairs else "./"

    def matches(self, words: Mapping[str, str]) -> bool:
        """Return whether something is shown: every word of the filter must be found.

        A word ``key=value`` must be the value of that key, whole; any other may be a part of any value. The
        case of letters does not count.
        """
        return all(_found(word, words) for word in self.text.casefold().split())


def _found(word: str, words: Mapping[str, str]) -> bool:
    key, separator, value = word.partition("=")
    if separator and key in words:
        return words[key].casefold() == value
    return any(word in each for each in _folded(words.values()))


def _folded(values: Iterable[str]) -> Iterable[str]:
    return (value.casefold() for value in values)
