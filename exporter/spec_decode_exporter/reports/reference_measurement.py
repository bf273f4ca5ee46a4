"""Measure servers for a limited time: a reference document of every figure with its 95 % bounds."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from math import inf, sqrt
from typing import Final

from spec_decode_exporter.analysis.figure_table import COMPARED, Figure, columns_of
from spec_decode_exporter.analysis.knowledge import Knowledge
from spec_decode_exporter.analysis.window_evaluation import WindowEvaluation
from spec_decode_exporter.core.clock import Clock
from spec_decode_exporter.core.tasks import cancel
from spec_decode_exporter.core.user_errors import ExporterError
from spec_decode_exporter.core.version import __version__
from spec_decode_exporter.figures.estimate import Estimate, estimate_of
from spec_decode_exporter.figures.quantile import LATENCY_QUANTILES, edges, quantile, sum_of_histograms
from spec_decode_exporter.figures.student_t import NORMAL_975
from spec_decode_exporter.monitor.engine_snapshot import EngineSnapshot
from spec_decode_exporter.reports.observation import Observation, ObservedFleet
from spec_decode_exporter.reports.references import (
    MeasuredEngine,
    MeasuredFigure,
    MeasuredHistogram,
    MeasuredModel,
    Measurement,
    ReferenceDocument,
)
from spec_decode_exporter.scrape.engines import Latency
from spec_decode_exporter.scrape.sample import Buckets
from spec_decode_exporter.window.history import Means, Window, columns, position_columns, sum_if_known
from spec_decode_exporter.window.ring import Increments

CHECKED_AFTER: Final = 10.0
"""Seconds after which a missing server ends the measurement early."""
MAX_INCREMENTS: Final = 40
"""Maximum increments of a model's engines together: confidence bounds use no more."""


class NotMeasuredError(ExporterError):
    """A server did not answer, or shows no engine. The text has the reason for each server."""


async def until_missing(observation: Observation, end: Awaitable[object], clock: Clock) -> None:
    """Wait for the end of a measurement; a missing server ends it after ``CHECKED_AFTER`` seconds.

    Raises:
        NotMeasuredError: A target is missing.
    """

    async def check_once() -> None:
        await clock.sleep_until(clock.monotonic() + CHECKED_AFTER)
        check(observation.observed())

    async def ended() -> None:
        await end

    ending, checking = map(asyncio.ensure_future, (ended(), check_once()))
    try:
        await asyncio.wait([ending, checking], return_when=asyncio.FIRST_COMPLETED)
        if checking.done():
            checking.result()
        await ending
    finally:
        await cancel([ending, checking])


def check(observed: ObservedFleet) -> None:
    """Check that every target was measured: without one, the figures of its model would differ.

    Raises:
        NotMeasuredError: A target is missing.
    """
    missing = [
        f"{its.target} shows no engine: is {its.address} the metrics page of a server?"
        if its.up
        else f"{its.target} does not answer: {its.error or 'no answer came in time'}"
        for its in observed.targets
        if not its.up or not its.engines
    ]
    if missing:
        raise NotMeasuredError("; ".join(missing))


def document_of(observed: ObservedFleet) -> ReferenceDocument:
    """Return an observation as a document: each engine, and the merged engines of each model.

    Raises:
        NotMeasuredError: A target is missing.
    """
    check(observed)
    versions = {target.target: target.version for target in observed.targets}
    engines = [_engine(*engine, versions) for engine in observed.engines]
    groups: dict[tuple[str, int], list[tuple[MeasuredEngine, EngineSnapshot]]] = {}
    for its, (_, snapshot) in zip(engines, observed.engines, strict=True):
        groups.setdefault((its.model_name, its.measurement.tokens), []).append((its, snapshot))
    return ReferenceDocument(
        ended=datetime.fromtimestamp(round(observed.time), UTC),
        seconds=observed.seconds,
        exporter_version=__version__,
        engines=tuple(engines),
        models=tuple(map(_model, groups.values())),
    )


def _engine(
    labels: Mapping[str, str], snapshot: EngineSnapshot, versions: Mapping[str, str]
) -> MeasuredEngine:
    evaluation = snapshot.evaluation
    return MeasuredEngine(
        target=labels["target"],
        model_name=labels["model_name"],
        engine=labels["engine"],
        method=evaluation.known.speculation.method,
        draft_model=evaluation.known.speculation.draft_model,
        server_version=versions.get(labels["target"], ""),
        restarts=sum(snapshot.totals.resets.values()),
        broken_checks=tuple(sorted(map(str, snapshot.broken))),
        measurement=measure(evaluation.longest, evaluation.latencies),
    )


def _model(group: Sequence[tuple[MeasuredEngine, EngineSnapshot]]) -> MeasuredModel:
    evaluations = [snapshot.evaluation for _, snapshot in group]
    total = WindowEvaluation(sum_of_windows([each.longest.window for each in evaluations]), Knowledge())
    return MeasuredModel(
        model_name=group[0][0].model_name,
        engines=len(group),
        method=_common(engine.method for engine, _ in group),
        draft_model=_common(engine.draft_model for engine, _ in group),
        server_version=_common(engine.server_version for engine, _ in group),
        measurement=measure(total, sum_of_histograms([each.latencies for each in evaluations])),
    )


