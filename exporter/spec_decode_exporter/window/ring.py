"""Ring of running totals: exact sums over windows at constant cost.

The ring has one row of totals for each increment. The sum over a window up to the newest increment is the
difference of two rows: it costs the same for 30 seconds as for an hour, and is never rounded.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import chain, zip_longest
from operator import add, sub

_NARROW = "i"
_WIDE = "q"
_MAX_TOTAL = {_NARROW: 2**31 - 1, _WIDE: 2**62}
"""Maximum total by array type. A larger one in the wide type could overflow with the next increment."""

_BLOCK = 16
"""Rows of a block, the unit of storage and removal."""

Block = Sequence[int]
"""Concatenated rows: an array, or a list if a number exceeds 64 bits."""


class Rows:
    """Immutable rows of integers of one width, contiguous in memory.

    One object for each row would take 50 % more memory and load the garbage collector. Rows appended to the
    shared memory later are outside this view.
    """

    __slots__ = ("_begin", "_block", "_blocks", "_end", "width")

    def __init__(
        self, blocks: Sequence[Block], width: int, begin: int, end: int, block: int = _BLOCK
    ) -> None:
        """View the rows from ``begin`` to ``end`` in blocks; all but the last one have ``block`` rows."""
        self._blocks = blocks
        self.width = width
        self._begin = begin
        self._end = end
        self._block = block

    @classmethod
    def of(cls, rows: Sequence[Sequence[int]]) -> Rows:
        """Copy rows of any width with integers of any size; missing columns are 0."""
        width = max(1, *map(len, rows)) if rows else 1
        return cls(_blocks(rows, width, _WIDE), width, 0, len(rows))

    def __len__(self) -> int:
        return self._end - self._begin

    def __getitem__(self, row: int) -> Block:
        block, place = divmod(range(self._begin, self._end)[row], self._block)
        return self._blocks[block][place * self.width : (place + 1) * self.width]

    def __iter__(self) -> Iterator[Block]:
        return map(self.__getitem__, range(len(self)))

    def at(self, places: Sequence[int]) -> Rows:
        """Return the rows at the given places."""
        width, found = self.width, [divmod(self._begin + place, self._block) for place in places]
        rows = [self._blocks[block][row * width : (row + 1) * width] for block, row in found]
        return Rows([_joined(rows, self._kind)], width, 0, len(places), max(1, len(places)))

    def column(self, column: int) -> Sequence[int]:
        """Return one column of all rows; a missing column is 0."""
        if column >= self.width:
            return [0] * len(self)
        parts = [block[column :: self.width] for block in self._blocks]
        values = parts[0] if len(parts) == 1 else _joined(parts, self._kind)
        return values[self._begin : self._end]

    @property
    def _kind(self) -> str:
        first = self._blocks[0] if self._blocks else None
        return first.typecode if isinstance(first, array) else _WIDE


def padded(row: Sequence[int], width: int) -> list[int]:
    """Return the row, extended with zeros to the width."""
    return [*row, *[0] * (width - len(row))]


def _blocks(rows: Sequence[Sequence[int]], width: int, kind: str) -> list[Block]:
    """Return the rows in blocks; missing columns are 0."""
    return [
        _joined([padded(row, width) for row in rows[first : first + _BLOCK]], kind)
        for first in range(0, len(rows), _BLOCK)
    ]


def _joined(parts: Sequence[Block], kind: str) -> Block:
    """Concatenate parts into an array, or into a list if a number does not fit."""
    values = array(kind)
    try:
        for part in parts:
            values.extend(part)
    except OverflowError:
        return list(chain.from_iterable(parts))
    return values


class _Totals:
    """Running totals of one group of columns: one row before the first increment, and one after each."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Remove all increments."""
        self._store([[0]], _NARROW)

    def rows(self, first: int = 0) -> Rows:
        """Return the rows from ``first`` on."""
        block, begin = divmod(self._removed + first, _BLOCK)
        blocks = self._blocks[block:]
        end = (len(blocks) - 1) * _BLOCK + len(blocks[-1]) // self._width
        return Rows(blocks, self._width, begin, end)

    def after(self, increment: Sequence[int]) -> list[int] | None:
        """Return the totals after an increment, rebased or widened if needed; None if they exceed 64 bits."""
        totals = _sum(self._blocks[-1][-self._width :], increment)
        if _holds(self._kind, totals):
            return totals
        rows = self.rows()
        rebased = [difference(rows[0], row) for row in rows]
        totals = _sum(rebased[-1], increment)
        for kind in (self._kind, _WIDE):
            if all(_holds(kind, row) for row in (*rebased, totals)):
                self._store(rebased, kind)
                return totals
        return None

    def append(self, totals: Sequence[int]) -> None:
        """Append the row that ``after`` returned."""
        if len(totals) > self._width:
            self._store([padded(row, len(totals)) for row in self.rows()], self._kind)
        if len(self._blocks[-1]) == _BLOCK * self._width:
            self._blocks.append(array(self._kind))
        self._blocks[-1].fromlist(padded(totals, self._width))

    def remove(self, number: int) -> None:
        """Remove the oldest rows; release blocks without rows."""
        self._removed += number
        while self._removed >= _BLOCK:
            del self._blocks[0]
            self._removed -= _BLOCK

    def _store(self, rows: Sequence[Sequence[int]], kind: str) -> None:
        """Store rows, which fit the type, in new memory: existing views stay unchanged."""
        self._width = max(map(len, rows))
        self._kind = kind
        self._blocks = [
            array(kind, chain.from_iterable(padded(row, self._width) for row in rows[first : first + _BLOCK]))
            for first in range(0, len(rows), _BLOCK)
        ]
        self._removed = 0


