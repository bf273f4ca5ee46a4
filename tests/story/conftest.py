"""The whole exporter beside a simulated vLLM, on a clock that is moved by hand.

Our own pages are asked for over real HTTP. The server's are not: ``SimulatedClient`` is a mock of the client that
hands over the simulation's page, so that eight minutes pass in seconds and are the same every time.
"""

from __future__ import annotations

from contextlib import asynccontextmanager

import aiohttp
import pytest
from structlog.testing import capture_logs

from exporter.config.load import load
from exporter.scrape.client import Answer
from exporter.scrape.errors import PollError, StatusError
from exporter.service import Options, Service
from exporter.simulate import python_page
from exporter.simulate.library import read_scenario
from exporter.simulate.simulation import Simulation
from exporter.simulate.unix import UnixTime
from exporter.web.listen import parse_listen_address


class SimulatedClient:
    """Answers like the client that polls, with the page of a simulation that moves with the clock."""

    def __init__(self, simulation, clock):
        self._simulation = simulation
        self._clock = clock
        self._moved_at = clock.monotonic()
        self._unix = UnixTime(clock.wall(), simulation.now)

    async def get(self, url):
        now = self._clock.monotonic()
        self._simulation.advance(now - self._moved_at)
        self._moved_at = now
        if not self._simulation.serving:
            raise PollError("refused", "the simulated server is down")
        if url.endswith("/version"):
            return Answer(b'{"version":"0.32.0"}', "application/json", 0.001)
        if "/metrics" not in url:
            raise StatusError(404)
        return Answer(python_page.python_page(self._simulation, self._unix), python_page.CONTENT_TYPE, 0.001)

    async def close(self):
        pass


class Story:
    """A running exporter, the server that it watches, and what it logged so far."""

    def __init__(self, service, clock, logs):
        self.service = service
        self.clock = clock
        self.logs = logs

    def told(self, *words):
        """The log's entries with these event words."""
        return [entry for entry in self.logs if entry["event"] in words]

    async def get(self, path):
        url = f"{self.service.urls[0].rstrip('/')}/{path.lstrip('/')}"
        async with aiohttp.ClientSession() as session, session.get(url) as answer:
            assert answer.status == 200, await answer.text()
            return await answer.text()


@pytest.fixture
def story(tmp_path, clock, monkeypatch):
    @asynccontextmanager
    async def story(scenario, *, config="", seed=1):
        """Watch a server that lives through ``scenario``, with ``config`` besides its address, both YAML."""
        simulation = Simulation(read_scenario(scenario.encode(), "scenario.yml"), seed=seed)
        client = SimulatedClient(simulation, clock)
        monkeypatch.setattr("exporter.watch.Client", lambda *_, **__: client)
        file = tmp_path / "exporter.yml"
        file.write_text(
            f"targets: [{{url: 'http://vllm:8000/metrics', name: one}}]\npoll: {{filter: 'off'}}\n{config}\n"
        )
        options = Options([parse_listen_address("127.0.0.1:0")], lifecycle=True)
        with capture_logs() as logs:
            service = Service(lambda: load(file, environ={}), options, clock)
            await service.start()
            try:
                yield Story(service, clock, logs)
            finally:
                await service.close()

    return story
