"""Limit the labels that discovery gives: of one target, and of all targets together."""

from __future__ import annotations

import heapq
from dataclasses import replace
from itertools import chain, islice
from typing import TYPE_CHECKING, Final

import structlog

from exporter.config.labels import MOST_LABELS, label_problem, value_problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from exporter.scrape.slices import Pausing
    from exporter.targets.target import Target

Labels = tuple[tuple[str, str], ...]
"""Names and values, sorted by name."""

CHARACTERS_OF_EACH: Final = 512
"""Characters that the labels of every target may have, whatever those of other targets have."""
CHARACTERS_BEYOND: Final = 2**17
"""Characters that all targets together may have beyond that: two targets with the longest labels."""

_MOST_WARNINGS: Final = 100
"""Labels that are warned of: a list may have new ones each time."""
_LONGEST_SHOWN: Final = 200
_SLICE: Final = 64
"""Targets from one pause to the next."""

_TOO_MANY: Final = f"is beyond the {MOST_LABELS} labels that a target may have; remove some"
_TOO_MANY_NAMES: Final = f"is beyond the {MOST_LABELS} label names of all targets together; use fewer names"
_TOO_LONG: Final = (
    f"is beyond the {CHARACTERS_BEYOND:,} characters of all targets together for labels longer than "
    f"{CHARACTERS_OF_EACH} characters a target; shorten the values"
)

_log = structlog.get_logger(__name__)


class LabelFilter:
    """Drop labels that a target cannot have, and log each name once."""

    def __init__(self, discovery: str) -> None:
        """Log as ``discovery``, the name of a way of discovery."""
        self._discovery = discovery
        self._logged: set[str] = set()

    def kept(self, labels: Mapping[str, str]) -> Labels:
        """Return the labels that a target can have; of too many, the first by name."""
        usable = (pair for pair in labels.items() if self._is_usable(*pair))
        # Not sorted(): it would sort a hundred thousand labels without a pause for the event loop.
        first = heapq.nsmallest(MOST_LABELS + 1, usable)
        for name, _ in first[MOST_LABELS:]:
            self.drop(name, _TOO_MANY, once=_TOO_MANY)
        return tuple(first[:MOST_LABELS])

    def value(self, labels: Mapping[str, str], name: str) -> str:
        """Return the value of one label, for another use than as a label; empty if absent or unusable."""
        value = labels.get(name, "")
        problem = value_problem(value)
        if problem is None:
            return value
        self.drop(name, problem)
        return ""

    def drop(self, name: str, reason: str, once: str = "") -> None:
        """Log that a label is dropped: once by its name, or once by ``once``."""
        key = once or name[:_LONGEST_SHOWN]
        if key in self._logged or len(self._logged) >= _MOST_WARNINGS:
            return
        self._logged.add(key)
        _log.warning(
            "discovered_label_dropped", discovery=self._discovery, label=name[:_LONGEST_SHOWN], reason=reason
        )

    def _is_usable(self, name: str, value: str) -> bool:
        problem = label_problem(name) or value_problem(value)
        if problem is not None:
            self.drop(name, problem)
        return problem is None


class FleetLabels:
    """Limit the labels of all targets together, since each series has every name that any target has.

    Configured names and labels always stay. Names that are in use stay before new ones, so that a list
    cannot take the labels of targets that it did not find.
    """

    def __init__(self, static: Iterable[Target], configured: Iterable[str]) -> None:
        """Keep the labels of the ``static`` targets, and the names that are ``configured`` for discovery."""
        self._own = {target.url: target.labels for target in static}
        names = (name for labels in self._own.values() for name, _ in labels)
        self._configured = tuple(dict.fromkeys(chain(names, configured)))
        self._names: tuple[str, ...] = ()
        self._filter = LabelFilter("all")

    def limited(self, targets: Sequence[Target]) -> Pausing[tuple[Target, ...]]:
        """Return the targets with the labels that they keep, and log the first label that is dropped."""
        admitted = frozenset((yield from self._admit(targets)))
        spare = CHARACTERS_BEYOND
        found: list[Target] = []
        for number, target in enumerate(targets):
            own = self._own.get(target.url, ())
            given = self._given(target.labels, own, admitted)
            beyond = max(_size(given) - CHARACTERS_OF_EACH, 0)
            if beyond > spare:
                given = self._short(given)
            else:
                spare -= beyond
            labels = tuple(sorted((*own, *given)))
            found.append(target if labels == target.labels else replace(target, labels=labels))
            if number % _SLICE == _SLICE - 1:
                yield
        return tuple(found)

    def _admit(self, targets: Sequence[Target]) -> Pausing[tuple[str, ...]]:
        """Return the names of labels that targets may have from now on."""
        present: dict[str, None] = {}
        for number, target in enumerate(targets):
            present.update((name, None) for name, _ in target.labels)
            if number % _SLICE == _SLICE - 1:
                yield
        staying = (name for name in self._names if name in present)
        names = dict.fromkeys(chain(self._configured, staying, present))
        self._names = tuple(islice(names, max(MOST_LABELS, len(self._configured))))
        return self._names

    def _given(self, labels: Labels, own: Labels, admitted: frozenset[str]) -> list[tuple[str, str]]:
        """Return the labels that discovery gave to a target besides its own and that it may have by name."""
        room = MOST_LABELS - len(own)
        given: list[tuple[str, str]] = []
        for pair in labels:
            if pair in own:
                continue
            reason = _TOO_MANY_NAMES if pair[0] not in admitted else _TOO_MANY if len(given) >= room else ""
            if reason:
                self._filter.drop(pair[0], reason, once=reason)
            else:
                given.append(pair)
        return given

    def _short(self, labels: list[tuple[str, str]]) -> list[tuple[str, str]]:
        """Return the first labels by name that fit into what every target may have."""
        left = CHARACTERS_OF_EACH
        for number, (name, value) in enumerate(labels):
            left -= len(name) + len(value)
            if left < 0:
                self._filter.drop(name, _TOO_LONG, once=_TOO_LONG)
                return labels[:number]
        return labels


def _size(labels: Iterable[tuple[str, str]]) -> int:
    return sum(len(name) + len(value) for name, value in labels)
