"""What an engine drafted, cut into stretches of time.

Like everything that the watch for drops remembers, a stretch is made of plain numbers that a file can hold.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import Field

from spec_decode_exporter.figures.acceptance import acceptance_length

Amount = Annotated[float, Field(ge=0, le=1e100, allow_inf_nan=False)]
"""A number that is remembered. Far more than any engine drafts, and its square is still a number."""


@dataclass(slots=True)
class Interval:
    """What was drafted over some seconds. Silence is left out: only time with drafts counts."""

    seconds: Amount = 0.0
    drafts: Amount = 0.0
    accepted: Amount = 0.0
    squares: Amount = 0.0
    """Σ over the drafts of (accepted tokens)²."""
    end: Amount = 0.0
    """When it ended, by ``Stretches.elapsed``."""

    @property
    def length(self) -> float:
        """The acceptance length in tokens, 1 + A / D."""
        return acceptance_length(self.accepted / self.drafts)

    def add(self, more: Interval) -> None:
        """Go on by another one."""
        self.seconds += more.seconds
        self.drafts += more.drafts
        self.accepted += more.accepted
        self.squares += more.squares


@dataclass(slots=True)
class IntervalSplitter:
    """Cuts time into stretches, and holds them back until they are old enough to be learnt from."""

    elapsed: Amount = 0.0
    """How many seconds the engine was watched. There is no other clock, so that a file can hold it."""
    drafted: Amount = 0.0
    """How many of them had drafts."""
    filling: Interval = field(default_factory=Interval)
    held: list[Interval] = field(default_factory=list)
    """Oldest first."""

    def add(self, increment: Interval, length: float) -> Interval | None:
        """Add an increment; return the stretch that it completes, of at least ``length`` seconds."""
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
        """Let go of the stretches that ended at least ``age`` seconds ago."""
        while self.held and self.held[0].end <= self.elapsed - age:
            yield self.held.pop(0)

    def newer_than(self, age: float) -> Interval | None:
        """Add up what ended less than ``age`` seconds ago and is not let go of; None if that is nothing."""
        recent = Interval()
        for one in (*self.held, self.filling):
            if one.drafts and one.end > self.elapsed - age:
                recent.add(one)
        return recent if recent.drafts else None
