"""One arm of an experiment over one window: the sums over its engines.

All figures are ratios of sums, as if the arm were one engine. The increments of the engines are summed on one
time grid, so that bounds follow as for one engine: see ``estimate``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import cached_property
from itertools import accumulate, pairwise
from operator import mul, sub
from typing import NamedTuple

from spec_decode_exporter.experiments.measure import sum_of_histograms
from spec_decode_exporter.experiments.pace import Pace, pace_of
from spec_decode_exporter.experiments.standardised import ArmTypes
from spec_decode_exporter.figures.estimate import cosines_of, ratio
from spec_decode_exporter.figures.quantile import ARM_QUANTILES, quantile
from spec_decode_exporter.figures.window_figures import (
    MAX_INCREMENTS,
    WindowFigures,
    acceptance_length,
    answer_shares,
)
from spec_decode_exporter.scrape.page.engine_table import Latency
from spec_decode_exporter.scrape.page.sample import Buckets
from spec_decode_exporter.window.histograms import Answers
from spec_decode_exporter.window.history import (
    MIN_INCREMENTS,
    NANO,
    Window,
    columns,
    covered_seconds,
    running_requests,
)


class SpeedupBasis(StrEnum):
    """Basis of a comparison of arms; the value is the ``basis`` label."""

    TIME_PER_OUTPUT_TOKEN = "time_per_output_token"  # noqa: S105 - a token of text
    """Σ inter-token latency / (G - F)."""
    END_TO_END = "end_to_end"
    """Mean time of a finished request, from its arrival to its last token."""
    THROUGHPUT_PER_REQUEST = "throughput_per_request"
    """Generation tokens per second of each running request; here its inverse, request seconds per token."""


class ArmFirstToken(NamedTuple):
    """Time to first token of an arm in seconds, and its prefix-cache hits; unknown values are None."""

    mean: float | None = None
    p50: float | None = None
    """Interpolated within the server's buckets, of the requests of all engines."""
    p95: float | None = None
    prefix_hit_ratio: float | None = None
    """Hits over look-ups of prompt tokens."""


