"""Hostile sources next to nine good targets: start the installed program, and measure what the sources cost it."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from spec_decode_exporter.monitor.fleet import engines_that_fit
from tests.e2e.conftest import PROGRAM, free_port
from tests.paths import CHECKOUT
from tests.robustness.serve import EVERY_PATH, GOOD

GOOD_TARGETS = 9
SIDECAR_MEMORY = 128 * 2**20
"""Bytes: the limit that docs/guide/kubernetes-sidecar.md recommends for a sidecar."""
WITHIN = 60.0
"""Seconds within which servers and exporter start, and the good targets get the polls that a caller waits for."""
_PROBED_EVERY = 0.1
_SCRAPED_EVERY = 1.0


@dataclass(frozen=True, slots=True)
class Server:
    """Hostile server: each path returns its bodies in turn."""

    routes: Mapping[str, Sequence[bytes]]
    headers: tuple[str, ...] = ()
    every_path: str = ""
    """The route of every path without one of its own."""


@dataclass(frozen=True, slots=True)
class Attack:
    """Hostile sources, with the exporter's settings for them."""

    server: Server | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    """Further keys of the configuration; ``{url}`` in a text is the address of the server."""
    files: Mapping[str, bytes] = field(default_factory=dict)
    """Files in the folder of the configuration, which are written again every second."""
    requests: Sequence[bytes] = ()
    """Requests that 40 clients send to the exporter in a loop."""


class Measured(NamedTuple):
    """Cost of an attack."""

    polls: int
    """Of the good target with the fewest."""
    resident: int
    """Most memory in bytes."""
    healthy_failures: int
    """Probes that were not answered with status 200."""
    scrapes: int
    """Scrapes that were answered with status 200."""


@dataclass(frozen=True, slots=True)
class Running:
    """The started program and the servers beside it."""

    process: subprocess.Popen[bytes]
    servers: subprocess.Popen[bytes]
    port: int
    folder: Path

    @property
    def log(self) -> Path:
        """The program's log."""
        return self.folder / "exporter.log"

    def polls(self, begin: float) -> int:
        """Return the polls of the good target with the fewest, from ``begin`` (monotonic) on."""
        asked = [line.split("\t") for line in (self.folder / "asked.txt").read_text().splitlines()]
        return min(
            sum(
                name == f"{GOOD}{number}" and path == "/metrics" and float(moment) >= begin
                for name, path, moment in asked
            )
            for number in range(GOOD_TARGETS)
        )

    def resident(self) -> int:
        """Return the maximum resident memory in bytes."""
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(text.partition("VmHWM:")[2].split()[0]) * 1024


@contextlib.contextmanager
def running(attack: Attack, folder: Path) -> Iterator[Running]:
    """Start the servers and the exporter of an attack, and yield once the exporter is ready."""
    spec: dict[str, Any] = {
        f"{GOOD}{number}": {"/metrics": {"files": [GOOD]}} for number in range(GOOD_TARGETS)
    }
    if attack.server is not None:
        spec["hostile"] = _routes(attack.server, folder)
    (folder / "spec.json").write_text(json.dumps(spec))
    with _process("tests.robustness.serve", folder) as servers:
        _eventually(lambda: servers.poll() is not None or (folder / "ports.json").exists(), "no servers")
        ports, port = json.loads((folder / "ports.json").read_text()), free_port()
        (folder / "exporter.yml").write_text(json.dumps(_config(attack, ports)))
        command = [PROGRAM, "run", "--config.file", folder / "exporter.yml", "--log.format=json"]
        command += [f"--web.listen-address=:{port}"]
        with (folder / "exporter.log").open("wb") as log:
            process = subprocess.Popen([*map(str, command)], stdout=log, stderr=log, cwd=folder)
        try:
            url = f"http://127.0.0.1:{port}/-/ready"
            _eventually(
                lambda: process.poll() is not None or _status(url) == 200, "the exporter did not start"
            )
            assert process.poll() is None, "the exporter has ended"
            yield Running(process, servers, port, folder)
            assert process.poll() in {None, 0}, "the exporter has ended"
        finally:
            _end(process)


