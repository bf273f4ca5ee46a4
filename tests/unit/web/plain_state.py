"""State of an exporter without targets, for handlers, and its page of one gauge."""

import asyncio
from dataclasses import dataclass, field

from spec_decode_exporter.config.schema import Config
from spec_decode_exporter.monitor.fleet import Fleet
from spec_decode_exporter.monitor.target_monitor import Shared
from spec_decode_exporter.web.state import ExporterState
from tests.conftest import FakeClock


@dataclass
class Gauges:
    """A page of one gauge with ``series`` series, in pieces as the exporter's own."""

    series: int = 1
    rendered: list = field(default_factory=list)
    """The format of each rendering."""

    async def render(self, _, format_):
        self.rendered.append(format_)
        yield b"# HELP spec_decode_gauge Some gauge.\n# TYPE spec_decode_gauge gauge\n"
        for begin in range(0, self.series, 128):
            numbers = range(begin, min(begin + 128, self.series))
            lines = [f'spec_decode_gauge{{target="vllm-{number}:8000"}} 0.5\n' for number in numbers]
            yield "".join(lines).encode()
            await asyncio.sleep(0)
        if format_.is_open:
            yield b"# EOF\n"


def plain_state(series=1, **overrides):
    """Make the ExporterState of an exporter without targets, with one gauge of ``series`` series."""
    state = ExporterState(Fleet(Config(), Shared(FakeClock())))
    vars(state).update({"version": "1.2.3", "metrics": Gauges(series), **overrides})
    return state
