"""TLS handshakes: a limit of concurrent ones, shared fairly among client addresses, and their time limits."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Protocol

from spec_decode_exporter.web.server.fair_semaphore import FairSemaphore

if TYPE_CHECKING:
    import socket
    import ssl

HANDSHAKE_SECONDS: Final = 10.0
"""For a TLS handshake, including the wait for its first byte and for a permit."""
BEGUN_HANDSHAKE_SECONDS: Final = 2.0
"""For a TLS handshake from its permit on."""
MAX_HANDSHAKES: Final = 16
"""Concurrent TLS handshakes: each signature takes milliseconds of the event loop."""
MAX_HANDSHAKES_PER_CLIENT: Final = 4
"""Of these, handshakes of one client address."""


class Tls(Protocol):
    """TLS settings at the begin of each connection."""

    def context(self) -> ssl.SSLContext | None:
        """Return the context of a new connection; None without TLS."""

    def admits(self, transport: asyncio.BaseTransport) -> bool:
        """Return whether a client is accepted after the handshake."""


class WithoutTls:
    """Settings of connections without TLS."""

    def context(self) -> ssl.SSLContext | None:
        """Return None: there is no handshake."""
        return None

    def admits(self, transport: asyncio.BaseTransport) -> bool:
        """Accept every client."""
        del transport
        return True


class Handshakes:
    """Starts accepted connections, after a TLS handshake if the settings have a context."""

    def __init__(self, tls: Tls, max_waiting: int) -> None:
        """Shake hands by ``tls``; ``max_waiting`` connections may wait for a permit."""
        self._tls = tls
        self._semaphore = FairSemaphore(MAX_HANDSHAKES, MAX_HANDSHAKES_PER_CLIENT, max_waiting)

    async def start(self, protocol: asyncio.BaseProtocol, accepted: socket.socket, address: str) -> None:
        """Connect ``protocol`` to an accepted socket of the client at ``address``.

        Raises:
            OSError: The handshake failed, or exceeded its time.
            QueueFullError: Too many handshakes wait.
        """
        context = self._tls.context()
        if context is None:
            await asyncio.get_running_loop().connect_accepted_socket(lambda: protocol, accepted)
            return
        async with asyncio.timeout(HANDSHAKE_SECONDS):
            await _readable(accepted)  # so that silent clients take no permit
            await self._semaphore.acquire(address)
            try:
                await asyncio.get_running_loop().connect_accepted_socket(
                    lambda: protocol,
                    accepted,
                    ssl=context,
                    ssl_handshake_timeout=BEGUN_HANDSHAKE_SECONDS,
                    ssl_shutdown_timeout=HANDSHAKE_SECONDS,
                )
            finally:
                self._semaphore.release(address)


async def _readable(accepted: socket.socket) -> None:
    """Wait until a client has sent a byte or closed the connection."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(accepted, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(accepted)
