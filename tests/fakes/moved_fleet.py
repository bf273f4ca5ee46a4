"""The whole exporter beside simulated servers on a moved clock: hours pass in seconds, without a vLLM.

Only its HTTP client is replaced, by ``Network``, which asks the simulations. The clock stands still unless it is moved,
so two pages of the exporter can be compared number by number.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from unittest import mock
from urllib.parse import parse_qs, urlsplit

from spec_decode_exporter.app.service import Options, Service
from spec_decode_exporter.config.schema import Config
from spec_decode_exporter.scrape.client import HttpResponse
from spec_decode_exporter.scrape.errors import PollError, StatusError
from spec_decode_exporter.simulator.scenario import Scenario
from spec_decode_exporter.simulator.simulated_request import Answer as RequestAnswer
from spec_decode_exporter.simulator.simulated_server import server_info
from spec_decode_exporter.simulator.simulation import Simulation
from spec_decode_exporter.simulator.vllm_page import metrics_page
from spec_decode_exporter.web.server import ListenAddress
from tests.conftest import PAGES_AT_ONCE, FakeClock, settle
from tests.fakes import simulated
from tests.fakes.scenarios import scenario

WALL = 1_790_000_000.0
TURNS = 5  # iterations of the event loop between two sleepers: enough, since the polls need no socket
_SENT_EVERY = 5.0  # seconds from one batch of requests to the next, where the exporter receives them


@dataclass
class Answers:
    """Answers of a server; subclasses answer badly."""

    simulations: list[Simulation]
    start: float
    asked: int = 0
    seconds = 0.0  # how long an answer takes

    def page(self, path: str, query: str) -> bytes:
        simulation = self.simulations[self.asked % len(self.simulations)]
        if not simulation.serving:
            raise PollError("refused", "Connection refused")
        if path == "/version":
            return b'{"version": "0.32.0"}'
        if path == "/server_info" and simulation.scenario.dev_mode:
            return json.dumps(server_info(simulation)).encode()
        if path == "/metrics":
            return metrics_page(simulation, start=self.start)
        if path == "/metrics/":
            return metrics_page(simulation, parse_qs(query)["name[]"], start=self.start)
        raise StatusError(404)


class Gone(Answers):
    """It answers a number of requests, and then no more."""

    answered = 60

    def page(self, path: str, query: str) -> bytes:
        if self.asked > self.answered:
            raise PollError("refused", "Connection refused")
        return super().page(path, query)


class SlowAnswers(Answers):
    """Each takes longer than a poll should."""

    seconds = 2.5


class SomeAnswers(Answers):
    """Two of seven requests are answered with an error: no scrape, once a minute, sees the same ones each time."""

    def page(self, path: str, query: str) -> bytes:
        if self.asked % 7 in (0, 3):
            raise StatusError(503)
        return super().page(path, query)


class ContradictoryAnswers(Answers):
    """The accepted tokens of the positions do not add up to the accepted tokens: one position is absent."""

    def page(self, path: str, query: str) -> bytes:
        lines = super().page(path, query).splitlines(keepends=True)
        return b"".join(line for line in lines if b'position="1"' not in line)


class AnswersOfAnother(Answers):
    """It is another program, whose page has no engine."""

    def page(self, path: str, query: str) -> bytes:
        return b"# TYPE go_goroutines gauge\ngo_goroutines 33\n"


class NoMoreAnswers(Answers):
    """After some minutes an answer never comes, and the exporter, as it never should, waits for it for ever."""

    @property
    def seconds(self) -> float:  # type: ignore[override]
        return 0.0 if self.asked < 120 else 1e9


@dataclass(frozen=True)
class Server:
    """A simulated server and its target in the exporter's configuration."""

    name: str
    scenario: str = "steady"
    changes: Mapping[str, Any] = field(default_factory=dict)
    """What is different from the scenario of that name."""
    told: Mapping[str, Any] = field(default_factory=dict)
    """Keys of the target in the exporter's configuration."""
    answers: type[Answers] = Answers
    behind: int = 1  # how many servers answer at its address, in turn

    def target(self) -> dict[str, Any]:
        return {"name": self.name, "url": f"http://{self.name}:8000/metrics", **self.told}


