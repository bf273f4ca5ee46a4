"""Cost of many targets for one exporter: processor time and memory.

    python -m benchmarks.thousand [--targets 10 100 1000] [--seconds 60] [--scrape-every 15] [--smoke]

Each target is a K = 4 engine whose counters move, polled once a second for its filtered page over HTTP on
loopback. The exporter's own page is scraped from the beginning, gzipped as for Prometheus. Ends with status 1
if a goal is missed. Memory is that of full windows only after 5 minutes: --seconds 330.
"""

from __future__ import annotations

import time
import urllib.request
from argparse import Namespace
from math import ceil
from statistics import median
from typing import NamedTuple

from benchmarks.options import end, parsed, parser
from benchmarks.page_server import PageServer
from benchmarks.poll_cpu import exporter
from benchmarks.process import cpu_seconds, free_port, resident_megabytes, running, wait_until_ready
from benchmarks.table import print_table

CPU_GOAL, MEMORY_GOAL, PAGE_GOAL = 0.9, 250.0, 0.8
"""With 1,000 targets: CPU-seconds a second, MB (10^6 bytes), and the most seconds of a scrape of its page."""
EVENNESS_GOAL = 1.2
"""By what factor a target may cost more at one number of targets than at another."""
GOALS_AT = 1000
COST_HEADS = ("targets", "CPU-s a second", "ms a target", "MB")
HEADS = (*COST_HEADS, "page, median s", "page, most s", "page, kB")


class Load(NamedTuple):
    """Measured usage of the exporter: CPU-seconds a second, MB, seconds, and bytes of its compressed page."""

    targets: int
    cpu: float
    resident: float
    page_seconds: float
    page_most: float
    page_bytes: int

    @property
    def cells(self) -> list[str]:
        """Return the row of the table."""
        cost = f"{self.cpu:.3f}", f"{self.cpu / self.targets * 1e3:.3f}", f"{self.resident:.0f}"
        page = f"{self.page_seconds:.2f}", f"{self.page_most:.2f}", f"{self.page_bytes / 1e3:.0f}"
        return [str(self.targets), *cost, *page]

    @property
    def missed(self) -> list[str]:
        """Return the goals that are missed."""
        if self.targets != GOALS_AT:
            return []
        seen = (self.cpu, self.resident, self.page_most)
        goals = (CPU_GOAL, MEMORY_GOAL, PAGE_GOAL)
        names = ("CPU", "memory", "page")
        return [name for name, now, goal in zip(names, seen, goals, strict=True) if now > goal]


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--targets", type=int, nargs="+", default=[10, 100, GOALS_AT])
    options.add_argument("--seconds", type=float, default=60.0)
    options.add_argument("--scrape-every", type=float, default=15.0)
    options.add_argument("--warm-up", type=float, default=60.0, help="seconds before the figures")
    arguments = parsed(options, targets=[2], seconds=2.0, scrape_every=1.0, warm_up=3.0)
    loads: list[Load] = []

    def row(targets: int) -> list[str]:
        loads.append(measure(targets, arguments))
        return loads[-1].cells

    print_table(HEADS, map(row, arguments.targets))
    missed = [f"{name} at {load.targets}" for load in loads for name in load.missed]
    each = [load.cpu / load.targets for load in loads]
    if max(each) > EVENNESS_GOAL * min(each):
        missed.append(f"CPU of a target differs by a factor of {max(each) / min(each):.2f}")
    end(arguments, missed)


def measure(targets: int, arguments: Namespace) -> Load:
    port = free_port()
    with (
        PageServer() as server,
        exporter(server.port, targets, "filtered", port) as command,
        running(*command) as pid,
    ):
        wait_until_ready(port)
        every = arguments.scrape_every
        _scrape(port, ceil(arguments.warm_up / every), every)
        polls, cpu, began = _polls(server), cpu_seconds(pid), time.monotonic()
        pages = _scrape(port, ceil(arguments.seconds / every), every)
        lasted = time.monotonic() - began
        cpu, polls, resident = cpu_seconds(pid) - cpu, _polls(server) - polls, resident_megabytes(pid)
    if polls < 0.98 * targets * lasted and not arguments.smoke:
        raise RuntimeError(f"{polls} polls of {targets} targets in {lasted:g} s: it did not keep up")
    seconds, sizes = zip(*pages, strict=True)
    return Load(targets, cpu / lasted, resident, median(seconds), max(seconds), max(sizes))


def _polls(server: PageServer) -> int:
    return sum(server.served().values())


def _scrape(port: int, times: int, every: float) -> list[tuple[float, int]]:
    request = urllib.request.Request(f"http://127.0.0.1:{port}/metrics", headers={"Accept-Encoding": "gzip"})
    begin, pages = time.monotonic(), []
    for due in range(1, times + 1):
        asked = time.monotonic()
        with urllib.request.urlopen(request) as page:
            size = len(page.read())
        pages.append((time.monotonic() - asked, size))
        time.sleep(max(0.0, begin + due * every - time.monotonic()))
    return pages


if __name__ == "__main__":
    main()
