"""Histograms of one engine: latencies and answers over the longest window, acceptance rates of polls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf

from spec_decode_exporter.scrape.page.engine_table import Latency
from spec_decode_exporter.scrape.page.sample import Buckets
from spec_decode_exporter.window.answer_lengths import NO_ANSWERS, AnswerLengths
from spec_decode_exporter.window.ring import Ring, difference

ACCEPTANCE_BOUNDS = tuple(tenth / 10 for tenth in range(1, 11))
"""Upper bounds of the buckets: acceptance rates 0.1 … 1.0; rates above, from torn pages, are in +Inf."""
GONE_PAGES = 3
"""Intervals without histograms after which their window is empty."""

Bounds = tuple[tuple[Latency, tuple[float, ...]], ...]


@dataclass(frozen=True, slots=True)
class _Point:
    """Histograms of one poll; ``counts`` of all latencies concatenated."""

    moment: float
    counts: tuple[int, ...]
    answers: AnswerLengths


class HistogramLedger:
    """Ring of histograms: separate from the counters, since histograms are polled less often."""

    def __init__(self, length: float) -> None:
        """Keep ``length`` seconds, the longest window."""
        self._length = length
        self._ring = Ring(length, groups=2)
        self._bounds: Bounds = ()
        self._before: _Point | None = None
        self._newest = -inf
        self._interval = 0.0
        self._answers = NO_ANSWERS

    def keep(self, length: float) -> None:
        """Change the length."""
        self._length = self._ring.keep = length

    def clear(self) -> None:
        """Reset the window; it restarts with the next increment."""
        self._ring.clear()
        self._answers = NO_ANSWERS

    def reset(self, begin: float | None) -> None:
        """Handle a reset of the counters at ``begin``; None if that time is unknown."""
        empty = (0,) * sum(len(bounds) for _, bounds in self._bounds)
        self._before = _Point(begin, empty, NO_ANSWERS) if begin is not None and self._bounds else None

    def add(
        self,
        latencies: Mapping[Latency, Buckets],
        moment: float,
        interval: float,
        answers: AnswerLengths = NO_ANSWERS,
    ) -> None:
        """Add the histograms of a page; ``interval`` is that of polls with histograms."""
        self._interval, self._newest = interval, moment
        # Sorted: the order on a filtered page may differ from that on the whole page.
        ordered = sorted(latencies.items())
        bounds = tuple((latency, buckets.bounds) for latency, buckets in ordered)
        counts = tuple(count for _, buckets in ordered for count in buckets.counts)
        if bounds != self._bounds:
            self._ring.clear()
            self._before = None
            self._bounds = bounds
        before, self._before = self._before, _Point(moment, counts, answers)
        if before is None:
            return
        increment = [new - old for old, new in zip(before.counts, counts, strict=True)]
        if all(_is_cumulative(each) for each in self._by_latency(increment).values()):
            finished = answers.minus(before.answers)
            finished = finished if finished.is_possible else NO_ANSWERS
            self._ring.add(before.moment, moment, [increment, finished], interval)
            _, self._answers = self._sums()

    def window(self, newest: float) -> dict[Latency, Buckets]:
        """Return the observations over the window, cumulative by bucket as on a page.

        The window ends at the newest page *with histograms*. If it ended at ``newest``, the newest poll, it
        would lose its oldest increment before the next one arrives. The result is empty if that page is too
        old.
        """
        if self._is_gone(newest):
            return {}
        counts, _ = self._sums()
        return self._by_latency(counts) if counts else {}

    def answers(self, newest: float) -> AnswerLengths:
        """Return the answers of requests that finished in that window; no requests if unknown."""
        return NO_ANSWERS if self._is_gone(newest) else self._answers

    def _is_gone(self, newest: float) -> bool:
        return newest - self._newest > GONE_PAGES * self._interval

    def _sums(self) -> tuple[list[int], AnswerLengths]:
        """Return the sums over the window of the latencies' counts, empty without any, and the answers."""
        counts, answers = self._ring.since(self._newest - self._length - self._interval / 2)
        if len(counts) < 2:  # noqa: PLR2004 - the first row and the last one
            return [], NO_ANSWERS
        return difference(counts[0], counts[-1]), AnswerLengths(*difference(answers[0], answers[-1]))

    def _by_latency(self, counts: Sequence[int]) -> dict[Latency, Buckets]:
        """Split the concatenated counts by histogram."""
        histograms: dict[Latency, Buckets] = {}
        start = 0
        for latency, bounds in self._bounds:
            histograms[latency] = Buckets(bounds, tuple(counts[start : start + len(bounds)]))
            start += len(bounds)
        return histograms


def _is_cumulative(buckets: Buckets) -> bool:
    """Return whether all counts are valid: cumulative and not negative."""
    return all(lower <= higher for lower, higher in pairwise((0, *buckets.counts)))


class PollHistogram:
    """Histogram of the polls' acceptance rates, weighted by draft tokens."""

    def __init__(self) -> None:
        self.sum = 0
        """Accepted tokens: the weighted sum of the rates."""
        self._buckets = [0] * (len(ACCEPTANCE_BOUNDS) + 1)

    def observe(self, draft_tokens: int, accepted_tokens: int) -> None:
        """Add a poll's increment; without draft tokens it has no rate and no weight."""
        # A torn page can have accepted tokens without their drafts: the next poll corrects the sum.
        self.sum += accepted_tokens
        if draft_tokens <= 0:
            return
        # In integers, so that a rate of exactly 0.3 is not above 0.3.
        tenths = -(-accepted_tokens * len(ACCEPTANCE_BOUNDS) // draft_tokens)
        self._buckets[min(max(tenths, 1), len(self._buckets)) - 1] += draft_tokens

    def cumulative(self) -> list[tuple[str, int]]:
        """Return the buckets as exported: upper bound and cumulative count."""
        total = 0
        result = []
        for bound, count in zip((*map(str, ACCEPTANCE_BOUNDS), "+Inf"), self._buckets, strict=True):
            total += count
            result.append((bound, total))
        return result
