"""The same pages watched by the exporter, by Prometheus and by vmagent: CPU and memory side by side.

    python -m benchmarks.others [--together 200] [--alone 1000] [--seconds 60] [--smoke]

All three poll the same targets, once a second, for the filtered page; then each of them alone polls as many
as two cores cannot serve for all at once. vmagent sends what it reads to a VictoriaMetrics, which is not
counted. Prometheus stores what it reads; the exporter computes windows and verdicts.
"""

from __future__ import annotations

import tempfile
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from math import nan
from pathlib import Path

import yaml

from benchmarks.memory import free_port
from benchmarks.options import parsed, parser
from benchmarks.page_server import PageServer
from benchmarks.poll_cpu import exporter, prometheus, scrape_job
from benchmarks.process import cpu_seconds, require, resident_megabytes, running

Start = Callable[[int, int], AbstractContextManager[int]]
"""From the pages' port and the number of targets to a process."""


@contextmanager
def _ours(port: int, targets: int) -> Iterator[int]:
    with exporter(port, targets, "filtered") as command, running(*command) as pid:
        yield pid


@contextmanager
def _prometheus(port: int, targets: int) -> Iterator[int]:
    with prometheus(port, targets, "filtered") as pid:
        yield pid


@contextmanager
def vmagent(port: int, targets: int, *options: str) -> Iterator[int]:
    """Run a vmagent that scrapes the filtered pages, and sends what it reads to a VictoriaMetrics."""
    with tempfile.TemporaryDirectory() as directory:
        config, store = Path(directory, "config.yml"), free_port()
        config.write_text(yaml.safe_dump({"scrape_configs": [scrape_job(port, targets, "filtered")]}))
        with (
            running(
                "victoria-metrics",
                f"-storageDataPath={directory}/data",
                f"-httpListenAddr=127.0.0.1:{store}",
            ),
            running(
                "vmagent",
                f"-promscrape.config={config}",
                f"-remoteWrite.url=http://127.0.0.1:{store}/api/v1/write",
                f"-remoteWrite.tmpDataPath={directory}/queue",
                f"-httpListenAddr=127.0.0.1:{free_port()}",
                *options,
            ) as pid,
        ):
            yield pid


WATCHERS: dict[str, Start] = {
    "spec-decode-exporter": _ours,
    "Prometheus": _prometheus,
    "vmagent": vmagent,
}


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--together", type=int, default=200)
    options.add_argument("--alone", type=int, default=1000)
    options.add_argument("--seconds", type=float, default=60.0)
    options.add_argument("--warm-up", type=float, default=20.0, help="seconds before the figures")
    arguments = parsed(options, together=2, alone=2, seconds=2.0, warm_up=3.0)
    require("prometheus", "vmagent", "victoria-metrics")
    print("| targets | | CPU-s a second | ms a page | MB |\n|--:|---|--:|--:|--:|")
    measure(list(WATCHERS), arguments.together, arguments, "together")
    for name in WATCHERS:
        measure([name], arguments.alone, arguments, "alone")


def measure(names: list[str], targets: int, arguments: Namespace, how: str) -> None:
    """Let some of them poll ``targets`` targets, and print the cost of each."""
    seconds = arguments.seconds
    with ExitStack() as stack:
        server = stack.enter_context(PageServer())
        pids = [stack.enter_context(WATCHERS[name](server.port, targets)) for name in names]
        time.sleep(arguments.warm_up)
        before = [(cpu_seconds(pid), _asked(server, name)) for pid, name in zip(pids, names, strict=True)]
        time.sleep(seconds)
        for pid, name, (cpu, asked) in zip(pids, names, before, strict=True):
            used, pages = cpu_seconds(pid) - cpu, _asked(server, name) - asked
            if pages < 0.9 * targets * seconds and not arguments.smoke:
                raise RuntimeError(f"{name}: {pages} pages in {seconds:g} s; it did not keep up")
            each = used / pages * 1e3 if pages else nan  # a smoke run may end before the first page
            print(
                f"| {targets} {how} | {name} | {used / seconds:.3f} | {each:.3f} "
                f"| {resident_megabytes(pid):.0f} |",
                flush=True,
            )


def _asked(server: PageServer, name: str) -> int:
    served = server.served()
    agents = {"spec-decode-exporter": "spec-decode-exporter", "Prometheus": "prometheus", "vmagent": "vm"}
    return sum(count for agent, count in served.items() if agent.startswith(agents[name]))


if __name__ == "__main__":
    main()
