"""The whole exporter beside simulated servers, on a clock that is moved by hand.

Our own pages are requested over real HTTP. The servers' are not: ``network`` replaces the client by simulations, so that
minutes pass in seconds and are the same every time.
"""

import json
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import yaml
from structlog.testing import capture_logs

from spec_decode_exporter.app.service import Options, Service
from spec_decode_exporter.config.load import load
from spec_decode_exporter.simulator.scenario import Scenario
from spec_decode_exporter.web.server import parse_listen_address
from tests.conftest import FakeClock
from tests.fakes.simulated import Server


@dataclass
class Story:
    """A running exporter, its configuration file, and its log so far."""

    service: Service
    clock: FakeClock
    logs: list
    file: Path

    def told(self, *words):
        """Return the log's entries of these events."""
        return [entry for entry in self.logs if entry["event"] in words]

    async def ask(self, path, method="GET", **more):
        """Return the status and the text of an answer."""
        url = f"{self.service.urls[0].rstrip('/')}/{path.lstrip('/')}"
        async with aiohttp.ClientSession() as session, session.request(method, url, **more) as answer:
            return answer.status, await answer.text()

    async def get(self, path):
        status, text = await self.ask(path)
        assert status == 200, (path, text)
        return text

    async def json(self, path):
        return json.loads(await self.get(path))

    async def reload(self, text):
        self.file.write_text(text)
        await self.service.reload()


@asynccontextmanager
async def exporter(tmp_path, clock, config):
    """Run an exporter with a configuration in YAML."""
    file = tmp_path / "exporter.yml"
    file.write_text(config)
    options = Options([parse_listen_address("127.0.0.1:0")], lifecycle=True)
    with capture_logs() as logs:
        service = Service(lambda: load(file, environ={}), options, clock)
        await service.start()
        try:
            yield Story(service, clock, logs, file)
        finally:
            await service.close()


@asynccontextmanager
async def story(tmp_path, clock, network, scenario, *, config=""):
    """Watch a server of a scenario in YAML, with ``config`` besides its address."""
    scenario = Scenario.model_validate(yaml.load(scenario, yaml.BaseLoader) or {})
    network.servers["vllm:8000"] = Server(clock, scenario)
    targets = "targets: [{url: 'http://vllm:8000/metrics', name: one}]"
    async with exporter(tmp_path, clock, f"{targets}\n{config}\n") as told:
        yield told
