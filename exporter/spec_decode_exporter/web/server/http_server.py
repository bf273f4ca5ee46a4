"""HTTP server of an application: listen on all addresses or on none, and drain requests on close."""

from __future__ import annotations

import asyncio
import logging
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from spec_decode_exporter.web.server.aiohttp_protocol import HttpProtocol, reject_expectations
from spec_decode_exporter.web.server.client_connection import RECEIVE_BUFFER_BYTES, track_request
from spec_decode_exporter.web.server.connection_limiter import MAX_CONNECTIONS, ConnectionLimiter
from spec_decode_exporter.web.server.handshake import Tls, WithoutTls
from spec_decode_exporter.web.server.listen import (
    Address,
    ListenAddress,
    UnixAddress,
    UnixSocket,
    bind,
    bind_unix,
)

if TYPE_CHECKING:
    import socket
    from collections.abc import Sequence

DRAIN_SECONDS: Final = 3.0
"""For active requests to finish after the server stops listening."""
IDLE_SECONDS: Final = 180.0
"""Between two requests: longer than usual scrape intervals, so that Prometheus keeps its connection."""
MAX_LINE_BYTES: Final = 8190
"""Of a request line, and of a header with its name."""
MAX_HEADERS: Final = 64

_LINGER_SECONDS: Final = 1.0
"""For the rest of a body that no handler reads."""


class Server:
    """A running server; ``urls`` has one URL per address, with the real port."""

    def __init__(
        self,
        runner: web.AppRunner,
        limiter: ConnectionLimiter,
        unix_limiter: ConnectionLimiter,
        unix_sockets: Sequence[UnixSocket],
    ) -> None:
        self._runner = runner
        self.limiter = limiter
        self._unix_limiter = unix_limiter
        self._unix_sockets = unix_sockets
        self._sockets: list[socket.socket] = []
        self.urls: tuple[str, ...] = ()

    def open(self, tcp_sockets: Sequence[socket.socket]) -> None:
        """Accept connections from these sockets, and from the unix sockets."""
        unix_sockets = [each.listening for each in self._unix_sockets]
        for listening in tcp_sockets:
            self.limiter.open(listening)
        for listening in unix_sockets:
            self._unix_limiter.open(listening)
        self._sockets = [*tcp_sockets, *unix_sockets]

    async def close(self) -> None:
        """Stop listening, and wait at most ``DRAIN_SECONDS`` for active requests."""
        await self.limiter.close()
        await self._unix_limiter.close()
        for unix_socket in self._unix_sockets:
            unix_socket.remove()
        for listening in self._sockets:
            listening.close()
        await self._runner.cleanup()


async def serve(
    app: web.Application,
    addresses: Sequence[Address],
    tls: Tls | None = None,
    connections: int = MAX_CONNECTIONS,
) -> Server:
    """Listen on all the addresses or, with ListenError, on none.

    Unix sockets have a connection limit of their own, and no TLS. So remote clients cannot use up the
    connections of local ones.
    """
    tcp_addresses = [address for address in addresses if isinstance(address, ListenAddress)]
    unix_addresses = [address for address in addresses if isinstance(address, UnixAddress)]
    with ExitStack() as undo:
        tcp_sockets = [undo.enter_context(await bind(address)) for address in tcp_addresses]
        unix_sockets = [_bind_unix(address, undo) for address in unix_addresses]
        undo.pop_all()
    app.middlewares.insert(0, track_request)
    runner = web.AppRunner(app, shutdown_timeout=DRAIN_SECONDS)
    await runner.setup()
    assert runner.server is not None  # noqa: S101  the setup creates it
    runner.server.request_handler = reject_expectations(runner.server.request_handler)
    tls = tls or WithoutTls()
    make_http = partial(HttpProtocol, runner.server, loop=asyncio.get_running_loop(), **_protocol_options())
    server = Server(
        runner,
        ConnectionLimiter(make_http, tls, connections),
        ConnectionLimiter(make_http, WithoutTls(), connections),
        unix_sockets,
    )
    server.open(tcp_sockets)
    scheme = "https" if tls.context() else "http"
    server.urls = (
        *(_url(scheme, *pair) for pair in zip(tcp_addresses, tcp_sockets, strict=True)),
        *(str(address) for address in unix_addresses),
    )
    return server


def _bind_unix(address: UnixAddress, undo: ExitStack) -> UnixSocket:
    unix_socket = bind_unix(address)
    undo.callback(unix_socket.listening.close)
    undo.callback(unix_socket.remove)
    return unix_socket


def _protocol_options() -> dict[str, Any]:
    """Return the options of aiohttp's protocol."""
    return {
        "access_log": None,
        "auto_decompress": False,
        "keepalive_timeout": IDLE_SECONDS,
        "lingering_time": _LINGER_SECONDS,
        "logger": _logger(),
        "max_field_size": MAX_LINE_BYTES,
        "max_headers": MAX_HEADERS,
        "max_line_size": MAX_LINE_BYTES,
        "read_bufsize": RECEIVE_BUFFER_BYTES,
    }


def _logger() -> logging.Logger:
    """Return aiohttp's logger without invalid requests: clients could fill the log with them."""
    logger = logging.getLogger("spec_decode_exporter.web")
    logger.filters = [
        lambda record: not isinstance((record.exc_info or (None, None))[1], HttpProcessingError)
    ]
    return logger


def _url(scheme: str, address: ListenAddress, bound: socket.socket) -> str:
    """Return a URL that a browser on this machine can open."""
    host = {"": "localhost", "0.0.0.0": "localhost", "::": "localhost"}.get(address.host, address.host)
    return f"{scheme}://{ListenAddress(host, bound.getsockname()[1])}/"
