"""One exporter or several that share the targets, scraped by one Prometheus and by two: CPU and memory.

    python -m benchmarks.shards [--targets 1000] [--shards 1 4] [--seconds 60] [--warm-up 330] [--smoke]

Each exporter polls its part of the targets once a second for the filtered page. A Prometheus scrapes all
exporters every 15 s; then a second one does too. The figures of exporters and of Prometheus servers are sums.
The windows are full after 5 minutes. Needs `prometheus`.
"""

from __future__ import annotations

import json
import tempfile
import time
import urllib.request
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import yaml

from benchmarks.memory import free_port
from benchmarks.options import parsed, parser
from benchmarks.page_server import PageServer
from benchmarks.poll_cpu import exporter
from benchmarks.process import cpu_seconds, require, resident_megabytes, running, wait_until_ready

EVERY = 15
"""Seconds between two scrapes."""
PROMETHEUS_SERVERS = 2
COLUMNS = (
    *("targets", "shards", "Prometheus servers"),
    *("exporters, CPU-s a second", "exporters, MB"),
    *("Prometheus, CPU-s a second", "Prometheus, MB", "Prometheus, series"),
)


class Program(NamedTuple):
    """A running process and the port on which it answers."""

    pid: int
    port: int


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--targets", type=int, default=1000, help="of all shards together")
    options.add_argument("--shards", type=int, nargs="+", default=[1, 4])
    options.add_argument("--seconds", type=float, default=60.0)
    options.add_argument("--warm-up", type=float, default=330.0, help="seconds before the figures")
    arguments = parsed(options, targets=4, shards=[2], seconds=16.0, warm_up=3.0)
    require("prometheus")
    print(f"| {' | '.join(COLUMNS)} |")
    print(f"|{'--:|' * len(COLUMNS)}")
    for shards in arguments.shards:
        measure(shards, arguments)


def measure(shards: int, arguments: Namespace) -> None:
    """Let shards poll the targets, and print a row for each number of Prometheus servers."""
    with ExitStack() as stack:
        server = stack.enter_context(PageServer())
        exporters = [
            stack.enter_context(_shard(server, index, shards, arguments.targets)) for index in range(shards)
        ]
        servers: list[Program] = []
        wait = arguments.warm_up
        for _ in range(PROMETHEUS_SERVERS):
            servers.append(stack.enter_context(_prometheus([each.port for each in exporters])))
            time.sleep(wait)
            _show(server, exporters, servers, arguments)
            wait = 2 * EVERY


def _show(
    server: PageServer, exporters: Sequence[Program], servers: Sequence[Program], arguments: Namespace
) -> None:
    programs = [*exporters, *servers]
    polls, before = _polls(server), [cpu_seconds(each.pid) for each in programs]
    time.sleep(arguments.seconds)
    used = [
        (cpu_seconds(each.pid) - earlier) / arguments.seconds
        for each, earlier in zip(programs, before, strict=True)
    ]
    polls = _polls(server) - polls
    if polls < 0.95 * arguments.targets * arguments.seconds and not arguments.smoke:
        raise RuntimeError(f"{polls} polls in {arguments.seconds:g} s: they did not keep up")
    print(
        f"| {arguments.targets} | {len(exporters)} | {len(servers)} "
        f"| {sum(used[: len(exporters)]):.3f} | {_megabytes(exporters):.0f} "
        f"| {sum(used[len(exporters) :]):.3f} | {_megabytes(servers):.0f} | {sum(map(_series, servers))} |",
        flush=True,
    )


def _polls(server: PageServer) -> int:
    return sum(server.served().values())


def _megabytes(programs: Sequence[Program]) -> float:
    return sum(resident_megabytes(each.pid) for each in programs)


def _series(server: Program) -> int:
    """Return the series in the memory of a Prometheus."""
    url = f"http://127.0.0.1:{server.port}/api/v1/status/tsdb"
    with urllib.request.urlopen(url) as answer:
        return int(json.load(answer)["data"]["headStats"]["numSeries"])


@contextmanager
def _shard(server: PageServer, index: int, shards: int, targets: int) -> Iterator[Program]:
    """Run one of several exporters that share the targets."""
    own = free_port()
    part = (f"--shard.index={index}", f"--shard.count={shards}")
    with exporter(server.port, targets, "filtered", own) as command, running(*command, *part) as pid:
        wait_until_ready(own)
        yield Program(pid, own)


@contextmanager
def _prometheus(exporters: Sequence[int]) -> Iterator[Program]:
    """Run a Prometheus that scrapes the exporters on these ports."""
    own = free_port()
    job = {
        "job_name": "exporter",
        "scrape_interval": f"{EVERY}s",
        "static_configs": [{"targets": [f"127.0.0.1:{port}" for port in exporters]}],
    }
    with tempfile.TemporaryDirectory() as directory:
        config = Path(directory, "config.yml")
        config.write_text(yaml.safe_dump({"scrape_configs": [job]}))
        with running(
            "prometheus",
            f"--config.file={config}",
            f"--storage.tsdb.path={directory}/data",
            f"--web.listen-address=127.0.0.1:{own}",
        ) as pid:
            wait_until_ready(own)
            yield Program(pid, own)


if __name__ == "__main__":
    main()
