"""Server with responses of the test, valid or faulty, and its TLS certificates."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import trustme

Streams = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class FaultServer:
    """Server on loopback: `respond` handles each request; it counts connections and requests."""

    respond: Streams
    port: int = 0
    host: str = "127.0.0.1"
    scheme: str = "http"
    connections: int = 0
    requests: list[bytes] = field(default_factory=list)
    open: set[asyncio.StreamWriter] = field(default_factory=set)
    handlers: set[asyncio.Task] = field(default_factory=set)

    def url(self, path: str = "/metrics") -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}{path}"

    async def serve(self, reader, writer):
        self.connections += 1
        self.handlers.add(asyncio.current_task())
        self.open.add(writer)
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while not writer.is_closing():
                self.requests.append(await reader.readuntil(b"\r\n\r\n"))
                await self.respond(reader, writer)
                await writer.drain()
        self.open.discard(writer)
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


@asynccontextmanager
async def _started(server: FaultServer, ssl):
    listening = await asyncio.start_server(server.serve, server.host, 0, ssl=ssl)
    server.port = listening.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listening.close()
        for writer in server.open:
            writer.transport.abort()
        await asyncio.gather(*server.handlers)


@pytest.fixture
async def fault_server():
    """Start servers that return the given bytes or call the given function."""
    gc.freeze()  # the collection below scans only objects of the test: all others take a third of a second
    async with AsyncExitStack() as stack:

        async def start(respond: Streams | bytes, *, host: str = "127.0.0.1", ssl=None) -> FaultServer:
            async def write(reader, writer):
                writer.write(respond)

            server = FaultServer(respond if callable(respond) else write, host=host)
            server.scheme = "https" if ssl else "http"
            return await stack.enter_async_context(_started(server, ssl))

        yield start
    gc.collect()  # what was not closed warns now, and a warning is an error
    gc.unfreeze()


@dataclass(frozen=True)
class Certificates:
    """Certificate authority, its certificate for `localhost` and 127.0.0.1, and an unrelated key."""

    authority: Path
    certificate: Path
    key: Path
    other_key: Path


@pytest.fixture(scope="session")
def certificates(tmp_path_factory) -> Certificates:
    """Make keys and certificates for the test session."""
    folder = tmp_path_factory.mktemp("certificates")
    found = Certificates(
        *(folder / name for name in ("ca.pem", "localhost.pem", "localhost.key", "other.key"))
    )
    authority = trustme.CA()
    issued = authority.issue_cert("localhost", "127.0.0.1")
    authority.cert_pem.write_to_path(found.authority)
    issued.cert_chain_pems[0].write_to_path(found.certificate)
    issued.private_key_pem.write_to_path(found.key)
    authority.issue_cert("localhost").private_key_pem.write_to_path(found.other_key)
    return found