def watched(attack: Attack, folder: Path, seconds: float, polls: int = 0) -> Measured:
    """Run the exporter with the attack for some seconds, and until each good target has its polls; return the cost."""
    _write(folder, attack.files)
    with running(attack, folder) as program, contextlib.ExitStack() as stack:
        begin = time.monotonic()
        if attack.requests:
            names = [folder / f"request-{number}.bin" for number in range(len(attack.requests))]
            for name, request in zip(names, attack.requests, strict=True):
                name.write_bytes(request)
            stack.enter_context(_process("tests.robustness.knock", program.port, *names))
        healthy, metrics = _probed(
            program.port,
            lambda: time.monotonic() > begin + seconds and program.polls(begin) >= polls,
            lambda: _write(folder, attack.files),
        )
        return Measured(program.polls(begin), program.resident(), healthy.failures, metrics.answers)


def _config(attack: Attack, ports: Mapping[str, int]) -> dict[str, Any]:
    hostile = f"http://127.0.0.1:{ports.get('hostile', 0)}"
    more = json.loads(json.dumps(attack.config).replace("{url}", hostile))
    targets = [
        {"url": f"http://127.0.0.1:{port}/metrics", "name": name}
        for name, port in ports.items()
        if name != "hostile"
    ]
    defaults = {
        "limits": {"engines": engines_that_fit(SIDECAR_MEMORY)},
        # The good servers share the processors with the attacker: their answers say nothing of their own cost.
        "poll": {"max_duty_cycle": 1},
    }
    return {**defaults, **more, "targets": [*targets, *more.get("targets", ())]}


def _routes(server: Server, folder: Path) -> dict[str, Any]:
    """Write the bodies of a server to files; return its routes."""
    routes = {}
    for number, (path, bodies) in enumerate(server.routes.items()):
        names = [f"{number}-{place}.bin" for place in range(len(bodies))]
        _write(folder, dict(zip(names, bodies, strict=True)))
        routes[EVERY_PATH if path == server.every_path else path] = {
            "files": names,
            "headers": server.headers,
        }
    return routes


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    for name, data in files.items():
        unfinished = folder / f"{name}.tmp"
        unfinished.write_bytes(data)
        unfinished.replace(folder / name)


@contextlib.contextmanager
def _process(module: str, *arguments: object) -> Iterator[subprocess.Popen[bytes]]:
    environ = {**os.environ, "PYTHONPATH": f"{CHECKOUT / 'exporter'}{os.pathsep}{CHECKOUT}"}
    process = subprocess.Popen([sys.executable, "-m", module, *map(str, arguments)], env=environ)
    try:
        yield process
    finally:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _eventually(check: Callable[[], bool], otherwise: str) -> None:
    deadline = time.monotonic() + WITHIN
    while not check():
        assert time.monotonic() < deadline, otherwise
        time.sleep(0.05)


def _probed(port: int, is_done: Callable[[], bool], each_second: Callable[[], None]) -> tuple[_Loop, _Loop]:
    """Probe and scrape like the kubelet and Prometheus, in separate threads."""
    end, deadline = threading.Event(), time.monotonic() + WITHIN
    loops = (
        _Loop(f"http://127.0.0.1:{port}/-/healthy", _PROBED_EVERY, end),
        _Loop(f"http://127.0.0.1:{port}/metrics", _SCRAPED_EVERY, end),
    )
    for loop in loops:
        loop.start()
    while not is_done() and time.monotonic() < deadline:
        time.sleep(1)
        each_second()
    end.set()
    for loop in loops:
        loop.join()
    return loops


class _Loop(threading.Thread):
    """Request a page repeatedly; count the responses with status 200, and the others."""

    def __init__(self, url: str, every: float, end: threading.Event) -> None:
        super().__init__()
        self._url = url
        self._every = every
        self._end = end
        self.answers = 0
        """With status 200."""
        self.failures = 0

    def run(self) -> None:
        while not self._end.is_set():
            is_answered = _status(self._url) == 200
            self.answers += is_answered
            self.failures += not is_answered
            self._end.wait(self._every)


def _status(url: str) -> int:
    """Return the status of a response; 0 without one."""
    request = urllib.request.Request(url, headers={"Accept-Encoding": "gzip"})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            answer.read()
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code
    except OSError:
        return 0
