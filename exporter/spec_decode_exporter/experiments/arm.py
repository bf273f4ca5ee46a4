"""One arm of an experiment over one window: the sums over its engines.

All figures are ratios of sums, as if the arm were one engine. The increments of the engines are summed on one
time grid, so that bounds follow as for one engine: see ``ratio_bounds``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import reduce
from itertools import accumulate, pairwise
from math import inf
from operator import mul
from typing import Final, NamedTuple

from spec_decode_exporter.analysis.statistics.ratio_bounds import (
    MAX_INCREMENTS,
    busy_requests,
    cosines_of,
    ratio_estimate,
    request_counts,
)
from spec_decode_exporter.figures.acceptance import mean_acceptance_length
from spec_decode_exporter.figures.latency import decoded_tokens
from spec_decode_exporter.figures.ratio import ratio
from spec_decode_exporter.figures.server_load import mean
from spec_decode_exporter.figures.terms import DECODED_TOKENS
from spec_decode_exporter.scrape.page.engine_table import Counter, Gauge
from spec_decode_exporter.window.answer_lengths import AnswerLengths
from spec_decode_exporter.window.ledger import MIN_INCREMENTS, Increments, Window


class SpeedupBasis(StrEnum):
    """Basis of a comparison of arms; the value is the ``basis`` label."""

    TIME_PER_OUTPUT_TOKEN = "time_per_output_token"  # noqa: S105 - a token of text
    """Σ inter-token latency / (G - F)."""
    END_TO_END = "end_to_end"
    """Mean time of a finished request, from its arrival to its last token."""
    THROUGHPUT_PER_REQUEST = "throughput_per_request"
    """Generation tokens per second of each running request; here its inverse, request seconds per token."""


class ArmPace(NamedTuple):
    """Time of an arm by one basis; less is faster. Each basis has its own unit."""

    value: float
    relative_error: float | None
    """Standard error over value; None if unknown."""
    degrees: int
    """Degrees of freedom of that error; 0 without one."""


class TypeTimes(NamedTuple):
    """Requests of one type in one arm, by cell of time; all types and all arms have the same cells."""

    seconds: Sequence[float]
    """Time from the first token to the last."""
    tokens: Sequence[float]
    """Tokens after the first."""


class _Columns(NamedTuple):
    """Numerators and denominators of a ratio, one for each cell of the grid."""

    above: Sequence[float]
    below: Sequence[float]


class _Cells(NamedTuple):
    """Increments of an engine on the grid."""

    window: Window
    places: Sequence[int]
    """Number of increments before each cell, and the total."""
    increments: Increments


@dataclass(frozen=True, slots=True)
class Arm:
    """Engines of an arm over one window. Counters that an engine lacks are not summed."""

    length: float
    """Length of the window in seconds."""
    newest: float
    """End of the window (monotonic); the same for all arms of an experiment."""
    windows: tuple[Window, ...]
    """Window of each engine with polls."""
    method: str | None = None
    """Method by which all engines draft; None if they differ, if it is unknown, or without speculation."""
    types: Mapping[str, TypeTimes] = field(default_factory=dict)
    """Times of requests by type, from per-request data; empty without them."""

    def total(self, counter: Counter) -> int | None:
        """Return the increase of a counter over all engines that have it; None if none does."""
        counts = [count for window in self.windows if (count := window[counter]) is not None]
        return sum(counts) if counts else None

    @property
    def partial(self) -> bool:
        """Return whether no engine covers half of the window: too little for a comparison."""
        covered = max((window.seconds for window in self.windows), default=0.0)
        polls = max((window.polls for window in self.windows), default=0)
        return covered < self.length / 2 or polls < MIN_INCREMENTS

    @property
    def acceptance_length(self) -> float | None:
        """Mean tokens per draft, the bonus token included: 1 + A / D."""
        return mean_acceptance_length(self.total(Counter.ACCEPTED_TOKENS), self.total(Counter.DRAFTS))

    @property
    def depth(self) -> int:
        """Draft positions that all engines with drafts have; 0 without drafts."""
        return min((len(each.positions) for each in self._drafting), default=0)

    def length_at(self, depth: int) -> float | None:
        """Return the acceptance length of the first ``depth`` positions, 1 + Σ a_i / D; None without them."""
        accepted = sum(sum(each.positions[:depth]) for each in self._drafting)
        return mean_acceptance_length(accepted, self.total(Counter.DRAFTS)) if depth else None

    @property
    def running_requests(self) -> float | None:
        """Mean running requests per engine, over the engines that generated tokens."""
        running = [mean(window, Gauge.RUNNING_REQUESTS) for window in self._working]
        known = [each for each in running if each is not None]
        return ratio(sum(known), len(known))

    @property
    def requests_per_second(self) -> float | None:
        """Requests that began per second and engine, over the engines that generated tokens."""
        started = [ratio(window[Counter.FIRST_TOKENS], window.seconds) for window in self._working]
        known = [each for each in started if each is not None]
        return ratio(sum(known), len(known))

    @property
    def cosines(self) -> int:
        """Number of cosines for the arm's bounds; 0 if it has none."""
        known = [
            (window[Counter.FIRST_TOKENS], running)
            for window in self.windows
            if window[Counter.FIRST_TOKENS] is not None and (running := busy_requests(window)) is not None
        ]
        if self.partial or not known:
            return 0
        passing = ratio(sum(started or 0 for started, _ in known), sum(running for _, running in known))
        answers = reduce(AnswerLengths.plus, [window.answers for window in self.windows])
        counts = None if passing is None else request_counts(passing, answers)
        return cosines_of(max(window.seconds for window in self.windows), counts)

    def measures(self) -> dict[SpeedupBasis, ArmPace]:
        """Return the time of the arm by each basis with data."""
        edges = _grid(self.length, self.newest)
        cells = [_cells(window, edges) for window in self.windows]
        cosines = self.cosines
        sums = {basis: _added(filter(None, map(read, cells))) for basis, read in _READS.items()}
        return {
            basis: _pace(columns, cosines)
            for basis, columns in sums.items()
            if sum(columns.above) > 0 and sum(columns.below) > 0
        }

    @property
    def _drafting(self) -> list[Window]:
        return [window for window in self.windows if window[Counter.DRAFTS]]

    @property
    def _working(self) -> list[Window]:
        return [window for window in self.windows if _worked(window)]


