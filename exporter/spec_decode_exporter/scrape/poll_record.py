"""Record of one target's polls: the data behind its state in metrics, API and page."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from typing import Final, NamedTuple

from spec_decode_exporter.scrape.errors import Reason, failure_remedy
from spec_decode_exporter.scrape.sample import PageReading
from spec_decode_exporter.scrape.server_info import ServedSpeculation

LOG_AGAIN_AFTER: Final = 600.0  # seconds after which a state that had ended is logged again


class Polled(NamedTuple):
    """A page that was polled and read."""

    reading: PageReading
    moment: float  # time of the reading (monotonic)
    wall: float  # time of the reading (Unix time)
    interval: float  # effective poll interval in seconds


class RawPoll(NamedTuple):
    """One poll of a target, as recordings hold it: a page as its server sent it, or a failure."""

    target: str
    moment: float  # time of the poll's end (monotonic)
    wall: float  # time of the poll's end (Unix time)
    page: bytes | None  # the page after decompression; None after a failure
    error: Reason | None = None
    speculation: ServedSpeculation | None = None  # settings that the server reported before the poll


Recorded = Callable[[RawPoll], None]  # takes each poll of a target, failed ones included


@dataclass(slots=True)
class PollRecord:
    """Results of a target's polls; they outlive their poller, which a reload replaces."""

    polls: int = 0
    failures: Tally[Reason] = field(default_factory=Tally)
    up: bool | None = None
    error: str = ""  # reason of the newest poll's failure; empty after a success
    message: str = ""  # text of the newest poll's failure; empty after a success
    seconds: float | None = None
    size: int | None = None
    last_success: float | None = None  # Unix time
    engines: int | None = None  # engines on the newest page; None before the first page and after a failure
    no_engine: str = ""  # reason for which the newest page has no engine, and the remedy; empty if it has one
    page: str = ""  # `filtered` or `whole`; empty before the first page
    version: str = ""
    speculation: ServedSpeculation | None = None
    """Speculation settings that the server reports; only servers in development mode do."""
    interval: float = 0.0
    """Effective poll interval in seconds, without back-off after failures; 0 before the first poll."""
    pace: float = 0.0
    """Seconds from the newest poll to the next one, with back-off after failures; 0 before the first poll."""
    cost: float = 0.0  # processor seconds of a poll, averaged over the last polls
    details_at: float = -inf  # time (monotonic) of the last requests for `/version` and `/server_info`
    histograms_at: float = -inf  # time (monotonic) of the last poll with histograms
    noted: dict[tuple[str, ...], float] = field(default_factory=dict)
    """Last times (monotonic) of what is logged once while it lasts; 0 of what is logged once in all."""

    @property
    def remedy(self) -> str:
        """Remedy of the newest poll's failure, or of a page without an engine; empty if it is fine."""
        return failure_remedy(self.failure) if self.error else self.no_engine

    @property
    def failure_text(self) -> str:
        """Reason and text of the newest poll's failure; empty after a success."""
        return self.message if self.failure != self.error else self.error and f"{self.error}: {self.message}"

    @property
    def failure(self) -> str:
        """Reason of the newest poll's failure; of some more: ``status 401``, and ``no TLS``."""
        words = " ".join(self.message.split()[:2]) if self.error in {"status", "tls"} else ""
        return words if words.startswith(("status ", "no TLS")) else self.error

    def is_news(self, *note: str, now: float = 0.0) -> bool:
        """Note something for the log at ``now``; return whether it was not noted for ten minutes."""
        before = self.noted.get(note, -inf)
        self.noted[note] = now
        return now - before > LOG_AGAIN_AFTER

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
