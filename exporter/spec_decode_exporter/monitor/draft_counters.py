"""Whether an engine speculates, and the counters that its pages lack or count otherwise.

D drafts, T draft tokens, A accepted tokens, G generation tokens, F first tokens, S decode steps. A step
yields one token and the accepted ones of its draft: G - F = S + A, less those beyond the end of an answer.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from spec_decode_exporter.analysis.knowledge import Drafting
from spec_decode_exporter.analysis.speculation import Speculation
from spec_decode_exporter.config.batch_schedule import MAX_POSITIONS
from spec_decode_exporter.costs.methods import drafts_what_it_finds
from spec_decode_exporter.costs.steps import UNCOUNTED_SHARE, exceeds_steps
from spec_decode_exporter.scrape.engines import Absence, Counter, Gauge, Latency
from spec_decode_exporter.scrape.sample import Sample
from spec_decode_exporter.window.engine_windows import NANO
from spec_decode_exporter.window.poll import TORN_DRAFTS

UNDRAFTED_TOKENS: Final = 100  # decoded without any draft: they show that a server does not speculate
UNDRAFTED_SECONDS: Final = 30.0  # of decoding, summed over requests: the same where ended ones are counted
STEP_PER_TOKEN: Final = 0.1  # share of A by which S may differ from G - F if it counts a token as a step
_LATE: Final = frozenset({"rust", "ray"})
"""Front ends that show counters of drafts with the first draft, or at 0 without speculation too."""
_STEPS: Final = (Counter.GENERATION_TOKENS, Counter.FIRST_TOKENS, Counter.DECODE_STEPS)


class DraftCounters:
    """Completes the samples of one engine, and knows by them whether it speculates."""

    def __init__(self) -> None:
        """Begin before the first sample."""
        self.drafting = Drafting.UNKNOWN
        self.counts_tokens = False  # True if the engine counts each token as a decode step
        self.begins_again = False  # True if the newest sample is not comparable with the one before
        self._has_reported = False
        self._before: Sample | None = None
        self._differences: frozenset[Counter] | None = None

    def complete(self, sample: Sample, speculation: Speculation, front_end: str) -> Sample:
        """Return a sample with the counters that follow from others and from the settings.

        A Rust ``front_end`` counts drafts without speculation too.
        """
        self._speculation, self._front_end = speculation, front_end
        before, self._before = self._before, sample
        counted = self._with_steps(self._with_drafts(sample))
        is_another = self._differences not in (None, counted.differences)
        self.begins_again = is_another or (before is not None and _appears(before, sample))
        self._differences = counted.differences
        self.drafting = self._drafting(counted)
        return counted

    # Counters

    def _with_drafts(self, sample: Sample) -> Sample:
        """Return a sample with A = Σ a_i, D = T / K or T = D K, if it lacks one and drafts have K tokens."""
        if sample[Counter.ACCEPTED_TOKENS] is None and 0 < len(sample.positions) < MAX_POSITIONS:
            sample = _with(sample, Counter.ACCEPTED_TOKENS, sum(sample.positions))
        drafts, drafted, *_ = sample.counters
        if (drafts is None) == (drafted is None):
            return sample
        speculation, tokens = self._speculation, self._speculation.tokens or len(sample.positions)
        varies = (
            speculation.chooses_tokens or speculation.schedule or drafts_what_it_finds(speculation.method)
        )
        # T of an engine that counts ended requests may be of iterations, which are ahead of all others.
        if varies or not (speculation.method and tokens) or sample.kind.counts_at_end:
            return sample
        if drafts is None and drafted is not None:
            return _with(sample, Counter.DRAFTS, drafted // tokens)
        return sample if drafts is None else _with(sample, Counter.DRAFT_TOKENS, drafts * tokens)

    def _with_steps(self, sample: Sample) -> Sample:
        """Return a sample with S = G - F - A if the engine counts each token as a step (vLLM pull 47382)."""
        counts = _known(sample, Counter.ACCEPTED_TOKENS, *_STEPS)
        if sample.kind.counts_at_end or counts is None:
            return sample
        (accepted, generated, first, steps), tolerance = counts, _race_tolerance(sample)
        decoded = generated - first
        # With fewer accepted tokens, steps that are late and tokens as steps look alike.
        least = 2 * tolerance / (1 - STEP_PER_TOKEN)
        if accepted > max(least, UNCOUNTED_SHARE * decoded + tolerance):
            # Tokens beyond the end of an answer are accepted too: then D + A exceeds what was generated.
            is_whole = (sample[Counter.DRAFTS] or 0) + accepted <= decoded + tolerance
            self.counts_tokens = is_whole and abs(steps - decoded) <= STEP_PER_TOKEN * accepted + tolerance
        if not self.counts_tokens:
            return sample
        latencies = None if sample.latencies is None else dict(sample.latencies)
        if latencies is not None:
            latencies.pop(Latency.DECODE_STEP, None)
        return _with(replace(sample, latencies=latencies), Counter.DECODE_STEPS, max(0, decoded - accepted))

    # State

    def _drafting(self, sample: Sample) -> Drafting:
        """Return what a page says, by the counters of its process since its start."""
        counts = *sample.counters[:3], *sample.positions
        if any(counts) or self._reports(sample):
            return Drafting.DRAFTS
        is_counted = any(count is not None for count in counts)
        match sample.kind.absence:
            case Absence.NO_STEPS:
                return Drafting.OFF if sample.gauge(Gauge.DRAFT_STEPS) == 0 else Drafting.UNKNOWN
            case Absence.NOTHING:
                return Drafting.DRAFTS if self._speculation.method else Drafting.UNKNOWN
            case Absence.ZERO:
                return self._by_seconds(sample) if is_counted else Drafting.UNKNOWN
            case Absence.NO_COUNTERS:
                is_late = self._front_end == "rust" and not self._speculation.schedule
                is_sure = is_counted and (not is_late or bool(sample.positions))
                return Drafting.DRAFTS if is_sure else self._by_steps(sample)

    def _reports(self, sample: Sample) -> bool:
        """Return whether the engine reports an acceptance of its own; without speculation it is 0 if any."""
        steps = sample.gauge(Gauge.DRAFT_STEPS)
        if steps is not None:
            return steps > 0
        rate = sample.gauge(Gauge.REPORTED_ACCEPTANCE_RATIO)
        length = sample.gauge(Gauge.REPORTED_ACCEPTANCE_LENGTH)
        is_shown = rate is not None and sample.kind.absence is Absence.NO_COUNTERS  # by vLLM V0, if it drafts
        self._has_reported |= bool(rate) or bool(length) or is_shown
        return self._has_reported

    def _by_seconds(self, sample: Sample) -> Drafting:
        """Return the state of an engine whose counters of drafts are 0; a search may find nothing."""
        if drafts_what_it_finds(self._speculation.method):
            return Drafting.DRAFTS
        generated, spent = sample[Counter.GENERATION_TOKENS], sample[Counter.DECODE_NANOSECONDS]
        is_enough = (generated or 0) >= UNDRAFTED_TOKENS and (spent or 0) >= UNDRAFTED_SECONDS * NANO
        return Drafting.OFF if is_enough else Drafting.UNDECIDED

    def _by_steps(self, sample: Sample) -> Drafting:
        """Return the state of an engine without counters of drafts, or with those of a front end at 0."""
        counts = _known(sample, *_STEPS)
        if counts is None:
            return Drafting.UNKNOWN
        generated, first, steps = counts
        if exceeds_steps(generated - first, steps, sample.gauge(Gauge.RUNNING_REQUESTS) or 0.0):
            return Drafting.UNCOUNTED
        is_late = self._front_end in _LATE and generated - first < UNDRAFTED_TOKENS
        return Drafting.UNDECIDED if is_late else Drafting.OFF


def _known(sample: Sample, *counters: Counter) -> list[int] | None:
    """Return counters; None if one is unknown."""
    counts = [count for counter in counters if (count := sample.counters[counter]) is not None]
    return counts if len(counts) == len(counters) else None


def _with(sample: Sample, counter: Counter, count: int) -> Sample:
    counters = (*sample.counters[:counter], count, *sample.counters[counter + 1 :])
    return replace(sample, counters=counters, differences=sample.differences | {counter})


def _race_tolerance(sample: Sample) -> float:
    return TORN_DRAFTS + 2 * (sample.gauge(Gauge.RUNNING_REQUESTS) or 0.0)


def _appears(before: Sample, sample: Sample) -> bool:
    """Return whether counters of drafts appear that began long before: an allow-list has them from now on."""
    if before[Counter.DRAFTS] is not None:
        return False
    generated = (sample[Counter.GENERATION_TOKENS] or 0) - (before[Counter.GENERATION_TOKENS] or 0)
    return (sample[Counter.DRAFTS] or 0) > max(0, generated) + _race_tolerance(sample)
