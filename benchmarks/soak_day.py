"""A day of the whole exporter in some minutes, on a clock that is moved by hand: nothing may grow.

    python -m benchmarks.soak_day [--hours 24] [--targets 50] [--interval 5] [--smoke]

Servers are restarted every half an hour, and their acceptance drops in between. Five are simulated, and
answer for ten targets each. The exporter is the whole of it, with its own page on a real socket, which is
read every 5 minutes; only the client that asks servers is replaced by one that asks the simulations. A poll
every 5 s, since one a second takes five times as long. Memory is that of this process, simulations and all.
Prints a row every other hour; ends with status 1 if a goal is missed.
"""

from __future__ import annotations

import asyncio
import gc
import os
import re
import tempfile
import time
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from unittest import mock
from urllib.parse import parse_qs, urlsplit

from benchmarks.options import end, parsed, parser
from benchmarks.process import resident_megabytes
from spec_decode_exporter.app.options import Options
from spec_decode_exporter.app.service import Service
from spec_decode_exporter.config.schema import Config
from spec_decode_exporter.core.log import configure_log
from spec_decode_exporter.scrape.http.client import HttpResponse
from spec_decode_exporter.scrape.poll_errors import PollError, StatusError
from spec_decode_exporter.simulator.python_page import filtered_page, python_page
from spec_decode_exporter.simulator.scenario_library import read_scenario
from spec_decode_exporter.simulator.simulation import Simulation
from spec_decode_exporter.simulator.unix_time import UnixTime
from spec_decode_exporter.web.server.listen import ListenAddress
from tests.conftest import FakeClock

