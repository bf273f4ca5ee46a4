"""Metrics of a snapshot as prometheus_client's families: the oracle of the exporter's own writer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from prometheus_client import Metric as Family
from prometheus_client.registry import Collector

from spec_decode_exporter.metrics.metric import Metric, MetricKind
from spec_decode_exporter.metrics.selection import Selection
from spec_decode_exporter.metrics.snapshot_writer import PARTS
from spec_decode_exporter.monitor.snapshot import Snapshot


class SnapshotCollector(Collector):
    """Collector of the selected metrics of a snapshot, for prometheus_client's writers."""

    def __init__(self, snapshot: Callable[[], Snapshot], selection: Callable[[], Selection]) -> None:
        self._snapshot = snapshot
        self._selection = selection

    def collect(self) -> Iterator[Family]:
        """Yield the families that have samples."""
        snapshot, selection = self._snapshot(), self._selection()
        for part in PARTS:
            for metric in part.metrics:
                family = Family(metric.family, metric.help, metric.kind)
                for labels, view in part.views(snapshot) if metric.name in selection.names else ():
                    _add(family, selection.reduced(metric), labels, view)
                if family.samples:
                    yield family


def _add(family: Family, metric: Metric[Any], labels: Mapping[str, str], view: object) -> None:
    """Add the samples of a view."""
    for values, number in metric.read(view):
        if number is None:
            continue
        if metric.kind is MetricKind.HISTOGRAM:
            suffix, bound, *rest = values
            own = {**dict(zip(metric.labels, rest, strict=True)), **({"le": bound} if bound else {})}
        else:
            suffix, own = "", dict(zip(metric.labels, values, strict=True))
        family.add_sample(metric.name + suffix, {**labels, **own}, number)
