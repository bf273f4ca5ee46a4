"""Every fault served at once, each on a port of its own, and a good server beside them that notes when it is asked."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tests.e2e.faults.answers import Respond, answer, page


@dataclass
class Servers:
    """Where each of them is, and when the good one was asked."""

    ports: dict[str, int] = field(default_factory=dict)
    good: int = 0
    asked: list[float] = field(default_factory=list)
    requests: dict[str, int] = field(default_factory=dict)


@contextlib.contextmanager
def serving(faults: Mapping[str, Respond | None]) -> Iterator[Servers]:
    """Serve the faults from a thread; None is a port where nobody listens."""
    servers, ready, loop = Servers(), threading.Event(), asyncio.new_event_loop()
    thread = threading.Thread(target=_run, args=(loop, faults, servers, ready), daemon=True)
    thread.start()
    assert ready.wait(30)
    try:
        yield servers
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)


def _run(
    loop: asyncio.AbstractEventLoop,
    faults: Mapping[str, Respond | None],
    servers: Servers,
    ready: threading.Event,
) -> None:
    loop.set_exception_handler(lambda *_: None)  # connections end in every way there is
    loop.run_until_complete(_listen(faults, servers))
    ready.set()
    loop.run_forever()
    for task in asyncio.all_tasks(loop):
        task.cancel()
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()


async def _listen(faults: Mapping[str, Respond | None], servers: Servers) -> None:
    for name, respond in faults.items():
        servers.requests[name] = 0
        servers.ports[name] = (
            _unused() if respond is None else await _serve(_answering(respond, servers, name))
        )
    drafts = 0

    async def good(writer: asyncio.StreamWriter) -> None:
        nonlocal drafts
        drafts += 10
        servers.asked.append(time.monotonic())
        writer.write(answer(page(model="good", drafts=drafts)))

    servers.good = await _serve(_answering(good, servers, "good"))


def _answering(respond: Respond, servers: Servers, name: str):
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while not writer.is_closing():
                await reader.readuntil(b"\r\n\r\n")
                servers.requests[name] = servers.requests.get(name, 0) + 1
                await respond(writer)
        writer.close()

    return serve


async def _serve(serve) -> int:
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    return server.sockets[0].getsockname()[1]


def _unused() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]
