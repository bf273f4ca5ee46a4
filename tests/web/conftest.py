from __future__ import annotations

import pytest
from prometheus_client.core import GaugeMetricFamily

from spec_decode_exporter.monitor.event_log import EventLog
from spec_decode_exporter.monitor.snapshot import Snapshot
from spec_decode_exporter.views.history import Histories
from spec_decode_exporter.web.api.api_source import ApiSource
from spec_decode_exporter.web.page.page_data import PageData
from spec_decode_exporter.web.state import AppState


class Gauges:
    """A collector of one gauge with as many series as asked."""

    def __init__(self, series):
        self.series = series

    def collect(self):
        family = GaugeMetricFamily("spec_decode_gauge", "Some gauge.", labels=["target"])
        for number in range(self.series):
            family.add_metric([f"vllm-{number}:8000"], 0.5)
        yield family


NOTHING_TO_TELL = ApiSource(
    now=lambda: 1_790_000_000.0,
    labels=lambda: ["target", "model_name", "engine"],
    windows=lambda: ["30s", "5m"],
    snapshot=Snapshot,
    histories=lambda: Histories(0.0, 300.0, ()),
    targets=tuple,
    events=EventLog("a1"),
)


async def nothing_to_prepare():
    return 1


def plain_state(series=1, **given):
    """Make an AppState; what is not given is the plainest that works."""
    plain = {
        "collectors": [Gauges(series)],
        "prepare": nothing_to_prepare,
        "api": NOTHING_TO_TELL,
        "version": "1.2.3",
        "page": lambda: PageData(1_790_000_000.0, iter(()), (), ()),
        "config_text": lambda: "poll:\n  interval: 1s\n",
    }
    return AppState(**{**plain, **given})


@pytest.fixture
def make_state():
    return plain_state
