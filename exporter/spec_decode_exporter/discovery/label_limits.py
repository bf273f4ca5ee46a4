"""Limits of discovered labels: of one target, and of all targets."""

from __future__ import annotations

import heapq
from dataclasses import replace
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Final

import structlog

from spec_decode_exporter.config.labels import MAX_LABEL_CHARACTERS, MAX_LABELS, label_problem, value_problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from spec_decode_exporter.core.cooperative_yield import Pausing
    from spec_decode_exporter.discovery.target import Target

Labels = tuple[tuple[str, str], ...]
"""Names and values, sorted by name."""

MAX_NAME_CHARACTERS: Final = 1_024
"""Maximum characters of all label names that are not configured: every series has all of them."""

_MAX_WARNINGS: Final = 100
"""Maximum log lines about dropped labels: a list may have new ones each time."""
_MAX_SHOWN: Final = 200
_SLICE: Final = 64
"""Targets between two cooperative yields."""

_TOO_MANY: Final = f"is beyond the {MAX_LABELS} labels that a target may have; remove some"
_TOO_MANY_NAMES: Final = (
    f"is beyond the {MAX_LABELS} label names of {MAX_NAME_CHARACTERS:,} characters of all targets together; "
    "use fewer or shorter names"
)
_TOO_LONG: Final = (
    f"is beyond the {MAX_LABEL_CHARACTERS:,} characters of all labels of a target; shorten values"
)

_log = structlog.get_logger(__name__)


class LabelFilter:
    """Drop unusable labels and those beyond the limit; log each name once."""

    def __init__(self, discovery: str) -> None:
        """Log with ``discovery``, the name of a discovery."""
        self._discovery = discovery
        self._logged: set[str] = set()

    def kept(self, labels: Mapping[str, str]) -> Labels:
        """Return the usable labels; beyond the limit, the first by name."""
        usable = (pair for pair in labels.items() if self._is_usable(*pair))
        # Not sorted(): it would sort a hundred thousand labels without a cooperative yield.
        first = heapq.nsmallest(MAX_LABELS + 1, usable)
        for name, _ in first[MAX_LABELS:]:
            self.drop(name, _TOO_MANY, once=_TOO_MANY)
        return tuple(self.fitting(first[:MAX_LABELS]))

    def fitting(self, labels: Sequence[tuple[str, str]]) -> Sequence[tuple[str, str]]:
        """Return the labels within the character limit, the shortest first to stay; sorted by name."""
        if sum(map(_size, labels)) <= MAX_LABEL_CHARACTERS:
            return labels
        shortest = sorted(labels, key=lambda pair: (_size(pair), pair))
        room = sum(used <= MAX_LABEL_CHARACTERS for used in accumulate(map(_size, shortest)))
        self.drop(shortest[room][0], _TOO_LONG, once=_TOO_LONG)
        return sorted(shortest[:room])

    def value(self, labels: Mapping[str, str], name: str) -> str:
        """Return the value of a label that is not exported; empty if absent or unusable."""
        value = labels.get(name, "")
        problem = value_problem(value)
        if problem is None:
            return value
        self.drop(name, problem)
        return ""

    def drop(self, name: str, reason: str, once: str = "") -> None:
        """Log a dropped label, once for its name or for the key ``once``."""
        key = once or name[:_MAX_SHOWN]
        if key in self._logged or len(self._logged) >= _MAX_WARNINGS:
            return
        self._logged.add(key)
        _log.warning(
            "discovered_label_dropped", discovery=self._discovery, label=name[:_MAX_SHOWN], reason=reason
        )

    def _is_usable(self, name: str, value: str) -> bool:
        problem = label_problem(name) or value_problem(value)
        if problem is not None:
            self.drop(name, problem)
        return problem is None


class FleetLabels:
    """Limit the labels of all targets: every series has the label names of all targets.

    Configured names and labels always stay. Names in use take precedence over new ones, so that a list cannot
    displace the labels of other lists' targets.
    """

    def __init__(self, static: Iterable[Target], configured: Iterable[str]) -> None:
        """Keep the labels of the ``static`` targets and the names ``configured`` for discoveries."""
        self._own = {target.url: target.labels for target in static}
        names = (name for labels in self._own.values() for name, _ in labels)
        self._configured = tuple(dict.fromkeys(chain(names, configured)))
        self._names: tuple[str, ...] = ()
        self._filter = LabelFilter("all")

    def limited(self, targets: Sequence[Target]) -> Pausing[tuple[Target, ...]]:
        """Return the targets with limited labels; log the first dropped label."""
        # By identity: the targets of a group share one tuple of labels.
        distinct = {id(target.labels): target.labels for target in targets}
        admitted = yield from self._admit(distinct.values())
        shared: dict[tuple[int, Labels], Labels] = {}
        result: list[Target] = []
        for number, target in enumerate(targets):
            own = self._own.get(target.url, ())
            key = id(target.labels), own
            if key not in shared:
                discovered = self._filter.fitting(self._discovered(target.labels, own, admitted))
                shared[key] = tuple(sorted((*own, *discovered)))
            kept = shared[key]
            result.append(target if kept == target.labels else replace(target, labels=kept))
            if number % _SLICE == _SLICE - 1:
                yield
        return tuple(result)

    def _admit(self, labels: Iterable[Labels]) -> Pausing[frozenset[str]]:
        """Update and return the label names that targets may have."""
        known = frozenset((*self._configured, *self._names))
        present: set[str] = set()
        fresh: dict[str, None] = {}
        for number, pairs in enumerate(labels):
            for name, _ in pairs:
                if name in known:
                    present.add(name)
                elif len(fresh) < MAX_LABELS:
                    fresh[name] = None
            if number % _SLICE == _SLICE - 1:
                yield
        staying = (name for name in self._names if name in present)
        self._names = tuple(self._fitting(chain(staying, fresh)))
        return frozenset((*self._configured, *self._names))

    def _fitting(self, names: Iterable[str]) -> Iterator[str]:
        """Yield the first names within the limits that the configured ones leave."""
        room, characters = MAX_LABELS - len(self._configured), MAX_NAME_CHARACTERS
        for name in names:
            characters -= len(name)
            room -= 1
            if room < 0 or characters < 0:
                return
            yield name

    def _discovered(self, labels: Labels, own: Labels, admitted: frozenset[str]) -> list[tuple[str, str]]:
        """Return a target's discovered labels of admitted names, without its own configured ones."""
        room = MAX_LABELS - len(own)
        discovered: list[tuple[str, str]] = []
        for pair in labels:
            if pair in own:
                continue
            reason = (
                _TOO_MANY_NAMES if pair[0] not in admitted else _TOO_MANY if len(discovered) >= room else ""
            )
            if reason:
                self._filter.drop(pair[0], reason, once=reason)
            else:
                discovered.append(pair)
        return discovered


def _size(label: tuple[str, str]) -> int:
    name, value = label
    return len(name) + len(value)
