"""Bounded label values: the ones with most requests keep their name, the others are ``other``.

A value takes a free slot when it is first seen. Once a period, as long as the longest window, the values
without a slot are held against those with one: who brought at least twice as many requests takes the slot
over, and so does anybody from one that brought none. So a slot is not lost to chance, and names that
nobody uses any more do not stay. The values without a slot are themselves counted in bounded room, by the
algorithm of Misra and Gries (*Finding repeated elements*, 1982), which never counts too many.
"""

from __future__ import annotations

from exporter.requests.findings import OTHER, UNKNOWN

TAKES_OVER = 2
"""How many times as many requests it takes to take over a slot that is in use."""
_MOST_WAITING = 256
_FREE_OF_CHARGE = frozenset({OTHER, UNKNOWN})


class Slots:
    """The values of one label."""

    def __init__(self, most: int) -> None:
        """Tell ``most`` values apart."""
        self._most = most
        self._held: dict[str, int] = {}
        self._waiting: dict[str, int] = {}
        self._period_began: float | None = None
        self.folded = 0
        """Requests that were counted as ``other``."""

    def __contains__(self, value: str) -> bool:
        return value in self._held or value in _FREE_OF_CHARGE

    def turn(self, now: float, period: float) -> list[str]:
        """Return the values that lose their slot now, which is none but at the end of a period."""
        if self._period_began is None:
            self._period_began = now
        if now - self._period_began < period:
            return []
        self._period_began = now
        lost = self._take_over()
        self._held = dict.fromkeys(self._held, 0)
        self._waiting = {}
        return lost

    def label(self, value: str) -> str:
        """Count a request of ``value`` and return the label that it goes by; no value is ``unknown``."""
        if not value or value in _FREE_OF_CHARGE:
            return value or UNKNOWN
        if value in self._held or len(self._held) < self._most:
            self._held[value] = self._held.get(value, 0) + 1
            return value
        self._wait(value)
        self.folded += 1
        return OTHER

    def _take_over(self) -> list[str]:
        """Give slots to those who wait and brought enough, the greatest first, from the least."""
        holders = sorted(self._held, key=self._held.__getitem__)
        waiting = sorted(self._waiting, key=self._waiting.__getitem__, reverse=True)
        lost = [
            holder
            for holder, value in zip(holders, waiting, strict=False)
            if self._waiting[value] >= max(1, TAKES_OVER * self._held[holder])
        ]
        for holder, value in zip(lost, waiting, strict=False):
            del self._held[holder]
            self._held[value] = 0
        return lost

    def _wait(self, value: str) -> None:
        if value in self._waiting or len(self._waiting) < _MOST_WAITING:
            self._waiting[value] = self._waiting.get(value, 0) + 1
        else:
            self._waiting = {name: count - 1 for name, count in self._waiting.items() if count > 1}
