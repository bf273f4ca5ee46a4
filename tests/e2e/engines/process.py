"""Start a server as its own process group, wait until it answers, and end all of its processes."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

LOGS = Path(".e2e/logs")
HOST = "127.0.0.1"
CEILING = 600.0
"""Seconds after which a condition is considered never to come: the machine may be busy."""


class NeverHappenedError(AssertionError):
    """A condition was not met in time; the text names it and a log file."""


def until(happened: Callable[[], bool], *, what: str, every: float = 0.25) -> None:
    """Return once ``happened()`` is true, or raise after the ceiling."""
    deadline = time.monotonic() + CEILING
    while not happened():
        if time.monotonic() > deadline:
            raise NeverHappenedError(f"not within {CEILING:.0f} s: {what}")
        time.sleep(every)


def get(url: str) -> str:
    """Return the body of a page, or raise ``OSError``."""
    with urllib.request.urlopen(url, timeout=CEILING) as answer:
        return answer.read().decode()


def answers(url: str) -> bool:
    """Return whether the page is served."""
    try:
        get(url)
    except OSError:
        return False
    return True


@dataclass(frozen=True)
class Server:
    """A running server: where it listens, what it writes, and the group of all its processes."""

    process: subprocess.Popen[bytes]
    port: int
    log: Path

    @property
    def url(self) -> str:
        """Its address without a path."""
        return f"http://{HOST}:{self.port}"

    def kill(self) -> None:
        """End the whole group at once, as an out-of-memory killer would."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(timeout=CEILING)
        until(self._gone, what=f"the end of every process of {self.log.stem}")

    def stop(self) -> None:
        """Terminate it, and kill its processes after 20 s."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=20)
        self.kill()

    def _gone(self) -> bool:
        try:
            os.killpg(self.process.pid, 0)
        except ProcessLookupError:
            return True
        return False


@contextlib.contextmanager
def serve(
    command: Sequence[str],
    *,
    name: str,
    port: int,
    health: str,
    environment: Mapping[str, str] | None = None,
) -> Iterator[Server]:
    """Run a command until the block ends; the block begins when its ``health`` page answers."""
    LOGS.mkdir(parents=True, exist_ok=True)
    log = LOGS / f"{name}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, **(environment or {})},
        )
    server = Server(process, port, log)
    try:
        until(
            lambda: process.poll() is not None or answers(server.url + health),
            what=f"an answer of {name}; see {log}",
        )
        assert process.poll() is None, f"{name} ended with {process.returncode}; see {log}"
        yield server
    finally:
        server.stop()
