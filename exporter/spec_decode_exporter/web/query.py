"""Address of the page: filter, order and open engines, its only state; and what to filter and to sort by."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from operator import itemgetter
from typing import Any, Final, Self
from urllib.parse import urlencode

from multidict import MultiMapping

from spec_decode_exporter.views.engine_view import EngineView, WindowView
from spec_decode_exporter.views.words import STATES, VERDICTS

MAX_OPEN: Final = 8
"""Maximum number of open engines: each is rendered each second."""
MAX_FILTER: Final = 200
"""Maximum characters of a filter."""
MAX_ID: Final = 64
"""Maximum characters of an id in every link; ids have 12."""
_WORD: Final = re.compile(r'(?:[^\s"]|"[^"]*(?:"|$))+')


def _of_longest(read: Callable[[WindowView], float | None]) -> Callable[[EngineView], float | None]:
    return lambda engine: None if engine.longest is None else read(engine.longest)


SORTS: Final[Mapping[str, Callable[[EngineView], Any]]] = {
    "engine": lambda engine: engine.name.casefold(),
    "speedup": lambda engine: engine.evaluated and engine.evaluated.estimated_speedup_ratio.value,
    "acceptance": _of_longest(lambda window: window.draft_acceptance_ratio.value),
    "length": _of_longest(lambda window: window.acceptance_length_tokens.value),
    "k": lambda engine: engine.configured_tokens,
    "step": _of_longest(lambda window: window.effective_tokens_per_step),
    "time": _of_longest(lambda window: window.time_per_output_token_seconds),
}
"""Columns to sort by."""


@dataclass(frozen=True, slots=True)
class PageQuery:
    """Filter and open engines, in the order of opening, and the order of the rows."""

    text: str = ""
    opened: tuple[str, ...] = ()
    sort: str = ""
    """Column of ``SORTS``, after ``-`` with the largest first; empty: what needs attention first."""

    @classmethod
    def read(cls, parameters: MultiMapping[str]) -> Self:
        """Read the parameters of an address, within the limits."""
        ids = (engine[:MAX_ID] for engine in parameters.getall("engine", []))
        sort = parameters.get("sort", "")
        text = parameters.get("q", "")[:MAX_FILTER].strip()
        return cls(
            text, tuple(dict.fromkeys(ids))[-MAX_OPEN:], sort if sort.removeprefix("-") in SORTS else ""
        )

    def filtered(self, text: str) -> PageQuery:
        """Return a query with another filter."""
        return replace(self, text=text)

    def toggled(self, engine: str) -> PageQuery:
        """Return a query with the engine opened, or closed if it is open."""
        others = tuple(other for other in self.opened if other != engine)
        return replace(self, opened=others if engine in self.opened else (*others, engine))

    def sorted_by(self, column: str) -> PageQuery:
        """Return a query with another order: numbers from the largest, then from the smallest, then none."""
        turns = ["", column, f"-{column}"] if column == "engine" else ["", f"-{column}", column]
        after = turns[(turns.index(self.sort) + 1) % len(turns)] if self.sort in turns else turns[1]
        return replace(self, sort=after)

    def in_order(self, engines: Sequence[EngineView]) -> list[EngineView]:
        """Return engines in the order of the rows."""
        if not self.sort:
            return sorted(engines, key=lambda engine: engine.urgency if engine.is_alarming else inf)
        values = [(SORTS[self.sort.removeprefix("-")](engine), engine) for engine in engines]
        known = [pair for pair in values if pair[0] is not None]
        known.sort(key=itemgetter(0), reverse=self.sort.startswith("-"))
        return [engine for _, engine in [*known, *(pair for pair in values if pair[0] is None)]]

    @property
    def href(self) -> str:
        """Relative address: it works behind any prefix."""
        pairs = [("q", self.text)] if self.text else []
        pairs += [("sort", self.sort)] if self.sort else []
        pairs += [("engine", engine) for engine in self.opened]
        return f"./?{urlencode(pairs)}" if pairs else "./"

    def matches(self, terms: Iterable[tuple[str, str]]) -> bool:
        """Return whether every word of the filter matches the pairs of key and value; case is ignored.

        A word ``key=value`` matches a complete value of that key. Any other word matches a part of any value.
        Quotes enclose spaces: ``verdict="too early"``. An open quote extends to the end.
        """
        words = [match.replace('"', "") for match in _WORD.findall(self.text.casefold())]
        known = {(key.casefold(), value.casefold()) for key, value in terms} if words else set()
        return all(_matches(word, known) for word in words)


def _matches(word: str, terms: set[tuple[str, str]]) -> bool:
    key, separator, value = word.partition("=")
    if separator and any(key == each for each, _ in terms):
        return (key, value) in terms
    return any(word in text for _, text in terms)


def terms(engine: EngineView) -> Iterator[tuple[str, str]]:
    """Yield keys and values that a filter finds: labels, and the words of the page and the API."""
    yield from engine.labels.items()
    yield "engine", f"engine {engine.engine}"
    yield "method", engine.method
    yield "state", engine.state
    yield "state", STATES[engine.state].label
    yield "verdict", engine.verdict
    if engine.standing is engine.verdict:
        yield "verdict", VERDICTS[engine.verdict].label
    yield "action", engine.recommendation
    yield "action", engine.advice or ""
    yield from (("dropped", kind) for kind, dropped in engine.drops.dropped.items() if dropped)
    if engine.has_dropped:
        yield "dropped", "dropped now"
