"""A server that keeps inventing engines: how many were forgotten for it, and what the log is told of that."""

from __future__ import annotations

from math import inf
from typing import Final

from spec_decode_exporter.core.event import Event

CHURN_SECONDS: Final = 600.0
"""Seconds for which it is not said again; engines that come meanwhile are not told one by one."""


class EngineChurn:
    """Counts the engines of one target that were forgotten before their time, and tells it now and then."""

    def __init__(self) -> None:
        self._churning_at = -inf
        self.forgotten = 0
        """How many were forgotten since the target is watched."""

    def is_churning(self, now: float) -> bool:
        """Return whether engines had to be forgotten of late; ``now`` is monotonic, in seconds."""
        return now - self._churning_at <= CHURN_SECONDS

    def forget(self, surplus: int, now: float, kept: int) -> list[Event]:
        """Count ``surplus`` engines as forgotten, ``kept`` stay; return the events to log."""
        if surplus <= 0:
            return []
        known = self.is_churning(now)
        self.forgotten += surplus
        self._churning_at = now
        fields: dict[str, object] = {
            "kept": kept,
            "remedy": "a label of the server's metrics takes ever new values: check model_name and engine",
        }
        return [] if known else [Event("engines_forgotten", fields, is_bad=True)]
