"""Collect the metric families of a snapshot: one pass over the metric tables."""

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

from spec_decode_exporter.core.internal_errors import InternalErrors
from spec_decode_exporter.metrics.engine_metrics import ENGINE_METRICS
from spec_decode_exporter.metrics.experiment_metrics import EXPERIMENT_METRICS
from spec_decode_exporter.metrics.metric import Metric, MetricKind, Subject
from spec_decode_exporter.metrics.own_metrics import EXPORTER_METRICS, TARGET_METRICS
from spec_decode_exporter.metrics.request_metrics import REQUEST_METRICS
from spec_decode_exporter.metrics.split_findings import single_parts
from spec_decode_exporter.monitor.snapshot import Snapshot

Views = Iterable[tuple[Mapping[str, str], Subject]]
"""The inputs of the rows of a part, each with the labels of its samples."""


@dataclass(frozen=True, slots=True)
class _CollectorPart(Generic[Subject]):
    """Rows of one metric table, and the part of a snapshot that they read."""

    metrics: Sequence[Metric[Subject]]
    views: Callable[[Snapshot], Views[Subject]] = field(repr=False)
    split: Callable[[Subject], Iterable[tuple[Mapping[str, str], Subject]]] | None = None
    """Function that splits a view of many items, each named for the log, if a row cannot read the whole."""


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
"""The part of the log for single groups, models and users of requests."""


class SnapshotCollector(Collector):
    """Collector of every metric that is switched on."""

    def __init__(
        self,
        snapshot: Callable[[], Snapshot],
        enabled: Callable[[], frozenset[str]],
        errors: InternalErrors | None = None,
    ) -> None:
        """Read ``snapshot`` once a page, and yield the metrics that ``enabled`` names."""
        self._snapshot = snapshot
        self._enabled = enabled
        self._errors = errors or InternalErrors()

    def collect(self) -> Iterator[Family]:
        """Yield the families that have samples, all from the same snapshot.

        If a row cannot read an engine, target, arm or request group, only that family lacks it.
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
        self, part: _CollectorPart[Subject], metric: Metric[Subject], labels: Mapping[str, str], view: Subject
    ) -> Iterable[Sample]:
        """Return a row's samples of one view; item by item if the row cannot read the whole."""
        if part.split is None or "model_name" not in metric.labels:
            return self._errors.attempt("metrics", labels, partial(_samples, metric, labels, view)) or ()
        if not self._errors.is_failing(_SPLIT):
            with suppress(Exception):  # the item that is the cause is logged below
                return _samples(metric, labels, view)
        each = self._errors.each(
            _SPLIT, part.split(view), lambda named: named[0], lambda named: _samples(metric, labels, named[1])
        )
        return chain.from_iterable(each)


def _samples(metric: Metric[Subject], labels: Mapping[str, str], view: Subject) -> list[Sample]:
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
