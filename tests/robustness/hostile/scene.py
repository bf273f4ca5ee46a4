"""One hostile source next to nine good targets: start the installed program, and measure what the source costs it."""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import ssl
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from spec_decode_exporter.monitor.fleet import engines_that_fit
from tests.e2e.conftest import PROGRAM, free_port
from tests.paths import CHECKOUT

GOOD_TARGETS = 9
SIDECAR_MEMORY = 128 * 2**20
"""Bytes: the limit that docs/guide/kubernetes-sidecar.md recommends for a sidecar."""
MAX_GAP = 2.0
"""Seconds between two polls of a good target; the interval is 1 s."""
MAX_HEALTHY = 0.5
"""Seconds for /-/healthy."""
MAX_METRICS = 1.0
"""Seconds for /metrics."""
STARTED_WITHIN = 60.0
POLLED_WITHIN = 60.0
"""Seconds within which the good targets get the polls that a caller waits for."""
_PROBED_EVERY = 0.1
_SCRAPED_EVERY = 1.0

_TRUSTING = ssl._create_unverified_context()
"""Client's context that accepts the certificate of any authority."""

Routes = Mapping[str, Sequence[bytes]]


@dataclass(frozen=True, slots=True)
class Server:
    """Hostile server: each path returns its bodies in turn."""

    routes: Routes
    headers: tuple[str, ...] = ()
    every_path: str = ""
    """The route of every path without one of its own."""


@dataclass(frozen=True, slots=True)
class Attack:
    """Hostile source, with the exporter's settings for it."""

    server: Server | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    """Further keys of the configuration; ``{url}`` in a text is the address of the server."""
    files: Mapping[str, bytes] = field(default_factory=dict)
    """Files in the folder of the configuration, which are written again every second."""
    requests: Sequence[bytes] = ()
    """Requests that ``connections`` clients send to the exporter in a loop."""
    connections: int = 40
    address: str = "127.0.0.1"
    """The address of these clients."""
    flags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Measured:
    """Cost of an attack: maximum times in seconds, and maximum memory in bytes."""

    gap: float
    polls: int
    """Of the good target with the fewest."""
    healthy: float
    metrics: float
    resident: int
    lines: int
    """Lines of the log at the level warning or above."""
    healthy_failures: int
    """Probes that were not answered with status 200."""
    scrapes: int
    """Scrapes that were answered with status 200."""
    scrape_failures: int

    @property
    def answered(self) -> bool:
        """True if every probe and scrape was answered with status 200."""
        return not self.healthy_failures and not self.scrape_failures

    def misses(self, share: float = 1.0) -> list[str]:
        """Return the names of missed goals; ``share`` scales the time limits for a busy machine."""
        times = (
            ("gap", self.gap, MAX_GAP),
            ("/-/healthy", self.healthy, MAX_HEALTHY),
            ("/metrics", self.metrics, MAX_METRICS),
        )
        missed = [f"{name} {value:.2f} s" for name, value, most in times if value > most * share]
        if self.resident > SIDECAR_MEMORY:
            missed.append(f"{self.resident / 2**20:.0f} MiB")
        return missed if self.answered else [*missed, "not answered"]


@dataclass(frozen=True, slots=True)
class Running:
    """The started program, its port and the record of the good servers."""

    process: subprocess.Popen[bytes]
    port: int
    asked: Path

    def longest_gap(self, begin: float, end: float) -> float:
        """Return the longest time between two polls of any good target, from ``begin`` to ``end`` (monotonic)."""
        return _longest_gap(self.asked, begin, end)