class Arm:
    """Engines of an arm over one window; each value is computed once, if read."""

    def __init__(
        self,
        windows: Sequence[Window],
        length: float,
        newest: float,
        *,
        baseline: Arm | None = None,
        method: str | None = None,
        types: ArmTypes | None = None,
        histograms: Sequence[Mapping[Latency, Buckets]] = (),
    ) -> None:
        """Take the windows of the engines with polls.

        Args:
            windows: Window of each engine.
            length: Length of the window in seconds.
            newest: End of the window (monotonic); the same for all arms of an experiment.
            baseline: Arm that it is compared with, over the same window; None for the baseline itself.
            method: Method by which all engines draft; None if they differ, if it is unknown, or without one.
            types: Times of requests by type, from per-request data.
            histograms: Histograms of the engines over this window; empty of a server without them.
        """
        self.length = length
        self.baseline = baseline
        self.method = method
        self.types: ArmTypes = types or {}
        self._edges = [newest - length * (1 - cell / MAX_INCREMENTS) for cell in range(1, MAX_INCREMENTS)]
        self._engines = [WindowFigures(window) for window in windows]
        self._histograms = histograms

    @property
    def engines(self) -> int:
        """Number of engines with polls."""
        return len(self._engines)

    @property
    def requests(self) -> int | None:
        """Requests that began; None if no engine counts them."""
        return self.total("first_tokens")

    @property
    def is_partial(self) -> bool:
        """True if no engine covers half of the window: too little for a comparison."""
        covered = max((its.window.seconds for its in self._engines), default=0.0)
        polls = max((its.window.polls for its in self._engines), default=0)
        return covered < self.length / 2 or polls < MIN_INCREMENTS

    @property
    def acceptance_length(self) -> float | None:
        """Mean tokens of a draft, bonus token included."""
        return acceptance_length(self.total("accepted_tokens"), self.total("drafts"))

    @property
    def depth(self) -> int:
        """Draft positions that all engines with drafts have; 0 without drafts."""
        return min((len(its.positions) for its in self._drafting), default=0)

    @property
    def running_requests(self) -> float | None:
        """Mean running requests per engine, over the engines that generated tokens."""
        return _mean([its.window.mean.running_requests for its in self._working])

    @property
    def requests_per_second(self) -> float | None:
        """Requests that began per second and engine, over the engines that generated tokens."""
        return _mean([ratio(its.total.first_tokens, its.window.seconds) for its in self._working])

    @cached_property
    def first_token(self) -> ArmFirstToken:
        """Time to first token and prefix-cache hits, which the time per output token does not include."""
        waited = self.over("first_token_nanoseconds", "first_tokens")
        histograms = sum_of_histograms([each for each in self._histograms if each])
        buckets = histograms.get(Latency.TIME_TO_FIRST_TOKEN, Buckets((), ()))
        return ArmFirstToken(
            None if waited is None else waited / NANO,
            **{name: quantile(share, buckets) for name, share in ARM_QUANTILES},
            prefix_hit_ratio=self.over("prefix_cache_hits", "prefix_cache_queries"),
        )

    @cached_property
    def cosines(self) -> int:
        """Number of cosines for the arm's bounds; 0 if it has none."""
        known = [
            (its.total.first_tokens or 0, its.busy_requests or 0.0)
            for its in self._engines
            if its.passing_requests is not None
        ]
        if self.is_partial or not known:
            return 0
        passing = sum(started for started, _ in known) / sum(running for _, running in known)
        answers = Answers(*map(sum, zip(*(its.window.answers for its in self._engines), strict=True)))
        equal, life = answer_shares(answers)
        seconds = max(its.window.seconds for its in self._engines)
        return cosines_of(seconds, passing * equal, passing * life)

    @cached_property
    def paces(self) -> dict[SpeedupBasis, Pace]:
        """Pace of the arm by each basis with data."""
        engines, found = [_by_cell(its.window, self._edges) for its in self._engines], {}
        for basis in SpeedupBasis:
            having = [engine[basis] for engine in engines if basis in engine]
            above, below = (
                [sum(cell) for cell in zip(*(sides[place] for sides in having), strict=True)]
                for place in (0, 1)
            )
            if sum(above) > 0 and sum(below) > 0:
                found[basis] = pace_of(sum(above) / sum(below), above, below, self.cosines)
        return found

    def total(self, counter: str) -> int | None:
        """Return the increase of a counter over all engines that have it; None if none does."""
        counts = [count for its in self._engines if (count := getattr(its.total, counter)) is not None]
        return sum(counts) if counts else None

    def over(self, above: str, below: str) -> float | None:
        """Return the ratio of two counters' sums over the engines that have both."""
        pairs = ((getattr(its.total, above), getattr(its.total, below)) for its in self._engines)
        known = [pair for pair in pairs if None not in pair]
        return ratio(sum(one for one, _ in known), sum(other for _, other in known))

    def length_at(self, depth: int) -> float | None:
        """Return the acceptance length of the first ``depth`` positions, 1 + Σ a_i / D; None without them."""
        accepted = sum(sum(its.window.positions[:depth]) for its in self._drafting)
        return acceptance_length(accepted, self.total("drafts")) if depth else None

    @property
    def _drafting(self) -> list[WindowFigures]:
        return [its for its in self._engines if its.total.drafts]

    @property
    def _working(self) -> list[WindowFigures]:
        return [its for its in self._engines if its.total.generation_tokens or its.total.drafts]


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return ratio(sum(known), len(known))


def _by_cell(window: Window, edges: Sequence[float]) -> dict[SpeedupBasis, tuple[Sequence[float], ...]]:
    """Return numerators and denominators of an engine, one for each cell between the edges.

    The first and the last cell include the increments beyond.
    """
    increments, total = window.increments, window.total
    places = [0, *increments.places(edges), len(increments)]
    cells = increments.between(places)
    generated, first, decoding = columns(cells, "generation_tokens", "first_tokens", "decode_nanoseconds")
    ended, finished = columns(cells, "end_to_end_nanoseconds", "finished_requests")
    until = list(accumulate(map(mul, running_requests(increments), covered_seconds(increments)), initial=0.0))
    running = [until[end] - until[begin] for begin, end in pairwise(places)]
    known = {
        SpeedupBasis.TIME_PER_OUTPUT_TOKEN: (total.decode_nanoseconds, total.decoded_tokens),
        SpeedupBasis.END_TO_END: (total.end_to_end_nanoseconds, total.finished_requests),
        SpeedupBasis.THROUGHPUT_PER_REQUEST: (window.mean.running_requests, total.generation_tokens),
    }
    sums = {
        SpeedupBasis.TIME_PER_OUTPUT_TOKEN: (decoding, list(map(sub, generated, first))),
        SpeedupBasis.END_TO_END: (ended, finished),
        SpeedupBasis.THROUGHPUT_PER_REQUEST: (running, generated),
    }
    return {basis: sides for basis, sides in sums.items() if None not in known[basis]}
