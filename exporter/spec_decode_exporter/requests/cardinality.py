"""Bounded cardinality of a label: the values with the most requests keep their names.

A new value takes a free slot. At the end of a period, as long as the longest window, the free slots go to the
most frequent of the other values. Then these are compared with the holders of slots: one with at least
``TAKEOVER_FACTOR`` times the requests takes over the slot, as does any value if the holder had no requests.
So chance does not move a slot, and unused names do not remain. Values without a slot are counted in bounded
memory by the algorithm of Misra and Gries (*Finding repeated elements*, 1982), which never overcounts.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Final, Generic, TypeVar

Value = TypeVar("Value", bound=Hashable)

TAKEOVER_FACTOR: Final = 2
"""Requests of a value that takes over a slot, relative to those of its holder."""
MAX_WAITING: Final = 256
"""Values without a slot that are counted."""


class CardinalityLimiter(Generic[Value]):
    """Slots for a bounded number of values."""

    def __init__(self, slots: int) -> None:
        """Distinguish at most ``slots`` values."""
        self._slots = slots
        self._holders: dict[Value, int] = {}
        self._waiting: dict[Value, int] = {}
        self._period_began: float | None = None
        self.folded = 0
        """Requests whose value had no slot."""

    def __contains__(self, value: Value) -> bool:
        return value in self._holders

    def __iter__(self) -> Iterator[Value]:
        return iter(tuple(self._holders))

    def end_period(self, now: float, period: float) -> list[Value]:
        """Return the values that lose their slots if a period ends ``now``; else none."""
        if self._period_began is None:
            self._period_began = now
        if now - self._period_began < period:
            return []
        self._period_began = now
        lost = self._take_over()
        self._holders = dict.fromkeys(self._holders, 0)
        self._waiting = {}
        return lost

    def admit(self, value: Value) -> bool:
        """Count a request of ``value``; return whether the value has a slot."""
        if value in self._holders or len(self._holders) < self._slots:
            self._holders[value] = self._holders.get(value, 0) + 1
            return True
        self._wait(value)
        self.folded += 1
        return False

    def release(self, value: Value) -> None:
        """Free the slot of a value that cannot come again."""
        self._holders.pop(value, None)

    def forget_waiting(self, is_past: Callable[[Value], bool]) -> None:
        """Forget values without a slot that cannot come again, or whose count is wrong now."""
        self._waiting = {value: count for value, count in self._waiting.items() if not is_past(value)}

    def _take_over(self) -> list[Value]:
        """Give the free slots, then those of the smallest holders, to the most frequent waiting values.

        Return the holders that lose their slots.
        """
        holders = sorted(self._holders, key=self._holders.__getitem__)
        waiting = sorted(self._waiting, key=self._waiting.__getitem__, reverse=True)
        free = self._slots - len(holders)
        self._holders.update(dict.fromkeys(waiting[:free], 0))
        pairs = [
            (holder, value)
            for holder, value in zip(holders, waiting[free:], strict=False)
            if self._waiting[value] >= max(1, TAKEOVER_FACTOR * self._holders[holder])
        ]
        for holder, value in pairs:
            del self._holders[holder]
            self._holders[value] = 0
        return [holder for holder, _ in pairs]

    def _wait(self, value: Value) -> None:
        if value in self._waiting or len(self._waiting) < MAX_WAITING:
            self._waiting[value] = self._waiting.get(value, 0) + 1
        else:
            self._waiting = {name: count - 1 for name, count in self._waiting.items() if count > 1}
