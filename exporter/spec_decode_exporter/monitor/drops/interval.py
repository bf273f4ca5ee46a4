"""Drafts of an engine over intervals of time.

All state of the drop detectors consists of plain numbers, so that the state file can hold it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import Field

Amount = Annotated[float, Field(ge=0, le=1e100, allow_inf_nan=False)]
"""A persisted number. The limit exceeds the drafts of any engine, and its square is finite."""


@dataclass(slots=True)
class Interval:
    """Sums over the drafts of an interval. Only time with drafts counts."""

    seconds: Amount = 0.0
    drafts: Amount = 0.0
    accepted: Amount = 0.0
    squares: Amount = 0.0
    """Σ over the drafts of (accepted tokens)²."""
    end: Amount = 0.0
    """End, by ``IntervalSplitter.elapsed``."""
    wall: Amount = 0.0
    """End in Unix time; 0 if unknown."""
    drafted: Amount = 0.0
    """Steps with a draft, if the interval counts decode steps in place of drafts."""

    @property
    def length(self) -> float:
        """Acceptance length in tokens, 1 + A / D."""
        return 1 + self.accepted / self.drafts

    def add(self, other: Interval) -> None:
        """Extend the interval by another one."""
        self.seconds += other.seconds
        self.drafts += other.drafts
        self.accepted += other.accepted
        self.squares += other.squares
        self.wall = max(self.wall, other.wall)
        self.drafted += other.drafted


@dataclass(slots=True)
class IntervalSplitter:
    """Splits time into intervals, and holds them until they are old enough for the baseline."""

    elapsed: Amount = 0.0
    """Observed seconds: the only clock of the detectors, since a state file cannot hold a monotonic clock."""
    drafted: Amount = 0.0
    """Observed seconds with drafts."""
    filling: Interval = field(default_factory=Interval)
    held: list[Interval] = field(default_factory=list)
    """Complete intervals, oldest first."""

    def add(self, increment: Interval, length: float) -> Interval | None:
        """Add an increment; return the interval of at least ``length`` seconds that it completes."""
        self.elapsed += increment.seconds
        if increment.drafts <= 0:
            return None
        self.drafted += increment.seconds
        filling = self.filling
        filling.add(increment)
        filling.end = self.elapsed
        if filling.seconds < length:
            return None
        self.filling = Interval()
        self.held.append(filling)
        return filling

    def older_than(self, age: float) -> Iterator[Interval]:
        """Remove and yield the intervals that ended at least ``age`` seconds ago."""
        while self.held and self.held[0].end <= self.elapsed - age:
            yield self.held.pop(0)

    def newer_than(self, age: float) -> Interval | None:
        """Sum the held intervals that ended less than ``age`` seconds ago; None without drafts."""
        recent = Interval()
        for interval in (*self.held, self.filling):
            if interval.drafts and interval.end > self.elapsed - age:
                recent.add(interval)
        return recent if recent.drafts else None
