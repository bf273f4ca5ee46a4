"""Processes of a benchmark: simulated servers on loopback addresses, and programs with their resources.

`python -m benchmarks.servers` serves the page of a simulated vLLM whose counters advance: `/metrics` is the
whole page, `/metrics/?name[]=...` the samples of those names, as in vLLM. It prints its port; then, for each
line on its standard input, how many requests it has answered.
"""

from __future__ import annotations

import asyncio
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Self
from urllib.parse import parse_qs, urlsplit

from spec_decode_exporter.simulator.scenario import Scenario
from spec_decode_exporter.simulator.simulation import Simulation
from spec_decode_exporter.simulator.vllm_page import metrics_page


def require(*programs: str) -> None:
    missing = [program for program in programs if shutil.which(program) is None]
    if missing:
        sys.exit(f"not installed: {', '.join(missing)}")


@contextmanager
def running(*command: str) -> Iterator[int]:
    """Run a command in the background and yield its process id; its output is thrown away.

    Raises `RuntimeError` if the process has ended by itself.
    """
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process.pid
        if process.poll() is not None:
            raise RuntimeError(f"{command[0]} ended with status {process.returncode}")
    finally:
        process.kill()
        process.wait()


def wait_until_ready(port: int) -> None:
    """Return once a program is ready to answer on a port of this machine; a busy machine starts it slowly."""
    end = time.monotonic() + 60
    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/-/ready"):
                return
        except OSError:
            if time.monotonic() > end:
                raise
        time.sleep(0.1)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
    return port


def cpu_seconds(pid: int) -> float:
    """Return the seconds of processor time of all its threads, in the program and in the kernel."""
    # What clock_getcpuclockid(3) gives; the times in /proc/PID/stat are a hundred thousand times coarser.
    return time.clock_gettime((~pid << 3) | 2)


def resident_megabytes(pid: int) -> float:
    """Return its resident memory, in units of 10^6 bytes."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) * 1024 / 1e6


def simulated() -> Simulation:
    """Return the server: a healthy drafter under a constant load."""
    return Simulation(Scenario(), seed=1)


class PageServer:
    """The server's process, for as long as the `with` block lasts."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.servers"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.port = self._number()

    def served(self) -> int:
        """Return how many requests it has answered."""
        assert self._process.stdin
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return self._number()

    def _number(self) -> int:
        assert self._process.stdout
        return int(self._process.stdout.readline())

    def hosts(self, number: int) -> list[str]:
        """Return addresses with the port: every one of 127.0.0.0/8 is this machine's."""
        return [f"127.0.{1 + place // 250}.{1 + place % 250}:{self.port}" for place in range(number)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.communicate(timeout=20)


class _Pages:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._simulation, self._loop = simulated(), loop
        self._started = loop.time()
        self.requests = 0

    def answer(self, request: bytes) -> bytes:
        self.requests += 1
        return self._rendered(int(self._loop.time() - self._started), request.split(b" ", 2)[1].decode())

    @lru_cache(maxsize=32)  # noqa: B019  there is one, as long as the process
    def _rendered(self, step: int, target: str) -> bytes:
        parts = urlsplit(target)
        if not parts.path.startswith("/metrics"):
            return b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n"
        self._simulation.advance(step - self._simulation.now)
        body = metrics_page(self._simulation, parse_qs(parts.query).get("name[]", ()))
        head = f"HTTP/1.1 200 OK\r\ncontent-length: {len(body)}\r\n"
        return f"{head}content-type: text/plain; version=0.0.4; charset=utf-8\r\n\r\n".encode() + body


class _Protocol(asyncio.Protocol):
    def __init__(self, pages: _Pages) -> None:
        self._pages = pages
        self._request = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._request += data
        if self._request.endswith(b"\r\n\r\n"):
            self._transport.write(self._pages.answer(self._request))
            self._request = b""


async def _serve() -> None:
    loop = asyncio.get_running_loop()
    pages = _Pages(loop)
    server = await loop.create_server(lambda: _Protocol(pages), "0.0.0.0", 0, backlog=2048)
    print(server.sockets[0].getsockname()[1], flush=True)
    while await asyncio.to_thread(sys.stdin.readline):
        print(pages.requests, flush=True)


if __name__ == "__main__":
    asyncio.run(_serve())
