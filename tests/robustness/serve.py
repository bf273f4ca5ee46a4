"""Serve good, hostile and broken servers in a process of their own: ``python -m tests.robustness.serve FOLDER``.

``spec.json`` maps servers' names to routes, ``{"name": {"/path": {"files": ["0.bin"], "headers": ["Content-Type: a"]}}}``.
The files of a route are answered in turn; the route ``*`` is that of every other path.
``ports.json`` appears once all listen. ``asked.txt`` gets a line ``name⇥path⇥seconds`` (monotonic) for each request.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TextIO

GOOD = "good"
"""The name of the file that stands for the page of a good engine whose counters move."""
OWN_ADDRESS = "own-address.test:1"
"""Stands in a body for the address of the server that sends it."""
EVERY_PATH = "*"
_HEAD = "HTTP/1.1 200 OK\r\n{headers}Content-Length: {length}\r\n\r\n"
_NOT_FOUND = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"


def good_page(polls: int, model: str = "good") -> bytes:
    """Return the page of a busy engine that drafts 4 tokens and has 2.8 of them accepted."""
    labels = f'engine="0",model_name="{model}"'
    stem = "vllm:spec_decode_num"
    gains = {
        f"{stem}_drafts_total": 100,
        f"{stem}_draft_tokens_total": 400,
        f"{stem}_accepted_tokens_total": 280,
    }
    gains |= {"vllm:generation_tokens_total": 390, "vllm:inter_token_latency_seconds_count": 110}
    gains |= {"vllm:inter_token_latency_seconds_sum": 2}
    lines = [f"{name}{{{labels}}} {gain * polls}" for name, gain in gains.items()]
    lines += [
        f'{stem}_accepted_tokens_per_pos_total{{{labels},position="{position}"}} {gain * polls}'
        for position, gain in enumerate((90, 80, 60, 50))
    ]
    return "\n".join([*lines, f"vllm:num_requests_running{{{labels}}} 4", ""]).encode()


class _Route:
    """Responses of one path, in turn."""

    def __init__(self, route: Mapping[str, list[str]], folder: Path) -> None:
        self._headers = "".join(f"{header}\r\n" for header in route.get("headers", ()))
        self._bodies = _bodies(route["files"], folder)

    def answer(self, port: int) -> bytes:
        body = next(self._bodies).replace(OWN_ADDRESS.encode(), b"127.0.0.1:%d" % port)
        return _HEAD.format(headers=self._headers, length=len(body)).encode("latin-1") + body


def _bodies(files: list[str], folder: Path) -> Iterator[bytes]:
    if files == [GOOD]:
        return map(good_page, itertools.count(1))
    return itertools.cycle([(folder / file).read_bytes() for file in files])


class _Server:
    def __init__(self, name: str, served: Any, folder: Path, asked: TextIO) -> None:
        self._name = name
        self._asked = asked
        self._routes = {path: _Route(route, folder) for path, route in served.items()}
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while not writer.is_closing():
                head = await reader.readuntil(b"\r\n\r\n")
                path = head.split(b" ", 2)[1].decode("latin-1").partition("?")[0]
                print(self._name, path, time.monotonic(), sep="\t", file=self._asked, flush=True)
                writer.write(self._answer(path))
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            writer.close()

    def _answer(self, path: str) -> bytes:
        route = self._routes.get(path) or self._routes.get(EVERY_PATH)
        return route.answer(self.port) if route else _NOT_FOUND


async def _main(folder: Path) -> None:
    spec = json.loads((folder / "spec.json").read_text())
    with (folder / "asked.txt").open("w") as asked:
        ports = {}
        for name, served in spec.items():
            server = _Server(name, served, folder, asked)
            listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
            server.port = ports[name] = listening.sockets[0].getsockname()[1]
        unfinished = folder / "ports.tmp"
        unfinished.write_text(json.dumps(ports))
        unfinished.rename(folder / "ports.json")
        end = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, end.set)
        await end.wait()


if __name__ == "__main__":
    asyncio.run(_main(Path(sys.argv[1])))
