"""Sums over the last seconds and minutes, exact and cheap.

A ring keeps running totals, one row for each increment. The sum over any stretch that reaches to
the newest increment is the difference of two rows, so it costs the same for 30 seconds as for an
hour, and nothing is ever added up twice or rounded.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import chain, zip_longest
from operator import sub

_MOST = 2**62
"""Totals above this could leave 64 bits with the next increment; they then begin at the oldest row."""


_DEAD_SHARE = 4
"""One part in so many of a ring's memory may be rows that are forgotten."""


class Rows:
    """Rows of integers, all of one width, one after the other in memory: a fleet has many of them.

    As an object each, they would take half as much memory again, and the collector of garbage would look at
    every one of them. What is added to the memory later is not theirs, so they never change.
    """

    __slots__ = ("_begin", "_end", "_flat", "width")

    def __init__(self, flat: array[int], width: int, begin: int, end: int) -> None:
        """Take the rows from ``begin`` up to ``end`` of those in ``flat``."""
        self._flat = flat
        self.width = width
        self._begin = begin
        self._end = end

    @classmethod
    def of(cls, rows: Sequence[Sequence[int]]) -> Rows:
        """Make them of rows of any widths: the columns that one lacks are 0 there."""
        width = max(1, *map(len, rows)) if rows else 1
        flat = array("q", chain.from_iterable(padded(row, width) for row in rows))
        return cls(flat, width, 0, len(rows))

    def __len__(self) -> int:
        return self._end - self._begin

    def __getitem__(self, row: int) -> array[int]:
        begin = range(self._begin, self._end)[row] * self.width
        return self._flat[begin : begin + self.width]

    def __iter__(self) -> Iterator[array[int]]:
        return map(self.__getitem__, range(len(self)))

    def at(self, places: Sequence[int]) -> Rows:
        """Return some of them, by their places."""
        flat = array("q")
        for place in places:
            flat.extend(self[place])
        return Rows(flat, self.width, 0, len(places))

    def column(self, column: int) -> Sequence[int]:
        """Return one column of all rows; one that there is not is 0."""
        if column >= self.width:
            return [0] * len(self)
        return self._flat[self._begin * self.width + column : self._end * self.width : self.width]


def padded(row: Sequence[int], width: int) -> list[int]:
    """Return the row with columns of 0 up to the width."""
    return [*row, *[0] * (width - len(row))]


class Ring:
    """Rows of totals, as far back as they are needed."""

    def __init__(self, keep: float) -> None:
        """Keep the increments that begin within the last ``keep`` seconds."""
        self.keep = keep
        self.clear()

    def __len__(self) -> int:
        return len(self._begins)

    def clear(self) -> None:
        """Forget every increment."""
        self._begins = array("d")
        # One row more than there are increments: the totals before the first one.
        self._store([[0]])

    def add(self, begin: float, end: float, increment: Sequence[int], margin: float) -> None:
        """Add an increment from ``begin`` to ``end``; forget those that begin before ``keep + margin``.

        The columns may become more over time; an increment or a row that lacks one has 0 there.
        """
        totals = self._totals_after(increment)
        if max(totals) > _MOST:
            oldest = self._rows()[0]
            self._store([difference(oldest, row) for row in self._rows()])
            totals = self._totals_after(increment)
        if max(totals) > _MOST:
            self.clear()
            totals = list(increment)
        if len(totals) > self._width:
            self._store([padded(row, len(totals)) for row in self._rows()])
        self._begins.append(begin)
        self._flat.fromlist(padded(totals, self._width))
        self._forget(bisect_left(self._begins, end - self.keep - margin))

    def since(self, edge: float) -> Rows:
        """Return the totals before the first increment that begins at ``edge`` or later, and all after it.

        One row alone means that there is no such increment.
        """
        return self._rows(bisect_left(self._begins, edge))

    def begins(self, edge: float) -> Sequence[float]:
        """Return when each increment begins that begins at ``edge`` or later."""
        return self._begins[bisect_left(self._begins, edge) :]

    def _rows(self, first: int = 0) -> Rows:
        return Rows(self._flat, self._width, self._dead + first, len(self._flat) // self._width)

    def _totals_after(self, increment: Sequence[int]) -> list[int]:
        return [old + new for old, new in zip_longest(self._rows()[-1], increment, fillvalue=0)]

    def _store(self, rows: Sequence[Sequence[int]]) -> None:
        """Hold these rows, in memory of their own: whoever has asked for rows keeps what was there."""
        self._width = max(map(len, rows))
        self._flat = array("q", chain.from_iterable(rows))
        self._dead = 0

    def _forget(self, number: int) -> None:
        """Forget so many of the oldest rows, and move the others when enough of the memory is dead."""
        del self._begins[:number]
        self._dead += number
        if self._dead * _DEAD_SHARE > len(self._begins):
            self._flat = self._flat[self._dead * self._width :]
            self._dead = 0


def difference(before: Sequence[int], after: Sequence[int]) -> list[int]:
    """Subtract two rows of a ring column by column."""
    return list(map(sub, after, before))
