"""Sums of drafts or decode steps over time, and the drops that detectors find in them.

State consists of plain numbers with bounds, so that pydantic saves it, and rejects impossible numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Final

from pydantic import AfterValidator, Field

from spec_decode_exporter.core.numbers import Amount, Seconds

MIN_UNITS: Final = 0.01
Units = Annotated[Amount, AfterValidator(lambda units: units if units >= MIN_UNITS else 0.0)]
"""A persisted number of drafts or decode steps. A mean over a part of one might be infinite: it is none."""


class DropKind(StrEnum):
    """Kind of a drop; the value is the ``kind`` label."""

    SUDDEN = "sudden"
    DRAFTING = "drafting"
    """Fewer tokens per decode step, since fewer steps have a draft: 1 + A/S, not 1 + A/D."""


class Transition(StrEnum):
    """Change of a drop; the value ends the name of its event."""

    BEGAN = "dropped"
    ENDED = "recovered"
    LEARNED_AGAIN = "baseline_reset"
    """The length did not recover; the baseline is reset, since the drop lasted too long."""


@dataclass(frozen=True, slots=True)
class Drop:
    """Begin or end of a drop."""

    kind: DropKind
    transition: Transition
    baseline_length: float
    """Acceptance length of the baseline, in tokens; for ``DRAFTING`` its tokens per decode step."""
    length: float  # the same over the ``seconds``
    seconds: float  # time with drafts since the change; for ``DRAFTING``, with decode steps
    age: float | None = None  # seconds since the most likely moment of the change; None of a reset baseline


@dataclass(frozen=True, slots=True)
class LiveDrop:
    """A present drop that began at a moment; lengths are as in ``Drop``."""

    baseline_length: float
    length: float  # over the last 30 to 35 s; without drafts in them, or earlier, since the drop began
    age: float  # seconds since the drop began


@dataclass(frozen=True, slots=True)
class DropStatus:
    """Acceptance length compared with the engine's baseline. An unknown value is null."""

    baseline_acceptance_length_tokens: float | None = None
    """Baseline, learned from about the last half hour of drafts."""
    baseline_acceptance_length_tokens_stddev: float | None = None
    """Standard deviation of the length over 30 s around the baseline, by chance alone."""
    sigma: float | None = None
    """Standard errors by which the length of the last 20 to 25 s is below the baseline."""
    dropped: Mapping[DropKind, bool] = field(default_factory=dict)
    """Whether acceptance is below its baseline, by kind of drop; unknown kinds are absent."""
    total: Mapping[DropKind, int] = field(default_factory=lambda: {DropKind.SUDDEN: 0})
    """Number of drops since the exporter first saw the engine, by kind; `drafting` if it can be detected."""
    live: Annotated[Mapping[DropKind, LiveDrop], Field(exclude=True)] = field(default_factory=dict)


@dataclass(slots=True)
class Sums:
    """Weighted sums over units: drafts, or decode steps. Only time with units counts."""

    seconds: Seconds = 0.0
    units: Units = 0.0
    accepted: Amount = 0.0
    squares: Amount = 0.0
    """Σ over the units of (accepted tokens)²; of decode steps, the number of those with a draft."""
    drafted: Amount = 0.0  # units with a draft, if the units are decode steps
    partly: Amount = 0.0  # units of intervals of which some units have a draft, and some have none
    requests: Amount = 0.0  # requests that began to decode, if the units are decode steps
    squared_weights: Amount = 0.0  # Σ w² over the units with their weights w
    end: Seconds = 0.0  # end, by ``Intervals.elapsed``

    def add(self, other: Sums, kept: float = 1.0) -> None:
        """Multiply the weights of all units so far by ``kept``, and add units with the weight 1."""
        self.seconds = kept * self.seconds + other.seconds
        self.units = kept * self.units + other.units
        self.accepted = kept * self.accepted + other.accepted
        self.squares = kept * self.squares + other.squares
        self.drafted = kept * self.drafted + other.drafted
        self.partly = kept * self.partly + other.partly
        self.squared_weights = kept * kept * self.squared_weights + other.units
        self.requests = kept * self.requests + other.requests
        self.end = max(self.end, other.end)

    @property
    def length(self) -> float:
        """Acceptance length in tokens, or tokens per decode step."""
        return 1 + self.accepted / self.units

    @property
    def effective(self) -> float:
        """Number of equally weighted units with the same standard error: (Σ w)² / Σ w²."""
        return self.units**2 / self.squared_weights

    @property
    def rate(self) -> float:
        """Units per second."""
        return self.units / self.seconds


FEW_STEPS, MOST_STEPS = 0.05, 0.95
"""Shares of steps with a draft between which a drafter searches. Batches and torn pages blur none and all."""


@dataclass(slots=True)
class Intervals:
    """Splits time into intervals, and holds them until they are old enough for the baseline."""

    elapsed: Seconds = 0.0
    """Observed time: the only clock of a detector, since a state file cannot hold a monotonic clock."""
    active: Seconds = 0.0  # observed time with units
    filling: Sums = field(default_factory=Sums)
    held: Annotated[list[Sums], Field(max_length=16)] = field(default_factory=list)
    """Complete intervals, oldest first: at most 9."""

    def add(self, increment: Sums, length: float) -> Sums | None:
        """Add an increment; return the interval of at least ``length`` seconds that it completes."""
        self.elapsed += increment.seconds
        if increment.units <= 0:
            return None
        self.active += increment.seconds
        interval = self.filling
        interval.add(increment)
        interval.end = self.elapsed
        if interval.seconds < length:
            return None
        if FEW_STEPS * interval.units < interval.drafted < MOST_STEPS * interval.units:
            interval.partly = interval.units
        self.held.append(interval)
        self.filling = Sums()
        return interval

    def older_than(self, age: float) -> Iterator[Sums]:
        """Remove and yield the intervals that ended at least ``age`` seconds ago."""
        while self.held and self.held[0].end <= self.elapsed - age:
            yield self.held.pop(0)

    def newer_than(self, age: float) -> Sums | None:
        """Sum the intervals that ended less than ``age`` seconds ago; None without units."""
        recent = Sums()
        for interval in (*self.held, self.filling):
            if interval.units and interval.end > self.elapsed - age:
                recent.add(interval)
        return recent if recent.units else None
