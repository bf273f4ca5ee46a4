"""Where the exporter listens: a listen address to sockets, and the server that answers there."""

from __future__ import annotations

import asyncio
import errno
import logging
import re
import socket
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from spec_decode_exporter.web.server import unix_socket
from spec_decode_exporter.web.server.aiohttp_protocol import Answering, refuse_expectations
from spec_decode_exporter.web.server.client_connection import MOST_RECEIVED, in_hand
from spec_decode_exporter.web.server.connection_limiter import (
    IDLE_SECONDS,
    MOST_CONNECTIONS,
    ConnectionLimiter,
    Tls,
)

if TYPE_CHECKING:
    import ssl
    from collections.abc import Sequence

DRAIN_SECONDS: Final = 3.0
"""How long requests under way may take to end after the server stopped listening."""

_MOST_LINE: Final = 8190
"""Bytes of a request's first line, and of one header with its name."""
_MOST_HEADERS: Final = 64
_LINGER_SECONDS: Final = 1.0
"""How long the rest of a body is taken that nobody wants: no page reads one."""

_ADDRESS: Final = re.compile(
    r"(?:\[(?P<ipv6>[0-9A-Fa-f:.%\w]+)\]|(?P<host>[^\s:\[\]/@]*)):(?P<port>\d{1,5})", re.ASCII
)
_MAX_PORT: Final = 65535
_CAUSES: Final = {
    errno.EADDRINUSE: "the port is in use; stop the program that has it",
    errno.EADDRNOTAVAIL: "no interface of this machine has that address",
    errno.EACCES: "this user may not have that port",
}


class ListenError(Exception):
    """An address that cannot be listened on; the text names it and says what to do."""


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """A host, empty for all interfaces, and a port, 0 for any free one."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


Address = ListenAddress | unix_socket.UnixAddress


def parse_listen_address(value: str) -> ListenAddress:
    """Read ``:7732``, ``0.0.0.0:7732``, ``[::1]:7732`` or ``localhost:7732``; ListenError for all else."""
    match = _ADDRESS.fullmatch(value)
    if match is None or int(match["port"]) > _MAX_PORT:
        raise ListenError(
            f"{value!r} is not an address to listen on: write host:port, [IPv6]:port or :port for all"
            f" interfaces, with a port up to {_MAX_PORT}, such as :7732"
        )
    return ListenAddress(match["ipv6"] or match["host"], int(match["port"]))


def parse_address(value: str) -> Address:
    """Read the same, or ``unix:/run/exporter.sock``."""
    if not value.startswith(unix_socket.PREFIX):
        return parse_listen_address(value)
    path = value.removeprefix(unix_socket.PREFIX)
    if not path.startswith("/") or path.endswith("/") or "\0" in path:
        raise ListenError(
            f"{value!r} is not the path of a socket: write it whole, such as unix:/run/exporter.sock"
        )
    return unix_socket.UnixAddress(Path(path))


class Plain:
    """Connections without TLS."""

    def context(self) -> ssl.SSLContext | None:
        """Return nothing: there is no handshake."""
        return None

    def admits(self, transport: asyncio.BaseTransport) -> bool:
        """Let everyone stay."""
        del transport
        return True


class Server:
    """A running server; ``urls`` holds one URL an address, with the real port."""

    def __init__(
        self,
        runner: web.AppRunner,
        door: ConnectionLimiter,
        local: ConnectionLimiter,
        files: Sequence[unix_socket.UnixSocket],
    ) -> None:
        self._runner = runner
        self.door = door
        self._local = local
        self._files = files
        self._sockets: list[socket.socket] = []
        self.urls: tuple[str, ...] = ()

    def open(self, ports: Sequence[socket.socket]) -> None:
        """Take connections from these sockets, and from those of files."""
        files = [each.listening for each in self._files]
        for listening in ports:
            self.door.open(listening)
        for listening in files:
            self._local.open(listening)
        self._sockets = [*ports, *files]

    async def close(self) -> None:
        """Stop listening and let the requests under way end, for at most ``DRAIN_SECONDS``."""
        await self.door.close()
        await self._local.close()
        for file in self._files:
            file.remove()
        for listening in self._sockets:
            listening.close()
        await self._runner.cleanup()


async def serve(
    app: web.Application,
    addresses: Sequence[Address],
    tls: Tls | None = None,
    connections: int = MOST_CONNECTIONS,
) -> Server:
    """Listen on all the addresses or, with ListenError, on none.

    Unix sockets have a door of their own, without TLS: strangers at the others take none of its places.
    """
    ports = [address for address in addresses if isinstance(address, ListenAddress)]
    paths = [address for address in addresses if isinstance(address, unix_socket.UnixAddress)]
    with ExitStack() as undo:
        sockets = [undo.enter_context(await _bind(address)) for address in ports]
        files = [_bind_file(address, undo) for address in paths]
        undo.pop_all()
    app.middlewares.insert(0, in_hand)
    runner = web.AppRunner(app, shutdown_timeout=DRAIN_SECONDS)
    await runner.setup()
    assert runner.server is not None  # noqa: S101  it is there after the setup
    runner.server.request_handler = refuse_expectations(runner.server.request_handler)
    tls = tls or Plain()
    answer = partial(Answering, runner.server, loop=asyncio.get_running_loop(), **_limits())
    server = Server(
        runner,
        ConnectionLimiter(answer, tls, connections),
        ConnectionLimiter(answer, Plain(), connections),
        files,
    )
    server.open(sockets)
    scheme = "https" if tls.context() else "http"
    server.urls = (
        *(_url(scheme, *pair) for pair in zip(ports, sockets, strict=True)),
        *(str(address) for address in paths),
    )
    return server


def _limits() -> dict[str, Any]:
    """Return what each connection is held to."""
    return {
        "access_log": None,
        "auto_decompress": False,
        "keepalive_timeout": IDLE_SECONDS,
        "lingering_time": _LINGER_SECONDS,
        "logger": _logger(),
        "max_field_size": _MOST_LINE,
        "max_headers": _MOST_HEADERS,
        "max_line_size": _MOST_LINE,
        "read_bufsize": MOST_RECEIVED,
    }


def _logger() -> logging.Logger:
    """Return aiohttp's logger without what clients do wrong: anyone could fill the log with that."""
    logger = logging.getLogger("spec_decode_exporter.web")
    logger.filters = [
        lambda record: not isinstance((record.exc_info or (None, None))[1], HttpProcessingError)
    ]
    return logger


