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


class Rows:
    """Rows of integers, all of one width, one after the other in memory: a fleet has many of them.

    As an object each, they would take half as much memory again, and the collector of garbage would look at
    every one of them.
    """

    __slots__ = ("_flat", "width")

    def __init__(self, flat: array[int], width: int) -> None:
        self._flat = flat
        self.width = width

    @classmethod
    def of(cls, rows: Sequence[Sequence[int]]) -> Rows:
        """Make them of rows of any widths: the columns that one lacks are 0 there."""
        width = max(1, *map(len, rows)) if rows else 1
        return cls(array("q", chain.from_iterable(padded(row, width) for row in rows)), width)

    def __len__(self) -> int:
        return len(self._flat) // self.width

    def __getitem__(self, row: int) -> array[int]:
        begin = range(len(self))[row] * self.width
        return self._flat[begin : begin + self.width]

    def __iter__(self) -> Iterator[array[int]]:
        return map(self.__getitem__, range(len(self)))

    def column(self, column: int) -> Sequence[int]:
        """Return one column of all rows; one that there is not is 0."""
        return self._flat[column :: self.width] if column < self.width else [0] * len(self)

    def append(self, row: Sequence[int]) -> None:
        """Add a row, no wider than those that are there."""
        self._flat.fromlist(padded(row, self.width))

    def drop(self, number: int) -> None:
        """Remove so many rows from the beginning."""
        del self._flat[: number * self.width]

    def since(self, row: int) -> Rows:
        """Return a copy of the rows from this one on."""
        return Rows(self._flat[row * self.width :], self.width)


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
        self._rows = Rows.of([[0]])

    def add(self, begin: float, end: float, increment: Sequence[int], margin: float) -> None:
        """Add an increment from ``begin`` to ``end``; forget those that begin before ``keep + margin``.

        The columns may become more over time; an increment or a row that lacks one has 0 there.
        """
        totals = self._totals_after(increment)
        if max(totals) > _MOST:
            self._rows = self._from_the_oldest()
            totals = self._totals_after(increment)
        if max(totals) > _MOST:
            self.clear()
            totals = list(increment)
        if len(totals) > self._rows.width:
            self._rows = Rows.of([padded(row, len(totals)) for row in self._rows])
        self._begins.append(begin)
        self._rows.append(totals)
        gone = bisect_left(self._begins, end - self.keep - margin)
        del self._begins[:gone]
        self._rows.drop(gone)

    def since(self, edge: float) -> Rows:
        """Return the totals before the first increment that begins at ``edge`` or later, and all after it.

        One row alone means that there is no such increment.
        """
        return self._rows.since(bisect_left(self._begins, edge))

    def begins(self, edge: float) -> Sequence[float]:
        """Return when each increment begins that begins at ``edge`` or later."""
        return self._begins[bisect_left(self._begins, edge) :]

    def _totals_after(self, increment: Sequence[int]) -> list[int]:
        return [old + new for old, new in zip_longest(self._rows[-1], increment, fillvalue=0)]

    def _from_the_oldest(self) -> Rows:
        """Return the rows less the oldest of them: their differences stay what they are."""
        oldest = self._rows[0]
        return Rows.of([difference(oldest, row) for row in self._rows])


def difference(before: Sequence[int], after: Sequence[int]) -> list[int]:
    """Subtract two rows of a ring column by column."""
    return list(map(sub, after, before))
