"""One engine, watched: its history, and what must be remembered to judge it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from exporter.analysis.integrity import Check, broken_checks
from exporter.analysis.latency import counts_tokens_as_steps
from exporter.scrape.engines import Counter, Latency
from exporter.scrape.sample import Buckets, Sample
from exporter.window.counts import Counts, Step
from exporter.window.engine import EngineHistory, Totals
from exporter.window.ledger import Window

WHOLE_WINDOW = 0.9
"""The share of its length that a window must cover to be whole; jitter may leave it a little short."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to an engine and belongs into the log."""

    name: str
    fields: dict[str, object]
    is_bad: bool = False
    """Whether an operator should look at it."""


@dataclass(frozen=True, slots=True)
class Findings:
    """What is to be said of one engine at one moment. Later polls do not change it."""

    totals: Totals
    broken: frozenset[Check]
    windows: tuple[Window, ...]
    """Ascending by length; empty where there was no successful poll for too long."""
    latencies: dict[Latency, Buckets]
    """The histograms over the longest window."""
    reported: Sample | None
    """The newest sample, where what it reports is still of now."""


class EngineWatch:
    """Feeds an engine's history and keeps what two successive polls say of its integrity."""

    def __init__(self, windows: Sequence[float]) -> None:
        """Watch over windows of the given lengths in seconds, ascending; see ``EngineHistory``."""
        self.history = EngineHistory(windows[-1])
        self._windows = tuple(windows)
        self._suspected: frozenset[Check] = frozenset()
        self._broken: frozenset[Check] = frozenset()

    def keep(self, windows: Sequence[float]) -> None:
        """Change the windows; longer ones fill up from now on."""
        self._windows = tuple(windows)
        self.history.keep(windows[-1])

    def observe(
        self, sample: Sample, moment: float, wall: float, interval: float, latency_interval: float
    ) -> list[Event]:
        """Take a poll's sample; intervals, in seconds, are those of polls and of polls with histograms."""
        taken = self.history.observe(sample, moment, wall, interval)
        if sample.latencies is not None:
            self.history.observe_latencies(sample, moment, max(interval, latency_interval))
            self._recognise_steps()
        return [*_reset_events(taken), *self._check(taken.counts)]

    def findings(self, now: float) -> Findings:
        """Sum up the engine at ``now`` (monotonic)."""
        history = self.history
        if history.is_gone(now):
            return Findings(history.totals(), self._broken, (), {}, None)
        windows = tuple(history.window(length) for length in self._windows)
        return Findings(history.totals(), self._broken, windows, history.latencies(), history.sample)

    def _recognise_steps(self) -> None:
        """Judge what this process observes, once a whole long window holds nothing of an earlier one.

        A server that publishes its steps late is not judged: what it holds back looks the same.
        """
        history, longest = self.history, self._windows[-1]
        if history.counts_tokens_as_steps or history.late_steps or history.process_seconds < longest:
            return
        window = history.window(longest)
        if window.seconds >= WHOLE_WINDOW * longest:
            history.counts_tokens_as_steps = counts_tokens_as_steps(window)

    def _check(self, counts: Counts) -> list[Event]:
        """Find what is broken: what two successive polls say is, since a single page can be torn."""
        found = broken_checks(counts, self.history.tokens)
        confirmed = found & self._suspected
        if self.history.alternates:
            confirmed |= {Check.ONE_SERVER}
        changed = confirmed ^ self._broken
        self._suspected, self._broken = found, confirmed
        return [
            Event(
                "check_broken" if check in confirmed else "check_holds_again",
                {
                    "check": str(check),
                    "drafts": counts.counters[Counter.DRAFTS],
                    "draft_tokens": counts.counters[Counter.DRAFT_TOKENS],
                    "accepted_tokens": counts.counters[Counter.ACCEPTED_TOKENS],
                    "accepted_by_position": list(counts.positions),
                },
                is_bad=check in confirmed,
            )
            for check in sorted(changed)
        ]


def _reset_events(taken: Step) -> list[Event]:
    if taken.reset is None:
        return []
    fields = {"cause": str(taken.reset), "counted_since_restart": taken.increment is not None}
    return [Event("engine_reset", fields)]
