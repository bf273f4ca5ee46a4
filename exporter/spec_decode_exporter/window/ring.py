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
_MAX_TOTAL = {_NARROW: 2**31 - 1, _WIDE: 2**62}
"""Largest total by array type. A larger total in the wide type could overflow with the next increment."""

_BLOCK = 16
"""Rows that are held, and forgotten, together."""

Block = Sequence[int]
"""Rows one after the other: an array, or a list if a number has more than 64 bits."""


class Rows:
    """Rows of integers, all of one width, many of them one after the other in memory: a fleet has a lot.

    As an object each, they would take half as much memory again, and the collector of garbage would look at
    every one of them. What is added to the memory later is not theirs, so they never change.
    """

    __slots__ = ("_begin", "_blocks", "_end", "width")

    def __init__(self, blocks: Sequence[Block], width: int, begin: int, end: int) -> None:
        """Take the rows from ``begin`` to ``end`` of those in ``blocks``, all of them full but the last."""
        self._blocks = blocks
        self.width = width
        self._begin = begin
        self._end = end

    @classmethod
    def of(cls, rows: Sequence[Sequence[int]]) -> Rows:
        """Make them of rows of any widths and of integers of any size: missing columns are 0."""
        width = max(1, *map(len, rows)) if rows else 1
        return cls(_blocks(rows, width, _WIDE), width, 0, len(rows))

    def __len__(self) -> int:
        return self._end - self._begin

    def __getitem__(self, row: int) -> Block:
        block, place = divmod(range(self._begin, self._end)[row], _BLOCK)
        return self._blocks[block][place * self.width : (place + 1) * self.width]

    def __iter__(self) -> Iterator[Block]:
        return map(self.__getitem__, range(len(self)))

    def at(self, places: Sequence[int]) -> Rows:
        """Return some of them, by their places."""
        blocks = [
            _joined([self[place] for place in places[first : first + _BLOCK]], self._kind)
            for first in range(0, len(places), _BLOCK)
        ]
        return Rows(blocks, self.width, 0, len(places))

    def column(self, column: int) -> Sequence[int]:
        """Return one column of all rows; one that there is not is 0."""
        if column >= self.width:
            return [0] * len(self)
        values = _joined([block[column :: self.width] for block in self._blocks], self._kind)
        return values[self._begin : self._end]

    @property
    def _kind(self) -> str:
        first = self._blocks[0] if self._blocks else None
        return first.typecode if isinstance(first, array) else _WIDE


def padded(row: Sequence[int], width: int) -> list[int]:
    """Return the row with columns of 0 up to the width."""
    return [*row, *[0] * (width - len(row))]


def _blocks(rows: Sequence[Sequence[int]], width: int, kind: str) -> list[Block]:
    """Return the rows in blocks, the columns that one lacks being 0."""
    return [
        _joined([padded(row, width) for row in rows[first : first + _BLOCK]], kind)
        for first in range(0, len(rows), _BLOCK)
    ]


def _joined(parts: Sequence[Block], kind: str) -> Block:
    """Return the parts as one array, or as a list if a number does not fit into the array."""
    values = array(kind)
    try:
        for part in parts:
            values.extend(part)
    except OverflowError:
        return list(chain.from_iterable(parts))
    return values


