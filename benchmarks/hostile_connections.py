"""Attacks on the port by connections: slow, silent, greedy and many clients, each with its bounds.

Nine good targets are polled meanwhile, and an honest client asks for /-/healthy. Run by ``python -m
benchmarks.hostile --row connections``.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import resource
import socket
import ssl
import tempfile
import time
from base64 import b64encode
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import bcrypt
import trustme

from tests.robustness.scene import Attack, running

ROW: Final = "connections"
"""Name of these attacks for ``benchmarks.hostile --row``."""
MAX_GAP: Final = 1.6
"""Seconds between two polls of a good target, with an interval of 1 s."""
MAX_HEALTHY: Final = 5.0
"""Seconds for /-/healthy during an attack."""
MAX_HEALTHY_AFTER: Final = 2.0
"""Seconds for /-/healthy once the attacker has hung up."""
MAX_MEMORY: Final = 30.0
"""MB by which the program grows."""
_HEAD: Final = b"GET / HTTP/1.1\r\nHost: localhost\r\n"
_BODY: Final = b"POST /api/v1/requests HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n["
_PASSWORD: Final = b"wonderland"

Seen = Mapping[str, float]
"""Figures of an attack by name. Each has a bound of the same name."""


class Port:
    """The attacked program: its port, its process and its log."""

    def __init__(self, port: int, pid: int, log: Path, tls: ssl.SSLContext | None, header: str) -> None:
        self._port, self._pid, self._log, self._tls, self._header = port, pid, log, tls, header
        self.begin = time.monotonic()
        self.open: list[socket.socket] = []
        """Connections of the attacker, which the end of the attack closes."""
        self.tls_writers: list[asyncio.StreamWriter] = []
        """Of these, with TLS; a writer that is freed closes its connection."""

    async def connect_tls(self, data: bytes) -> asyncio.Transport:
        """Connect with TLS and send bytes; nothing is read of the response."""
        client = await self.connect(receive=4096)
        _, writer = await asyncio.open_connection(sock=client, ssl=self._tls, server_hostname="localhost")
        transport = writer.transport
        assert isinstance(transport, asyncio.Transport)
        transport.pause_reading()
        writer.write(data)
        self.tls_writers.append(writer)
        return transport

    async def connect(self, data: bytes = b"", *, receive: int = 0) -> socket.socket:
        """Connect, and send as many bytes as the program takes in 5 s; ``receive`` is the receive buffer in bytes."""
        client = socket.socket()
        client.setblocking(False)
        self.open.append(client)
        if receive:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(5):
                await asyncio.get_running_loop().sock_connect(client, ("127.0.0.1", self._port))
                await asyncio.get_running_loop().sock_sendall(client, data)
        return client

    async def closed_after(self, client: socket.socket, limit: float, *, drip: bytes = b"") -> float:
        """Return the seconds until the program closes a connection; infinite if it is open after ``limit``."""
        begin = time.monotonic()
        sending = asyncio.create_task(self._drip(client, drip))
        try:
            async with asyncio.timeout(limit):
                while await asyncio.get_running_loop().sock_recv(client, 65536):
                    pass
        except TimeoutError:
            return math.inf
        except OSError:
            pass
        finally:
            sending.cancel()
        return time.monotonic() - begin

    async def _drip(self, client: socket.socket, data: bytes) -> None:
        with contextlib.suppress(OSError):
            while data:
                await asyncio.get_running_loop().sock_sendall(client, data)
                await asyncio.sleep(1)

    async def answer(self, data: bytes, *, limit: float = 10.0) -> bytes:
        """Send a request on a connection of its own; return the response, empty if there is none."""
        options: dict[str, Any] = {"ssl": self._tls, "server_hostname": "localhost"} if self._tls else {}
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(limit):
                reader, writer = await asyncio.open_connection("127.0.0.1", self._port, **options)
                try:
                    writer.write(data)
                    return await reader.read()
                finally:
                    writer.transport.abort()
        return b""

    async def honest(self, path: str = "/-/healthy", header: str | None = None) -> float:
        """Return the seconds of a request, by default of one who is let in; infinite without status 200."""
        begin, header = time.monotonic(), self._header if header is None else header
        head = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{header}\r\n"
        is_answered = (await self.answer(head.encode())).startswith(b"HTTP/1.1 200")
        return time.monotonic() - begin if is_answered else math.inf

    @property
    def has_tls(self) -> bool:
        """Return whether clients connect with TLS."""
        return self._tls is not None

    def memory(self) -> float:
        """Return the resident memory in MB."""
        text = Path(f"/proc/{self._pid}/status").read_text()
        return int(text.partition("VmRSS:")[2].split()[0]) / 1024

    def descriptors(self) -> int:
        """Return the number of open descriptors."""
        return len(self._numbers())

    def _numbers(self) -> list[int]:
        return [int(each.name) for each in Path(f"/proc/{self._pid}/fd").iterdir()]

    def log_bytes(self) -> int:
        """Return the size of the log."""
        return self._log.stat().st_size

    def exhaust_descriptors(self, free: int) -> None:
        """Leave the program ``free`` descriptors."""
        most = max(self._numbers()) + 1 + free
        resource.prlimit(self._pid, resource.RLIMIT_NOFILE, (most, most))


@dataclass(frozen=True, slots=True)
class ConnectionAttack:
    """Attack by connections, and the greatest values of its figures."""

    name: str
    run: Callable[[Port], Awaitable[Seen]]
    bounds: Mapping[str, float]
    web_config: str = ""


def _closed(data: bytes, drip: bytes = b"", first: bytes = b"") -> Callable[[Port], Awaitable[Seen]]:
    async def run(port: Port) -> Seen:
        client = await port.connect(first)
        if first:
            await asyncio.get_running_loop().sock_recv(client, 65536)
        await asyncio.get_running_loop().sock_sendall(client, data)
        return {"closed after, s": await port.closed_after(client, 40, drip=drip)}

    return run


async def _slow_bodies(port: Port) -> Seen:
    """Send bodies that end in the middle, on 20 connections, for 8 s."""
    before, end = port.log_bytes(), time.monotonic() + 8

    async def send() -> None:
        while time.monotonic() < end:
            client = await port.connect(_BODY)
            await asyncio.sleep(0.2)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            client.close()
            port.open.remove(client)

    await asyncio.gather(*(send() for _ in range(20)))
    return {"log, kB": (port.log_bytes() - before) / 1000}


async def _slow_bodies_of_408(port: Port) -> Seen:
    """Send a byte of a body a second, and reset the connection once the program answers that it is too slow."""
    before = port.log_bytes()

    async def send() -> None:
        client = await port.connect(_BODY)
        with contextlib.suppress(OSError):
            await asyncio.get_running_loop().sock_recv(client, 1000)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        client.close()
        port.open.remove(client)

    await asyncio.gather(*(send() for _ in range(16)))
    await asyncio.sleep(2)
    return {"log, kB": (port.log_bytes() - before) / 1000}


async def _broken_tls(port: Port) -> Seen:
    """Send bytes that are not TLS in the middle of a body, on 20 connections, for 8 s."""
    before, end = port.log_bytes(), time.monotonic() + 8

    async def send() -> None:
        while time.monotonic() < end:
            transport = await port.connect_tls(_BODY)
            await asyncio.sleep(0.2)
            os.write(transport.get_extra_info("socket").fileno(), b"no record of TLS")
            await asyncio.sleep(0.2)
            transport.abort()

    await asyncio.gather(*(send() for _ in range(20)))
    return {"log, kB": (port.log_bytes() - before) / 1000}


async def _half_heads(port: Port) -> Seen:
    before = port.memory()
    data = _HEAD + b"".join(b"X-%d: " % each + b"a" * 8000 + b"\r\n" for each in range(60))
    await asyncio.gather(*(port.connect(data) for _ in range(120)))
    await asyncio.sleep(1)
    return {"memory, MB": port.memory() - before}


async def _pipelined(port: Port) -> Seen:
    before = port.memory()
    await port.connect((b"GET /-/healthy HTTP/1.1\r\nHost: a\r\n\r\n") * 50_000, receive=4096)
    return {"memory, MB": port.memory() - before}


async def _pipelined_heads(port: Port) -> Seen:
    """Send large requests ahead while the first is answered slowly, because its answer is not read."""
    before = port.memory()
    head = b"GET /docs/reference/metrics.md HTTP/1.1\r\nHost: a\r\n" + b"".join(
        b"X-%d: " % n + b"a" * 8000 + b"\r\n" for n in range(3)
    )
    await asyncio.gather(*(port.connect((head + b"\r\n") * 200, receive=4096) for _ in range(60)))
    await asyncio.sleep(1)
    return {"memory, MB": port.memory() - before}


def _many(count: int, seconds: float, data: bytes = b"") -> Callable[[Port], Awaitable[Seen]]:
    async def run(port: Port) -> Seen:
        before, memory = port.descriptors(), port.memory()
        await asyncio.gather(*(port.connect(data) for _ in range(count)))
        await asyncio.sleep(1)
        seen = {
            "descriptors": port.descriptors() - before,
            "memory, MB": port.memory() - memory,
            "/metrics, s": await port.honest("/metrics"),
        }
        if not seconds:
            return seen
        last = await port.connect(data)
        return {**seen, "closed after, s": await port.closed_after(last, seconds)}

    return run


def _unread(path: str, other: str = "/-/healthy") -> Callable[[Port], Awaitable[Seen]]:
    async def run(port: Port) -> Seen:
        before, memory, begin = port.descriptors(), port.memory(), time.monotonic()
        request = f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode()
        connect = port.connect_tls if port.has_tls else partial(port.connect, receive=4096)
        await asyncio.gather(*(connect(request * 80) for _ in range(40)))
        await asyncio.sleep(6)
        seen = {"memory, MB": port.memory() - memory, f"{other}, s": await port.honest(other)}
        while port.descriptors() > before + 4 and time.monotonic() < begin + 60:  # noqa: ASYNC110  of another process
            await asyncio.sleep(0.5)
        return {**seen, "all closed after, s": time.monotonic() - begin}

    return run


async def _reconnecting(port: Port) -> Seen:
    """Connect in a loop from 40 clients, with a handshake and a request each, for 8 s."""
    end = time.monotonic() + 8
    longest = 0.0

    async def knock() -> None:
        while time.monotonic() < end:
            await port.honest()

    async def scrape() -> None:
        nonlocal longest
        while time.monotonic() < end:
            longest = max(longest, await port.honest("/metrics"))
            await asyncio.sleep(1)

    await asyncio.gather(scrape(), *(knock() for _ in range(40)))
    return {"/metrics, s": longest}


async def _no_descriptors(port: Port) -> Seen:
    """Hold every descriptor that the program has left, and ask for /-/healthy several times."""
    await asyncio.sleep(8)  # until the targets' connections are there
    port.exhaust_descriptors(free=6)
    before = port.log_bytes()
    await asyncio.gather(*(port.connect() for _ in range(60)))
    times = []
    for _ in range(10):
        times.append(await port.honest())
        await asyncio.sleep(0.3)
    return {"/-/healthy, s": max(times), "log, kB": (port.log_bytes() - before) / 1000}


async def _passwords(port: Port) -> Seen:
    """Guess 60 passwords at once, again and again; an honest client's password was checked before."""
    end = time.monotonic() + 6

    async def guess(number: int) -> None:
        while time.monotonic() < end:
            wrong = b64encode(b"alice:%d-%f" % (number, time.monotonic())).decode()
            await port.honest(header=f"Authorization: Basic {wrong}\r\n")

    guesses = [asyncio.create_task(guess(number)) for number in range(60)]
    await asyncio.sleep(2)
    seen = {"right password, s": await port.honest("/metrics")}
    await asyncio.gather(*guesses)
    return seen


