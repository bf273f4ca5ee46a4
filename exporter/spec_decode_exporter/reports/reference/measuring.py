"""From an observation to what is kept of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

from spec_decode_exporter.analysis.comparison.measure import added, measure
from spec_decode_exporter.core.version import __version__
from spec_decode_exporter.monitor.engine_monitor import EngineSnapshot
from spec_decode_exporter.reports.observe.session import ObservedFleet
from spec_decode_exporter.reports.reference.reference_document import (
    MeasuredEngine,
    MeasuredModel,
    ReferenceDocument,
)
from spec_decode_exporter.window.merge import merge_windows

Engine = tuple[Mapping[str, str], EngineSnapshot]
"""An engine's labels, and what was found of it."""


def measured(observed: ObservedFleet) -> ReferenceDocument:
    """Return what is kept of an observation: each engine, and the engines of a model as one."""
    versions = {target.target: target.version for target in observed.targets}
    return ReferenceDocument(
        ended=datetime.fromtimestamp(round(observed.time), UTC),
        seconds=observed.seconds,
        exporter_version=__version__,
        engines=tuple(_engine(engine, versions) for engine in observed.engines),
        models=tuple(_models(observed.engines, versions)),
    )


def _engine(engine: Engine, versions: Mapping[str, str]) -> MeasuredEngine:
    labels, findings = engine
    return MeasuredEngine(
        target=labels["target"],
        model_name=labels["model_name"],
        engine=labels["engine"],
        method=findings.speculation.method,
        draft_model=findings.speculation.draft_model,
        server_version=versions.get(labels["target"], ""),
        restarts=sum(findings.totals.resets.values()),
        broken_checks=tuple(sorted(map(str, findings.broken))),
        measurement=measure(findings.windows[-1], findings.latencies),
    )


def _models(engines: Sequence[Engine], versions: Mapping[str, str]) -> Iterator[MeasuredModel]:
    """Yield each model; twice if some of its engines draft another number of tokens."""
    groups: dict[tuple[str, int], list[Engine]] = {}
    for labels, findings in engines:
        key = labels["model_name"], len(findings.windows[-1].positions)
        groups.setdefault(key, []).append((labels, findings))
    for (model_name, _), group in groups.items():
        found = [findings for _, findings in group]
        yield MeasuredModel(
            model_name=model_name,
            engines=len(group),
            method=_common(findings.speculation.method for findings in found),
            draft_model=_common(findings.speculation.draft_model for findings in found),
            server_version=_common(versions.get(labels["target"], "") for labels, _ in group),
            measurement=measure(
                merge_windows([findings.windows[-1] for findings in found]),
                added([findings.latencies for findings in found]),
            ),
        )


def _common(texts: Iterator[str]) -> str:
    """Return what all say; nothing if they do not agree."""
    different = set(texts)
    return different.pop() if len(different) == 1 else ""
