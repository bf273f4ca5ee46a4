"""Measure servers for a limited time, and convert the observation to a reference document."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from spec_decode_exporter.analysis.knowledge import Knowledge
from spec_decode_exporter.analysis.window_evaluation import WindowEvaluation
from spec_decode_exporter.core.clock import Clock
from spec_decode_exporter.core.tasks import cancel
from spec_decode_exporter.core.user_errors import ExporterError
from spec_decode_exporter.core.version import __version__
from spec_decode_exporter.figures.quantile import sum_of_histograms
from spec_decode_exporter.monitor.engine_snapshot import EngineSnapshot
from spec_decode_exporter.reports.observation import Observation, ObservedFleet
from spec_decode_exporter.reports.reference.measure import measure
from spec_decode_exporter.reports.reference_document import (
    MeasuredEngine,
    MeasuredModel,
    ReferenceDocument,
)
from spec_decode_exporter.window.history import Window

Engine = tuple[Mapping[str, str], EngineSnapshot]
"""Labels and snapshot of an engine."""

CHECKED_AFTER: Final = 10.0
"""Seconds after which a missing server ends the measurement early."""


class NotMeasuredError(ExporterError):
    """A server did not answer, or shows no engine. The text has the reason for each server."""


async def until_missing(observation: Observation, end: Awaitable[object], clock: Clock) -> None:
    """Wait for the end of a measurement; a missing server ends it after ``CHECKED_AFTER`` seconds.

    Raises:
        NotMeasuredError: A target is missing.
    """
    ending = asyncio.ensure_future(_awaited(end))
    checking = asyncio.ensure_future(_check_once(observation, clock))
    try:
        await asyncio.wait([ending, checking], return_when=asyncio.FIRST_COMPLETED)
        if checking.done():
            checking.result()
        await ending
    finally:
        await cancel([ending, checking])


async def _awaited(end: Awaitable[object]) -> None:
    await end


async def _check_once(observation: Observation, clock: Clock) -> None:
    await clock.sleep_until(clock.monotonic() + CHECKED_AFTER)
    check(observation.observed())


def check(observed: ObservedFleet) -> None:
    """Check that every target was measured: without one, the figures of its model would differ.

    Raises:
        NotMeasuredError: A target is missing.
    """
    missing = list(_missing(observed))
    if missing:
        raise NotMeasuredError("; ".join(missing))


def _missing(observed: ObservedFleet) -> Iterator[str]:
    for target in observed.targets:
        if not target.up:
            yield f"{target.target} does not answer: {target.error or 'no answer came in time'}"
        elif not target.engines:
            yield f"{target.target} shows no engine: is {target.address} the metrics page of a server?"


def document_of(observed: ObservedFleet) -> ReferenceDocument:
    """Return an observation as a document: each engine, and the merged engines of each model.

    Raises:
        NotMeasuredError: A target is missing.
    """
    check(observed)
    versions = {target.target: target.version for target in observed.targets}
    return ReferenceDocument(
        ended=datetime.fromtimestamp(round(observed.time), UTC),
        seconds=observed.seconds,
        exporter_version=__version__,
        engines=tuple(_engine(engine, versions) for engine in observed.engines),
        models=tuple(_models(observed.engines, versions)),
    )


def _engine(engine: Engine, versions: Mapping[str, str]) -> MeasuredEngine:
    labels, snapshot = engine
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


def _models(engines: Sequence[Engine], versions: Mapping[str, str]) -> Iterator[MeasuredModel]:
    """Yield each model, once for each number of draft tokens of its engines."""
    groups: dict[tuple[str, int], list[Engine]] = {}
    for labels, snapshot in engines:
        key = labels["model_name"], len(snapshot.evaluation.longest.positions)
        groups.setdefault(key, []).append((labels, snapshot))
    for (model_name, _), group in groups.items():
        evaluations = [snapshot.evaluation for _, snapshot in group]
        total = Window.sum_of([each.longest.window for each in evaluations])
        yield MeasuredModel(
            model_name=model_name,
            engines=len(group),
            method=_common(each.known.speculation.method for each in evaluations),
            draft_model=_common(each.known.speculation.draft_model for each in evaluations),
            server_version=_common(versions.get(labels["target"], "") for labels, _ in group),
            measurement=measure(
                WindowEvaluation(total, Knowledge()),
                sum_of_histograms([each.latencies for each in evaluations]),
            ),
        )


def _common(texts: Iterator[str]) -> str:
    """Return the text that all engines share; empty if they differ."""
    different = set(texts)
    return different.pop() if len(different) == 1 else ""