def _added(engines: Iterable[_Columns]) -> _Columns:
    """Sum the columns of engines, cell by cell."""
    sides = zip(*engines, strict=True)
    above, below = ([sum(cell) for cell in zip(*side, strict=True)] for side in (*sides, (), ())[:2])
    return _Columns(above, below)


def _pace(columns: _Columns, cosines: int) -> ArmPace:
    above, below = columns
    estimate = ratio_estimate(above, below, cosines, lowest=0.0, highest=inf)
    value = sum(above) / sum(below)
    if estimate is None:
        return ArmPace(value, None, 0)
    return ArmPace(value, estimate.standard_error / value, estimate.degrees)


def _worked(window: Window) -> bool:
    return bool(window[Counter.GENERATION_TOKENS] or window[Counter.DRAFTS])


def _grid(length: float, newest: float) -> list[float]:
    """Return the boundaries between the cells of a window."""
    return [newest - length * (1 - cell / MAX_INCREMENTS) for cell in range(1, MAX_INCREMENTS)]


def _cells(window: Window, edges: Sequence[float]) -> _Cells:
    """Divide a window's increments; the first and the last cell include those beyond."""
    increments = window.increments
    places = [0, *increments.places(edges), len(increments)]
    return _Cells(window, places, increments.between(places))


def _decoding(engine: _Cells) -> _Columns | None:
    window, cells = engine.window, engine.increments
    if window[Counter.DECODE_NANOSECONDS] is None or decoded_tokens(window) is None:
        return None
    return _Columns(cells.counter(Counter.DECODE_NANOSECONDS), DECODED_TOKENS.column(window, cells))


def _end_to_end(engine: _Cells) -> _Columns | None:
    window, cells = engine.window, engine.increments
    if window[Counter.END_TO_END_NANOSECONDS] is None or window[Counter.FINISHED_REQUESTS] is None:
        return None
    return _Columns(cells.counter(Counter.END_TO_END_NANOSECONDS), cells.counter(Counter.FINISHED_REQUESTS))


def _request_seconds(engine: _Cells) -> _Columns | None:
    """Return the time of all running requests, by their number at the end of each poll, and the tokens."""
    window = engine.window
    if window[Counter.GENERATION_TOKENS] is None or mean(window, Gauge.RUNNING_REQUESTS) is None:
        return None
    running, seconds = window.increments.gauge(Gauge.RUNNING_REQUESTS), window.increments.seconds()
    until = list(accumulate(map(mul, running, seconds), initial=0.0))
    return _Columns(
        [until[end] - until[begin] for begin, end in pairwise(engine.places)],
        engine.increments.counter(Counter.GENERATION_TOKENS),
    )


_READS: Final[Mapping[SpeedupBasis, Callable[[_Cells], _Columns | None]]] = {
    SpeedupBasis.TIME_PER_OUTPUT_TOKEN: _decoding,
    SpeedupBasis.END_TO_END: _end_to_end,
    SpeedupBasis.THROUGHPUT_PER_REQUEST: _request_seconds,
}
