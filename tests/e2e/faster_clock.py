"""Simulated servers and the exporter on a clock that is moved: hours pass in minutes, without a socket.

The exporter is the whole of it, from its pollers to its collector; only its HTTP client is replaced by one that asks
the simulations. What Prometheus would have scraped is recorded, and written down for promtool or as OpenMetrics.
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from unittest import mock
from urllib.parse import parse_qs, urlsplit

from prometheus_client.parser import text_string_to_metric_families
from structlog.testing import capture_logs

from spec_decode_exporter.app.service import Options, Service
from spec_decode_exporter.config.mistakes import ConfigError, Problem
from spec_decode_exporter.config.schema import Config
from spec_decode_exporter.metrics.page import MetricsPage
from spec_decode_exporter.scrape.client import HttpResponse
from spec_decode_exporter.scrape.errors import PollError, StatusError
from spec_decode_exporter.simulator.scenario import Scenario
from spec_decode_exporter.simulator.simulated_request import Answer as RequestAnswer
from spec_decode_exporter.simulator.simulation import Simulation
from spec_decode_exporter.simulator.vllm_page import metrics_page
from tests.conftest import PAGES_AT_ONCE, FakeClock, settle
from tests.fakes.scenarios import scenario

SCRAPE_SECONDS = 15
SCRAPED = {"job": "spec-decode", "instance": "exporter:7732"}
"""The labels that Prometheus gives to everything of an exporter."""

_TURNS = 5
"""Of the event loop between two sleepers: enough, since nothing here waits for a socket."""


class Answers:
    """Answers of a server; subclasses answer badly."""

    seconds = 0.0
    """How long an answer takes."""

    def __init__(self, simulations: list[Simulation], start: float) -> None:
        self.simulations = simulations
        self.asked = 0
        self._start = start

    def page(self, path: str, query: str) -> bytes:
        simulation = self.simulations[self.asked % len(self.simulations)]
        if not simulation.serving:
            raise PollError("refused", "Connection refused")
        if path == "/version":
            return b'{"version": "0.32.0"}'
        if simulation.scenario.front_end == "rust" and path == "/metrics":
            return metrics_page(simulation)
        if simulation.scenario.front_end == "python" and path == "/metrics":
            return metrics_page(simulation, start=self._start)
        if simulation.scenario.front_end == "python" and path == "/metrics/":
            return metrics_page(simulation, parse_qs(query)["name[]"], start=self._start)
        raise StatusError(404)


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
    """The accepted tokens of the positions do not add up to the accepted tokens: one position is not shown."""

    def page(self, path: str, query: str) -> bytes:
        lines = super().page(path, query).splitlines(keepends=True)
        return b"".join(line for line in lines if b'position="1"' not in line)


class AnswersOfAnother(Answers):
    """It is another program, whose page has no engine."""

    def page(self, path: str, query: str) -> bytes:
        return b"# TYPE go_goroutines gauge\ngo_goroutines 33\n"


class NoMoreAnswers(Answers):
    """After some minutes one never comes, and the exporter, as it never should, waits for it for ever."""

    @property
    def seconds(self) -> float:
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
    behind: int = 1
    """How many servers answer at its address, in turn."""

    def start(self, wall: float, take: Callable[[RequestAnswer], None] | None = None) -> Answers:
        text = scenario(self.scenario).model_dump(exclude_unset=True)
        changed = Scenario.model_validate({**text, **self.changes})
        simulations = [Simulation(changed, number, take) for number in range(self.behind)]
        return self.answers(simulations, wall)

    def target(self) -> dict[str, Any]:
        return {"name": self.name, "url": f"http://{self.name}:8000/metrics", **self.told}


@dataclass(frozen=True)
class Run:
    """Servers to watch, and the duration. Times are minutes from the beginning."""

    servers: tuple[Server, ...]
    minutes: int
    poll: str = "5s"
    scrape: int = SCRAPE_SECONDS
    down: range = range(0)
    """When scrapes of the exporter fail."""
    absent: range = range(0)
    """When Prometheus does not know of it."""
    requests: bool = False
    """Whether what the servers' responses say is sent to the exporter, with every scrape."""
    mistake: int | None = None
    """Minute of the reload of a configuration with an error."""
    metrics: Mapping[str, Any] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=lambda: SCRAPED)
    wall: float = 1_790_000_000.0

    def config(self) -> Config:
        targets = [server.target() for server in self.servers]
        return Config.model_validate(
            {
                "targets": targets,
                "poll": {"interval": self.poll},
                "metrics": self.metrics,
                "requests": {"ingest": self.requests},
            }
        )


