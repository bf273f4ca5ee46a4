"""Query of the page's address: the filter and the open engines. It is the only state of the page."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Self
from urllib.parse import urlencode

from multidict import MultiMapping

_MAX_OPEN: Final = 8
"""Maximum number of open engines: each is rendered each second."""
_MAX_FILTER: Final = 200
"""Maximum characters of a filter."""
_MAX_ID: Final = 64
"""Maximum characters of an id in every link; ids have 12."""
_WORD: Final = re.compile(r'(?:[^\s"]|"[^"]*(?:"|$))+')

Words = Mapping[str, Sequence[str]]
"""Values by key that a filter matches, in lower case."""


@dataclass(frozen=True, slots=True)
class PageQuery:
    """Filter and open engines, in the order of opening."""

    text: str = ""
    opened: tuple[str, ...] = ()

    @classmethod
    def read(cls, parameters: MultiMapping[str]) -> Self:
        """Read the parameters of an address, within the limits."""
        ids = (engine[:_MAX_ID] for engine in parameters.getall("engine", []))
        opened = tuple(dict.fromkeys(ids))[-_MAX_OPEN:]
        return cls(parameters.get("q", "")[:_MAX_FILTER].strip(), opened)

    def filtered(self, text: str) -> PageQuery:
        """Return a query with another filter."""
        return replace(self, text=text)

    def toggled(self, engine: str) -> PageQuery:
        """Return a query with the engine opened, or closed if it is open."""
        others = tuple(other for other in self.opened if other != engine)
        return replace(self, opened=others if engine in self.opened else (*others, engine))

    @property
    def href(self) -> str:
        """Relative address: it works behind any prefix."""
        pairs = [("q", self.text)] if self.text else []
        pairs += [("engine", engine) for engine in self.opened]
        return f"./?{urlencode(pairs)}" if pairs else "./"

    def matches(self, words: Words) -> bool:
        """Return whether every word of the filter matches.

        A word ``key=value`` matches a complete value of that key. Any other word matches a part of any value.
        Case is ignored. Quotes enclose spaces: ``verdict="too early"``.
        """
        return all(_matches(word, words) for word in _words(self.text.casefold()))


def _words(text: str) -> Iterable[str]:
    """Split a filter at its spaces; an open quote extends to the end."""
    return (match.replace('"', "") for match in _WORD.findall(text))


def _matches(word: str, words: Words) -> bool:
    key, separator, value = word.partition("=")
    if separator and key in words:
        return value in words[key]
    return any(word in each for values in words.values() for each in values)


def folded(words: Iterable[tuple[str, str]]) -> Words:
    """Group pairs of key and value by key, in lower case."""
    values: dict[str, list[str]] = {}
    for key, value in words:
        values.setdefault(key.casefold(), []).append(value.casefold())
    return values
