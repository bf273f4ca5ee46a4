"""Every fault served at once, each on a port of its own, and a good server beside them that notes when it is asked."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field

from tests.e2e.faults.answers import Respond, answer, page

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Servers:
    """Ports of all servers, requests to each, and times of the requests to the good one."""

    ports: dict[str, int] = field(default_factory=dict)
    good: int = 0
    asked: list[float] = field(default_factory=list)
    requests: dict[str, int] = field(default_factory=dict)
    stalled: float = 0.0
    """Seconds by which the servers' own event loop was late at worst."""


@contextlib.contextmanager
def serving(faults: Mapping[str, Respond | None]) -> Iterator[Servers]:
    """Serve the faults from a thread; None is a port without a listener."""
    servers, ready, loop = Servers(), threading.Event(), asyncio.new_event_loop()

    def run() -> None:
        loop.set_exception_handler(lambda *_: None)  # connections end in every way there is
        listening = loop.run_until_complete(_listen(faults, servers))
        loop.call_soon(ready.set)
        _beat(loop, servers, loop.time())
        loop.run_forever()
        loop.run_until_complete(_end(listening))
        loop.close()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        assert ready.wait(30)
        yield servers
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)


def _beat(loop: asyncio.AbstractEventLoop, servers: Servers, due: float) -> None:
    """Measure how late the event loop is, ten times a second."""
    servers.stalled = max(servers.stalled, loop.time() - due)
    loop.call_later(0.1, _beat, loop, servers, loop.time() + 0.1)


async def _end(listening: list[asyncio.Server]) -> None:
    for server in listening:
        server.close()
    answering = asyncio.all_tasks() - {asyncio.current_task()}
    for task in answering:
        task.cancel()
    await asyncio.gather(*answering, return_exceptions=True)
    await asyncio.sleep(0.1)  # the transports that they left close their sockets


async def _listen(faults: Mapping[str, Respond | None], servers: Servers) -> list[asyncio.Server]:
    listening = []
    # Ports without a listener come last: the system gives a free one to the next that listens.
    for name, respond in sorted(faults.items(), key=lambda fault: fault[1] is None):
        servers.requests[name] = 0
        if respond is None:
            servers.ports[name] = _unused()
        else:
            listening.append(await _serve(_answering(respond, servers, name)))
            servers.ports[name] = _port(listening[-1])
    listening.append(await _serve(_answering(_good(servers), servers, "good")))
    servers.good = _port(listening[-1])
    return listening


def _good(servers: Servers) -> Respond:
    async def respond(writer: asyncio.StreamWriter) -> None:
        servers.asked.append(time.monotonic())
        writer.write(answer(page(model="good", drafts=10 * len(servers.asked))))

    return respond


def _answering(respond: Respond, servers: Servers, name: str) -> Serve:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while not writer.is_closing():
                await reader.readuntil(b"\r\n\r\n")
                servers.requests[name] = servers.requests.get(name, 0) + 1
                await respond(writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            writer.close()
        except asyncio.CancelledError:
            writer.transport.abort()

    return serve


async def _serve(serve: Serve) -> asyncio.Server:
    return await asyncio.start_server(serve, "127.0.0.1", 0)


def _port(server: asyncio.Server) -> int:
    return server.sockets[0].getsockname()[1]


def _unused() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]
