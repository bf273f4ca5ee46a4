"""All metrics: documentation, HELP texts and the checks of dashboards and alerts use this table."""

from __future__ import annotations

from typing import Any, Final

from spec_decode_exporter.metrics.engine_metrics import ENGINE_METRICS
from spec_decode_exporter.metrics.experiment_metrics import EXPERIMENT_METRICS
from spec_decode_exporter.metrics.metric import Metric
from spec_decode_exporter.metrics.own_metrics import EXPORTER_METRICS, TARGET_METRICS
from spec_decode_exporter.metrics.request_metrics import REQUEST_METRICS

CATALOGUE: Final[tuple[Metric[Any], ...]] = (
    *ENGINE_METRICS,
    *EXPERIMENT_METRICS,
    *REQUEST_METRICS,
    *TARGET_METRICS,
    *EXPORTER_METRICS,
)
NAMES: Final = frozenset(metric.name for metric in CATALOGUE)
