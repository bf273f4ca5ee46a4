"""The whole exporter beside a simulated vLLM, on a clock that is moved by hand.

Our own pages are asked for over real HTTP. The server's are not: ``network`` is a mock of the client that hands over the
simulation's page, so that eight minutes pass in seconds and are the same every time.
"""

from __future__ import annotations

from contextlib import asynccontextmanager

import aiohttp
import pytest
import yaml
from structlog.testing import capture_logs

from spec_decode_exporter.app.service import Options, Service
from spec_decode_exporter.config.load import load
from spec_decode_exporter.simulator.scenario import Scenario
from spec_decode_exporter.web.server import parse_listen_address
from tests.fakes.simulated import Server


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
def story(tmp_path, clock, network):
    @asynccontextmanager
    async def story(scenario, *, config="", seed=3):
        """Watch a server that lives through ``scenario``, with ``config`` besides its address, both YAML."""
        scenario = Scenario.model_validate(yaml.load(scenario, yaml.BaseLoader) or {})
        network.servers["vllm:8000"] = Server(clock, scenario, seed=seed)
        file = tmp_path / "exporter.yml"
        file.write_text(f"targets: [{{url: 'http://vllm:8000/metrics', name: one}}]\n{config}\n")
        options = Options([parse_listen_address("127.0.0.1:0")], lifecycle=True)
        with capture_logs() as logs:
            service = Service(lambda: load(file, environ={}), options, clock)
            await service.start()
            try:
                yield Story(service, clock, logs)
            finally:
                await service.close()

    return story