_USERS: Final = "users"
_TLS: Final = "tls_server_config: {cert_file: server.pem, key_file: server.key}\n"
_RIGHT: Final = "Authorization: Basic " + b64encode(b"alice:" + _PASSWORD).decode() + "\r\n"


def _users() -> str:
    return f"basic_auth_users: {{alice: {bcrypt.hashpw(_PASSWORD, bcrypt.gensalt(8)).decode()}}}\n"


_ALWAYS: Final = {
    "gap, s": MAX_GAP,
    "/-/healthy meanwhile, s": MAX_HEALTHY,
    "/-/healthy after, s": MAX_HEALTHY_AFTER,
}
_SOON: Final = {"closed after, s": 11.5}
_CROWD: Final = {"descriptors": 68, "memory, MB": MAX_MEMORY, "/metrics, s": 10.0}
_UNREAD: Final = {"memory, MB": MAX_MEMORY, "/metrics, s": 10.0, "all closed after, s": 60}
ATTACKS: Final[Sequence[ConnectionAttack]] = (
    ConnectionAttack("silent connection", _closed(b""), _SOON),
    ConnectionAttack("half a head", _closed(_HEAD), _SOON),
    ConnectionAttack("head that drips", _closed(_HEAD, b"X-A: b\r\n"), _SOON),
    ConnectionAttack("head that drips, after an answer", _closed(_HEAD, b"X-A: b\r\n", _HEAD + b"\r\n"), _SOON),
    ConnectionAttack("body that drips", _closed(_BODY, b"1"), {"closed after, s": 12.5}),
    ConnectionAttack("body that nobody reads and nobody sends", _closed(b"POST /-/reload HTTP/1.1\r\nHost: localhost\r\nContent-Length: 60000\r\n\r\n"), {"closed after, s": 2.5}),
    ConnectionAttack("bodies that end in the middle, 20 clients", _slow_bodies, {"log, kB": 2}),
    ConnectionAttack("bodies that are reset after 408, 16 clients", _slow_bodies_of_408, {"log, kB": 2}),
    ConnectionAttack("bodies that end TLS in the middle, 20 clients", _broken_tls, {"log, kB": 4}, _TLS),
    ConnectionAttack("120 half heads of 480 kB", _half_heads, {"memory, MB": 12}),
    ConnectionAttack("50,000 requests sent ahead, unread", _pipelined, {"memory, MB": 8}),
    ConnectionAttack("60 x 200 requests of 24 kB sent ahead, unread", _pipelined_heads, {"memory, MB": 24}),
    ConnectionAttack("500 silent connections", _many(500, 12), {**_CROWD, **_SOON}),
    ConnectionAttack("500 connections with half a head", _many(500, 0, _HEAD), _CROWD),
    ConnectionAttack("40 x 80 x /metrics, unread", _unread("/metrics", "/metrics"), _UNREAD),
    ConnectionAttack("40 x 80 x page, unread", _unread("/", "/metrics"), _UNREAD),
    ConnectionAttack("40 x 80 x document of 60 kB, unread", _unread("/docs/reference/metrics.md", "/metrics"), _UNREAD),
    ConnectionAttack("40 x 80 x document of 60 kB over TLS, unread", _unread("/docs/reference/metrics.md", "/metrics"), _UNREAD, _TLS),
    ConnectionAttack("500 connections without a TLS handshake", _many(500, 12), {**_CROWD, **_SOON}, _TLS),
    ConnectionAttack("500 clients with the first 6 bytes of a handshake", _many(500, 12, b"\x16\x03\x01\x02\x00\x01"), {**_CROWD, **_SOON}, _TLS),
    ConnectionAttack("TLS handshakes in a loop, 40 clients", _reconnecting, {"/metrics, s": 10}, _TLS),
    ConnectionAttack("connections in a loop, 40 clients", _reconnecting, {"/metrics, s": 10}),
    ConnectionAttack("descriptors exhausted by connections", _no_descriptors, {"/-/healthy, s": MAX_HEALTHY, "log, kB": 4}),
    ConnectionAttack("60 wrong passwords at once, cost 8", _passwords, {"right password, s": 10.0}, _USERS),
)  # fmt: skip


