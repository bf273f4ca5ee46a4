"""Mix of request types of one engine, now and in the hours before, from per-request data.

It is not persisted: after a restart of the exporter it is unknown for an hour and ten minutes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from math import exp
from typing import Final

from spec_decode_exporter.drops.mix import TypeSums, decompose

TypeTotals = Callable[[], Mapping[str, TypeSums]]
"""Return the sums of the requests by type since the exporter's start."""
Mix = Mapping[str, TypeSums]

MIN_COVERAGE: Final = 0.5
"""Share of the engine's drafts that the requests must have: other requests may have changed too."""
_NONE: Final = TypeSums(0.0, 0.0)


def no_types() -> Mix:
    """Return the sums of an engine without per-request data."""
    return {}


class TrafficMix:
    """Requests by type: those of the newest interval, and exponentially weighted sums of earlier ones."""

    def __init__(self, totals: TypeTotals, *, lag: int, memory: float) -> None:
        """Read ``totals`` once an interval.

        Args:
            totals: Sums by type, which never decrease.
            lag: Newest intervals that are not in the baseline.
            memory: Memory of the baseline in intervals.
        """
        self._totals = totals
        self._last: Mix | None = None
        self._held: deque[Mix] = deque()
        self._lag = lag
        self._kept = exp(-1 / memory)
        self._baseline: Mix = {}

    def traffic_part(self, drafts: float, *, learn: bool) -> float:
        """Return the change of the length by the mix alone since the baseline, in tokens, after an interval.

        0 if unknown. ``drafts`` are the engine's in the interval; with ``learn`` the baseline moves on.
        """
        totals = dict(self._totals())
        last, self._last = self._last, totals
        if last is None or not totals:
            return 0.0
        now = {name: _less(sums, last.get(name, _NONE)) for name, sums in totals.items()}
        if learn:
            self._learn(now)
        if sum(sums.drafts for sums in now.values()) < MIN_COVERAGE * drafts:
            return 0.0
        change = decompose(self._baseline, now)
        return change.traffic if change else 0.0

    def start_again(self) -> None:
        """Discard the baseline."""
        self._held.clear()
        self._baseline = {}

    def _learn(self, now: Mix) -> None:
        self._held.append(now)
        if len(self._held) <= self._lag:
            return
        added, kept = self._held.popleft(), self._kept
        self._baseline = {
            name: TypeSums(
                kept * before.drafts + more.drafts,
                kept * before.accepted + more.accepted,
            )
            for name in self._baseline.keys() | added.keys()
            for before, more in [(self._baseline.get(name, _NONE), added.get(name, _NONE))]
        }


def _less(now: TypeSums, before: TypeSums) -> TypeSums:
    return TypeSums(max(0.0, now.drafts - before.drafts), max(0.0, now.accepted - before.accepted))
