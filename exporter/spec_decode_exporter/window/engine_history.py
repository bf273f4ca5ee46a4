"""The history of one engine: what the exporter has seen of it since it first did."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from spec_decode_exporter.scrape.page.engine_table import Counter, Gauge, Latency
from spec_decode_exporter.scrape.page.sample import Buckets, Sample
from spec_decode_exporter.window.increments import Counts, Increment, PollStep, Reset, first, step
from spec_decode_exporter.window.latency_histograms import HistogramLedger
from spec_decode_exporter.window.ledger import MEAN_GAUGES, NANO, Known, Ledger, Window
from spec_decode_exporter.window.poll_histogram import PollHistogram

GONE_POLLS = 3
GONE_SECONDS = 10.0
"""After three poll intervals without a successful poll, and at least so long, windows are no longer shown."""
_MAX_CREATIONS = 32
"""Of so many servers behind one address it is noticed that they alternate."""


@dataclass(frozen=True, slots=True)
class EngineTotals:
    """All increments since the exporter first saw the engine, over the server's restarts."""

    counters: tuple[int, ...]
    positions: tuple[int, ...]
    covered_seconds: float
    poll_buckets: tuple[tuple[str, int], ...]
    """Cumulative counts of draft tokens by the acceptance rate of their poll."""
    poll_sum: int
    resets: dict[Reset, int]


