from __future__ import annotations

import pytest
from prometheus_client.core import GaugeMetricFamily

from spec_decode_exporter.monitor.event_log import EventLog
from spec_decode_exporter.monitor.snapshot import Snapshot
from spec_decode_exporter.views.history import Histories
from spec_decode_exporter.web.state import AppState


class Gauges:
    """A collector of one gauge with ``series`` series."""

    def __init__(self, series):
        self.series = series

    def collect(self):
        family = GaugeMetricFamily("spec_decode_gauge", "Some gauge.", labels=["target"])
        for number in range(self.series):
            family.add_metric([f"vllm-{number}:8000"], 0.5)
        yield family


async def prepare_nothing():
    return 1


def plain_state(series=1, **overrides):
    """Make the AppState of an exporter without targets, with one gauge of ``series`` series."""
    defaults = {
        "version": "1.2.3",
        "now": lambda: 1_790_000_000.0,
        "monotonic": lambda: 1_000.0,
        "prepare": prepare_nothing,
        "snapshot": Snapshot,
        "collectors": [Gauges(series)],
        "labels": lambda: ["target", "model_name", "engine"],
        "windows": lambda: ["30s", "5m"],
        "targets": tuple,
        "histories": lambda: Histories(0.0, 300.0, ()),
        "events": EventLog("a1"),
        "config_text": lambda: "poll:\n  interval: 1s\n",
    }
    return AppState(**{**defaults, **overrides})


@pytest.fixture
def make_state():
    return plain_state
