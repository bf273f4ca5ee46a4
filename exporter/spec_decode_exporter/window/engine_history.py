"""History of one engine since its first poll: totals, windows and resets."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from operator import add

from spec_decode_exporter.scrape.page.engine_table import Counter, Gauge, Latency
from spec_decode_exporter.scrape.page.sample import Buckets, Sample
from spec_decode_exporter.window.answer_lengths import NO_ANSWERS, answer_lengths
from spec_decode_exporter.window.histograms import HistogramLedger, PollHistogram
from spec_decode_exporter.window.increments import (
    Counts,
    Increment,
    PollStep,
    Reset,
    first,
    reset_cause,
    step,
)
from spec_decode_exporter.window.ledger import MEAN_GAUGES, NANO, Ledger, PublishedValues, Window
from spec_decode_exporter.window.step_lag import StepLag

GONE_POLLS = 3
GONE_SECONDS = 10.0
"""Windows disappear without a successful poll for ``GONE_POLLS`` intervals and ``GONE_SECONDS``."""
_MAX_CREATIONS = 32
"""Maximum creation times kept, to detect servers that alternate behind one address."""
UNDRAFTED_TOKENS = 100
"""Tokens decoded without any draft that show that a server does not speculate."""


@dataclass(frozen=True, slots=True)
class EngineTotals:
    """Sums of all increments since the engine's first poll, over restarts of the server."""

    counters: tuple[int, ...]
    positions: tuple[int, ...]
    covered_seconds: float
    poll_buckets: tuple[tuple[str, int], ...]
    """Cumulative counts of draft tokens by the acceptance rate of their poll."""
    poll_sum: int
    resets: dict[Reset, int]


