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

_NARROW = "i"
_WIDE = "q"
_MOST = {_NARROW: 2**31 - 1, _WIDE: 2**62}
"""What totals may be, by the kind of array that holds them.

Totals above the wider one could leave 64 bits with the next increment.
"""

_BLOCK = 16
"""Rows that are held, and forgotten, together."""


class Rows:
    """Rows of integers, all of one width, many of them one after the other in memory: a fleet has a lot.

    As an object each, they would take half as much memory again, and the collector of garbage would look at
    every one of them. What is added to the memory later is not theirs, so they never change.
    """

    __slots__ = ("_begin", "_blocks", "_end", "width")

    def __init__(self, blocks: Sequence[array[int]], width: int, begin: int, end: int) -> None:
        """Take the rows from ``begin`` to ``end`` of those in ``blocks``, all of them full but the last."""
        self._blocks = blocks
        self.width = width
        self._begin = begin
        self._end = end

    @classmethod
    def of(cls, rows: Sequence[Sequence[int]]) -> Rows:
        """Make them of rows of any widths: the columns that one lacks are 0 there."""
        width = max(1, *map(len, rows)) if rows else 1
        return cls(_blocks(rows, width, _WIDE), width, 0, len(rows))

    def __len__(self) -> int:
        return self._end - self._begin

    def __getitem__(self, row: int) -> array[int]:
        block, place = divmod(range(self._begin, self._end)[row], _BLOCK)
        return self._blocks[block][place * self.width : (place + 1) * self.width]

    def __iter__(self) -> Iterator[array[int]]:
        return map(self.__getitem__, range(len(self)))

    def at(self, places: Sequence[int]) -> Rows:
        """Return some of them, by their places."""
        blocks = []
        for first in range(0, len(places), _BLOCK):
            block = array(self._kind)
            for place in places[first : first + _BLOCK]:
                block.extend(self[place])
            blocks.append(block)
        return Rows(blocks, self.width, 0, len(places))

    def column(self, column: int) -> Sequence[int]:
        """Return one column of all rows; one that there is not is 0."""
        if column >= self.width:
            return [0] * len(self)
        values = array(self._kind)
        for block in self._blocks:
            values.extend(block[column :: self.width])
        return values[self._begin : self._end]

    @property
    def _kind(self) -> str:
        return self._blocks[0].typecode if self._blocks else _WIDE


def padded(row: Sequence[int], width: int) -> list[int]:
    """Return the row with columns of 0 up to the width."""
    return [*row, *[0] * (width - len(row))]


def _blocks(rows: Sequence[Sequence[int]], width: int, kind: str) -> list[array[int]]:
    """Return the rows in blocks, the columns that one lacks being 0."""
    return [
        array(kind, chain.from_iterable(padded(row, width) for row in rows[first : first + _BLOCK]))
        for first in range(0, len(rows), _BLOCK)
    ]


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
        self._store([[0]], _NARROW)

    def add(self, begin: float, end: float, increment: Sequence[int], margin: float) -> None:
        """Add an increment from ``begin`` to ``end``; forget those that begin before ``keep + margin``.

        The columns may become more over time; an increment or a row that lacks one has 0 there.
        """
        self._append(self._totals_after(increment))
        self._begins.append(begin)
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
        block, begin = divmod(self._dead + first, _BLOCK)
        blocks = self._blocks[block:]
        end = (len(blocks) - 1) * _BLOCK + len(blocks[-1]) // self._width
        return Rows(blocks, self._width, begin, end)

    def _totals_after(self, increment: Sequence[int]) -> list[int]:
        """Return the totals with the increment, having made room for them.

        Where there is none, totals begin at the oldest row; then they are held in 64 bits; and where even
        these do not hold the sum of what is kept, that is forgotten.
        """
        for make_room in (self._begin_at_the_oldest, self._widen, self.clear):
            totals = [old + new for old, new in zip_longest(self._rows()[-1], increment, fillvalue=0)]
            if self._holds(totals):
                return totals
            make_room()
        self._widen()
        return list(increment)

    def _holds(self, totals: Sequence[int]) -> bool:
        most = _MOST[self._kind]
        return max(totals) <= most and min(totals) >= -most

    def _begin_at_the_oldest(self) -> None:
        rows = self._rows()
        self._store([difference(rows[0], row) for row in rows], self._kind)

    def _widen(self) -> None:
        self._store(list(self._rows()), _WIDE)

    def _store(self, rows: Sequence[Sequence[int]], kind: str) -> None:
        """Hold these rows, in memory of their own: whoever has asked for rows keeps what was there."""
        self._width = max(map(len, rows))
        self._kind = kind
        self._blocks = _blocks(rows, self._width, kind)
        self._dead = 0

    def _append(self, totals: Sequence[int]) -> None:
        if len(totals) > self._width:
            self._store([padded(row, len(totals)) for row in self._rows()], self._kind)
        if len(self._blocks[-1]) == _BLOCK * self._width:
            self._blocks.append(array(self._kind))
        self._blocks[-1].fromlist(padded(totals, self._width))

    def _forget(self, number: int) -> None:
        """Forget so many of the oldest rows, and the blocks in which none is left."""
        del self._begins[:number]
        self._dead += number
        while self._dead >= _BLOCK:
            del self._blocks[0]
            self._dead -= _BLOCK


def difference(before: Sequence[int], after: Sequence[int]) -> list[int]:
    """Subtract two rows of a ring column by column."""
    return list(map(sub, after, before))