@dataclass
class Recording:
    """The samples of every series, by the number of the scrape."""

    run: Run
    series: dict[str, dict[int, float]] = field(default_factory=lambda: defaultdict(dict))
    errors: list[Mapping[str, Any]] = field(default_factory=list)
    """What the exporter logged that it never should."""

    def add(self, scrape: int, name: str, labels: Mapping[str, str], value: float) -> None:
        written = ",".join(f'{label}="{text}"' for label, text in {**self.run.labels, **labels}.items())
        self.series[f"{name}{{{written}}}"][scrape] = value

    def promtool(self, names: frozenset[str]) -> list[dict[str, str]]:
        """Return the series of these names as promtool reads them; its clock begins at 0."""
        return [
            {"series": series, "values": self._values(series, samples)}
            for series, samples in self.series.items()
            if series.partition("{")[0] in names
        ]

    def _values(self, series: str, samples: Mapping[int, float]) -> str:
        past = self.run.wall if "_timestamp_seconds{" in series else 0.0
        values, seen = [], False
        for scrape in range(max(samples) + 2):
            value = samples.get(scrape)
            absent = "stale" if seen else "_"
            values.append(absent if value is None else f"{value - past:.17g}")
            seen = value is not None
        return " ".join(values)

    def openmetrics(self) -> Iterator[str]:
        """Yield the lines of a file that promtool makes a database of."""
        by_name = defaultdict(list)
        for series in self.series:
            by_name[series.partition("{")[0]].append(series)
        for name in sorted(by_name):
            yield f"# TYPE {name} unknown\n"
            for series in by_name[name]:
                for scrape, value in self.series[series].items():
                    yield f"{series} {value!r} {self.run.wall + scrape * self.run.scrape}\n"


class Network:
    """In the place of the exporter's HTTP client: the servers by name, each moved to now when it is asked."""

    def __init__(self, servers: tuple[Server, ...], clock: FakeClock, *, telling: bool = False) -> None:
        self._clock, self._begin = clock, clock.monotonic()
        self._said: list[RequestAnswer] = []
        take = self._said.append if telling else None
        self._servers = {server.name: server.start(clock.wall(), take) for server in servers}
        self.spent = 0.0

    async def get(self, url: str, *, max_body: int | None = None) -> HttpResponse:
        parts = urlsplit(url)
        server = self._servers[parts.hostname or ""]
        server.asked += 1
        for simulation in server.simulations:
            simulation.advance(self._clock.monotonic() - self._begin - simulation.now)
        body, seconds = server.page(parts.path, parts.query), server.seconds
        if seconds:
            await self._clock.sleep_until(self._clock.monotonic() + seconds)
        return HttpResponse(body, "text/plain", seconds)

    async def send(self, service: Service) -> None:
        """Send the requests of the responses since the last call, as a gateway does."""
        lines, self._said[:] = [json.dumps(answer) for answer in self._said], []
        receiver = service.state.receiver()
        if receiver and lines:
            await receiver.take("\n".join(lines).encode(), lines=True)

    async def close(self) -> None:
        """Nothing is open."""


def record(run: Run) -> Recording:
    """Live through it."""
    with capture_logs() as logs:
        recording = asyncio.run(_record(run))
    recording.errors = [
        entry for entry in logs if entry["log_level"] == "error" and entry["event"] != "reload_failed"
    ]
    return recording


async def _record(run: Run) -> Recording:
    clock = FakeClock(wall=run.wall)
    network, recording, config = (
        Network(run.servers, clock, telling=run.requests),
        Recording(run),
        run.config(),
    )
    configs = iter([config])
    with (
        mock.patch("spec_decode_exporter.monitor.target_monitor.Client", return_value=network),
        mock.patch("spec_decode_exporter.scrape.poller.PAGES", PAGES_AT_ONCE),
    ):
        service = Service(lambda: _next(configs), Options(addresses=()), clock)
        await service.start()
        await settle()
        page = MetricsPage(lambda: config.metrics)
        for scrape in range(run.minutes * 60 // run.scrape):
            minute = scrape * run.scrape / 60
            if minute == run.mistake:
                await _reload(service)
            await network.send(service)
            await _scrape(recording, scrape, minute, service, page)
            await clock.advance(run.scrape, _TURNS)
        await service.close()
    return recording


def _next(configs: Iterator[Config]) -> Config:
    for config in configs:
        return config
    raise ConfigError([Problem("exporter.yml:1", "tagrets", "is not a key")])


async def _reload(service: Service) -> None:
    try:
        await service.reload()
    except ConfigError:
        return
    raise AssertionError("the mistake was not noticed")


async def _scrape(
    recording: Recording, scrape: int, minute: float, service: Service, page: MetricsPage
) -> None:
    run = recording.run
    if int(minute) in run.absent:
        return
    recording.add(scrape, "up", {}, int(minute) not in run.down)
    if int(minute) in run.down:
        return
    for family in text_string_to_metric_families(page.text(await service.state.snapshot())):
        for sample in family.samples:
            recording.add(scrape, sample.name, sample.labels, sample.value)
