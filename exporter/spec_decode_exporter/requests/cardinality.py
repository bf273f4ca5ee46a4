"""Bounded label values: the ones with most requests keep their name, the others go without.

A value takes a free slot when it is first seen. Once a period, as long as the longest window, slots that
became free go to the greatest of the values without one, and the others are held against those with one: who
brought at least twice as many requests takes the slot
over, and so does anybody from one that brought none. So a slot is not lost to chance, and names that
nobody uses any more do not stay. The values without a slot are themselves counted in bounded room, by the
algorithm of Misra and Gries (*Finding repeated elements*, 1982), which never counts too many.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Final, Generic, TypeVar

Value = TypeVar("Value", bound=Hashable)

TAKES_OVER: Final = 2
"""How many times as many requests it takes to take over a slot that is in use."""
MOST_WAITING: Final = 256
"""Values without a slot that are counted."""


class CardinalityLimiter(Generic[Value]):
    """The values that are told apart."""

    def __init__(self, most: int) -> None:
        """Tell ``most`` values apart."""
        self._most = most
        self._held: dict[Value, int] = {}
        self._waiting: dict[Value, int] = {}
        self._period_began: float | None = None
        self.folded = 0
        """Requests whose value had no slot."""

    def __contains__(self, value: Value) -> bool:
        return value in self._held

    def __iter__(self) -> Iterator[Value]:
        return iter(tuple(self._held))

    def turn(self, now: float, period: float) -> list[Value]:
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

    def admit(self, value: Value) -> bool:
        """Count a request of ``value`` and return whether it goes by its own name."""
        if value in self._held or len(self._held) < self._most:
            self._held[value] = self._held.get(value, 0) + 1
            return True
        self._wait(value)
        self.folded += 1
        return False

    def release(self, value: Value) -> None:
        """Make a value's slot free: it cannot come again."""
        self._held.pop(value, None)

    def forget_waiting(self, is_past: Callable[[Value], bool]) -> None:
        """Let those without a slot go that will not come again, or of which too many were counted."""
        self._waiting = {value: count for value, count in self._waiting.items() if not is_past(value)}

    def _take_over(self) -> list[Value]:
        """Give slots to those who wait, the greatest first: the free ones, then those of the least.

        Return those who lose theirs.
        """
        holders = sorted(self._held, key=self._held.__getitem__)
        waiting = sorted(self._waiting, key=self._waiting.__getitem__, reverse=True)
        free = self._most - len(holders)
        self._held.update(dict.fromkeys(waiting[:free], 0))
        pairs = [
            (holder, value)
            for holder, value in zip(holders, waiting[free:], strict=False)
            if self._waiting[value] >= max(1, TAKES_OVER * self._held[holder])
        ]
        for holder, value in pairs:
            del self._held[holder]
            self._held[value] = 0
        return [holder for holder, _ in pairs]

    def _wait(self, value: Value) -> None:
        if value in self._waiting or len(self._waiting) < MOST_WAITING:
            self._waiting[value] = self._waiting.get(value, 0) + 1
        else:
            self._waiting = {name: count - 1 for name, count in self._waiting.items() if count > 1}
