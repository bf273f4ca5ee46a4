"""A quarter of an hour of everything at once, in which nothing may grow.

    python -m benchmarks.soak [--targets 200] [--warm-up 330] [--seconds 900] [--smoke]

The exporter polls real HTTP servers on loopback once a second. One target of a list found over HTTP leaves
and another comes every second; a SIGHUP every 15 s brings a new configuration, and every other time other
labels; its page is scraped every 5 s; its JSON and the page for people are read, a stream of events is begun
and broken off, and the learned state is saved. Before the time is taken and after it the list is empty for a
while: whatever tasks, descriptors or series there are then that were not there before were left behind.
Ends with status 1 if a goal is missed.
"""

from __future__ import annotations

import json
import os
import signal
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path

from benchmarks.options import end, parsed, parser
from benchmarks.page_server import PageServer, addresses
from benchmarks.process import Answering, free_port, resident_megabytes
from benchmarks.table import print_table

GROWTH_GOAL = 0.02
"""By what part resident memory may be more at the end than at the beginning, windows being full at both."""
COMING_AND_GOING = 10
"""How many of the targets come and go."""
POOL = 60
"""How many there are of these in all: who has gone comes back after a minute or so, as servers do."""
SCRAPED_EVERY = 5.0
RELOADED_EVERY = 15.0
"""Seconds without those that come and go; longer than a look at a server takes to end."""
ENDS = 300.0
"""Seconds at the beginning and at the end whose most memory is compared: it is what limits are set by."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Resources of the exporter at one moment."""

    seconds: float
    """Since the beginning."""
    resident: float
    """MB."""
    tasks: dict[str, int]
    """How many there are of each kind."""
    descriptors: int
    series: int

    def cells(self) -> list[str]:
        """Return the row of the table."""
        return [f"{self.resident:.1f}", *map(str, (sum(self.tasks.values()), self.descriptors, self.series))]

    def left_over(self, before: Usage) -> list[str]:
        """Say what there is more of than before."""
        more = {name: number - before.tasks.get(name, 0) for name, number in self.tasks.items()}
        more |= {name: getattr(self, name) - getattr(before, name) for name in ("descriptors", "series")}
        return [f"{number} {name}" for name, number in more.items() if number > 0]


class TargetList:
    """List of targets for the exporter: some of a pool, another one each second, or none."""

    def __init__(self, pool: Sequence[str]) -> None:
        self._pool = pool
        self._begun = time.monotonic()
        self.resting = False
        listing = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = json.dumps([{"targets": listing.now()}]).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def now(self) -> list[str]:
        """Return the targets of this second."""
        if self.resting:
            return []
        first = int(time.monotonic() - self._begun)
        return [self._pool[(first + place) % len(self._pool)] for place in range(COMING_AND_GOING)]


class Soak:
    """The exporter, and everybody who wants something of it."""

    def __init__(self, targets: int, server: PageServer, folder: Path) -> None:
        hosts = [f"{address}:{server.port}" for address in addresses(targets - COMING_AND_GOING + POOL)]
        self._steady, pool = hosts[:-POOL], hosts[-POOL:]
        self.listing = TargetList(pool)
        self._config = folder / "exporter.yml"
        self._folder = folder
        self._reloads = count()
        self._write_config()
        self._port = free_port()
        self._began = time.monotonic()
        self.exporter = Answering(
            *("benchmarks.counted", "run"),
            f"--config.file={self._config}",
            f"--web.listen-address=127.0.0.1:{self._port}",
            "--log.level=error",
        )

    def _write_config(self) -> None:
        number = next(self._reloads)
        labels = {"release": "blue" if number // 2 % 2 else "green"}
        config = {
            "poll": {"max_duty_cycle": 1},
            "state": {"file": str(self._folder / "state.json"), "interval": "5s"},
            "discovery": {"http": [{"url": self.listing.url, "refresh_interval": "1s"}]},
            "targets": [{"url": f"http://{host}/metrics", "labels": labels} for host in self._steady],
        }
        self._config.write_text(json.dumps(config))

    def reload(self) -> None:
        """Bring a new configuration."""
        self._write_config()
        os.kill(self.exporter.pid, signal.SIGHUP)

    def get(self, path: str) -> bytes:
        """Read a page of the exporter's."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self._port}{path}", timeout=60) as page:
            content: bytes = page.read()
        return content

    def usage(self) -> Usage:
        """Scrape the page and take down what the exporter holds."""
        page = self.get("/metrics")
        pid = self.exporter.pid
        return Usage(
            time.monotonic() - self._began,
            resident_megabytes(pid),
            self.exporter.ask(""),
            len(list(Path(f"/proc/{pid}/fd").iterdir())),
            sum(1 for line in page.splitlines() if not line.startswith(b"#")),
        )

    def scrapes(self, seconds: float) -> Iterator[Usage]:
        """Let ``seconds`` pass under full load."""
        began = time.monotonic()
        for number in count(1):
            moment = began + number * SCRAPED_EVERY
            if moment > began + seconds:
                return
            time.sleep(max(0.0, moment - time.monotonic()))
            yield self.usage()
            if number % (RELOADED_EVERY / SCRAPED_EVERY) == 0:
                self.reload()
                self.get("/")
                self.get("/api/v1/snapshot")
                self.get("/api/v1/events")

    def at_rest(self, seconds: float) -> Usage:
        """Return the usage with an empty list of targets."""
        self.listing.resting = True
        time.sleep(seconds)
        self.usage()
        usage = self.usage()
        self.listing.resting = False
        return usage


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--targets", type=int, default=200)
    options.add_argument("--warm-up", type=float, default=330.0, help="seconds until the windows are full")
    options.add_argument("--seconds", type=float, default=900.0)
    options.add_argument("--rest", type=float, default=25.0, help="seconds without targets, at both ends")
    arguments = parsed(options, targets=20, warm_up=2.0, seconds=5.0, rest=1.0)
    with tempfile.TemporaryDirectory() as folder, PageServer() as server:
        soak = Soak(arguments.targets, server, Path(folder))
        with soak.exporter:
            list(soak.scrapes(arguments.warm_up))
            before = soak.at_rest(arguments.rest)
            usages = list(soak.scrapes(arguments.seconds))
            after = soak.at_rest(arguments.rest)
    rows = ([name, *usage.cells()] for name, usage in (("before", before), ("after", after)))
    print_table(("at rest", "memory, MB", "tasks", "descriptors", "series"), rows)
    missed = after.left_over(before)
    first, last = _ends(usages)
    growth = last / first - 1
    print(f"memory: {first:.1f} MB, then {last:.1f} MB: {growth:+.1%}")
    if growth > GROWTH_GOAL:
        missed.append(f"memory grew by {growth:.1%}")
    end(arguments, missed)


def _ends(usages: Sequence[Usage]) -> tuple[float, float]:
    begin, end = usages[0].seconds, usages[-1].seconds
    first = max(usage.resident for usage in usages if usage.seconds <= begin + ENDS)
    return first, max(usage.resident for usage in usages if usage.seconds >= end - ENDS)


if __name__ == "__main__":
    main()