class EngineHistory:
    """Totals since the engine's first poll, and windows over the most recent increments."""

    def __init__(self, longest: float, *, always_counts_drafts: bool = False) -> None:
        """Keep enough for windows up to ``longest`` seconds; the attribute describes the other argument."""
        self._longest = longest
        self._ledger = Ledger(self._longest)
        self._histograms = HistogramLedger(self._longest)
        self._counts: Counts | None = None
        self._sample: Sample | None = None
        self._tokens = 0
        self._tokens_before: int | None = None
        self._max_tokens = 0
        self._configured_tokens = 0
        self._window_resets = 0
        self._process_since = 0.0
        self._interval = 0.0
        self._creations: deque[float] = deque(maxlen=_MAX_CREATIONS)
        self._alternated: float | None = None
        self._lag = StepLag()
        self.always_counts_drafts = always_counts_drafts
        """The server counts drafts without speculation too, as vLLM's Rust front end does."""
        self.data_parallel = False
        """The server has several engines."""
        self.counts_tokens_as_steps = False
        """The server observes its inter-token latency once a token: its decode steps are unknown."""
        self._totals = [0] * len(Counter)
        self._position_totals: list[int] = []
        self._covered = 0
        self._polls = PollHistogram()
        self._resets = dict.fromkeys(Reset, 0)

    @property
    def sample(self) -> Sample | None:
        """Newest sample."""
        return self._sample

    @property
    def tokens(self) -> int:
        """K, the number of draft positions: the larger of the configured and the observed number."""
        return max(self._tokens, self._configured_tokens)

    @property
    def columns(self) -> int:
        """Maximum number of draft positions so far: windows and totals have a column for each."""
        return max(self.tokens, self._max_tokens, len(self._position_totals))

    @property
    def window_resets(self) -> int:
        """Number of window resets, each caused by another way of drafting."""
        return self._window_resets

    @property
    def drafts_in_process(self) -> int:
        """Drafts since the start of the server's process."""
        return self._counts.counters[Counter.DRAFTS] if self._counts else 0

    @property
    def _has_drafted(self) -> bool:
        return self.drafts_in_process > 0 or bool(self._sample and self._sample.positions)

    @property
    def speculates(self) -> bool:
        """True if the engine is known to speculate.

        vLLM's Rust front end exports counters at 0 without speculation; positions appear with the first
        draft. An engine that reports its own acceptance speculates, whatever its counters are.
        """
        sample = self._sample
        if sample is None:
            return False
        if sample.gauge(Gauge.REPORTED_ACCEPTANCE_RATIO) is not None:
            return True
        return sample[Counter.DRAFTS] is not None and (self._has_drafted or not self.always_counts_drafts)

    @property
    def is_undecided(self) -> bool:
        """True until a server that always counts drafts drafts, or decodes enough tokens without one."""
        if self._counts is None or not self.always_counts_drafts or self.speculates:
            return False
        counters = self._counts.counters
        decoded = counters[Counter.GENERATION_TOKENS] - counters[Counter.FIRST_TOKENS]
        is_counted = self._sample is not None and self._sample[Counter.DRAFTS] is not None
        return is_counted and decoded < UNDRAFTED_TOKENS

    @property
    def late_steps(self) -> bool:
        """True if decode steps were published late within the longest window, by the counters."""
        return self.always_counts_drafts and self._lag.is_within(self._longest, self.last_seen)

    @property
    def process_seconds(self) -> float:
        """Seconds of monitoring without a counter reset."""
        return self.last_seen - self._process_since

    @property
    def last_seen(self) -> float:
        """Time of the last page with the engine (monotonic)."""
        return self._counts.moment if self._counts else 0.0

    @property
    def wall(self) -> float:
        """Time of the last page with the engine (Unix time); 0 before the first."""
        return self._counts.wall if self._counts else 0.0

    @property
    def alternates(self) -> bool:
        """True if old creation times reappeared within the longest window: several servers, one address."""
        return self._alternated is not None and self.last_seen - self._alternated < self._longest

    @property
    def knows_steps(self) -> bool:
        """True if the server counts its decode steps, without delay."""
        counted = self._sample is not None and self._sample[Counter.DECODE_STEPS] is not None
        return counted and not self.late_steps and not self.counts_tokens_as_steps

    def observe(self, sample: Sample, moment: float, wall: float, interval: float) -> PollStep:
        """Add the sample of a poll at ``moment`` (monotonic) and ``wall`` (Unix time).

        ``interval`` is the effective poll interval in seconds.
        """
        self._interval = interval
        self._sample = sample
        if self._counts is None:
            taken = PollStep(first(sample, moment, wall), None)
            self._process_since = moment
        else:
            taken = step(self._counts, sample, moment, wall)
        if taken.reset:
            self._reset(taken, taken.reset)
        self._counts = taken.counts
        if sample.created is not None and sample.created not in self._creations:
            self._creations.append(sample.created)
        self._learn_tokens(taken.counts, speculates=sample[Counter.DRAFTS] is not None)
        if taken.increment:
            self._add(taken.increment, sample)
        return taken

    def is_reset_by(self, sample: Sample) -> bool:
        """Return whether ``observe`` would take a sample as a reset of the server's counters."""
        return self._counts is not None and reset_cause(self._counts, sample) is not None

    def observe_latencies(self, sample: Sample, moment: float, interval: float) -> None:
        """Add the histograms of a sample; ``interval`` is that of polls with histograms."""
        if sample.latencies is not None:
            answers = answer_lengths(sample.answer_lengths) if sample.answer_lengths else NO_ANSWERS
            self._histograms.add(sample.latencies, moment, interval, answers)

    def configure_tokens(self, tokens: int) -> None:
        """Set the configured K; another K resets the windows. 0: not configured."""
        before = self.tokens
        self._configured_tokens = tokens
        if tokens and before and self.tokens != before:
            self.reset_windows()

    def keep(self, longest: float) -> None:
        """Change the longest window."""
        self._longest = longest
        self._ledger.keep(longest)
        self._histograms.keep(longest)

    def is_gone(self, now: float) -> bool:
        """Return whether the last page with the engine is too old for its windows."""
        return now - self.last_seen > max(GONE_POLLS * self._interval, GONE_SECONDS)

    def window(self, length: float) -> Window:
        """Return the sums over the last ``length`` seconds before the newest poll."""
        answers = self._histograms.answers(self.last_seen)
        return self._ledger.window(length, self._interval, self.last_seen, self._known(), answers)

    def totals(self) -> EngineTotals:
        """Return all sums so far, with every known position."""
        missing = max(0, self._max_tokens - len(self._position_totals))
        return EngineTotals(
            tuple(self._totals),
            (*self._position_totals, *(0,) * missing),
            self._covered / NANO,
            tuple(self._polls.cumulative()),
            self._polls.sum,
            dict(self._resets),
        )

    def latencies(self) -> dict[Latency, Buckets]:
        """Return the histograms over the longest window."""
        histograms = self._histograms.window(self.last_seen)
        if self.counts_tokens_as_steps:
            histograms.pop(Latency.DECODE_STEP, None)
        return histograms

    def _known(self) -> PublishedValues:
        sample = self._sample
        counters = [value is not None for value in sample.counters] if sample else [False] * len(Counter)
        if self.counts_tokens_as_steps:
            counters[Counter.DECODE_STEPS] = False
        return PublishedValues(
            tuple(counters),
            tuple(sample is not None and sample.gauge(gauge) is not None for gauge in MEAN_GAUGES),
            self.tokens,
            self.late_steps,
        )

    def _reset(self, taken: PollStep, reset: Reset) -> None:
        self._resets[reset] += 1
        if reset is Reset.RESTART and taken.counts.created in self._creations:
            self._alternated = taken.counts.moment
        self._process_since = taken.increment.begin if taken.increment else taken.counts.moment
        self._histograms.reset(taken.increment.begin if taken.increment else None)
        self._lag.reset()
        self.counts_tokens_as_steps = False
        self._tokens_before, self._tokens = self._tokens or self._tokens_before or 0, 0

    def _observe_lag(self, increment: Increment) -> None:
        drafts, steps = increment.counters[Counter.DRAFTS], increment.counters[Counter.DECODE_STEPS]
        torn = self._counts.torn if self._counts else 0.0
        self._lag.observe(drafts, steps, torn, increment.end)

    def _learn_tokens(self, counts: Counts, *, speculates: bool) -> None:
        """Learn K. It changes only with a restart; then no window may mix both processes.

        K = 0 means no speculation. A server that creates its positions one by one may at first appear to have
        the old K. So additional positions change K while a window can have increments of both processes.
        """
        self._tokens = counts.tokens
        self._max_tokens = max(self._max_tokens, self._tokens)
        before = self._tokens_before
        is_known = self._tokens or not speculates
        if before is None or not is_known:
            return
        if self._tokens != before:
            self.reset_windows()
        if self._tokens != before or counts.moment - self._process_since > self._longest:
            self._tokens_before = None

    def reset_windows(self) -> None:
        """Reset the windows: later increments do not match the earlier ones."""
        self._window_resets += 1
        self._ledger.clear()
        self._histograms.clear()

    def _add(self, increment: Increment, sample: Sample) -> None:
        self._ledger.add(increment, [sample.gauge(gauge) for gauge in MEAN_GAUGES], self._interval)
        self._covered += round((increment.end - increment.begin) * NANO)
        self._totals = list(map(add, self._totals, increment.counters))
        if self.always_counts_drafts:
            self._observe_lag(increment)
        positions = increment.positions
        self._position_totals += [0] * (len(positions) - len(self._position_totals))
        self._position_totals[: len(positions)] = map(add, self._position_totals, positions)
        self._polls.observe(
            increment.counters[Counter.DRAFT_TOKENS], increment.counters[Counter.ACCEPTED_TOKENS]
        )
