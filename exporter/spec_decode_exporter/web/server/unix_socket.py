"""Listening on a unix socket: for a program on the same machine, such as the server beside the exporter.

Who may open the file may connect: its owner and its group. There is no TLS on it, which would keep nobody out
who may open the file; passwords are asked for all the same.
"""

from __future__ import annotations

import os
import socket
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PREFIX: Final = "unix:"
MODE: Final = 0o660
"""Of the socket's file. It belongs to the exporter's user and group."""
_BACKLOG: Final = 100


class OccupiedError(OSError):
    """Something else is where the socket is to be."""


@dataclass(frozen=True, slots=True)
class UnixAddress:
    """The path of a unix socket."""

    path: Path

    def __str__(self) -> str:
        return f"{PREFIX}{self.path}"


class UnixSocket:
    """A socket that listens, and its file."""

    def __init__(self, path: Path, listening: socket.socket) -> None:
        self.listening = listening
        self._path = path
        self._file = _identity(path)

    def remove(self) -> None:
        """Take the file away, if it is still this one."""
        with suppress(OSError):
            if _identity(self._path) == self._file:
                self._path.unlink()


def bind(address: UnixAddress) -> UnixSocket:
    """Listen on a path; the file of a socket that nobody listens on any more makes room.

    Raises:
        OSError: it cannot be done.
    """
    _make_room(address.path)
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        bound.bind(str(address.path))
        address.path.chmod(MODE)  # before anybody can connect
        bound.listen(_BACKLOG)
        return UnixSocket(address.path, bound)
    except OSError:
        bound.close()
        raise


def _make_room(path: Path) -> None:
    """Remove the socket of an exporter that did not end in order; nothing else is ever removed."""
    try:
        is_socket = stat.S_ISSOCK(path.lstat().st_mode)
    except FileNotFoundError:
        return
    if not is_socket:
        raise OccupiedError(f"{path} is there and is no socket; remove it")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        try:
            asking.connect(str(path))
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
        else:
            raise OccupiedError("another program listens there; stop it")


def _identity(path: Path) -> tuple[int, int]:
    found = os.lstat(path)
    return found.st_dev, found.st_ino
