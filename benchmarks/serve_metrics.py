"""Serving /metrics: what a scrape costs, and how long it keeps the event loop from everything else.

    python -m benchmarks.serve_metrics [--targets 1 100] [--scrapes 20] [--smoke]

A real server on loopback serves what the exporter says of targets with K = 8 and full windows; a client in
another process scrapes it as Prometheus does. Costs are CPU seconds of the serving process. The longest block
is that of any one callback of its event loop, which is how late a poll can be because of a scrape. What was
imported is frozen, as the exporter does at its start: else every full garbage collection goes through it all.
The same page by prometheus_client's own aiohttp handler is the yardstick.
"""

from __future__ import annotations

import asyncio
import gc
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from itertools import count
from math import inf
from typing import Self

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.aiohttp import make_aiohttp_handler

from benchmarks.options import parsed, parser
from spec_decode_exporter.config.schema import Metrics
from spec_decode_exporter.metrics.selection import selected_metrics
from spec_decode_exporter.metrics.snapshot_writer import SnapshotWriter
from spec_decode_exporter.monitor.engine_monitor import EngineMonitor
from spec_decode_exporter.monitor.snapshot import Snapshot
from spec_decode_exporter.monitor.target_status import TargetStatus
from spec_decode_exporter.scrape.page.engine_table import Counter, Gauge, Latency
from spec_decode_exporter.scrape.page.sample import Buckets, Sample
from spec_decode_exporter.web.application import create_app
from spec_decode_exporter.web.server.http_server import serve
from spec_decode_exporter.web.server.listen import parse_listen_address
from tests.metrics.oracle import SnapshotCollector
from tests.web.conftest import plain_state

POSITIONS = 8
WINDOWS = (30.0, 300.0)
NOW = 300
BOUNDS = (*(2.0**power for power in range(-10, 8)), inf)
ACCEPT = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
    "application/openmetrics-text;version=0.0.1;q=0.5,"
    "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)
CLIENT = """
import gzip, http.client, sys, time
host, accept, scrapes = sys.argv[1], sys.argv[2], int(sys.argv[3])
connection = http.client.HTTPConnection(host)
for _ in range(scrapes):
    start = time.perf_counter()
    connection.request("GET", "/metrics", headers={"Accept": accept, "Accept-Encoding": "gzip"})
    page = connection.getresponse().read()
    seconds = time.perf_counter() - start
    series = sum(not line.startswith(b"#") for line in gzip.decompress(page).splitlines())
    print(seconds, series)
    time.sleep(0.02)
"""


