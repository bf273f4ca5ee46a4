"""One arm of an experiment over one window: the sums over its engines, compared with another arm.

All figures are ratios of sums on one time grid, as if the arm were one engine: see ``estimate``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from itertools import accumulate, pairwise
from operator import mul, sub

from spec_decode_exporter.experiments.pace import ArmSpeedup, ArmTypes, Pace, mix_ratio
from spec_decode_exporter.experiments.traffic import Figures, Ratios, Traffic, beside_a_queue, ratios
from spec_decode_exporter.figures.estimate import Estimate, cosines_of, ratio
from spec_decode_exporter.figures.quantile import ARM_QUANTILES, quantile, sum_of_histograms
from spec_decode_exporter.figures.window_figures import (
    MAX_INCREMENTS,
    WindowFigures,
    acceptance_length,
    answer_shares,
)
from spec_decode_exporter.scrape.engines import Latency
from spec_decode_exporter.scrape.sample import Buckets
from spec_decode_exporter.window.engine_windows import (
    MIN_INCREMENTS,
    NANO,
    Window,
    columns,
    scaled,
)
from spec_decode_exporter.window.histograms import Answers


class SpeedupBasis(StrEnum):
    """Basis of a comparison of arms; the value is the ``basis`` label."""

    TIME_PER_OUTPUT_TOKEN = "time_per_output_token"  # noqa: S105 - a token of text
    """Σ inter-token latency / (G - F)."""
    END_TO_END = "end_to_end"  # mean time of a finished request, from its arrival to its last token
    THROUGHPUT_PER_REQUEST = "throughput_per_request"
    """Generation tokens per second of each running request; here its inverse, request seconds per token."""


@dataclass(eq=False)
class Arm:
    """Engines of an arm over one window; each value is computed once, if read."""

    windows: Sequence[Window]  # windows of the engines with polls
    length: float  # length of the window in seconds
    newest: float  # end of the window (monotonic); the same for all arms of an experiment
    baseline: Arm | None = None
    """Arm that it is compared with, over the same window; None for the baseline itself."""
    method: str | None = None
    """Method by which all engines draft; None if it differs or is unknown, or without one."""
    types: ArmTypes = field(default_factory=dict)  # times of requests by type, from per-request data
    histograms: Sequence[Mapping[Latency, Buckets]] = ()  # histograms of each engine over this window

    @cached_property
    def _engines(self) -> list[WindowFigures]:
        return [WindowFigures(window) for window in self.windows]

    @property
    def engines(self) -> int:
        """Number of engines with polls."""
        return len(self.windows)

    @property
    def requests(self) -> int | None:
        """Requests that began; None if no engine counts them."""
        return self.total("first_tokens")

    @property
    def is_partial(self) -> bool:
        """True if no engine covers half of the window, or has enough polls: too little for bounds."""
        covered = max((window.seconds for window in self.windows), default=0.0)
        polls = max((window.polls for window in self.windows), default=0)
        return covered < self.length / 2 or polls < MIN_INCREMENTS

    @property
    def acceptance_length(self) -> float | None:
        """Mean tokens of a draft, bonus token included."""
        return acceptance_length(self.total("accepted_tokens"), self.total("drafts"))

    @cached_property
    def first_token(self) -> Mapping[str, float | None]:
        """Time to first token in seconds: ``mean``, and quantiles within the server's buckets."""
        waited = self.over("first_token_nanoseconds", "first_tokens")
        histograms = sum_of_histograms([each for each in self.histograms if each])
        buckets = histograms.get(Latency.TIME_TO_FIRST_TOKEN, Buckets((), ()))
        quantiles = {name: quantile(share, buckets) for name, share in ARM_QUANTILES}
        return {"mean": None if waited is None else waited / NANO, **quantiles}

    @property
    def prefix_hit_ratio(self) -> float | None:
        """Hits of the prefix cache over look-ups of prompt tokens."""
        return self.over("prefix_cache_hits", "prefix_cache_queries")

    @cached_property
    def traffic(self) -> Ratios:
        """Work of its traffic over that of the baseline; empty for the baseline itself."""
        return {} if self.baseline is None else self.traffic_over(self.baseline)

    @cached_property
    def speedups(self) -> Mapping[SpeedupBasis, ArmSpeedup]:
        """Speed-ups over the baseline; empty for the baseline itself."""
        return {} if self.baseline is None else self.speedups_over(self.baseline)

    def gain(self, basis: SpeedupBasis) -> Estimate | None:
        """Return the speed-up over the baseline, that of the baseline itself being 1; None without bounds."""
        if self.baseline is None:
            return Estimate(1.0, 1.0, 1.0, 0.0)
        speedup = self.speedups.get(basis)
        return None if speedup is None else speedup.estimate

    def traffic_over(self, other: Arm) -> Ratios:
        """Return the work of the traffic over that of another arm.

        Between different methods the acceptance shows nothing, since a better drafter has a higher one. With
        an unknown load, or types that have too little in common, the factor is unknown.
        """
        found = {Traffic.LOAD: None, **dict[Traffic, float | None](ratios(self._figures, other._figures))}
        if self.types and other.types:
            found[Traffic.REQUEST_TYPES] = mix_ratio(self.types, other.types)
        elif self.method is not None and self.method == other.method:
            own, others = zip(*zip(self._lengths, other._lengths, strict=False), strict=True)
            easier = ratio(others[-1], own[-1])
            found |= {} if easier is None else {Traffic.ACCEPTANCE: easier}
        return found

    def speedups_over(self, other: Arm) -> Mapping[SpeedupBasis, ArmSpeedup]:
        """Return the speed-ups over another arm by each basis that both have.

        The time per output token is that at one mix of request types, if the types are known.
        """
        traffic, whole = self.traffic_over(other), SpeedupBasis.END_TO_END
        queued = beside_a_queue(traffic, self._system, other._system)
        found = {
            basis: pace.speedup_over(other.paces[basis], queued if basis is whole else traffic)
            for basis, pace in self.paces.items()
            if basis in other.paces
        }
        mix, decoding = traffic.get(Traffic.REQUEST_TYPES), SpeedupBasis.TIME_PER_OUTPUT_TOKEN
        if mix is not None and decoding in found:
            pace = self.paces[decoding]
            rest = dict(traffic)
            del rest[Traffic.REQUEST_TYPES]
            found[decoding] = pace._replace(value=pace.value / mix).speedup_over(other.paces[decoding], rest)
        return found

    @cached_property
    def paces(self) -> dict[SpeedupBasis, Pace]:
        """Pace of the arm by each basis with data, over the engines that have it."""
        cells = range(1, MAX_INCREMENTS)
        edges = [self.newest - self.length * (1 - cell / MAX_INCREMENTS) for cell in cells]
        engines, found = [_by_cell(window, edges) for window in self.windows], {}
        for basis in SpeedupBasis:
            sides = zip(*(engine[basis] for engine in engines if basis in engine), strict=True)
            above, below = [[*map(sum, zip(*cells, strict=True))] for cells in sides] or ([], [])
            if sum(above) > 0 and sum(below) > 0:
                found[basis] = Pace.of(above, below, self._cosines)
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

    @cached_property
    def _system(self) -> tuple[float, float]:
        """Requests of an engine in the mean: those that run, and those in the queue."""
        means = [window.mean for window in self.windows]
        running, waiting = (_mean([mean[place] for mean in means]) or 0.0 for place in range(2))
        return running, waiting

    @cached_property
    def _figures(self) -> Figures:
        """Figures of the traffic; load is per engine, over the engines that generated tokens.

        The load is the mean over tokens, so idle time and idle engines have no weight. Arrivals are scaled
        like it: by Little's law they are the running requests over the time that each of them runs.
        """
        working = [its for its in self._engines if its.total.generation_tokens or its.total.drafts]
        running, busy = _mean([its.window.mean.running_requests for its in working]), self._token_load
        arrivals = _mean([ratio(its.total.first_tokens, its.window.seconds) for its in working])
        weight = ratio(busy, running) or 1.0
        found = {
            "running_requests": busy,
            "requests_per_second": None if arrivals is None else arrivals * weight,
            "prompt_tokens_per_request": self.over("prompt_tokens", "first_tokens"),
            "output_tokens_per_request": self.over("generation_tokens", "first_tokens"),
            "prefix_cache_hit_ratio": self.prefix_hit_ratio,
        }
        return {key: value for key, value in found.items() if value is not None}

    @property
    def _token_load(self) -> float | None:
        """Running requests of an engine, as the mean over generated tokens."""
        known = [window for window in self.windows if window.mean.running_requests is not None]
        tokens = [columns(window.increments, "generation_tokens")[0] for window in known]
        columns_of_load = (scaled(each.increments, "load_billionths") for each in known)
        products = (map(mul, load, own) for load, own in zip(columns_of_load, tokens, strict=True))
        return ratio(sum(map(sum, products)), sum(map(sum, tokens)))

    @cached_property
    def _cosines(self) -> int:
        """Number of cosines for the arm's bounds; 0 if it has none."""
        known = [
            (its.least_requests or 0, its.busy_requests or 0.0)
            for its in self._engines
            if its.passing_requests is not None
        ]
        if self.is_partial or not known:
            return 0
        passing = sum(started for started, _ in known) / sum(running for _, running in known)
        answers = Answers(*map(sum, zip(*(window.answers for window in self.windows), strict=True)))
        equal, life = answer_shares(answers)
        seconds = max(window.seconds for window in self.windows)
        return cosines_of(seconds, passing * equal, passing * life)

    @property
    def _lengths(self) -> list[float | None]:
        """Acceptance length of the first 0, 1, … positions of all engines with drafts: 1 + Σ a_i / D."""
        drafting = (its for its in self._engines if its.total.drafts)
        counts = (its.window.positions[: len(its.positions.accepted)] for its in drafting)
        accepted = accumulate(map(sum, zip(*counts, strict=False)))
        return [None, *(acceptance_length(tokens, self.total("drafts")) for tokens in accepted)]


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
    each, seconds = scaled(increments, "running_requests"), scaled(increments, "covered_nanoseconds")
    until = list(accumulate(map(mul, each, seconds), initial=0.0))
    running = [until[end] - until[begin] for begin, end in pairwise(places)]
    basis, mean = SpeedupBasis, window.mean.running_requests
    sides: dict[SpeedupBasis, tuple[tuple[float | None, ...], tuple[Sequence[float], ...]]] = {
        basis.TIME_PER_OUTPUT_TOKEN: (
            (total.decode_nanoseconds, total.decoded_tokens),
            (decoding, list(map(sub, generated, first))),
        ),
        basis.END_TO_END: ((total.end_to_end_nanoseconds, total.finished_requests), (ended, finished)),
        basis.THROUGHPUT_PER_REQUEST: ((mean, total.generation_tokens), (running, generated)),
    }
    return {name: side for name, (known, side) in sides.items() if None not in known}
