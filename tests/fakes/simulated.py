"""Simulated servers behind a client without sockets, on a clock that tests move."""

import json
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit

from spec_decode_exporter.scrape.client import HttpResponse
from spec_decode_exporter.scrape.errors import PollError
from spec_decode_exporter.simulator.simulated_server import server_info
from spec_decode_exporter.simulator.simulation import Simulation
from spec_decode_exporter.simulator.vllm_page import metrics_page
from tests.fakes.scenarios import scenario as scenario_of


class Server:
    """A simulated vLLM, started some seconds before the clock's present."""

    def __init__(self, clock, scenario, *, running=0.0, seed=3):
        loaded = scenario_of(scenario) if isinstance(scenario, str) else scenario
        self._clock = clock
        self.simulation = Simulation(loaded, seed)
        self.simulation.advance(running)
        self._start = clock.wall() - self.simulation.now
        self._moved_at = clock.monotonic()
        self.away = False

    def answer(self, url):
        now = self._clock.monotonic()
        passed, self._moved_at = now - self._moved_at, now
        self.simulation.advance(passed)
        if self.away or not self.simulation.serving:
            raise PollError("refused", "connection refused")
        if url.path.endswith("/server_info") and self.simulation.scenario.dev_mode:
            return json.dumps(server_info(self.simulation)).encode()
        if not url.path.rstrip("/").endswith("/metrics"):
            return b"{}"
        return metrics_page(self.simulation, parse_qs(url.query).get("name[]", ()), start=self._start)


@dataclass
class Network:
    """Replacement of every client; a host that is none of ``servers`` refuses connections."""

    servers: dict = field(default_factory=dict)
    spent: float = 0.0

    async def get(self, url, *, max_body=None):
        parts = urlsplit(url)
        server = self.servers.get(parts.netloc)
        if server is None:
            raise PollError("refused", f"{parts.netloc}: Connection refused")
        return HttpResponse(server.answer(parts), "text/plain", 0.001)

    async def close(self):
        """Close nothing: there are no sockets. A mock would keep each call, and tests count objects."""