class EngineHistory:
    """Totals since the exporter first saw the engine, and windows over the last of them."""

    def __init__(self, longest: float, *, late_steps: bool = False) -> None:
        """Keep what windows up to ``longest`` seconds need; see the attribute for ``late_steps``."""
        self._longest = longest
        self._ledger = Ledger(self._longest)
        self._histograms = HistogramLedger(self._longest)
        self._counts: Counts | None = None
        self._sample: Sample | None = None
        self._tokens = 0
        self._tokens_before: int | None = None
        self._most_tokens = 0
        self._configured_tokens = 0
        self._beginnings = 0
        self._process_since = 0.0
        self._interval = 0.0
        self._creations: deque[float] = deque(maxlen=_MAX_CREATIONS)
        self._alternated: float | None = None
        self.late_steps = late_steps
        """The server publishes its decode steps late, as vLLM's Rust front end does."""
        self.counts_tokens_as_steps = False
        """The server observes its inter-token latency once a token: its decode steps are not known."""
        self._totals = [0] * len(Counter)
        self._position_totals: list[int] = []
        self._covered = 0
        self._polls = PollHistogram()
        self._resets = dict.fromkeys(Reset, 0)

    @property
    def sample(self) -> Sample | None:
        """The newest sample."""
        return self._sample

    @property
    def tokens(self) -> int:
        """K, the number of draft positions, as configured or as far as the engine shows it."""
        return max(self._tokens, self._configured_tokens)

    @property
    def columns(self) -> int:
        """The most draft positions that it had so far: windows and totals have a column for each."""
        return max(self.tokens, self._most_tokens, len(self._position_totals))

    @property
    def beginnings(self) -> int:
        """How often the windows began anew because the engine came to draft in another way."""
        return self._beginnings

    @property
    def drafts_in_process(self) -> int:
        """Drafts since the server's process began, as its page says."""
        return self._counts.counters[Counter.DRAFTS] if self._counts else 0

    @property
    def speculates(self) -> bool:
        """Whether the engine speculates at all.

        vLLM's Rust front end shows counters at 0 where nothing speculates; positions come with the first
        draft. An engine that reports an acceptance of its own speculates, whatever it counts.
        """
        sample = self._sample
        if sample is None:
            return False
        if sample.gauge(Gauge.REPORTED_ACCEPTANCE_RATIO) is not None:
            return True
        begun = bool(sample.positions) or self.drafts_in_process > 0
        return sample[Counter.DRAFTS] is not None and (begun or not self.late_steps)

    @property
    def process_seconds(self) -> float:
        """How long the server has been watched without its counters beginning anew."""
        return self.last_seen - self._process_since

    @property
    def last_seen(self) -> float:
        """When the engine was last on a page (monotonic)."""
        return self._counts.moment if self._counts else 0.0

    @property
    def alternates(self) -> bool:
        """Whether creation times came back within the longest window: several servers, one address."""
        return self._alternated is not None and self.last_seen - self._alternated < self._longest

    @property
    def knows_steps(self) -> bool:
        """Whether the server counts its decode steps, and in time."""
        counted = self._sample is not None and self._sample[Counter.DECODE_STEPS] is not None
        return counted and not self.late_steps and not self.counts_tokens_as_steps

    def observe(self, sample: Sample, moment: float, wall: float, interval: float) -> PollStep:
        """Take the sample of a poll at ``moment`` (monotonic) and ``wall`` (Unix time).

        ``interval`` is the one at which the target is polled now, in seconds.
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

    def observe_latencies(self, sample: Sample, moment: float, interval: float) -> None:
        """Take the histograms of a sample that was read with them; ``interval`` is that of such polls."""
        if sample.latencies is not None:
            self._histograms.add(sample.latencies, moment, interval)

    def configure_tokens(self, tokens: int) -> None:
        """Take K as configured; another K begins the windows anew. 0 is none: nobody says any more."""
        before = self.tokens
        self._configured_tokens = tokens
        if tokens and before and self.tokens != before:
            self.begin_again()

    def keep(self, longest: float) -> None:
        """Keep another length from now on."""
        self._longest = longest
        self._ledger.keep(longest)
        self._histograms.keep(longest)

    def is_gone(self, now: float) -> bool:
        """Return whether the engine was not seen for so long that its windows say nothing of now."""
        return now - self.last_seen > max(GONE_POLLS * self._interval, GONE_SECONDS)

    def window(self, length: float) -> Window:
        """Return the sums over the last ``length`` seconds before the newest poll."""
        return self._ledger.window(length, self._interval, self.last_seen, self._known())

    def totals(self) -> EngineTotals:
        """Return everything counted so far; every position that is known is there from the start."""
        missing = max(0, self._most_tokens - len(self._position_totals))
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

    def _known(self) -> Known:
        sample = self._sample
        counters = [value is not None for value in sample.counters] if sample else [False] * len(Counter)
        if self.counts_tokens_as_steps:
            counters[Counter.DECODE_STEPS] = False
        return Known(
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
        self.counts_tokens_as_steps = False
        self._tokens_before, self._tokens = self._tokens or self._tokens_before or 0, 0

    def _learn_tokens(self, counts: Counts, *, speculates: bool) -> None:
        """Learn K. It only changes with a restart; then no window may mix what was before and after.

        No speculation is a K too, 0. A server that creates its positions one by one may at first look as if
        it had the old K. So for as long as a window can hold increments of both processes, more positions
        are another K.
        """
        self._tokens = counts.tokens
        self._most_tokens = max(self._most_tokens, self._tokens)
        before = self._tokens_before
        is_known = self._tokens or not speculates
        if before is None or not is_known:
            return
        if self._tokens != before:
            self.begin_again()
        if self._tokens != before or counts.moment - self._process_since > self._longest:
            self._tokens_before = None

    def begin_again(self) -> None:
        """Let the windows begin anew: what is to come does not go with what was."""
        self._beginnings += 1
        self._ledger.clear()
        self._histograms.clear()

    def _add(self, increment: Increment, sample: Sample) -> None:
        self._ledger.add(increment, [sample.gauge(gauge) for gauge in MEAN_GAUGES], self._interval)
        self._covered += round((increment.end - increment.begin) * NANO)
        self._totals = [old + new for old, new in zip(self._totals, increment.counters, strict=True)]
        self._position_totals += [0] * (len(increment.positions) - len(self._position_totals))
        for position, count in enumerate(increment.positions):
            self._position_totals[position] += count
        self._polls.observe(
            increment.counters[Counter.DRAFT_TOKENS], increment.counters[Counter.ACCEPTED_TOKENS]
        )
