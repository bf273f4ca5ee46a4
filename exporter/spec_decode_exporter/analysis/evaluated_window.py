"""Window that a verdict is about: the newest data that are enough and that no shorter window contradicts.

It begins at the last detected change. Data are enough if the window has bounds, or covers half of the longest
one. A shorter window replaces it if both cannot be right.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from math import inf
from typing import Final

from spec_decode_exporter.analysis.speculation_state import WHOLE_WINDOW
from spec_decode_exporter.analysis.statistics.ratio_bounds import SHORT_SECONDS
from spec_decode_exporter.analysis.verdict import Verdict
from spec_decode_exporter.analysis.window_bounds import Bounds
from spec_decode_exporter.config.policy import SpeedupPolicy
from spec_decode_exporter.figures.estimate import Estimate
from spec_decode_exporter.window.ledger import Window

MIN_SECONDS: Final = WHOLE_WINDOW * SHORT_SECONDS
"""Minimum of an evaluated window: the coverage of bounds is known from 30 s on, less jitter."""


class Basis(StrEnum):
    """Reason why a window is the evaluated one."""

    LONGEST = "longest"
    """It is the longest window, which may still fill up."""
    CHANGE = "change"
    """It begins at the last detected change."""
    SHORTER = "shorter"
    """It contradicts the longer windows."""


@dataclass(frozen=True, slots=True)
class Change:
    """Last detected change of an engine's acceptance or drafting."""

    window: Window
    """Window since the change."""
    wall: float
    """Unix time of the change."""


@dataclass(frozen=True, slots=True)
class EvaluatedWindow:
    """Window that a verdict is about."""

    window: Window
    """Partial unless there are enough data: then nothing is said about it."""
    basis: Basis
    longest: float
    """Length of the longest window, in seconds."""
    since: float | None = None
    """Unix time of the change at which it begins; None for another basis."""

    @property
    def is_early(self) -> bool:
        """Return whether it covers less than half of the longest window."""
        return self.window.seconds < self.longest / 2

    @property
    def is_whole(self) -> bool:
        """Return whether it covers a whole longest window."""
        return self.window.seconds >= WHOLE_WINDOW * self.longest

    @property
    def is_advisable(self) -> bool:
        """Return whether advice is possible: since a change, or over a whole longest window."""
        if self.basis is Basis.CHANGE:
            return not self.window.partial
        return self.basis is Basis.LONGEST and self.is_whole


def since_change(windows: Sequence[Window], change: Change | None) -> EvaluatedWindow:
    """Return the window since the last change, or the longest of ``windows`` if that is shorter.

    It is as long as its data, not partial, even if it has not enough: ``unless_enough`` decides that.
    """
    longest = windows[-1]
    if change is not None and change.window.length < longest.length:
        return EvaluatedWindow(_trimmed(change.window), Basis.CHANGE, longest.length, change.wall)
    return EvaluatedWindow(_trimmed(longest), Basis.LONGEST, longest.length)


def unless_enough(evaluated: EvaluatedWindow, bounds: Bounds) -> EvaluatedWindow:
    """Return the window if it has enough data; otherwise mark it as partial, so that it has no verdict."""
    seconds, longest = evaluated.window.seconds, evaluated.longest
    has_bounds = bounds.acceptance_length is not None and seconds >= min(MIN_SECONDS, longest / 2)
    if has_bounds or seconds >= longest / 2:
        return evaluated
    return replace(evaluated, window=evaluated.window.of_length(longest))


def contradicts(shorter: Bounds, longer: Bounds, verdict: Verdict, policy: SpeedupPolicy) -> bool:
    """Return whether a shorter window and the ``verdict`` of a longer one cannot both be right now.

    Either the bounds of a figure have nothing in common, or the shorter window's bounds of the speed-up
    exclude what the verdict claims.
    """
    pairs = (
        (shorter.acceptance_length, longer.acceptance_length),
        (shorter.tokens_per_step, longer.tokens_per_step),
    )
    if any(one and other and _is_apart(one, other) for one, other in pairs):
        return True
    lowest, highest = _claim(verdict, policy)
    speedup = shorter.speedup
    return speedup is not None and (speedup.upper < lowest or speedup.lower > highest)


def _claim(verdict: Verdict, policy: SpeedupPolicy) -> tuple[float, float]:
    """Return the least and the most that a verdict claims of the speed-up."""
    claims = {
        Verdict.OPTIMAL: (policy.healthy, inf),
        Verdict.HEALTHY: (policy.marginal, inf),
        Verdict.MARGINAL: (policy.harmful, inf),
        Verdict.POOR: (0.0, policy.poor),
        Verdict.HARMFUL: (0.0, policy.harmful),
    }
    return claims.get(verdict, (0.0, inf))


def _is_apart(one: Estimate, other: Estimate) -> bool:
    return one.upper < other.lower or other.upper < one.lower


def _trimmed(window: Window) -> Window:
    """Return the window with the length that its data cover: it is not partial for being short."""
    return window.of_length(min(window.length, window.seconds))