class Engines:
    """Engines with K = 8 that were polled every second for five minutes, with the default windows."""

    def __init__(self, targets: int) -> None:
        self._names = [{"target": f"vllm-{number}.models.svc:8000"} for number in range(targets)]
        self._watches = [self._watched() for _ in self._names]

    def snapshot(self) -> Snapshot:
        """Sum up all of them, as the exporter does at each scrape."""
        status = TargetStatus(True, "vllm", "python", "filtered", "0.32.0", 301, {}, 0.002, 2100, 1.0)
        engines = [
            ({**name, "model_name": "meta-llama/Llama-3.3-70B-Instruct", "engine": "0"}, watch.snapshot(NOW))
            for name, watch in zip(self._names, self._watches, strict=True)
        ]
        return Snapshot(engines, [(name, status) for name in self._names])

    def _watched(self) -> EngineMonitor:
        watch = EngineMonitor(WINDOWS)
        for second in range(NOW + 1):
            sample = self._sample(second, with_latencies=second % 10 == 0)
            watch.observe(sample, float(second), float(second), 1.0, 10.0)
        return watch

    def _sample(self, second: int, *, with_latencies: bool) -> Sample:
        drafts = 400 * second
        positions = tuple(drafts * (POSITIONS - place) // (POSITIONS + 1) for place in range(POSITIONS))
        accepted = sum(positions)
        counters = {
            Counter.DRAFTS: drafts,
            Counter.DRAFT_TOKENS: drafts * POSITIONS,
            Counter.ACCEPTED_TOKENS: accepted,
            Counter.GENERATION_TOKENS: drafts + accepted + second,
            Counter.FIRST_TOKENS: second,
            Counter.DECODE_STEPS: drafts,
            Counter.DECODE_NANOSECONDS: drafts * 20_000_000,
        }
        buckets = Buckets(BOUNDS, tuple(second * place for place in range(1, len(BOUNDS) + 1)))
        return Sample(
            counters=tuple(counters.get(counter, second) for counter in Counter),
            positions=positions,
            gauges=tuple(0.5 for _ in Gauge),
            created=0.0,
            latencies=dict.fromkeys(Latency, buckets) if with_latencies else None,
        )

    def writer(self) -> SnapshotWriter:
        """Return the writer of what the exporter serves by default."""
        selection = selected_metrics(Metrics(), WINDOWS)
        return SnapshotWriter(lambda: selection)

    def collector(self) -> SnapshotCollector:
        """Return the same metrics as a collector of prometheus_client."""
        selection = selected_metrics(Metrics(), WINDOWS)
        return SnapshotCollector(self.snapshot, lambda: selection)


@dataclass
class Cost:
    """Cost of the scrapes of one application."""

    seconds: list[float]
    cpu: float
    longest_block: float
    series: int


async def measure(app: web.Application, scrapes: int) -> Cost:
    """Scrape an application, the client being another process."""
    server = await serve(app, [parse_listen_address("127.0.0.1:0")])
    host = server.urls[0].removeprefix("http://").rstrip("/")
    await _scrape(host, 2)
    gc.collect()
    with Blocks() as blocks:
        cpu = time.process_time()
        answers = await _scrape(host, scrapes)
        cpu = time.process_time() - cpu
    await server.close()
    return Cost([seconds for seconds, _ in answers], cpu / scrapes, blocks.longest, int(answers[0][1]))


async def _scrape(host: str, scrapes: int) -> list[list[float]]:
    client = await asyncio.create_subprocess_exec(
        sys.executable, "-c", CLIENT, host, ACCEPT, str(scrapes), stdout=subprocess.PIPE
    )
    output, _ = await client.communicate()
    return [[float(number) for number in line.split()] for line in output.splitlines()]


class Blocks:
    """Times every callback of the event loop while it is entered; ``longest`` is in CPU seconds."""

    longest = 0.0

    def __enter__(self) -> Self:
        self._run = run = asyncio.Handle._run  # noqa: SLF001  there is no public way to see each callback

        def timed(handle: asyncio.Handle) -> None:
            start = time.thread_time()
            run(handle)
            self.longest = max(self.longest, time.thread_time() - start)

        asyncio.Handle._run = timed  # type: ignore[method-assign, assignment]  # noqa: SLF001
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.Handle._run = self._run  # type: ignore[method-assign]  # noqa: SLF001


def ours(targets: int) -> web.Application:
    engines, numbers = Engines(targets), count()

    async def taken() -> Snapshot:
        """Return another snapshot for each scrape, so that no two share a rendering."""
        return replace(engines.snapshot(), number=next(numbers))

    return create_app(plain_state(writers=[engines.writer()], snapshot=taken))  # type: ignore[no-untyped-call]


def theirs(targets: int) -> web.Application:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Engines(targets).collector())
    app = web.Application()
    app.router.add_get("/metrics", make_aiohttp_handler(registry))
    return app


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--targets", type=int, nargs="+", default=[1, 100])
    options.add_argument("--scrapes", type=int, default=20)
    arguments = parsed(options, targets=[1], scrapes=1)
    gc.freeze()
    print("| targets | served by | series | answered in (median) | CPU | longest block |")
    print("|---:|---|---:|---:|---:|---:|")
    for targets in arguments.targets:
        for name, make in (("exporter", ours), ("prometheus_client's handler", theirs)):
            cost = asyncio.run(measure(make(targets), arguments.scrapes))
            times = (statistics.median(cost.seconds), cost.cpu, cost.longest_block)
            cells = " | ".join(f"{seconds * 1e3:.1f} ms" for seconds in times)
            print(f"| {targets} | {name} | {cost.series:,} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
