"""What the exporter costs: every figure of CPU and memory that a document quotes.

    python -m benchmarks.cost [PART ...] [--warm-up 310] [--seconds 60] [--smoke]

The parts, in this order:

- start: processor time of `make run` until its page is there;
- evaluation: one evaluation with full windows, and a refresh of the live page with 100 and 1,000 engines;
- poll: 100 targets polled once a second, for their whole pages and for filtered ones, beside a Prometheus
  that scrapes the whole pages in the same run, and one target alone;
- job: 1,000 targets polled once a second for filtered pages, /metrics scraped every 15 s, beside a
  Prometheus that scrapes the same pages and records acceptance over two windows; then the live page;
- soak, if it is named: 22 minutes with 200 targets, of which ten come and go with every reload, and readers.
  After the first periodic collection of garbage, memory may grow by 2 %, descriptors and sets of labels not.

The targets are a simulated vLLM on loopback with a drafter (eagle3, K = 3). Windows are full after the
warm-up of 5 minutes. Prints a table of figures and goals; ends with status 1 if a goal is missed. ``poll``
and ``job`` need `prometheus`. Costs are processor time, in program and kernel: trust ratios of one run, and
milliseconds on a calm machine. A Python without optimizations (pyenv's default) takes a fifth longer.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import tempfile
import time
import urllib.request
import zlib
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit

import structlog
import yaml
from multidict import MultiDict

from benchmarks.console import end, parsed, parser, print_table
from benchmarks.servers import (
    PageServer,
    cpu_seconds,
    free_port,
    require,
    resident_megabytes,
    running,
    simulated,
    wait_until_ready,
)
from spec_decode_exporter.app.service import FULL_EVERY, SETTLED_AFTER
from spec_decode_exporter.monitor.snapshot import id_of
from spec_decode_exporter.scrape.engines import MEANINGS
from spec_decode_exporter.scrape.filtered import filtered_url, wanted_names
from spec_decode_exporter.simulator.vllm_page import metrics_page
from spec_decode_exporter.web.fleet import PageQuery
from spec_decode_exporter.web.page import content, page_facts
from tests.fakes.moved_fleet import Server, moved_fleet

METHOD = {"method": "eagle3", "tokens": 3}
CHANGING, POOL = 10, 60
"""Targets of the soak that come and go, and all of those: who has left comes back after six reloads."""
SCRAPE_SECONDS = 15.0
RULES = [
    {"record": f"acceptance:{seconds}", "expr": f"rate(vllm:spec_decode_num_accepted_tokens_total[{seconds}])"
     f" / rate(vllm:spec_decode_num_draft_tokens_total[{seconds}])"}
    for seconds in ("30s", "5m")
]  # fmt: skip


class Figure(NamedTuple):
    """A figure with its unit; a goal is the most that it may be."""

    name: str
    value: float
    unit: str = ""
    goal: float | None = None

    @property
    def cells(self) -> list[str]:
        """Return the row of the table."""
        digits = 0 if self.value >= 100 or self.unit == "kB" else 2 if self.value >= 1 else 3
        return [
            self.name,
            f"{self.value:.{digits}f} {self.unit}".strip(),
            "" if self.goal is None else f"{self.goal:g}",
        ]


class Watcher:
    """A process that requests pages of targets once a second, beside others in the same run."""

    def __init__(self, pid: int, server: PageServer, targets: int) -> None:
        self.pid, self._server, self._targets = pid, server, targets

    def _now(self) -> tuple[float, float, int]:
        return time.monotonic(), cpu_seconds(self.pid), self._server.served()

    def begin(self) -> None:
        """Begin to measure."""
        self._before = self._now()

    def end(self) -> tuple[float, float]:
        """Return CPU-seconds a second, and milliseconds of CPU a page."""
        seconds, cpu, pages = (now - before for now, before in zip(self._now(), self._before, strict=True))
        if pages < 0.95 * self._targets * seconds:
            print(f"{pages} pages of {self._targets} targets in {seconds:.0f} s: too slow", file=sys.stderr)
        return cpu / seconds, cpu / max(pages, 1) * 1e3


def exporter(stack: ExitStack, targets: int, page: str, port: int = 0) -> Watcher:
    """Run the installed exporter with these targets; ``port`` is its own one."""
    server = stack.enter_context(PageServer())
    config: dict[str, object] = {
        "poll": {"filter": "auto" if page == "filtered" else "off", "max_duty_cycle": 1},
        "targets": [
            {"url": f"http://{host}/metrics", "speculative": METHOD} for host in server.hosts(targets)
        ],
    }
    path = Path(stack.enter_context(tempfile.TemporaryDirectory()), "config.yml")
    path.write_text(yaml.safe_dump(config))
    flags = f"--config.file={path}", f"--web.listen-address=127.0.0.1:{port}", "--log.level=error"
    return Watcher(stack.enter_context(running(*program(), "run", *flags)), server, targets)


def prometheus(stack: ExitStack, targets: int, page: str, rules: Sequence[Mapping[str, str]] = ()) -> Watcher:
    """Run a Prometheus that scrapes these targets and evaluates rules."""
    server, directory = stack.enter_context(PageServer()), stack.enter_context(tempfile.TemporaryDirectory())
    url = "http://localhost/metrics"
    parts = urlsplit(filtered_url(url, wanted()) if page == "filtered" else url)
    job = {
        "job_name": "vllm",
        "scrape_interval": "1s",
        "scrape_timeout": "1s",
        "metrics_path": parts.path,
        "params": parse_qs(parts.query),
        "static_configs": [{"targets": server.hosts(targets)}],
    }
    group = {"name": "figures", "interval": f"{SCRAPE_SECONDS:g}s", "rules": [*rules]}
    Path(directory, "rules.yml").write_text(yaml.safe_dump({"groups": [group] if rules else []}))
    config = Path(directory, "config.yml")
    config.write_text(yaml.safe_dump({"rule_files": [f"{directory}/rules.yml"], "scrape_configs": [job]}))
    flags = (
        f"--config.file={config}",
        f"--storage.tsdb.path={directory}/data",
        "--web.listen-address=127.0.0.1:0",
    )
    return Watcher(stack.enter_context(running("prometheus", *flags)), server, targets)


def program() -> tuple[str, ...]:
    """Return the command of the exporter as users install it, without what development tools bring along.

    structlog loads rich and greenlet where they are installed: 6 MB.
    """
    absent = "import sys; sys.modules |= dict.fromkeys(('rich', 'greenlet'))"
    return sys.executable, "-c", f"{absent}; from spec_decode_exporter.__main__ import main; main()"


def wanted() -> list[str]:
    """Return the names of samples that the exporter requests of the simulated server."""
    shown = {line.partition(b"{")[0] for line in metrics_page(simulated()).splitlines()}
    return wanted_names(frozenset(MEANINGS) & shown, with_latencies=False)


def start(_arguments: Namespace) -> Iterator[Figure]:
    port = free_port()
    scenarios = *("--simulate", "drop"), *("--simulate", "unknown-cost")
    flags = *scenarios, "--log.level=error", f"--web.listen-address=127.0.0.1:{port}"
    with running(*program(), "run", *flags) as pid:
        wait_until_ready(port)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/") as page:
            page.read()
        yield Figure("`make run` until its page", cpu_seconds(pid), "s of CPU", 4.0)


def evaluation(arguments: Namespace) -> Iterator[Figure]:
    engines, minutes = (2, 1) if arguments.smoke else (100, 6)
    yield from asyncio.run(moved(engines, minutes, 3 if arguments.smoke else 20))
    # After a minute, which takes four: with full windows it takes 2 % more.
    yield asyncio.run(moved(20 if arguments.smoke else 1000, 1, 3 if arguments.smoke else 7))[1]


async def moved(engines: int, minutes: int, rounds: int) -> list[Figure]:
    """Evaluate engines, and refresh the live page, after minutes on a clock that is moved."""
    servers = [Server(f"chat-{number}", told={"speculative": METHOD}) for number in range(engines)]
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    async with moved_fleet(servers) as fleet:
        await fleet.advance(60 * minutes)
        state = fleet.service.state
        evaluated = [engine for monitor in fleet.service.fleet for engine in monitor.engines.values()]
        in_full = [timed(partial(engine.evaluate, in_full=True)) for engine in evaluated]
        shown = []
        for _ in range(rounds):
            await fleet.advance(1)
            snapshot, begin = await state.snapshot(), time.thread_time()
            first = [("engine", id_of(labels)) for labels, _ in snapshot.engines[:1]]
            text = (
                await content(state.errors, await page_facts(state, PageQuery.read(MultiDict(first))))
            ).encode()
            shown.append(time.thread_time() - begin)
        size = len(zlib.compress(text, level=1)) / 1e3
    return [
        Figure("an evaluation, windows full, eagle3", median(in_full) * 1e3, "ms", 0.6),
        Figure(f"a refresh of the live page, {engines} engines, one open", median(shown), "s of CPU", 0.15),
        Figure("its size, packed", size, "kB"),
    ]


def timed(work: Callable[[], object]) -> float:
    begin = time.thread_time()
    work()
    return time.thread_time() - begin


def poll(arguments: Namespace) -> Iterator[Figure]:
    targets = 5 if arguments.smoke else 100
    with ExitStack() as stack:
        whole, filtered = (exporter(stack, targets, page) for page in ("whole", "filtered"))
        one, scrapes = exporter(stack, 1, "filtered"), prometheus(stack, targets, "whole")
        time.sleep(arguments.warm_up)
        for each in (whole, filtered, one, scrapes):
            each.begin()
        time.sleep(arguments.seconds)
        (_, scraped), (_, ours), (cores, less), (alone, _) = (
            each.end() for each in (scrapes, whole, filtered, one)
        )
        yield Figure(f"Prometheus, a scrape of a whole page, {targets} targets", scraped, "ms")
        yield Figure(f"a poll of a whole page, {targets} targets", ours, "ms")
        yield Figure("over Prometheus", ours / scraped, "", 0.75)
        yield Figure(f"a poll of a filtered page, {targets} targets", less, "ms")
        yield Figure("over Prometheus", less / scraped, "", 0.6)
        yield Figure(f"{targets} targets, filtered pages", cores, "of a core")
        yield Figure(f"{targets} targets, filtered pages", resident_megabytes(filtered.pid), "MB")
        yield Figure("one target", alone, "of a core")
        yield Figure("one target", resident_megabytes(one.pid), "MB", 64.0)


def job(arguments: Namespace) -> Iterator[Figure]:
    targets, port = 5 if arguments.smoke else 1000, free_port()
    with ExitStack() as stack:
        ours, theirs = (
            exporter(stack, targets, "filtered", port),
            prometheus(stack, targets, "filtered", RULES),
        )
        wait_until_ready(port)
        scraped(port, "/metrics", arguments.warm_up, ours.pid)
        for each in (ours, theirs):
            each.begin()
        page = cost_of(port, "/metrics", arguments.seconds, ours.pid)
        (cores, _), (others, _) = ours.end(), theirs.end()
        yield Figure(f"{targets} targets, filtered pages, scraped every 15 s", cores, "of a core")
        yield Figure(f"Prometheus with {targets} filtered pages and two rules", others, "of a core")
        yield Figure("over Prometheus", cores / others, "", 1.5)
        yield Figure(f"{targets} targets, windows full", resident_megabytes(ours.pid), "MB", 220.0)
        yield Figure(f"/metrics of {targets} engines, without the polls meanwhile", page, "s of CPU", 0.3)
        page = cost_of(port, "/fragment", arguments.seconds, ours.pid)
        yield Figure(
            f"a refresh of the live page, {targets} engines, with its snapshot, likewise", page, "s of CPU"
        )


def cost_of(port: int, path: str, seconds: float, pid: int) -> float:
    """Return the CPU-seconds of a page that is read every 15 s, without the polls meanwhile."""
    began, cpu = time.monotonic(), cpu_seconds(pid)
    pages = scraped(port, path, seconds, pid)
    between = (cpu_seconds(pid) - cpu - sum(spent for spent, _ in pages)) / (
        time.monotonic() - began - sum(lasted for _, lasted in pages)
    )
    return median(spent - between * lasted for spent, lasted in pages)


def scraped(port: int, path: str, seconds: float, pid: int) -> list[tuple[float, float]]:
    """Read a page of the exporter as often as Prometheus does; return CPU and seconds of each time."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers={"Accept-Encoding": "gzip"})
    begin, pages = time.monotonic(), list[tuple[float, float]]()
    for due in range(1, max(2, round(seconds / SCRAPE_SECONDS)) + 1):
        cpu, asked = cpu_seconds(pid), time.monotonic()
        with urllib.request.urlopen(request) as page:
            page.read()
        pages.append((cpu_seconds(pid) - cpu, time.monotonic() - asked))
        time.sleep(max(0.0, begin + min(due * SCRAPE_SECONDS, seconds) - time.monotonic()))
    return pages