def measured(attack: ConnectionAttack) -> dict[str, float]:
    """Run the program with an attack; return its figures, the gap between polls and the time of /-/healthy."""
    with tempfile.TemporaryDirectory() as name, _web_config(attack, Path(name)) as (flags, tls):
        folder = Path(name)
        config = {"requests": {"ingest": True}}
        with running(Attack(config=config, flags=flags), folder, tls=tls is not None) as program:
            header = _RIGHT if attack.web_config == _USERS else ""
            port = Port(program.port, program.process.pid, folder / "exporter.log", tls, header)
            seen = asyncio.run(_attacked(attack, port))
            return {**seen, "gap, s": program.longest_gap(port.begin, time.monotonic())}


async def _attacked(attack: ConnectionAttack, port: Port) -> dict[str, float]:
    times: list[float] = []

    async def ask() -> None:
        while True:
            times.append(await port.honest())
            await asyncio.sleep(0.25)

    asking = asyncio.create_task(ask())
    await asyncio.sleep(2)
    try:
        seen = await attack.run(port)
    finally:
        asking.cancel()
        for writer in port.tls_writers:
            writer.transport.abort()
        await asyncio.sleep(0.1)  # until asyncio has closed their sockets
        for client in port.open:
            client.close()
    return {**seen, "/-/healthy meanwhile, s": max(times), "/-/healthy after, s": await port.honest()}


