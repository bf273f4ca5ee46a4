"""Servers of engines: what they write stays in a folder, and their last process is gone before the next begins."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence

from tests.e2e.conftest import Running, eventually, fetch
from tests.paths import CHECKOUT

LOGS = CHECKOUT / ".e2e" / "logs"
HOST = "127.0.0.1"
PATIENCE = 20.0  # seconds until the processes of an engine are killed


def get(url: str) -> str:
    """Return the body of a page, or raise ``OSError``."""
    status, _, body = fetch(url)
    if status != 200:
        raise OSError(f"{url}: {status}")
    return body


class Server(Running):
    """A running server: where it listens, what it writes, and the group of all its processes."""

    def __init__(self, name: str, command: Sequence[str], port: int, **environment: str) -> None:
        """Start it."""
        LOGS.mkdir(parents=True, exist_ok=True)
        super().__init__(name, command, LOGS, **environment)
        self.port, self.url = port, f"http://{HOST}:{port}"

    def kill(self) -> int:
        """End the whole group at once; return when all of its processes have ended."""
        status = super().kill()
        eventually(self._gone, what=f"the end of every process of {self.name}")
        return status

    def _gone(self) -> bool:
        try:
            os.killpg(self.process.pid, 0)
        except ProcessLookupError:
            return True
        return False


@contextlib.contextmanager
def serve(
    command: Sequence[str], *, name: str, port: int, health: str, environment: Mapping[str, str] | None = None
) -> Iterator[Server]:
    """Run a command until the block ends; the block begins when its ``health`` page answers."""
    server = Server(name, command, port, **(environment or {}))
    try:
        server.wait_for(server.url + health)
        yield server
    finally:
        server.stop(PATIENCE)
