"""Resources of a running process, by the counters of the kernel."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self


def require(*programs: str) -> None:
    missing = [program for program in programs if shutil.which(program) is None]
    if missing:
        sys.exit(f"not installed: {', '.join(missing)}")


@contextmanager
def running(*command: str, environment: Mapping[str, str] = {}) -> Iterator[int]:
    """Run a command in the background and yield its process id; its output is thrown away.

    Raises `RuntimeError` if the process has ended by itself.
    """
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, **environment}
    )
    try:
        yield process.pid
        if process.poll() is not None:
            raise RuntimeError(f"{command[0]} ended with status {process.returncode}")
    finally:
        process.kill()
        process.wait()


class Answering:
    """A module in a process of its own that answers lines in JSON, for as long as the `with` block lasts."""

    def __init__(self, *command: str) -> None:
        arguments = [sys.executable, "-m", *command]
        self._process = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.pid = self._process.pid
        assert self._process.stdout
        self.first_line = self._process.stdout.readline()

    def ask(self, line: str) -> Any:
        """Return the answer to a line."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        # The exporter's report of the start may come before.
        return json.loads(next(line for line in self._process.stdout if line[0] in "{["))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.communicate(timeout=20)


def wait_until_ready(port: int, seconds: float = 30.0) -> None:
    """Return once the exporter answers on a port of this machine; a busy machine starts it slowly."""
    end = time.monotonic() + seconds
    while True:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=seconds):
                return
        except ConnectionRefusedError:
            if time.monotonic() > end:
                raise
        time.sleep(0.1)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
    return port


def cpu_seconds(pid: int) -> float:
    """Return the seconds of processor time of all its threads, in the program and in the kernel."""
    # What clock_getcpuclockid(3) gives; the times in /proc/PID/stat are a hundred thousand times coarser.
    return time.clock_gettime((~pid << 3) | 2)


def resident_megabytes(pid: int) -> float:
    """Return its resident memory, in units of 10^6 bytes."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) * 1024 / 1e6
