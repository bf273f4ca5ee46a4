"""Resources of a running process, by the counters of the kernel."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path


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
