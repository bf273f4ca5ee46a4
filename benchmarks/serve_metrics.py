"""Serving /metrics: what a scrape costs, and how long it keeps the event loop from everything else.

    python -m benchmarks.serve_metrics [--targets 1 100] [--scrapes 20]

A real server on loopback serves 180 series a target; a client in another process scrapes it as Prometheus
does. Costs are CPU seconds of the serving process. The longest block is that of any one callback of its event
loop, which is how late a poll can be because of a scrape. What exists before the first scrape is frozen, as
in the exporter after its start: else a collection of all the garbage takes 10 ms now and then, whoever asks.
The same page by prometheus_client's own aiohttp handler is the yardstick.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

from aiohttp import web
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.aiohttp import make_aiohttp_handler
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from exporter.web.app import create_app
from exporter.web.listen import parse_listen_address, serve
from exporter.web.state import AppState

POSITIONS = 8
WINDOWS = ("30s", "5m")
ENGINE = ("target", "model_name", "engine")
ACCEPT = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
    "application/openmetrics-text;version=0.0.1;q=0.5,"
    "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)
CLIENT = """
import http.client, sys, time
host, accept, scrapes = sys.argv[1], sys.argv[2], int(sys.argv[3])
connection = http.client.HTTPConnection(host)
for _ in range(scrapes):
    start = time.perf_counter()
    connection.request("GET", "/metrics", headers={"Accept": accept, "Accept-Encoding": "gzip"})
    size = len(connection.getresponse().read())
    print(time.perf_counter() - start, size)
    time.sleep(0.02)
"""


class Engines:
    """180 series a target in 60 families, as many as an engine with K = 8 and two windows has at most."""

    def __init__(self, targets: int) -> None:
        self._engines = [
            (f"vllm-{n}.models.svc:8000", "meta-llama/Llama-3.3-70B", "0") for n in range(targets)
        ]

    def collect(self) -> Iterator[Metric]:
        """Give the families one by one."""
        for number in range(8):
            yield self._family(CounterMetricFamily, f"spec_decode_counter_{number}", (), [()])
        for number in range(50):
            yield self._family(
                GaugeMetricFamily, f"spec_decode_gauge_{number}", ("window",), [(w,) for w in WINDOWS]
            )
        for number in range(4):
            places = [(w, str(p)) for w in WINDOWS for p in range(POSITIONS)]
            yield self._family(
                GaugeMetricFamily, f"spec_decode_position_{number}", ("window", "position"), places
            )
        yield self._family(
            CounterMetricFamily, "spec_decode_position", ("position",), [(str(p),) for p in range(8)]
        )

    def _family(
        self, kind: type, name: str, labels: tuple[str, ...], values: list[tuple[str, ...]]
    ) -> Metric:
        family = kind(
            name,
            "What the windows say, in a sentence as long as most are.",
            labels=ENGINE + labels,
        )
        for engine in self._engines:
            for value in values:
                family.add_metric((*engine, *value), 0.7312)
        return family


@dataclass
class Cost:
    """What the scrapes of one application cost."""

    seconds: list[float]
    cpu: float
    longest_block: float
    size: int


async def measure(app: web.Application, scrapes: int) -> Cost:
    """Scrape an application, the client being another process."""
    server = await serve(app, [parse_listen_address("127.0.0.1:0")])
    host = server.urls[0].removeprefix("http://").rstrip("/")
    await _scrape(host, 2)
    gc.collect()
    gc.freeze()
    with Blocks() as blocks:
        cpu = time.process_time()
        answers = await _scrape(host, scrapes)
        cpu = time.process_time() - cpu
    gc.unfreeze()
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

        asyncio.Handle._run = timed  # type: ignore[method-assign]  # noqa: SLF001
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.Handle._run = self._run  # type: ignore[method-assign]  # noqa: SLF001


def ours(targets: int) -> web.Application:
    state = AppState([Engines(targets)], "benchmark", targets=list, config_text=str, ready=lambda: True)
    return create_app(state)


def theirs(targets: int) -> web.Application:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Engines(targets))
    app = web.Application()
    app.router.add_get("/metrics", make_aiohttp_handler(registry))
    return app


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--targets", type=int, nargs="+", default=[1, 100])
    parser.add_argument("--scrapes", type=int, default=20)
    arguments = parser.parse_args()
    print(f"{'':36}  median      CPU  longest block    gzipped")
    for targets in arguments.targets:
        for name, make in (("exporter", ours), ("prometheus_client's handler", theirs)):
            cost = asyncio.run(measure(make(targets), arguments.scrapes))
            times = (statistics.median(cost.seconds), cost.cpu, cost.longest_block)
            median, cpu, block = (f"{seconds * 1e3:.1f} ms" for seconds in times)
            print(f"{targets:3} targets, {name:27}{median:>8} {cpu:>8} {block:>14} {cost.size / 1e3:7.0f} kB")


if __name__ == "__main__":
    main()
