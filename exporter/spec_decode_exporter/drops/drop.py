"""Drops of the acceptance length: their kinds, their begin and end, and the present status."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final


class DropKind(StrEnum):
    """Kind of a drop; the value is the ``kind`` label."""

    SUDDEN = "sudden"
    SLOW = "slow"
    DRAFTING = "drafting"
    """Fewer tokens per decode step, since fewer steps have a draft: 1 + A/S, not 1 + A/D."""


ALWAYS_COUNTED: Final = (DropKind.SUDDEN, DropKind.SLOW)
"""Kinds that every engine can have."""


@dataclass(frozen=True, slots=True)
class DropChange:
    """Begin or end of a drop."""

    kind: DropKind
    dropped: bool
    baseline_length: float
    """Acceptance length of the baseline, in tokens; for ``DRAFTING`` its tokens per decode step."""
    length: float
    """The same over the ``seconds``."""
    seconds: float
    """Time with drafts since the change; for ``DRAFTING``, with decode steps."""
    age: float | None = None
    """Seconds since the most likely moment of the change; None for a slow one, which has no moment."""
    learned_again: bool = False
    """The acceptance length did not recover; the baseline is reset since the drop lasted too long."""


@dataclass(frozen=True, slots=True)
class LiveDrop:
    """A present drop at a moment in time."""

    baseline_length: float
    """Acceptance length of the baseline, in tokens; for ``DRAFTING`` its tokens per decode step."""
    length: float
    """The same over the last 30 to 35 s; without drafts in them, or earlier, since the drop began."""
    age: float
    """Seconds since the drop began."""


@dataclass(frozen=True, slots=True)
class DropStatus:
    """Acceptance length of an engine compared with its baseline. An unknown value is None."""

    baseline_length: float | None = None
    """Acceptance length of the baseline, in tokens: drafts of about the last half hour."""
    baseline_stddev: float | None = None
    """Standard deviation of the acceptance length over 30 s at the baseline's draft rate, in tokens.

    It includes the standard error of the baseline."""
    sigma: float | None = None
    """Standard errors by which recent drafts are below the baseline; negative above it.

    Recent drafts are those of the last 20 to 25 s, which the baseline does not contain."""
    dropped: Mapping[DropKind, bool] = field(default_factory=dict)
    """Present drops by kind; a kind is absent until enough drafts were observed."""
    drops: Mapping[DropKind, int] = field(default_factory=lambda: dict.fromkeys(ALWAYS_COUNTED, 0))
    """Drops by kind since the exporter first saw the engine; ``DRAFTING`` only if it can be detected."""
    live: Mapping[DropKind, LiveDrop] = field(default_factory=dict)
    """Present drops that began at a moment, by kind: slow ones have none."""