class Soak:
    """The exporter while its targets change, and everybody reads its pages."""

    def __init__(self, stack: ExitStack, targets: int) -> None:
        self._folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        hosts = stack.enter_context(PageServer()).hosts(targets + POOL)
        self._steady, self._pool = hosts[: targets - CHANGING], hosts[targets - CHANGING :]
        self._port, self._reloads = free_port(), 0
        config = self._configured(changing=True)
        flags = f"--config.file={config}", f"--web.listen-address=127.0.0.1:{self._port}", "--log.level=error"
        self._pid = stack.enter_context(running(*program(), "run", *flags))
        wait_until_ready(self._port)

    def _configured(self, *, changing: bool) -> Path:
        """Write the configuration; every other one has other labels."""
        self._reloads += 1
        first = self._reloads * CHANGING % POOL if changing else POOL
        targets = [*self._steady, *self._pool[first : first + CHANGING]]
        labels = {"release": "blue" if self._reloads // 2 % 2 and changing else "green"}
        config = {
            "poll": {"max_duty_cycle": 1},
            "state": {"file": str(self._folder / "state.json"), "interval": "5s"},
            "targets": [{"url": f"http://{host}/metrics", "labels": labels} for host in targets],
        }
        path = self._folder / "exporter.yml"
        path.write_text(yaml.safe_dump(config))
        return path

    def _read(self, path: str) -> bytes:
        with urllib.request.urlopen(f"http://127.0.0.1:{self._port}{path}", timeout=60) as page:
            content: bytes = page.read()
        return content

    def lived(self, seconds: float) -> list[float]:
        """Reload and read every page for some seconds; return the megabytes after each reload."""
        found, end = list[float](), time.monotonic() + seconds
        while time.monotonic() < end:
            self._configured(changing=True)
            os.kill(self._pid, signal.SIGHUP)
            time.sleep(SCRAPE_SECONDS / 3)
            for path in ("/metrics", "/", "/api/v1/snapshot", "/api/v1/events"):
                self._read(path)
            found.append(resident_megabytes(self._pid))
        return found

    def rested(self, seconds: float) -> tuple[int, int]:
        """Return the descriptors and label sets with the same targets as at every rest, some seconds later.

        Not the number of series: some are there while a verdict is unclear.
        """
        self._configured(changing=False)
        os.kill(self._pid, signal.SIGHUP)
        time.sleep(seconds)
        lines = (line for line in self._read("/metrics").splitlines() if not line.startswith(b"#"))
        descriptors = len(list(Path(f"/proc/{self._pid}/fd").iterdir()))
        return descriptors, len({line.partition(b"{")[2].rpartition(b" ")[0] for line in lines})


def soak(arguments: Namespace) -> Iterator[Figure]:
    targets, rest = (20, 1.0) if arguments.smoke else (200, 25.0)
    settled, seconds = (6.0, 6.0) if arguments.smoke else (SETTLED_AFTER + FULL_EVERY, 600.0)
    with ExitStack() as stack:
        exporter = Soak(stack, targets)
        exporter.lived(settled)
        before = exporter.rested(rest)
        memory = exporter.lived(seconds)
        after = exporter.rested(rest)
    third = -(-len(memory) // 3)
    growth = median(memory[-third:]) / median(memory[:third]) - 1  # a page being sent takes megabytes
    yield Figure(f"memory of {targets} targets", max(memory), "MB", 180.0)
    yield Figure("its growth, from the first third to the last", 100 * growth, "%", 2.0)
    for name, first, last in zip(("descriptors", "label sets"), before, after, strict=True):
        yield Figure(f"{name} left behind, of {first}", last - first, "", 0.0)


PARTS: Mapping[str, Callable[[Namespace], Iterator[Figure]]] = {
    "start": start,
    "evaluation": evaluation,
    "poll": poll,
    "job": job,
    "soak": soak,
}


def main() -> None:
    options = parser(__doc__)
    options.add_argument(
        "parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)}; without one, all but soak"
    )
    options.add_argument("--warm-up", type=float, default=310.0, help="seconds before the figures")
    options.add_argument("--seconds", type=float, default=60.0, help="seconds of the figures")
    arguments = parsed(options, seconds=3.0, warm_up=6.0)
    parts, missed = arguments.parts or list(PARTS)[: None if arguments.smoke else -1], list[str]()
    if {"poll", "job"} & {*parts}:
        require("prometheus")

    def rows() -> Iterator[list[str]]:
        for figure in (figure for part in parts for figure in PARTS[part](arguments)):
            yield figure.cells
            if figure.goal is not None and figure.value > figure.goal:
                missed.append(f"{figure.name}: {figure.value:.3g}")

    print_table(("what", "figure", "goal"), rows())
    end(arguments, missed)


if __name__ == "__main__":
    main()
