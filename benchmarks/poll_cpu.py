"""Cost of a poll, relative to a scrape of the same server by Prometheus at the same time.

    python -m benchmarks.poll_cpu [--targets 100] [--seconds 30] [--smoke]

Both request 100 targets on loopback once a second: the whole page (55 kB), or the filtered one for the
exporter. Prometheus does not request that by default; its cost with such a configuration is also shown.
Prints a table; ends with status 1 if the exporter misses a goal. Needs `prometheus` (2.42 for the
figures in docs/maintainers/benchmarks.md). Costs are processor time, in the program and in the kernel.
"""

from __future__ import annotations

import re
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from itertools import starmap
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import yaml

from benchmarks.options import end, parsed, parser
from benchmarks.page_server import RECORDED, PageServer, addresses
from benchmarks.process import cpu_seconds, require, running
from benchmarks.table import print_table
from spec_decode_exporter.scrape.engines import MEANINGS
from spec_decode_exporter.scrape.filtered import filtered_url, wanted_names

CASES = (("whole", "whole", 0.7), ("filtered", "whole", 0.5), ("filtered", "filtered", None))
"""Which page we ask for, which one Prometheus, and what our part is to be at most."""
HEADS = ("our page", "Prometheus' page", "ms a poll", "Prometheus, ms a scrape", "ratio", "goal")


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--targets", type=int, default=100)
    options.add_argument("--seconds", type=float, default=30.0)
    options.add_argument("--warm-up", type=float, default=12.0, help="seconds to learn which page to request")
    arguments = parsed(options, targets=2, seconds=2.0, warm_up=6.0)
    require("prometheus")
    end(arguments, compare_exporter(arguments))


def compare_exporter(arguments: Namespace) -> list[str]:
    missed: list[str] = []

    def row(page: str, scraped: str, goal: float | None) -> list[str]:
        with PageServer() as server, exporter(server.port, arguments.targets, page) as command:
            ours, theirs = measure(command, server, scraped, arguments)
        ratio = ours / theirs
        if goal is not None and ratio > goal:
            missed.append(f"{page} page: {ratio:.2f}")
        return [page, scraped, f"{ours:.3f}", f"{theirs:.3f}", f"{ratio:.2f}", f"{goal or ''}"]

    print_table(HEADS, starmap(row, CASES[:1] if arguments.smoke else CASES))
    return missed


def measure(
    command: list[str], server: PageServer, scraped: str, arguments: Namespace
) -> tuple[float, float]:
    """Let both poll the same targets at the same time; return their milliseconds of CPU for one page."""
    targets, seconds = arguments.targets, arguments.seconds
    with ExitStack() as stack:
        ours = stack.enter_context(running(*command))
        theirs = stack.enter_context(prometheus(scrape_job(server.port, targets, scraped)))
        time.sleep(arguments.warm_up)
        before = _count(server), cpu_seconds(ours), cpu_seconds(theirs)
        time.sleep(seconds)
        after = _count(server), cpu_seconds(ours), cpu_seconds(theirs)
    polls, scrapes = (after[0][n] - before[0][n] for n in range(2))
    if min(polls, scrapes) < 0.9 * targets * seconds and not arguments.smoke:
        raise RuntimeError(f"{polls} polls and {scrapes} scrapes in {seconds:g} s: someone did not keep up")
    polls, scrapes = max(polls, 1), max(scrapes, 1)  # a smoke run may have none
    return ((after[1] - before[1]) / polls * 1e3, (after[2] - before[2]) / scrapes * 1e3)


def _count(server: PageServer) -> tuple[int, int]:
    served = server.served()
    scrapes = served.get("prometheus", 0)
    return sum(served.values()) - scrapes, scrapes


def urls(port: int, targets: int, page: str) -> list[str]:
    whole = [f"http://{address}:{port}/metrics" for address in addresses(targets)]
    return [filtered_url(url, filtered_names()) for url in whole] if page == "filtered" else whole


def filtered_names() -> list[str]:
    shown = {re.split(rb"[ {]", line, maxsplit=1)[0] for line in RECORDED.read_bytes().splitlines()}
    return wanted_names(frozenset(MEANINGS) & shown, with_latencies=False)


@contextmanager
def exporter(port: int, targets: int, page: str, listen: int = 0) -> Iterator[list[str]]:
    """Yield the command of the installed exporter that watches these targets; ``listen`` is its own port."""
    config: dict[str, object] = {
        "poll": {"filter": "auto" if page == "filtered" else "off", "max_duty_cycle": 1},
        "targets": [{"url": url} for url in urls(port, targets, "whole")],
    }
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "config.yml")
        path.write_text(yaml.safe_dump(config))
        program = Path(sys.executable).with_name("spec-decode-exporter")
        yield [
            str(program),
            "run",
            f"--config.file={path}",
            f"--web.listen-address=127.0.0.1:{listen}",
            "--log.level=error",
        ]


@contextmanager
def prometheus(job: Mapping[str, object]) -> Iterator[int]:
    """Run a Prometheus with a scrape job; yield its process id."""
    with tempfile.TemporaryDirectory() as directory:
        config = Path(directory, "config.yml")
        config.write_text(yaml.safe_dump({"scrape_configs": [job]}))
        storage = f"--storage.tsdb.path={directory}/data"
        web = "--web.listen-address=127.0.0.1:0"
        with running("prometheus", f"--config.file={config}", storage, web) as pid:
            yield pid


def scrape_job(port: int, targets: int, page: str) -> dict[str, object]:
    parts = urlsplit(urls(port, 1, page)[0])
    return {
        "job_name": "vllm",
        "scrape_interval": "1s",
        "scrape_timeout": "1s",
        "metrics_path": parts.path,
        "params": parse_qs(parts.query),
        "static_configs": [{"targets": [f"{address}:{port}" for address in addresses(targets)]}],
    }


if __name__ == "__main__":
    main()