def sum_of_windows(engines: Sequence[Window]) -> Window:
    """Return the sum of windows of equal length and end, of one or more engines.

    A value that one engine lacks is absent. Requests add up; the use of caches is averaged.
    """
    if len(engines) == 1:
        return engines[0]
    mean = Means(*map(sum_if_known, zip(*(window.mean for window in engines), strict=True)))
    usage = mean.kv_cache_usage_ratio
    return replace(
        Window.over_time(engines),
        length=max(window.length for window in engines),
        seconds=max(window.seconds for window in engines),
        polls=max(window.polls for window in engines),
        mean=mean._replace(kv_cache_usage_ratio=None if usage is None else usage / len(engines)),
        increments=_side_by_side([window.increments for window in engines]),
    )


def _side_by_side(engines: Sequence[Increments]) -> Increments:
    """Add increments in equal intervals of time: a simultaneous change of all engines is one event."""
    number = min(MAX_INCREMENTS, max(map(len, engines)))
    begins = [begin for engine in engines for begin in engine.begins]
    start, end = min(begins, default=0.0), max(begins, default=0.0)
    edges = [start + (end - start) / number * place for place in range(number)]
    parts = [engine.between([*engine.places(edges), len(engine)]) for engine in engines]
    columns = range(max(len(part.totals) for part in parts))
    rows = zip(
        *(map(sum, zip(*(part.column(place) for part in parts), strict=True)) for place in columns),
        strict=True,
    )
    return Increments.of([*rows], edges)


def _common(texts: Iterable[str]) -> str:
    """Return the text that all engines share; empty if they differ."""
    different = set(texts)
    return different.pop() if len(different) == 1 else ""


def measure(its: WindowEvaluation, latencies: Mapping[Latency, Buckets]) -> Measurement:
    """Return the measurement of a window and of the histograms over it."""
    unknown = [None] * len(its.positions)
    return Measurement(
        seconds=its.window.seconds,
        polls=its.window.polls,
        counts={name: count for name, count in its.total._asdict().items() if count is not None},
        position_accepted_tokens=its.window.positions,
        quantities={
            figure.key: MeasuredFigure.of(value, _bounds(its, figure))
            for figure in COMPARED
            if (value := figure.of(its)) is not None
        },
        position_acceptance_ratio=tuple(_shares(its, its.positions.acceptance or unknown)),
        position_conditional_acceptance_ratio=tuple(
            _shares(its, its.positions.conditional or unknown, of_reached=True)
        ),
        latency_seconds={name: _histogram(name, buckets) for name, buckets in latencies.items()},
    )


def _bounds(its: WindowEvaluation, figure: Figure) -> Estimate | None:
    """Return the bounds of a figure: its own if it has some, else those of the ratio of its sums."""
    if figure.bounds is not None:
        return figure.bounds(its)
    if figure.over is None:
        return None
    above, below = (columns_of(its.window, its.increments, name) for name in figure.over)
    return estimate_of(above, below, its.request_cosines, (0.0, figure.highest))


def _shares(
    its: WindowEvaluation, shares: Sequence[float | None], *, of_reached: bool = False
) -> Iterator[MeasuredFigure | None]:
    """Yield the share of drafts at each position, of all drafts or of those that reached the one before."""
    accepted = position_columns(its.increments, len(shares))
    (drafts,) = columns(its.increments, "drafts")
    for position, share in enumerate(shares):
        before = accepted[position - 1] if of_reached and position else drafts
        bounds = None if share is None else its.share_bounds(share, accepted[position], before)
        yield None if share is None else MeasuredFigure.of(share, bounds)


def _histogram(name: Latency, buckets: Buckets) -> MeasuredHistogram:
    quantiles = {key: _quantile(name, share, buckets) for key, share in LATENCY_QUANTILES}
    finite = tuple(bound for bound in buckets.bounds if bound < inf)
    return MeasuredHistogram(bounds=finite, counts=buckets.counts, **quantiles)


def _quantile(name: Latency, share: float, buckets: Buckets) -> MeasuredFigure | None:
    """Return a quantile with the edges of the buckets of its 95 % ranks as bounds.

    The ranks are n·q ± 1.96·√(n·q·(1 - q)), which only assumes that requests are independent (Conover,
    *Practical Nonparametric Statistics*, 3.2). Decode steps of a request are not: no bounds.
    """
    value = quantile(share, buckets)
    if value is None:
        return None
    half = NORMAL_975 * sqrt(share * (1 - share) / buckets.counts[-1])
    if name is Latency.DECODE_STEP or share < half or share + half > 1:
        return MeasuredFigure(value=value)
    low, high = edges(share - half, buckets), edges(share + half, buckets)
    if low is None or high is None or high.upper == inf:
        return MeasuredFigure(value=value)
    return MeasuredFigure(value=value, lower=min(value, low.lower), upper=max(value, high.upper))
