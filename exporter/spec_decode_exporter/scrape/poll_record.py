"""Record of one target's polls: the data behind its state in metrics, API and page."""

from __future__ import annotations

import re
from collections import Counter as Tally
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from typing import Final, Literal, NamedTuple

from spec_decode_exporter.core.event import Event
from spec_decode_exporter.scrape.errors import Reason, failure_remedy
from spec_decode_exporter.scrape.sample import PageReading
from spec_decode_exporter.scrape.server_info import ServedSpeculation

LOG_AGAIN_AFTER: Final = 600.0
"""Seconds at the configured interval after which a longer interval is logged again."""

Cause = Literal["answers", "processing"]
"""Reason for a longer interval: slow responses of the server, or processor time of the exporter."""


class Polled(NamedTuple):
    """A page that was polled and read."""

    reading: PageReading
    moment: float
    """Time of the reading (monotonic)."""
    wall: float
    """Time of the reading (Unix time)."""
    interval: float
    """Effective poll interval in seconds."""


class RawPoll(NamedTuple):
    """One poll of a target, as recordings hold it: a page as its server sent it, or a failure."""

    target: str
    """Name of the target."""
    moment: float
    """Time of the poll's end (monotonic)."""
    wall: float
    """Time of the poll's end (Unix time)."""
    page: bytes | None
    """The page after decompression; None after a failure."""
    error: Reason | None = None
    """Reason of a failure."""
    speculation: ServedSpeculation | None = None
    """Speculation settings that the server reported before the poll."""


Recorded = Callable[[RawPoll], None]
"""Takes each poll of a target, failed ones included."""


@dataclass(slots=True)
class PollRecord:
    """Results of a target's polls; they outlive their poller, which a reload replaces."""

    polls: int = 0
    failures: Tally[Reason] = field(default_factory=Tally)
    up: bool | None = None
    error: str = ""
    """Reason of the newest poll's failure; empty after a success."""
    message: str = ""
    """Text of the newest poll's failure; empty after a success."""
    seconds: float | None = None
    size: int | None = None
    last_success: float | None = None
    """Unix time."""
    engines: int | None = None
    """Engines on the newest page; None before the first page and after a failure."""
    no_engine: str = ""
    """Reason for which the newest page has no engine, and the remedy; empty if it has one."""
    page: str = ""
    """``filtered`` or ``whole``; empty before the first page."""
    version: str = ""
    speculation: ServedSpeculation | None = None
    """Speculation settings that the server reports; only servers in development mode do."""
    interval: float = 0.0
    """Effective poll interval in seconds, without back-off after failures; 0 before the first poll."""
    pace: float = 0.0
    """Seconds from the newest poll to the next one, with back-off after failures; 0 before the first poll."""
    cost: float = 0.0
    """Processor seconds of a poll, averaged over the last polls."""
    details_at: float = -inf
    """Time (monotonic) of the last requests for ``/version`` and ``/server_info``."""
    histograms_at: float = -inf
    """Time (monotonic) of the last poll with histograms."""
    unused: set[tuple[str, str]] = field(default_factory=set)
    """Details logged as not used, each with the kind of reason."""
    slowed: dict[Cause, float] = field(default_factory=dict)
    """Last time (monotonic) at which the interval was longer than configured, by cause."""

    @property
    def remedy(self) -> str:
        """Remedy of the newest poll's failure, or of a page without an engine; empty if it is fine."""
        return failure_remedy(self.failure) if self.error else self.no_engine

    @property
    def failure_text(self) -> str:
        """Reason and text of the newest poll's failure; empty after a success."""
        return f"{self.error}: {self.message}" if self.error else ""

    @property
    def failure(self) -> str:
        """Reason of the newest poll's failure; of a rejected one the status too: ``status 401``."""
        status = re.match(r"status \d{3}\b", self.message) if self.error == "status" else None
        return status[0] if status else self.error

    def unused_event(self, source: str, kind: str, reason: str) -> Event | None:
        """Return the event that a detail is not used; None if already logged for this kind of reason."""
        if (source, kind) in self.unused:
            return None
        self.unused.add((source, kind))
        return Event("server_details_not_used", {"source": source, "reason": reason})

    def slowed_event(self, cause: Cause, now: float) -> Event | None:
        """Return the event that the interval is longer than configured; None if logged recently."""
        is_new = now - self.slowed.get(cause, -inf) > LOG_AGAIN_AFTER
        self.slowed[cause] = now
        if not is_new:
            return None
        fields: dict[str, object] = {"cause": cause, "interval": self.interval}
        return Event("target_polled_less_often", fields, bad=cause == "processing")

    def failed(self, reason: Reason, message: str) -> bool:
        """Record a failed poll; return whether the previous poll did not fail for the same reason."""
        is_new = self.error != reason
        self.failures[reason] += 1
        self.up, self.error, self.message, self.engines, self.no_engine = False, reason, message, None, ""
        return is_new

    def succeeded(self, seconds: float, size: int, engines: int, wall: float) -> bool:
        """Record a successful poll of a page with ``engines``; return whether the previous poll failed."""
        recovered = self.up is False
        self.up, self.error, self.message, self.engines = True, "", "", engines
        self.seconds, self.size, self.last_success = seconds, size, wall
        return recovered
