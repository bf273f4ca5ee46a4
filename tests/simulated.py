"""Simulated servers behind a client without sockets, which live by a clock that is moved by hand."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

from exporter.scrape.client import Answer
from exporter.scrape.errors import PollError
from exporter.simulate.library import load_scenario
from exporter.simulate.python_page import filtered_page, python_page
from exporter.simulate.simulation import Simulation
from exporter.simulate.unix import UnixTime


class Server:
    """A simulated vLLM that was started some seconds before the clock's present."""

    def __init__(self, clock, scenario, *, running=0.0, seed=3):
        loaded = load_scenario(scenario) if isinstance(scenario, str) else scenario
        self._clock = clock
        self.simulation = Simulation(loaded, seed)
        self.simulation.advance(running)
        self._unix = UnixTime(clock.wall(), self.simulation.now)
        self._moved_at = clock.monotonic()
        self.away = False

    def answer(self, url):
        now = self._clock.monotonic()
        passed, self._moved_at = now - self._moved_at, now
        self.simulation.advance(passed)
        if self.away or not self.simulation.serving:
            raise PollError("refused", "connection refused")
        if not url.path.rstrip("/").endswith("/metrics"):
            return b"{}"
        names = parse_qs(url.query).get("name[]")
        page = self.simulation, self._unix
        return filtered_page(*page, frozenset(names)) if names else python_page(*page)


class Network:
    """What takes the place of every client; a host that is none of ``servers`` refuses connections."""

    def __init__(self):
        self.servers = {}
        self.spent = 0.0

    async def get(self, url, *, max_body=None):
        parts = urlsplit(url)
        server = self.servers.get(parts.netloc)
        if server is None:
            raise PollError("refused", f"{parts.netloc}: Connection refused")
        return Answer(server.answer(parts), "text/plain", 0.001)

    async def close(self):
        """Close nothing: there are no sockets."""
