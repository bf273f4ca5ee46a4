"""The page of a simulated vLLM on many loopback addresses, its counters advancing, from a process of its own.

    python -m benchmarks.page_server

`/metrics` is the whole page, `/metrics/?name[]=...` the samples of those names, as in vLLM. Prints its port;
then, for each line on its standard input, how many requests it has answered to whom.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections import Counter
from functools import lru_cache
from urllib.parse import parse_qs, urlsplit

from benchmarks.process import Answering
from spec_decode_exporter.simulator.scenario import Scenario
from spec_decode_exporter.simulator.simulation import Simulation
from spec_decode_exporter.simulator.vllm_page import metrics_page

_USER_AGENT = re.compile(rb"\r\nuser-agent: ([a-z-]+)", re.IGNORECASE)


def simulated() -> Simulation:
    """Return the server: a healthy drafter under a constant load."""
    return Simulation(Scenario(), seed=1)


def addresses(number: int) -> list[str]:
    return [f"127.0.{1 + index // 250}.{1 + index % 250}" for index in range(number)]


class PageServer(Answering):
    """The server's process."""

    def __init__(self) -> None:
        super().__init__("benchmarks.page_server")
        self.port = int(self.first_line)

    def served(self) -> dict[str, int]:
        """Return how many requests it has answered, by the first word of their `User-Agent`."""
        served: dict[str, int] = self.ask("")
        return served


class _Pages:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._simulation, self._loop = simulated(), loop
        self._started = loop.time()
        self.requests: Counter[str] = Counter()

    def answer(self, request: bytes) -> bytes:
        found = _USER_AGENT.search(request)
        agent = found[1].decode().lower() if found else ""
        self.requests[agent] += 1
        target = request.split(b" ", 2)[1].decode()
        return self._rendered(int(self._loop.time() - self._started), target)

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
    # Every address of 127.0.0.0/8 is this machine's.
    server = await loop.create_server(lambda: _Protocol(pages), "0.0.0.0", 0, backlog=2048)
    print(server.sockets[0].getsockname()[1], flush=True)
    while await asyncio.to_thread(sys.stdin.readline):
        print(json.dumps(pages.requests), flush=True)


if __name__ == "__main__":
    asyncio.run(_serve())