@contextlib.contextmanager
def _web_config(
    attack: ConnectionAttack, folder: Path
) -> Iterator[tuple[tuple[str, ...], ssl.SSLContext | None]]:
    """Write the web configuration of an attack; yield the flags for it and the context of a client."""
    if not attack.web_config:
        yield (), None
        return
    (folder / "web.yml").write_text(_users() if attack.web_config == _USERS else attack.web_config)
    authority = trustme.CA()
    issued = authority.issue_cert("localhost", "127.0.0.1")
    issued.private_key_pem.write_to_path(folder / "server.key")
    issued.cert_chain_pems[0].write_to_path(folder / "server.pem")
    context = ssl.create_default_context()
    authority.configure_trust(context)
    yield (f"--web.config.file={folder / 'web.yml'}",), context if attack.web_config == _TLS else None


def misses(attack: ConnectionAttack, seen: Mapping[str, float]) -> list[str]:
    """Return the figures beyond their bounds."""
    bounds = {**attack.bounds, **_ALWAYS}
    return [
        f"{name} {value:.2f} > {bounds[name]}" for name, value in seen.items() if not value <= bounds[name]
    ]


def described(attack: ConnectionAttack, seen: Mapping[str, float]) -> str:
    """Return a line of the table of results."""
    bounds = {**attack.bounds, **_ALWAYS}
    figures = "; ".join(f"{name}: {value:.2f} (≤ {bounds[name]})" for name, value in seen.items())
    return f"| {attack.name} | {figures} |"
