"""Sums over the last seconds and minutes, exact and cheap.

A ring keeps running totals, one row for each increment. The sum over any stretch that reaches to
the newest increment is the difference of two rows, so it costs the same for 30 seconds as for an
hour, and nothing is ever added up twice or rounded.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from itertools import zip_longest

_MOST = 2**62
"""Totals above this could leave 64 bits with the next increment; they then begin at the oldest row."""


class Ring:
    """Rows of totals, as far back as they are needed."""

    def __init__(self, keep: float) -> None:
        """Keep the increments that begin within the last ``keep`` seconds."""
        self.keep = keep
        self._totals: list[int] = []
        self._begins = array("d")
        # One row more than there are increments: the totals before the first one.
        self._rows: list[array[int]] = [array("q")]

    def __len__(self) -> int:
        return len(self._begins)

    def clear(self) -> None:
        """Forget every increment."""
        self._totals = []
        self._begins = array("d")
        self._rows = [array("q")]

    def add(self, begin: float, end: float, increment: Sequence[int], margin: float) -> None:
        """Add an increment from ``begin`` to ``end``; forget those that begin before ``keep + margin``.

        The columns may become more over time; an increment or a row that lacks one has 0 there.
        """
        totals = [old + new for old, new in zip_longest(self._totals, increment, fillvalue=0)]
        if max(totals, default=0) > _MOST:
            totals = self._begin_at_the_oldest(totals)
        if max(totals, default=0) > _MOST:
            self.clear()
            totals = list(increment)
        self._totals = totals
        self._begins.append(begin)
        self._rows.append(array("q", totals))
        gone = bisect_left(self._begins, end - self.keep - margin)
        del self._begins[:gone]
        del self._rows[:gone]

    def _begin_at_the_oldest(self, totals: Sequence[int]) -> list[int]:
        """Take the oldest row off all rows and off ``totals``: their differences stay what they are."""
        oldest = self._rows[0]
        self._rows = [array("q", difference(oldest, row)) for row in self._rows]
        return difference(oldest, totals)

    def since(self, edge: float) -> Sequence[array[int]]:
        """Return the totals before the first increment that begins at ``edge`` or later, and all after it.

        One row alone means that there is no such increment.
        """
        return self._rows[bisect_left(self._begins, edge) :]

    def begins(self, edge: float) -> Sequence[float]:
        """Return when each increment begins that begins at ``edge`` or later."""
        return self._begins[bisect_left(self._begins, edge) :]


def difference(before: Sequence[int], after: Sequence[int]) -> list[int]:
    """Subtract two rows column by column; a column that ``before`` lacks counts as 0 there."""
    short = len(before)
    return [total - before[column] if column < short else total for column, total in enumerate(after)]
