"""Decode steps at one load, as a bounded number of blocks of successive polls.

The time of a step is a ratio of sums, Σx/Σs. The polls are not independent: prefills come in bursts, and
contexts get longer for minutes. So the standard error is that of block sums,

    v = B/(B - 1) · Σ (x_b - t·s_b)² / (Σ s_b)²        B = (Σ s_b)² / Σ s_b²

which contains every variation within a load: of prefills, of contexts, and of the load itself. A step of the
whole batch is one observation, since a block sums up all of its requests. There are at most ``MAX_BLOCKS``
blocks; then neighbours are merged, and later blocks get twice as many polls (Yeh and Schmeiser, *Simulation
output analysis via dynamic batch means*, Winter Simulation Conference 2000). So blocks are longer than the
correlation of what they measure as soon as there is enough data.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import exp2, sqrt
from typing import Annotated, Final, NamedTuple

from pydantic import Field

from spec_decode_exporter.learned.step_time_cost import StepTime
from spec_decode_exporter.window.history import NANO

HALF_LIFE_SECONDS: Final = 12 * 3600.0
"""Half-life of the weights: requests are longer at night, and ten minutes of 30 steps per second suffice for
two days."""
MAX_BLOCKS: Final = 20
MAX_SAVED_BLOCKS: Final = 10
_MAX_AGE: Final = 4 * HALF_LIFE_SECONDS
"""Age of a block that is dropped instead of merged with a newer one: its weight is a sixteenth."""
_COLUMNS: Final = 6

Sum = Annotated[float, Field(ge=0, le=1e21, allow_inf_nan=False)]
"""A persisted sum or Unix time. The limit exceeds the nanoseconds of a million requests in two weeks."""


class BlockSteps(NamedTuple):
    """Sums over decode steps of all requests."""

    nanoseconds: float
    steps: float
    requests: float
    """Σ running requests, over the steps."""
    draft_tokens: float = 0.0
    drafts: float = 0.0


@dataclass(frozen=True, slots=True)
class SavedBlocks:
    """Persisted blocks of steps without drafts."""

    polls_per_block: Annotated[int, Field(ge=1, le=2**40)]
    rows: Annotated[list[tuple[Sum, Sum, Sum, Sum]], Field(max_length=MAX_SAVED_BLOCKS)]
    """Nanoseconds, steps, requests and Unix time of the end of each block."""


class StepBlocks:
    """Blocks of steps at one load, oldest first; older steps have less weight."""

    __slots__ = ("_polls", "_polls_per_block", "_rows", "_time")

    def __init__(self) -> None:
        self._rows = array("d")
        """For each block its five sums, weighted by their age at its end, and its end."""
        self._polls = 0
        """Polls in the newest block."""
        self._polls_per_block = 1
        self._time: StepTime | None = None
        """Mean time of a step at the end of the newest block; None if it is not computed yet."""

    def add(self, steps: BlockSteps, moment: float) -> None:
        """Add the steps of a poll at ``moment``; a clock that was set back stands still."""
        moment = max([moment, *self._rows[-1:]])
        self._time = None
        if not self._rows or self._polls >= self._polls_per_block:
            self._make_room(moment)
            self._rows.extend((*steps, moment))
            self._polls = 1
            return
        begin = len(self._rows) - _COLUMNS
        weight = exp2((self._rows[-1] - moment) / HALF_LIFE_SECONDS)
        for column, value in enumerate(steps, begin):
            self._rows[column] = self._rows[column] * weight + value
        self._rows[-1] = moment
        self._polls += 1

    def saved(self) -> SavedBlocks:
        """Return the blocks without sums of drafts, at most ``MAX_SAVED_BLOCKS``; seven digits suffice."""
        rows, polls = self._rows, self._polls_per_block
        if len(rows) > MAX_SAVED_BLOCKS * _COLUMNS:
            rows, polls = _halved(rows), 2 * polls
        return SavedBlocks(
            polls, [(_rounded(row[0]), _rounded(row[1]), _rounded(row[2]), row[-1]) for row in _blocks(rows)]
        )

    def restore(self, saved: SavedBlocks) -> None:
        """Continue from the result of ``saved``.

        Raises:
            ValueError: The blocks are not in the order of time.
        """
        restored = array("d")
        for nanoseconds, steps, requests, moment in saved.rows:
            if restored and moment < restored[-1]:
                raise ValueError("has blocks of steps in another order")
            restored.extend((nanoseconds, steps, requests, 0.0, 0.0, moment))
        self._rows = restored
        self._polls = self._polls_per_block = saved.polls_per_block
        self._time = None

    def time(self, now: float) -> StepTime | None:
        """Return the mean time of a step; None without steps.

        All weights fall alike, so only the number of batches depends on ``now``.
        """
        if not self._rows:
            return None
        end = self._rows[-1]
        self._time = self._time or _step_time([self.rows(end)])
        weight = exp2(min(end - now, 0.0) / HALF_LIFE_SECONDS)
        return self._time and replace(self._time, batches=self._time.batches * weight)

    def rows(self, now: float) -> Iterator[BlockSteps]:
        """Yield the sums of each block with their weights at ``now``."""
        for row in _blocks(self._rows):
            weight = exp2(min(row[-1] - now, 0.0) / HALF_LIFE_SECONDS)
            yield BlockSteps(*(value * weight for value in row[:-1]))

    def _make_room(self, now: float) -> None:
        """Drop old blocks, or merge pairs of neighbours if there are too many."""
        while self._rows and now - self._rows[_COLUMNS - 1] > _MAX_AGE:
            del self._rows[:_COLUMNS]
        if len(self._rows) < MAX_BLOCKS * _COLUMNS:
            return
        self._rows = _halved(self._rows)
        self._polls_per_block *= 2


def _blocks(rows: array[float]) -> Iterator[array[float]]:
    for begin in range(0, len(rows), _COLUMNS):
        yield rows[begin : begin + _COLUMNS]


def _rounded(value: float) -> float:
    return float(f"{value:.7g}")


def _halved(rows: array[float]) -> array[float]:
    """Merge pairs of neighbours; of an odd number, the newest stays alone."""
    merged, blocks = array("d"), list(_blocks(rows))
    for older, newer in zip(blocks[::2], blocks[1::2], strict=False):
        weight = exp2((older[-1] - newer[-1]) / HALF_LIFE_SECONDS)
        merged.extend(old * weight + new for old, new in zip(older[:-1], newer[:-1], strict=True))
        merged.append(newer[-1])
    if len(blocks) % 2:
        merged.extend(blocks[-1])
    return merged


def step_time(engines: Sequence[StepBlocks], now: float) -> StepTime | None:
    """Return the mean time of a step over the blocks of one or more engines; None without steps."""
    return engines[0].time(now) if len(engines) == 1 else _step_time([each.rows(now) for each in engines])


def _step_time(engines: Iterable[Iterable[BlockSteps]]) -> StepTime | None:
    rows = [row for each in engines for row in each]
    steps, spread = sum(row.steps for row in rows), sum(row.steps**2 for row in rows)
    requests = sum(row.requests for row in rows)
    if not steps or not spread or not requests:
        return None
    time = sum(row.nanoseconds for row in rows) / steps
    number = steps**2 / spread
    squares = sum((row.nanoseconds - time * row.steps) ** 2 for row in rows)
    return StepTime(
        running_requests=requests / steps,
        time=time / NANO,
        error=sqrt(number / (number - 1) * squares) / steps / NANO if number > 1 else 0.0,
        degrees=number - 1,
        batches=steps * steps / requests,
        drafts=sum(row.drafts for row in rows) / steps,
        draft_tokens=sum(row.draft_tokens for row in rows) / steps,
    )
