"""All metrics: documentation, HELP texts and the checks of dashboards and alerts use this table."""

from __future__ import annotations

from typing import Any, Final

from spec_decode_exporter.config.schema import Metrics
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


def enabled_metrics(settings: Metrics) -> frozenset[str]:
    """Return the names of the metrics that a configuration switches on.

    A name takes precedence over its group, and ``enable`` over ``disable``: a disabled group can keep a
    single metric.
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
