"""One arm of an experiment over one window: its engines added up, moment by moment.

Everything is a ratio of sums, as if the arm were one engine. The increments of the engines are first added up
on one grid of time, so that the bounds of the ratio follow from them as an engine's do: see ``bounds``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate, pairwise
from math import inf
from operator import mul
from typing import Final, NamedTuple

from spec_decode_exporter.analysis.statistics.ratio_bounds import (
    MAX_INCREMENTS,
    busy_requests,
    cosines_of,
    ratio_estimate,
)
from spec_decode_exporter.figures.acceptance import mean_acceptance_length
from spec_decode_exporter.figures.latency import decoded_tokens
from spec_decode_exporter.figures.ratio import ratio
from spec_decode_exporter.figures.server_load import mean
from spec_decode_exporter.figures.terms import DECODED_TOKENS
from spec_decode_exporter.scrape.page.engine_table import Counter, Gauge
from spec_decode_exporter.window.ledger import LEAST_INCREMENTS, Increments, Window


class SpeedupBasis(StrEnum):
    """By what arms are compared; the value is the ``basis`` label."""

    TIME_PER_OUTPUT_TOKEN = "time_per_output_token"  # noqa: S105 - a token of text
    """Σ inter-token latency / (G - F)."""
    END_TO_END = "end_to_end"
    """Mean time of a finished request, from its arrival to its last token."""
    THROUGHPUT_PER_REQUEST = "throughput_per_request"
    """Generation tokens a second of each running request; here its inverse, request seconds a token."""


class ArmPace(NamedTuple):
    """What an arm takes by one basis: less is faster. The unit is the basis' own."""

    value: float
    relative_error: float | None
    """Standard error over value; None where nobody can say."""
    degrees: int
    """The degrees of freedom of that error; 0 where there is none."""


class _Columns(NamedTuple):
    """A ratio's numerators and denominators, one of each for each cell of the grid."""

    above: Sequence[float]
    below: Sequence[float]


class _Cells(NamedTuple):
    """The increments of an engine on the grid."""

    window: Window
    places: Sequence[int]
    """How many increments of the window lie before each cell, and at last how many there are."""
    increments: Increments


@dataclass(frozen=True, slots=True)
class Arm:
    """The engines of an arm over one window. What an engine does not tell, it adds nothing to."""

    length: float
    """Of the window, in seconds."""
    newest: float
    """When the window ends (monotonic); the same for all arms of an experiment."""
    windows: tuple[Window, ...]
    """One for each engine that was seen in it."""

    def total(self, counter: Counter) -> int | None:
        """Return how far a counter moved, over all engines that tell it; None if none does."""
        told = [count for window in self.windows if (count := window[counter]) is not None]
        return sum(told) if told else None

    @property
    def partial(self) -> bool:
        """Whether the arm was seen for too short to judge: no engine for half the window."""
        covered = max((window.seconds for window in self.windows), default=0.0)
        polls = max((window.polls for window in self.windows), default=0)
        return covered < self.length / 2 or polls < LEAST_INCREMENTS

    @property
    def acceptance_length(self) -> float | None:
        """Mean tokens that a draft gives, the bonus token included: 1 + A / D."""
        return mean_acceptance_length(self.total(Counter.ACCEPTED_TOKENS), self.total(Counter.DRAFTS))

    @property
    def running_requests(self) -> float | None:
        """The mean running requests of an engine, over the engines that worked at all."""
        running = [mean(window, Gauge.RUNNING_REQUESTS) for window in self._working]
        told = [each for each in running if each is not None]
        return ratio(sum(told), len(told))

    @property
    def requests_per_second(self) -> float | None:
        """The requests that began in a second on an engine, over the engines that worked at all."""
        started = [ratio(window[Counter.FIRST_TOKENS], window.seconds) for window in self._working]
        told = [each for each in started if each is not None]
        return ratio(sum(told), len(told))

    @property
    def cosines(self) -> int:
        """How many cosines the arm's bounds can rest on; 0 if there can be none."""
        told = [
            (window[Counter.FIRST_TOKENS], running)
            for window in self.windows
            if window[Counter.FIRST_TOKENS] is not None and (running := busy_requests(window)) is not None
        ]
        if self.partial or not told:
            return 0
        passing = ratio(sum(started or 0 for started, _ in told), sum(running for _, running in told))
        return cosines_of(max(window.seconds for window in self.windows), passing)

    def measures(self) -> dict[SpeedupBasis, ArmPace]:
        """Return what the arm takes by each basis that an engine tells, and by which anything happened."""
        edges = _grid(self.length, self.newest)
        cells = [_cells(window, edges) for window in self.windows]
        cosines = self.cosines
        found = {basis: _added(filter(None, map(read, cells))) for basis, read in _READS.items()}
        return {
            basis: _pace(columns, cosines)
            for basis, columns in found.items()
            if sum(columns.above) > 0 and sum(columns.below) > 0
        }

    @property
    def _working(self) -> list[Window]:
        return [window for window in self.windows if _worked(window)]


def _added(engines: Iterable[_Columns]) -> _Columns:
    """Add up the columns of engines, cell by cell."""
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
    """Return the moments between the cells of a window."""
    return [newest - length * (1 - cell / MAX_INCREMENTS) for cell in range(1, MAX_INCREMENTS)]


def _cells(window: Window, edges: Sequence[float]) -> _Cells:
    """Divide a window's increments; the first and the last cell have what is beyond."""
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