class _Totals:
    """Running totals of one group of columns: a row before the first increment, and one after each."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget every increment."""
        self._store([[0]], _NARROW)

    def rows(self, first: int = 0) -> Rows:
        """Return the rows from ``first`` on."""
        block, begin = divmod(self._dead + first, _BLOCK)
        blocks = self._blocks[block:]
        end = (len(blocks) - 1) * _BLOCK + len(blocks[-1]) // self._width
        return Rows(blocks, self._width, begin, end)

    def after(self, increment: Sequence[int]) -> list[int] | None:
        """Return the totals after an increment, after rebasing or widening; None if 64 bits are too few."""
        rows = self.rows()
        totals = _sum(rows[-1], increment)
        if _holds(self._kind, totals):
            return totals
        rebased = [difference(rows[0], row) for row in rows]
        totals = _sum(rebased[-1], increment)
        for kind in (self._kind, _WIDE):
            if all(_holds(kind, row) for row in (*rebased, totals)):
                self._store(rebased, kind)
                return totals
        return None

    def append(self, totals: Sequence[int]) -> None:
        """Add the row that ``after`` returned."""
        if len(totals) > self._width:
            self._store([padded(row, len(totals)) for row in self.rows()], self._kind)
        if len(self._blocks[-1]) == _BLOCK * self._width:
            self._blocks.append(array(self._kind))
        self._blocks[-1].fromlist(padded(totals, self._width))

    def forget(self, number: int) -> None:
        """Forget the oldest rows, and the blocks in which none is left."""
        self._dead += number
        while self._dead >= _BLOCK:
            del self._blocks[0]
            self._dead -= _BLOCK

    def _store(self, rows: Sequence[Sequence[int]], kind: str) -> None:
        """Hold these rows, which fit, in memory of their own: rows that were given away stay as they are."""
        self._width = max(map(len, rows))
        self._kind = kind
        self._blocks = [
            array(kind, chain.from_iterable(padded(row, self._width) for row in rows[first : first + _BLOCK]))
            for first in range(0, len(rows), _BLOCK)
        ]
        self._dead = 0


class Ring:
    """Groups of columns of running totals, as far back as they are needed.

    Each group has arrays as wide as its own numbers. All groups have the same increments: whatever forgets
    some of them forgets the same ones in every group.
    """

    def __init__(self, keep: float, groups: int = 1) -> None:
        """Keep the increments that begin within the last ``keep`` seconds."""
        self.keep = keep
        self._begins = array("d")
        self._totals = tuple(_Totals() for _ in range(groups))

    def __len__(self) -> int:
        return len(self._begins)

    def clear(self) -> None:
        """Forget every increment."""
        self._begins = array("d")
        for totals in self._totals:
            totals.clear()

    def add(self, begin: float, end: float, increment: Sequence[Sequence[int]], margin: float) -> None:
        """Add an increment from ``begin`` to ``end``; forget those that begin before ``keep + margin``.

        Args:
            begin: When it begins (monotonic, seconds).
            end: When it ends.
            increment: One row for each group. Columns may be added over time; a missing column is 0.
            margin: Seconds by which more is kept than ``keep``.

        If 64 bits cannot hold the sums of any group, all groups forget the earlier increments. An increment
        that alone exceeds 2^62 is not added.
        """
        rows = self._after(increment)
        if rows is None:
            self.clear()
            rows = self._after(increment)
        if rows is None:
            return
        for totals, row in zip(self._totals, rows, strict=True):
            totals.append(row)
        self._begins.append(begin)
        self._forget(bisect_left(self._begins, end - self.keep - margin))

    def since(self, edge: float) -> tuple[Rows, ...]:
        """Return each group's totals before the first increment at ``edge`` or later, and all after it.

        One row alone means that there is no such increment.
        """
        first = bisect_left(self._begins, edge)
        return tuple(totals.rows(first) for totals in self._totals)

    def begins(self, edge: float) -> Sequence[float]:
        """Return when each increment begins that begins at ``edge`` or later."""
        return self._begins[bisect_left(self._begins, edge) :]

    def _after(self, increment: Sequence[Sequence[int]]) -> list[list[int]] | None:
        """Return every group's totals after an increment; None if any group has no room for it."""
        found = [totals.after(row) for totals, row in zip(self._totals, increment, strict=True)]
        fitting = [row for row in found if row is not None]
        return fitting if len(fitting) == len(found) else None

    def _forget(self, number: int) -> None:
        del self._begins[:number]
        for totals in self._totals:
            totals.forget(number)


def _sum(totals: Sequence[int], increment: Sequence[int]) -> list[int]:
    return [old + new for old, new in zip_longest(totals, increment, fillvalue=0)]


def _holds(kind: str, totals: Sequence[int]) -> bool:
    most = _MAX_TOTAL[kind]
    return max(totals) <= most and min(totals) >= -most


def difference(before: Sequence[int], after: Sequence[int]) -> list[int]:
    """Subtract two rows of a ring column by column."""
    return list(map(sub, after, before))