@contextlib.contextmanager
def running(attack: Attack, folder: Path, *, tls: bool = False) -> Iterator[Running]:
    """Start the servers and the exporter of an attack, and yield once the exporter is ready."""
    spec = {f"good{number}": {"/metrics": {"files": ["good"]}} for number in range(GOOD_TARGETS)}
    with contextlib.ExitStack() as stack:
        good = stack.enter_context(_served(folder / "good", spec, {}))
        hostile = stack.enter_context(_hostile(folder / "hostile", attack.server))
        port = free_port()
        log = stack.enter_context((folder / "exporter.log").open("wb"))
        (folder / "exporter.yml").write_text(json.dumps(_config(attack, good, hostile)))
        command = [PROGRAM, "run", "--config.file", folder / "exporter.yml", "--log.format=json"]
        command += [f"--web.listen-address=:{port}", *attack.flags]
        process = subprocess.Popen([*map(str, command)], stdout=log, stderr=log, cwd=folder)
        stack.callback(_end, process)
        _started(process, port, "https" if tls else "http")
        yield Running(process, port, folder / "good" / "asked.txt")
        assert process.poll() is None, "the exporter has ended"


def watched(attack: Attack, folder: Path, seconds: float, polls: int = 0) -> Measured:
    """Run the exporter with the attack for some seconds, and until each good target has its polls; return the cost."""
    files = _Files(folder, attack.files)
    with running(attack, folder) as program, contextlib.ExitStack() as stack:
        begin, asked = time.monotonic(), program.asked
        if attack.requests:
            stack.enter_context(_knocking(folder, attack, program.port))
        probes = _probed(program.port, begin, seconds, files, lambda: _fewest_polls(asked, begin) >= polls)
        end = time.monotonic()
        resident = _most_resident(program.process.pid)
    text = (folder / "exporter.log").read_text(errors="replace")
    return Measured(
        gap=_longest_gap(asked, begin, end),
        polls=_fewest_polls(asked, begin),
        resident=resident,
        lines=sum('"level": "warning"' in line or '"level": "error"' in line for line in text.splitlines()),
        **probes,
    )


def _config(attack: Attack, good: Mapping[str, int], hostile: int) -> dict[str, Any]:
    targets = [{"url": f"http://127.0.0.1:{port}/metrics", "name": name} for name, port in good.items()]
    more = json.loads(json.dumps(attack.config).replace("{url}", f"http://127.0.0.1:{hostile}"))
    defaults = {
        "limits": {"engines": engines_that_fit(SIDECAR_MEMORY)},
        # The good servers share the processors with the attacker: their answers say nothing of their own cost.
        "poll": {"max_duty_cycle": 1},
    }
    return {**defaults, **more, "targets": [*targets, *more.get("targets", ())]}


@contextlib.contextmanager
def _hostile(folder: Path, server: Server | None) -> Iterator[int]:
    if server is None:
        yield 0
        return
    files, routes = {}, {}
    for number, (path, bodies) in enumerate(server.routes.items()):
        names = [f"{number}-{place}.bin" for place in range(len(bodies))]
        files.update(zip(names, bodies, strict=True))
        routes["*" if path == server.every_path else path] = {"files": names, "headers": server.headers}
    with _served(folder, {"hostile": routes}, files) as ports:
        yield ports["hostile"]