@dataclass(kw_only=True)
class Network(simulated.Network):
    """In the place of the exporter's HTTP client: the servers by name, each moved to now when it is asked."""

    servers: dict[str, Answers]
    clock: FakeClock
    begin: float
    said: list[RequestAnswer]
    """The responses that were not yet sent, if any."""

    async def get(self, url: str, *, max_body: int | None = None) -> HttpResponse:
        parts = urlsplit(url)
        server = self.servers[parts.hostname or ""]
        server.asked += 1
        for simulation in server.simulations:
            simulation.advance(self.clock.monotonic() - self.begin - simulation.now)
        body, seconds = server.page(parts.path, parts.query), server.seconds
        if seconds:
            await self.clock.sleep_until(self.clock.monotonic() + seconds)
        return HttpResponse(body, "text/plain", seconds)

    async def send(self, service: Service) -> None:
        """Send the requests of the responses since the last call, as a gateway does."""
        lines, self.said[:] = [json.dumps(answer) for answer in self.said], []
        receiver = service.state.receiver()
        if receiver and lines:
            await receiver.take("\n".join(lines).encode(), lines=True)


@dataclass
class MovedFleet:
    """A running exporter."""

    service: Service
    clock: FakeClock
    network: Network

    @property
    def url(self) -> str:
        """The address of the page."""
        return self.service.urls[0]

    async def advance(self, seconds: float) -> None:
        """Let time pass, and what the servers' responses say arrive now and then."""
        if self.service.state.receiver() is None:
            await self.clock.advance(seconds, TURNS)
            return
        while seconds > 0:
            await self.clock.advance(min(seconds, _SENT_EVERY), TURNS)
            await self.network.send(self.service)
            seconds -= _SENT_EVERY


@contextlib.asynccontextmanager
async def running(
    servers: Sequence[Server],
    load: Callable[[], Config],
    *,
    wall: float = WALL,
    telling: bool = False,
    addresses: Sequence[ListenAddress] = (),
) -> AsyncIterator[MovedFleet]:
    """Run an exporter of these servers with the configuration that ``load`` returns."""
    clock = FakeClock()
    clock.offset = wall - clock.now
    said: list[RequestAnswer] = []
    answers = {}
    for server in servers:
        text = scenario(server.scenario).model_dump(exclude_unset=True)
        changed = Scenario.model_validate({**text, **server.changes})
        take = said.append if telling else None
        simulations = [Simulation(changed, number, take) for number in range(server.behind)]
        answers[server.name] = server.answers(simulations, wall)
    network = Network(servers=answers, clock=clock, begin=clock.monotonic(), said=said)
    with (
        mock.patch("spec_decode_exporter.monitor.target_monitor.Client", return_value=network),
        mock.patch("spec_decode_exporter.scrape.poller.PAGES", PAGES_AT_ONCE),
    ):
        service = Service(load, Options(addresses=addresses), clock)
        await service.start()
        try:
            await settle()
            yield MovedFleet(service, clock, network)
        finally:
            await service.close()


@contextlib.asynccontextmanager
async def moved_fleet(
    servers: Sequence[Server], wall: float = WALL, **config: object
) -> AsyncIterator[MovedFleet]:
    """Serve all metrics and the page of these servers; ``config`` is more of the exporter's configuration."""
    targets = [server.target() for server in servers]
    settings = Config.model_validate({"targets": targets, "metrics": {"profile": "full"}, **config})
    address, telling = ListenAddress("127.0.0.1", 0), settings.requests.ingest
    async with running(servers, lambda: settings, wall=wall, telling=telling, addresses=[address]) as fleet:
        yield fleet
