"""Drops of the acceptance length: their kinds, their begin and end, and the present status."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class DropKind(StrEnum):
    """Kind of a drop; the value is the ``kind`` label."""

    SUDDEN = "sudden"
    SLOW = "slow"


@dataclass(frozen=True, slots=True)
class DropChange:
    """Begin or end of a drop."""

    kind: DropKind
    dropped: bool
    baseline_length: float
    """Acceptance length of the baseline, in tokens."""
    length: float
    """Acceptance length over the ``seconds``."""
    seconds: float
    """Time with drafts since the change."""
    learned_again: bool = False
    """The acceptance length did not recover; the baseline is reset since the drop lasted too long."""
    traffic: bool = False
    """The mix of request types explains the fall, so it is no drop: ``dropped`` is false."""


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
    drops: Mapping[DropKind, int] = field(default_factory=lambda: dict.fromkeys(DropKind, 0))
    """Drops by kind since the exporter first saw the engine."""