@contextlib.contextmanager
def _served(folder: Path, spec: Mapping[str, Any], files: Mapping[str, bytes]) -> Iterator[dict[str, int]]:
    folder.mkdir(parents=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    (folder / "spec.json").write_text(json.dumps(spec))
    with _process("tests.robustness.hostile.serve", folder):
        deadline = time.monotonic() + STARTED_WITHIN
        while not (folder / "ports.json").exists():
            assert time.monotonic() < deadline, "the servers did not start"
            time.sleep(0.05)
        yield json.loads((folder / "ports.json").read_text())


@contextlib.contextmanager
def _knocking(folder: Path, attack: Attack, port: int) -> Iterator[None]:
    names = []
    for number, request in enumerate(attack.requests):
        names.append(folder / f"request-{number}.bin")
        names[-1].write_bytes(request)
    with _process("tests.robustness.hostile.knock", port, attack.connections, attack.address, *names):
        yield


@contextlib.contextmanager
def _process(module: str, *arguments: object) -> Iterator[None]:
    checkout = CHECKOUT
    environ = {**os.environ, "PYTHONPATH": f"{checkout / 'exporter'}{os.pathsep}{checkout}"}
    process = subprocess.Popen([sys.executable, "-m", module, *map(str, arguments)], env=environ)
    try:
        yield
    finally:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class _Files:
    """Write the hostile files repeatedly, so that the exporter reads them each time."""

    def __init__(self, folder: Path, files: Mapping[str, bytes]) -> None:
        self._folder = folder
        self._files = files
        self.write()

    def write(self) -> None:
        for name, data in self._files.items():
            unfinished = self._folder / f"{name}.tmp"
            unfinished.write_bytes(data)
            unfinished.replace(self._folder / name)


def _started(process: subprocess.Popen[bytes], port: int, scheme: str) -> None:
    deadline = time.monotonic() + STARTED_WITHIN
    while True:
        assert process.poll() is None, "the exporter has ended"
        with contextlib.suppress(OSError):
            if _status(f"{scheme}://127.0.0.1:{port}/-/ready") in {200, 401}:
                return
        assert time.monotonic() < deadline, "the exporter did not start"
        time.sleep(0.05)


def _probed(
    port: int, begin: float, seconds: float, files: _Files, polled: Callable[[], bool]
) -> dict[str, Any]:
    """Probe and scrape like the kubelet and Prometheus, in separate threads."""
    end = threading.Event()
    loops = [
        _Loop(f"http://127.0.0.1:{port}/-/healthy", _PROBED_EVERY, end),
        _Loop(f"http://127.0.0.1:{port}/metrics", _SCRAPED_EVERY, end),
    ]
    for loop in loops:
        loop.start()
    while (now := time.monotonic()) < begin + seconds or (not polled() and now < begin + POLLED_WITHIN):
        time.sleep(1)
        files.write()
    end.set()
    for loop in loops:
        loop.join()
    healthy, metrics = loops
    return {
        "healthy": healthy.longest,
        "metrics": metrics.longest,
        "healthy_failures": healthy.failures,
        "scrapes": metrics.answers,
        "scrape_failures": metrics.failures,
    }


class _Loop(threading.Thread):
    """Request a page repeatedly; record the longest response time and the failures."""

    def __init__(self, url: str, every: float, end: threading.Event) -> None:
        super().__init__()
        self._url = url
        self._every = every
        self._end = end
        self.longest = 0.0
        self.answers = 0
        """With status 200."""
        self.failures = 0

    def run(self) -> None:
        while not self._end.is_set():
            begin = time.monotonic()
            if self._is_answered():
                self.answers += 1
            else:
                self.failures += 1
            self.longest = max(self.longest, time.monotonic() - begin)
            self._end.wait(self._every)

    def _is_answered(self) -> bool:
        try:
            return _status(self._url) == 200
        except OSError:
            return False


def _status(url: str) -> int:
    request = urllib.request.Request(url, headers={"Accept-Encoding": "gzip"})
    try:
        with urllib.request.urlopen(request, timeout=30, context=_TRUSTING) as answer:
            answer.read()
            return answer.status
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def _longest_gap(asked: Path, begin: float, end: float) -> float:
    """Return the longest time between two polls of any good target, from ``begin`` to ``end`` (monotonic)."""
    moments = _polled_at(asked, begin, end).values()
    return max(after - before for times in moments for before, after in pairwise([begin, *times, end]))


def _fewest_polls(asked: Path, begin: float) -> int:
    """Return the number of polls since ``begin`` of the good target with the fewest."""
    return min(map(len, _polled_at(asked, begin, math.inf).values()))


def _polled_at(asked: Path, begin: float, end: float) -> dict[str, list[float]]:
    """Return the times of the polls of each good target, from ``begin`` to ``end`` (monotonic)."""
    moments: dict[str, list[float]] = {f"good{number}": [] for number in range(GOOD_TARGETS)}
    for line in asked.read_text().splitlines():
        name, path, moment = line.split()
        if path == "/metrics" and begin <= float(moment) <= end:
            moments[name].append(float(moment))
    return moments


def _most_resident(pid: int) -> int:
    text = Path(f"/proc/{pid}/status").read_text()
    return int(text.partition("VmHWM:")[2].split()[0]) * 1024
