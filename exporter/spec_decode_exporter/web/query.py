"""Address of the page: filter, order and open engines, its only state; and what to filter and to sort by."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, Self
from urllib.parse import urlencode

from multidict import MultiMapping

from spec_decode_exporter.analysis.verdict import State, Verdict
from spec_decode_exporter.views import verdict_text
from spec_decode_exporter.views.engine_view import EngineView, WindowView

MAX_OPEN: Final = 8
"""Maximum number of open engines: each is rendered each second."""
MAX_FILTER: Final = 200
"""Maximum characters of a filter."""
MAX_ID: Final = 64
"""Maximum characters of an id in every link; ids have 12."""
_WORD: Final = re.compile(r'(?:[^\s"]|"[^"]*(?:"|$))+')


class Word(NamedTuple):
    """Word on the page, and its meaning."""

    text: str
    meaning: str


_BASIS: Final = "and the lower bound of the speed-up, which allows for an uncertain cost, is above 1."
_DRAFTS: Final = "It drafts, or will as soon as it finds something to propose."

VERDICTS: Final[Mapping[Verdict, Word]] = {
    Verdict.OPTIMAL: Word("Optimal", f"Speculation pays: the best guess is 2 or more, {_BASIS}"),
    Verdict.HEALTHY: Word("Healthy", f"Speculation pays: the best guess is 1.3 to 2, {_BASIS}"),
    Verdict.MARGINAL: Word("Marginal", f"Speculation pays a little: the best guess is below 1.3, {_BASIS}"),
    Verdict.POOR: Word("Poor", "It hardly pays, if at all, by the bounds of the speed-up."),
    Verdict.HARMFUL: Word(
        "Harmful", "Decoding is slower than without speculation, at every possible cost of drafting."
    ),
    Verdict.UNCLEAR: Word(
        "Unclear", "Whether it pays depends on a cost of drafting that is not known well enough."
    ),
    Verdict.INSUFFICIENT: Word("Too early", "Too few drafts, or too uneven ones, for a verdict."),
}
STATES: Final[Mapping[State, Word]] = {
    state: Word(text, verdict_text.STATES.get(state, _DRAFTS))
    for state, text in (
        (State.ACTIVE, "Active"),
        (State.IDLE, "Idle"),
        (State.STALLED, "Stalled"),
        (State.DISABLED, "Off"),
        (State.UNKNOWN, "Not known yet"),
        (State.UNREACHABLE, "Unreachable"),
    )
}


_Value = tuple[str | float, ...]
"""A value to sort by; empty if it is unknown."""


def _known(value: str | float | None) -> _Value:
    return () if value is None else (value,)


def _of_longest(read: Callable[[WindowView], float | None]) -> Callable[[EngineView], _Value]:
    return lambda engine: () if engine.longest is None else _known(read(engine.longest))


SORTS: Final[Mapping[str, Callable[[EngineView], _Value]]] = {
    "engine": lambda engine: (engine.name.casefold(),),
    "speedup": lambda engine: _known(
        engine.evaluated.estimated_speedup_ratio.value if engine.evaluated else None
    ),
    "acceptance": _of_longest(lambda window: window.draft_acceptance_ratio.value),
    "length": _of_longest(lambda window: window.acceptance_length_tokens.value),
    "k": lambda engine: _known(engine.configured_tokens),
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
            return sorted(engines, key=lambda engine: not engine.is_alarming)
        value = SORTS[self.sort.removeprefix("-")]
        known = sorted(filter(value, engines), key=value, reverse=self.sort.startswith("-"))
        return [*known, *(engine for engine in engines if not value(engine))]

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
    yield "state", STATES[engine.state].text
    yield "verdict", engine.verdict
    if engine.standing is engine.verdict:
        yield "verdict", VERDICTS[engine.verdict].text
    yield "action", engine.recommendation
    yield "action", engine.advice or ""
    yield from (("dropped", kind) for kind, dropped in engine.drops.dropped.items() if dropped)
    if engine.has_dropped:
        yield "dropped", "dropped now"