def _bind_file(address: unix_socket.UnixAddress, undo: ExitStack) -> unix_socket.UnixSocket:
    try:
        found = unix_socket.bind(address)
    except OSError as error:
        raise ListenError(
            f"cannot listen on {address}: {error.strerror or error}, or choose another path"
        ) from error
    undo.callback(found.listening.close)
    undo.callback(found.remove)
    return found


async def _bind(address: ListenAddress) -> socket.socket:
    try:
        if not address.host:
            return _bind_everywhere(address.port)
        family, sockaddr = await _resolve(address)
        return socket.create_server(sockaddr, family=family)
    except OSError as error:
        cause = _CAUSES.get(error.errno or 0, error.strerror or str(error))
        raise ListenError(f"cannot listen on {address}: {cause}, or choose another address") from error


def _bind_everywhere(port: int) -> socket.socket:
    """Bind one socket for IPv4 and IPv6 where the system has both."""
    if socket.has_dualstack_ipv6():
        return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
    return socket.create_server(("", port))


async def _resolve(address: ListenAddress) -> tuple[socket.AddressFamily, tuple[str, int]]:
    """Return one address of a name, IPv4 if it has one: ``localhost`` is one socket, not two."""
    found = await asyncio.get_running_loop().getaddrinfo(
        address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    family, *_, sockaddr = min(found, key=lambda info: info[0] != socket.AF_INET)
    return family, sockaddr  # type: ignore[return-value]  # IPv6 brings two numbers more, which bind takes


def _url(scheme: str, address: ListenAddress, bound: socket.socket) -> str:
    """Return a URL that a browser on this machine can open."""
    host = {"": "localhost", "0.0.0.0": "localhost", "::": "localhost"}.get(address.host, address.host)
    return f"{scheme}://{ListenAddress(host, bound.getsockname()[1])}/"
