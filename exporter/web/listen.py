"""Where the exporter listens: a listen address to sockets, and the server that answers there."""

from __future__ import annotations

import asyncio
import errno
import re
import socket
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from aiohttp import web

if TYPE_CHECKING:
    from collections.abc import Sequence

DRAIN_SECONDS: Final = 3.0
"""How long requests under way may take to end after the server stopped listening."""

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


def parse_listen_address(value: str) -> ListenAddress:
    """Read ``:7732``, ``0.0.0.0:7732``, ``[::1]:7732`` or ``localhost:7732``; ListenError for all else."""
    match = _ADDRESS.fullmatch(value)
    if match is None or int(match["port"]) > _MAX_PORT:
        raise ListenError(
            f"{value!r} is not an address to listen on: write host:port, [IPv6]:port or :port for all"
            f" interfaces, with a port up to {_MAX_PORT}, such as :7732"
        )
    return ListenAddress(match["ipv6"] or match["host"], int(match["port"]))


class Server:
    """A running server; ``urls`` holds one URL an address, with the real port."""

    def __init__(self, runner: web.AppRunner, urls: Sequence[str]) -> None:
        self._runner = runner
        self.urls: tuple[str, ...] = tuple(urls)

    async def close(self) -> None:
        """Stop listening and let the requests under way end, for at most ``DRAIN_SECONDS``."""
        await self._runner.cleanup()


async def serve(app: web.Application, addresses: Sequence[ListenAddress]) -> Server:
    """Listen on all the addresses or, with ListenError, on none."""
    with ExitStack() as undo:
        sockets = [undo.enter_context(await _bind(address)) for address in addresses]
        undo.pop_all()
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=DRAIN_SECONDS)
    await runner.setup()
    for bound in sockets:
        await web.SockSite(runner, bound).start()
    return Server(runner, [_url(address, bound) for address, bound in zip(addresses, sockets, strict=True)])


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


def _url(address: ListenAddress, bound: socket.socket) -> str:
    """Return a URL that a browser on this machine can open."""
    host = {"": "localhost", "0.0.0.0": "localhost", "::": "localhost"}.get(address.host, address.host)
    return f"http://{ListenAddress(host, bound.getsockname()[1])}/"
