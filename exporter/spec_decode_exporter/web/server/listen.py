"""Listen addresses: parse ``host:port`` and ``unix:/path``, and bind their sockets.

A unix socket is for clients on the same machine, such as a vLLM server. The owner and the group of its file
can connect. It has no TLS, because file permissions restrict access already. Passwords apply as on TCP.
"""

from __future__ import annotations

import asyncio
import errno
import os
import re
import socket
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from spec_decode_exporter.core.urls import MAX_PORT
from spec_decode_exporter.core.user_errors import ExporterError

UNIX_PREFIX: Final = "unix:"
UNIX_MODE: Final = 0o660
"""Permissions of a unix socket's file. It belongs to the exporter's user and group."""
_BACKLOG: Final = 100
_ADDRESS: Final = re.compile(
    r"(?:\[(?P<ipv6>[0-9A-Fa-f:.%\w]+)\]|(?P<host>[^\s:\[\]/@]*)):(?P<port>\d{1,5})", re.ASCII
)
_CAUSES: Final = {
    errno.EADDRINUSE: "the port is in use; stop the program that uses it",
    errno.EADDRNOTAVAIL: "no interface of this machine has this address",
    errno.EACCES: "this user may not use this port",
}


class ListenError(ExporterError):
    """An address that cannot be listened on; the text names the address and the remedy."""


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """A host, empty for all interfaces, and a port, 0 for any free port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class UnixAddress:
    """The path of a unix socket."""

    path: Path

    def __str__(self) -> str:
        return f"{UNIX_PREFIX}{self.path}"


Address = ListenAddress | UnixAddress


def parse_listen_address(value: str) -> ListenAddress:
    """Parse an address such as ``:7732``, ``0.0.0.0:7732``, ``[::1]:7732`` or ``localhost:7732``.

    Raises:
        ListenError: The text is not an address.
    """
    match = _ADDRESS.fullmatch(value)
    if match is None or int(match["port"]) > MAX_PORT:
        raise ListenError(
            f"{value!r} is not an address to listen on: write host:port, [IPv6]:port or :port for all"
            f" interfaces, with a port up to {MAX_PORT}, such as :7732"
        )
    return ListenAddress(match["ipv6"] or match["host"], int(match["port"]))


def parse_address(value: str) -> Address:
    """Parse a TCP address, or the path of a unix socket such as ``unix:/run/exporter.sock``.

    Raises:
        ListenError: The text is neither.
    """
    if not value.startswith(UNIX_PREFIX):
        return parse_listen_address(value)
    path = value.removeprefix(UNIX_PREFIX)
    if not path.startswith("/") or path.endswith("/") or "\0" in path:
        raise ListenError(
            f"{value!r} is not the path of a socket: write an absolute path, such as unix:/run/exporter.sock"
        )
    return UnixAddress(Path(path))


async def bind(address: ListenAddress) -> socket.socket:
    """Return a listening socket.

    Raises:
        ListenError: The address cannot be used.
    """
    try:
        if not address.host:
            return _bind_everywhere(address.port)
        family, sockaddr = await _resolve(address)
        return socket.create_server(sockaddr, family=family)
    except (OSError, UnicodeError) as error:
        cause = _cause(error)
        raise ListenError(f"cannot listen on {address}: {cause}, or choose another address") from error


def _cause(error: OSError | UnicodeError) -> str:
    if isinstance(error, UnicodeError):  # the codec for host names
        return "the host is not a valid name"
    return _CAUSES.get(error.errno or 0, error.strerror or str(error))


def _bind_everywhere(port: int) -> socket.socket:
    """Bind one socket for IPv4 and IPv6 where the system has both."""
    if socket.has_dualstack_ipv6():
        return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
    return socket.create_server(("", port))


async def _resolve(address: ListenAddress) -> tuple[socket.AddressFamily, tuple[str, int]]:
    """Resolve a name to one address, preferably IPv4: ``localhost`` is one socket, not two."""
    resolved = await asyncio.get_running_loop().getaddrinfo(
        address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    family, *_, sockaddr = min(resolved, key=lambda info: info[0] != socket.AF_INET)
    return family, sockaddr  # type: ignore[return-value]  # IPv6 has two more fields, which bind accepts


class UnixSocket:
    """A listening socket and its file."""

    def __init__(self, path: Path, listening: socket.socket) -> None:
        self.listening = listening
        self._path = path
        self._file = _identity(path)

    def remove(self) -> None:
        """Remove the file, unless it was replaced."""
        with suppress(OSError):
            if _identity(self._path) == self._file:
                self._path.unlink()


def bind_unix(address: UnixAddress) -> UnixSocket:
    """Listen on a path. A stale socket file, on which no process listens, is replaced.

    Raises:
        ListenError: The socket cannot be created.
    """
    try:
        return _bind_path(address.path)
    except OSError as error:
        raise ListenError(
            f"cannot listen on {address}: {error.strerror or error}, or choose another path"
        ) from error


def _bind_path(path: Path) -> UnixSocket:
    _remove_stale(path)
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        bound.bind(str(path))
        path.chmod(UNIX_MODE)  # before any client can connect
        bound.listen(_BACKLOG)
        return UnixSocket(path, bound)
    except OSError:
        bound.close()
        raise


def _remove_stale(path: Path) -> None:
    """Remove the socket of an exporter that crashed. Never remove anything else."""
    try:
        is_socket = stat.S_ISSOCK(path.lstat().st_mode)
    except FileNotFoundError:
        return
    if not is_socket:
        raise OSError(f"{path} exists and is not a socket; remove it")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
        else:
            raise OSError("another program listens there; stop it")


def _identity(path: Path) -> tuple[int, int]:
    status = os.lstat(path)
    return status.st_dev, status.st_ino
