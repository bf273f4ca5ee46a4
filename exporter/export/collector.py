"""From findings to metric families: one pass over the catalogue's rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic

import structlog
from prometheus_client import Metric as Family
from prometheus_client.registry import Collector

from exporter.analysis.engine import Findings
from exporter.analysis.experiment import ArmFindings
from exporter.config.schema import Metrics
from exporter.export.catalogue import CATALOGUE, ENGINE_METRICS, EXPORTER_METRICS, TARGET_METRICS
from exporter.export.experiment_catalogue import EXPERIMENT_METRICS
from exporter.export.metric import Kind, Metric, View
from exporter.export.request_catalogue import REQUEST_METRICS
from exporter.export.status import ExporterStatus, TargetStatus
from exporter.requests.findings import RequestFindings

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that one page of ours says, taken at one moment."""

    engines: Sequence[tuple[Mapping[str, str], Findings]] = ()
    targets: Sequence[tuple[Mapping[str, str], TargetStatus]] = ()
    exporter: Sequence[tuple[Mapping[str, str], ExporterStatus]] = ()
    experiments: Sequence[tuple[Mapping[str, str], ArmFindings]] = ()
    """One for each arm, the baseline too."""
    last_event: str | None = None
    """The identifier of the newest event before any of it was taken down."""
    requests: RequestFindings = field(default_factory=RequestFindings)
    """What single requests say."""


@dataclass(frozen=True, slots=True)
class _Part(Generic[View]):
    """Some rows of the catalogue, and which part of a snapshot they read."""

    metrics: Sequence[Metric[View]]
    views: Callable[[Snapshot], Sequence[tuple[Mapping[str, str], View]]] = field(repr=False)


_PARTS: tuple[_Part[Any], ...] = (
    _Part(ENGINE_METRICS, lambda snapshot: snapshot.engines),
    _Part(EXPERIMENT_METRICS, lambda snapshot: snapshot.experiments),
    _Part(REQUEST_METRICS, lambda snapshot: [({}, snapshot.requests)] if snapshot.requests.enabled else []),
    _Part(TARGET_METRICS, lambda snapshot: snapshot.targets),
    _Part(EXPORTER_METRICS, lambda snapshot: snapshot.exporter),
)


class SnapshotCollector(Collector):
    """Gives the families of every metric that is switched on."""

    def __init__(self, snapshot: Callable[[], Snapshot], enabled: Callable[[], frozenset[str]]) -> None:
        """Read what ``snapshot`` returns, once a page, and show the metrics that ``enabled`` names."""
        self._snapshot = snapshot
        self._enabled = enabled
        self._failing: set[str] = set()

    def collect(self) -> Iterator[Family]:
        """Yield the families that have samples, all from the same snapshot.

        A family that cannot be made is left out and logged once; the others stand.
        """
        enabled = self._enabled()
        snapshot = self._snapshot()
        for part in _PARTS:
            views = part.views(snapshot)
            for metric in part.metrics:
                if metric.name in enabled:
                    family = self._made(metric, views)
                    if family and family.samples:
                        yield family

    def _made(self, metric: Metric[View], views: Sequence[tuple[Mapping[str, str], View]]) -> Family | None:
        try:
            family = _family(metric, views)
        except Exception:  # noqa: BLE001  one formula that fails must not take the page down
            if metric.name not in self._failing:
                self._failing.add(metric.name)
                _log.exception("metric_left_out", metric=metric.name)
            return None
        self._failing.discard(metric.name)
        return family


def _family(metric: Metric[View], views: Sequence[tuple[Mapping[str, str], View]]) -> Family:
    family = Family(metric.family, metric.help, metric.kind)
    for labels, view in views:
        for values, number in metric.read(view):
            if number is None:
                continue
            if metric.kind is Kind.HISTOGRAM:
                suffix, bound, *rest = values
                own = {**dict(zip(metric.labels, rest, strict=True)), **({"le": bound} if bound else {})}
                family.add_sample(metric.name + suffix, {**labels, **own}, number)
            else:
                own = dict(zip(metric.labels, values, strict=True))
                family.add_sample(metric.name, {**labels, **own}, number)
    return family


def enabled_metrics(settings: Metrics) -> frozenset[str]:
    """Return the names of the metrics that a configuration switches on.

    ``disable`` goes before ``enable``, so that a single metric of a disabled group can be kept; a
    name goes before its group.
    """
    enable, disable = set(settings.enable), set(settings.disable)

    def is_on(metric: Metric[Any]) -> bool:
        for key in (metric.name, str(metric.group)):
            if key in enable:
                return True
            if key in disable:
                return False
        return metric.default

    return frozenset(metric.name for metric in CATALOGUE if is_on(metric))
