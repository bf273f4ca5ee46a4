"""From findings to metric families: one pass over the catalogue's rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from math import isfinite
from typing import Any, Final, Generic

from prometheus_client import Metric as Family
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from spec_decode_exporter.analysis.experiments.experiment import ArmFindings
from spec_decode_exporter.config.schema import Metrics
from spec_decode_exporter.core.internal_errors import InternalErrors
from spec_decode_exporter.metrics.engine_metrics import (
    CATALOGUE,
    ENGINE_METRICS,
    EXPORTER_METRICS,
    TARGET_METRICS,
)
from spec_decode_exporter.metrics.experiment_metrics import EXPERIMENT_METRICS
from spec_decode_exporter.metrics.metric import Metric, MetricKind, View
from spec_decode_exporter.metrics.request_metrics import REQUEST_METRICS
from spec_decode_exporter.metrics.request_samples import single_parts
from spec_decode_exporter.monitor.engine_monitor import EngineSnapshot
from spec_decode_exporter.monitor.target_status import ExporterStatus, TargetStatus
from spec_decode_exporter.requests.request_findings import RequestFindings

Views = Iterable[tuple[Mapping[str, str], View]]
"""The inputs of the rows of a part, each with the labels of its samples."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that one page of ours says, taken at one moment."""

    engines: Sequence[tuple[Mapping[str, str], EngineSnapshot]] = ()
    targets: Sequence[tuple[Mapping[str, str], TargetStatus]] = ()
    exporter: Sequence[tuple[Mapping[str, str], ExporterStatus]] = ()
    experiments: Sequence[tuple[Mapping[str, str], ArmFindings]] = ()
    """One for each arm, the baseline too."""
    last_event: str | None = None
    """The identifier of the newest event before any of it was taken down."""
    requests: RequestFindings = field(default_factory=RequestFindings)
    """What single requests say."""


@dataclass(frozen=True, slots=True)
class _CollectorPart(Generic[View]):
    """Some rows of the catalogue, and which part of a snapshot they read."""

    metrics: Sequence[Metric[View]]
    views: Callable[[Snapshot], Views[View]] = field(repr=False)
    split: Callable[[View], Iterable[tuple[Mapping[str, str], View]]] | None = None
    """Splits a view that holds many items, each named for the log, if a row cannot read it as a whole."""


_PARTS: tuple[_CollectorPart[Any], ...] = (
    _CollectorPart(ENGINE_METRICS, lambda snapshot: snapshot.engines),
    _CollectorPart(EXPERIMENT_METRICS, lambda snapshot: snapshot.experiments),
    _CollectorPart(
        REQUEST_METRICS,
        lambda snapshot: [({}, snapshot.requests)] if snapshot.requests.enabled else [],
        single_parts,
    ),
    _CollectorPart(TARGET_METRICS, lambda snapshot: snapshot.targets),
    _CollectorPart(EXPORTER_METRICS, lambda snapshot: snapshot.exporter),
)


_SPLIT: Final = "request metrics"
"""The part of the log that is about single groups, models and users of requests."""


class SnapshotCollector(Collector):
    """Gives the families of every metric that is switched on."""

    def __init__(
        self,
        snapshot: Callable[[], Snapshot],
        enabled: Callable[[], frozenset[str]],
        errors: InternalErrors | None = None,
    ) -> None:
        """Read what ``snapshot`` returns, once a page, and show the metrics that ``enabled`` names."""
        self._snapshot = snapshot
        self._enabled = enabled
        self._errors = errors or InternalErrors()

    def collect(self) -> Iterator[Family]:
        """Yield the families that have samples, all from the same snapshot.

        An engine, target, arm or group of requests that a row cannot read is missing in that family only.
        """
        enabled = self._enabled()
        snapshot = self._snapshot()
        for part in _PARTS:
            views = list(part.views(snapshot))
            for metric in part.metrics:
                if metric.name in enabled:
                    family = Family(metric.family, metric.help, metric.kind)
                    for labels, view in views:
                        family.samples += self._samples(part, metric, labels, view)
                    if family.samples:
                        yield family

    def _samples(
        self, part: _CollectorPart[View], metric: Metric[View], labels: Mapping[str, str], view: View
    ) -> Iterable[Sample]:
        """Return a row's samples of one view; if it cannot be read as a whole, item by item."""
        if part.split is None or "model_name" not in metric.labels:
            return self._errors.attempt("metrics", labels, partial(_samples, metric, labels, view)) or ()
        if not self._errors.is_failing(_SPLIT):
            with suppress(Exception):  # the item that is the cause is logged below
                return _samples(metric, labels, view)
        each = self._errors.each(
            _SPLIT, part.split(view), lambda named: named[0], lambda named: _samples(metric, labels, named[1])
        )
        return chain.from_iterable(each)


def _samples(metric: Metric[View], labels: Mapping[str, str], view: View) -> list[Sample]:
    """Return a row's samples of one view.

    Raises:
        ValueError: A number is not finite.
    """
    samples = []
    for values, number in metric.read(view):
        if number is None:
            continue
        if not isfinite(number):
            raise ValueError(f"{metric.name} is {number}")
        if metric.kind is MetricKind.HISTOGRAM:
            suffix, bound, *rest = values
            own = {**dict(zip(metric.labels, rest, strict=True)), **({"le": bound} if bound else {})}
            samples.append(Sample(metric.name + suffix, {**labels, **own}, number))
        else:
            own = dict(zip(metric.labels, values, strict=True))
            samples.append(Sample(metric.name, {**labels, **own}, number))
    return samples


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