class Ring:
    """Groups of columns of running totals over a limited time.

    Each group has arrays of its own integer type. All groups have the same increments: removal affects all of
    them.
    """

    def __init__(self, keep: float, groups: int = 1) -> None:
        """Keep the increments that begin within the last ``keep`` seconds."""
        self.keep = keep
        self._begins = array("d")
        self._totals = tuple(_Totals() for _ in range(groups))

    def __len__(self) -> int:
        return len(self._begins)

    def clear(self) -> None:
        """Remove all increments."""
        self._begins = array("d")
        for totals in self._totals:
            totals.clear()

    def add(self, begin: float, end: float, increment: Sequence[Sequence[int]], margin: float) -> None:
        """Add an increment from ``begin`` to ``end``; remove those older than ``keep + margin``.

        Args:
            begin: Start time (monotonic, seconds).
            end: End time.
            increment: One row for each group. Columns may be added over time; a missing column is 0.
            margin: Seconds kept in addition to ``keep``.

        If the sums of any group exceed 64 bits, all groups drop the earlier increments. An increment that
        itself exceeds 2^62 is not added.
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
        self._remove(bisect_left(self._begins, end - self.keep - margin))

    def since(self, edge: float) -> tuple[Rows, ...]:
        """Return each group's totals from before the first increment at or after ``edge``.

        A single row means that there is no such increment.
        """
        first = bisect_left(self._begins, edge)
        return tuple(totals.rows(first) for totals in self._totals)

    def begins(self, edge: float) -> Sequence[float]:
        """Return the start times of the increments at or after ``edge``."""
        return self._begins[bisect_left(self._begins, edge) :]

    def _after(self, increment: Sequence[Sequence[int]]) -> list[list[int]] | None:
        """Return all groups' totals after an increment; None if it exceeds 64 bits in any group."""
        rows = [totals.after(row) for totals, row in zip(self._totals, increment, strict=True)]
        fitting = [row for row in rows if row is not None]
        return fitting if len(fitting) == len(rows) else None

    def _remove(self, number: int) -> None:
        if not number:
            return
        del self._begins[:number]
        for totals in self._totals:
            totals.remove(number)


def _sum(totals: Sequence[int], increment: Sequence[int]) -> list[int]:
    if len(totals) == len(increment):
        return list(map(add, totals, increment))
    return [old + new for old, new in zip_longest(totals, increment, fillvalue=0)]


def _holds(kind: str, totals: Sequence[int]) -> bool:
    limit = _MAX_TOTAL[kind]
    return max(totals) <= limit and min(totals) >= -limit


def difference(before: Sequence[int], after: Sequence[int]) -> list[int]:
    """Subtract two rows of a ring column by column."""
    return list(map(sub, after, before))