GROWTH_GOAL = 0.02
"""By what part resident memory may be more at the end than when it had warmed up."""
WARM_UP = 4
"""Hours until all that is kept by number is full: 1,000 events take longest."""
HOUR = 3600.0
SCRAPED_EVERY = 300.0
SIMULATIONS = 5
TURNS = 5
"""Of the event loop between two sleepers: no poll waits for a socket."""
SCENARIO = """
load: {{rate: 0.4}}
acceptance: {{mean: 0.8}}
phases:
  - {{at: {drop}s, acceptance: {{mean: 0.35}}}}
  - {{at: {recovery}s, acceptance: {{mean: 0.8}}}}
  - {{at: {restart}s, restart: {{down: 20s}}}}
repeat: 30m
"""
_WATCHED = re.compile(rb"^spec_decode_exporter_target_up\{.*\} 1(?:\.0)?$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Held:
    """Resources of the process at one moment."""

    hour: float
    resident: float
    """MB."""
    objects: int
    """That the garbage collector knows of."""
    tasks: int
    descriptors: int
    series: int
    watched: int
    """Targets whose newest poll succeeded."""

    def cells(self) -> str:
        """Return a row of the table."""
        rest = f"{self.objects:,} | {self.tasks} | {self.descriptors} | {self.series:,}"
        return f"| {self.hour:.0f} | {self.resident:.1f} | {rest} |"


class Server:
    """A simulated vLLM whose page changes every interval."""

    def __init__(self, clock: FakeClock, number: int, interval: float) -> None:
        times = {
            name: minute * 60 + 67 * number
            for name, minute in (("drop", 5), ("recovery", 8), ("restart", 15))
        }
        self._simulation = Simulation(read_scenario(SCENARIO.format(**times).encode(), "day.yml"), number)
        self._clock = clock
        self._interval = interval
        self._unix = UnixTime(clock.wall(), 0.0)
        self._beat = clock.monotonic() // interval

    def answer(self, names: frozenset[str]) -> bytes:
        """Return the page, or that part of it."""
        beat = self._clock.monotonic() // self._interval
        self._simulation.advance((beat - self._beat) * self._interval)
        self._beat = beat
        if not self._simulation.serving:
            raise PollError("refused", "Connection refused")
        return self._page(beat, names)

    @lru_cache(maxsize=4 * SIMULATIONS)  # noqa: B019  the number is constant during the process
    def _page(self, _beat: float, names: frozenset[str]) -> bytes:
        page = self._simulation, self._unix
        return filtered_page(*page, names) if names else python_page(*page)


class Client:
    """Client without sockets, in place of the HTTP client."""

    def __init__(self, servers: list[Server]) -> None:
        self._servers = servers
        self.spent = 0.0

    async def get(self, url: str, *, max_body: int | None = None) -> HttpResponse:  # noqa: ARG002
        """Return a page of the server that the port of ``url`` names; its size has no limit."""
        parts = urlsplit(url)
        if not parts.path.startswith("/metrics"):
            raise StatusError(404)
        server = self._servers[(parts.port or 0) % SIMULATIONS]
        return HttpResponse(
            server.answer(frozenset(parse_qs(parts.query).get("name[]", ()))), "text/plain", 0.001
        )

    async def close(self) -> None:
        """Close nothing."""


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--hours", type=int, default=24)
    options.add_argument("--targets", type=int, default=50)
    options.add_argument("--interval", type=float, default=5.0, help="seconds from one poll to the next")
    arguments = parsed(options, hours=1, targets=1, interval=10.0)
    configure_log("error", "logfmt")
    print("| hour | memory, MB | objects | tasks | descriptors | series |\n|--:|--:|--:|--:|--:|--:|")
    hours = asyncio.run(_day(arguments.hours, arguments.targets, arguments.interval))
    before, after = next(held for held in hours if held.hour >= min(WARM_UP, arguments.hours)), hours[-1]
    print(f"\n{time.process_time():.0f} s of processor time")
    missed = list(_missed(before, after, arguments.targets))
    end(arguments, missed)


def _missed(before: Held, after: Held, targets: int) -> Iterator[str]:
    growth = after.resident / before.resident - 1
    print(f"memory: {before.resident:.1f} MB, then {after.resident:.1f} MB: {growth:+.1%}")
    if growth > GROWTH_GOAL:
        yield f"memory grew by {growth:.1%}"
    for name in ("tasks", "descriptors", "series"):
        more = getattr(after, name) - getattr(before, name)
        if more > 0:
            yield f"{more} {name} were left behind"
    if after.watched < targets:
        yield f"polls of {targets - after.watched} targets failed"


async def _day(hours: int, targets: int, interval: float) -> list[Held]:
    """Let the hours pass; print a row for every other one, and return them all."""
    clock, taken = FakeClock(), []
    async with _service(clock, targets, interval) as service:
        for hour in range(1, hours + 1):
            for _ in range(int(HOUR / SCRAPED_EVERY)):
                await clock.advance(SCRAPED_EVERY, TURNS)
                page = await asyncio.to_thread(_read, f"{service.urls[0]}metrics")
            taken.append(_held(hour, page))
            if hour % 2 == 0:
                print(taken[-1].cells(), flush=True)
    return taken


def _read(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=60) as page:
        content: bytes = page.read()
    return content


def _held(hour: int, page: bytes) -> Held:
    gc.collect()
    return Held(
        hour,
        resident_megabytes(os.getpid()),
        len(gc.get_objects()),
        len(asyncio.all_tasks()),
        len(list(Path("/proc/self/fd").iterdir())),
        sum(1 for line in page.splitlines() if not line.startswith(b"#")),
        len(_WATCHED.findall(page)),
    )


@asynccontextmanager
async def _service(clock: FakeClock, targets: int, interval: float) -> AsyncIterator[Service]:
    servers = [Server(clock, number, interval) for number in range(SIMULATIONS)]
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch("spec_decode_exporter.monitor.target_monitor.Client", return_value=Client(servers)),
    ):
        config = Config.model_validate(
            {
                "poll": {"interval": interval, "histogram_interval": 60.0, "max_duty_cycle": 1},
                "state": {"file": Path(folder, "state.json")},
                "targets": [{"url": f"http://vllm:{8000 + number}/metrics"} for number in range(targets)],
            }
        )
        service = Service(lambda: config, Options([ListenAddress("127.0.0.1", 0)]), clock)
        await service.start()
        try:
            yield service
        finally:
            await service.close()


if __name__ == "__main__":
    main()
