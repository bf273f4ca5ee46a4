"""State of an exporter without targets, for handlers, and its page of one gauge."""

import asyncio
from types import SimpleNamespace

from spec_decode_exporter.core.isolation import Isolation
from spec_decode_exporter.monitor.event_log import EventLog
from spec_decode_exporter.monitor.snapshot import Snapshot
from spec_decode_exporter.web.hosts import EVERY_HOST
from tests.conftest import FakeClock


class Gauges:
    """A page of one gauge with ``series`` series, in pieces as the exporter's own."""

    def __init__(self, series):
        self.series = series

    async def render(self, _, format_):
        yield b"# HELP spec_decode_gauge Some gauge.\n# TYPE spec_decode_gauge gauge\n"
        for begin in range(0, self.series, 128):
            numbers = range(begin, min(begin + 128, self.series))
            lines = [f'spec_decode_gauge{{target="vllm-{number}:8000"}} 0.5\n' for number in numbers]
            yield "".join(lines).encode()
            await asyncio.sleep(0)
        if format_.is_open:
            yield b"# EOF\n"


async def no_engines():
    return Snapshot(number=1)


def plain_state(series=1, **overrides):
    """Make the ExporterState of an exporter without targets, with one gauge of ``series`` series."""
    defaults = {
        "version": "1.2.3",
        "clock": FakeClock(),
        "snapshot": no_engines,
        "metrics": Gauges(series),
        "labels": lambda: ["target", "model_name", "engine"],
        "windows": lambda: ["30s", "5m"],
        "targets": tuple,
        "events": EventLog("a1"),
        "config_text": lambda: "poll:\n  interval: 1s\n",
        "receiver": lambda: None,
        "reload": None,
        "allowed_hosts": EVERY_HOST,
        "errors": Isolation(),
    }
    return SimpleNamespace(**{**defaults, **overrides})
