"""A recorded vLLM page on many loopback addresses, its counters advancing, from a process of its own.

    python -m benchmarks.page_server

`/metrics` is the whole page, `/metrics/?name[]=...` the samples of those names, as in vLLM. Prints its port;
then, for each line on its standard input, how many requests it has answered to whom. For the line `lateness`
it prints how late each of the exporter's requests since the last line `forget` was.
"""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from bisect import bisect_right
from collections import Counter, defaultdict
from functools import lru_cache
from math import floor
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import parse_qs, urlsplit

RECORDED = Path(__file__).parents[1] / "tests/pages/vllm-0.32.0-python-ngram-k4.prom"

_COUNTING = re.compile(r"^(\S+_(?:total|count|sum|bucket)(?:\{.*\})?) (\S+)$")
ON_TIME: Final = 0.1
"""Seconds after its target's beat in which most requests come."""
EARLY: Final = 2e-3
"""Seconds by which a timer may fire early."""

_USER_AGENT = re.compile(rb"\r\nuser-agent: ([a-z-]+)", re.IGNORECASE)


def addresses(number: int) -> list[str]:
    return [f"127.0.{1 + index // 250}.{1 + index % 250}" for index in range(number)]


class PageServer:
    """The server's process, for as long as the `with` block lasts."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "benchmarks.page_server"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.port = int(self._answer())

    def served(self) -> dict[str, int]:
        """Return how many requests it has answered, by the first word of their `User-Agent`."""
        served: dict[str, int] = self._asked("")
        return served

    def forget(self) -> None:
        """Forget the requests so far, for `lateness`."""
        self._asked("forget")

    def lateness(self) -> list[float]:
        """Return by how many seconds each request of the exporter was later than its target's beat.

        It answers no request while it computes that.
        """
        late: list[float] = self._asked("lateness")
        return late

    def _asked(self, line: str) -> Any:
        assert self._process.stdin
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        return json.loads(self._answer())

    def _answer(self) -> str:
        assert self._process.stdout
        return self._process.stdout.readline()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()


def _advance(line: str, step: int) -> str:
    """Return a line as it is after `step + 1` times as much work: counts stay whole, buckets keep rising."""
    match = _COUNTING.match(line)
    return f"{match[1]} {float(match[2]) * (step + 1)}" if match else line


def _only(lines: list[str], names: set[str]) -> list[str]:
    kept: list[str] = []
    comments: list[str] = []
    for line in lines:
        if line.startswith("#"):
            comments = [*comments[-1:], line]
        elif re.split("[ {]", line, maxsplit=1)[0] in names:
            kept += [*comments, line]
            comments = []
    return kept


def lateness_of(moments: list[float]) -> list[float]:
    """Return how late each moment is after its beat; a beat without one makes the next as late."""
    beat = _beat(moments)
    beats = [floor(moment - beat + EARLY) for moment in moments]
    due = [beats[0], *(before + 1 for before in beats[:-1])]
    return [max(0.0, moment - beat - number) for moment, number in zip(moments, due, strict=True)]


def _beat(moments: list[float]) -> float:
    """Return the part of a second after which most moments come within `ON_TIME`."""
    parts = sorted(moment % 1 for moment in moments)
    round_trip = [*parts, *(part + 1 for part in parts)]
    following = [bisect_right(round_trip, part + ON_TIME) - index for index, part in enumerate(parts)]
    return parts[following.index(max(following))]


class _Pages:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._recorded = RECORDED.read_text().splitlines()
        self._loop = loop
        self._started = loop.time()
        self.requests: Counter[str] = Counter()
        self._moments: defaultdict[str, list[float]] = defaultdict(list)

    def answer(self, request: bytes, address: str) -> bytes:
        found = _USER_AGENT.search(request)
        agent = found[1].decode().lower() if found else ""
        self.requests[agent] += 1
        if agent == "spec-decode-exporter":
            self._moments[address].append(self._loop.time())
        target = request.split(b" ", 2)[1].decode()
        return self._rendered(int(self._loop.time() - self._started), target)

    def _lateness(self) -> list[float]:
        return [seconds for moments in self._moments.values() for seconds in lateness_of(moments)]

    def asked(self, line: str) -> object:
        """Return the answer to a line on the standard input."""
        if line == "forget":
            self._moments.clear()
        return self._lateness() if line == "lateness" else self.requests

    @lru_cache(maxsize=32)  # noqa: B019  there is one, as long as the process
    def _rendered(self, step: int, target: str) -> bytes:
        parts = urlsplit(target)
        if not parts.path.startswith("/metrics"):
            return b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n"
        names = set(parse_qs(parts.query).get("name[]", ())) if parts.path == "/metrics/" else set()
        lines = [_advance(line, step) for line in (_only(self._recorded, names) if names else self._recorded)]
        body = "".join(f"{line}\n" for line in lines)
        head = f"HTTP/1.1 200 OK\r\ncontent-length: {len(body)}\r\n"
        return f"{head}content-type: text/plain; version=0.0.4; charset=utf-8\r\n\r\n{body}".encode()


class _Protocol(asyncio.Protocol):
    def __init__(self, pages: _Pages) -> None:
        self._pages = pages
        self._request = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._address: str = transport.get_extra_info("sockname")[0]

    def data_received(self, data: bytes) -> None:
        self._request += data
        if self._request.endswith(b"\r\n\r\n"):
            self._transport.write(self._pages.answer(self._request, self._address))
            self._request = b""


async def _serve() -> None:
    loop = asyncio.get_running_loop()
    pages = _Pages(loop)
    # Every address of 127.0.0.0/8 is this machine's.
    server = await loop.create_server(lambda: _Protocol(pages), "0.0.0.0", 0, backlog=2048)
    print(server.sockets[0].getsockname()[1], flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        print(json.dumps(pages.asked(line.strip())), flush=True)


if __name__ == "__main__":
    asyncio.run(_serve())
