"""Resident memory of the installed exporter with one target and with many.

    python -m benchmarks.memory [--targets 1 100] [--seconds 60] [--smoke]

Each target is a K = 4 engine, polled once a second; the exporter itself is scraped every 5 s. Prints the
most that was seen; ends with status 1 if a goal is missed. The windows are full after 5 minutes.
"""

from __future__ import annotations

import socket
import time
import urllib.request

from benchmarks.options import end, parsed, parser
from benchmarks.page_server import PageServer
from benchmarks.poll_cpu import exporter
from benchmarks.process import resident_megabytes, running, wait_until_ready

GOALS = {1: 60.0, 100: 110.0}
"""In MB (10^6 bytes), by the number of targets."""
SCRAPE_INTERVAL = 5.0


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--targets", type=int, nargs="+", default=sorted(GOALS))
    options.add_argument("--seconds", type=float, default=60.0)
    arguments = parsed(options, targets=[1], seconds=1.0)
    print("| targets | resident memory, MB | goal |\n|--:|--:|--:|")
    missed = []
    for targets in arguments.targets:
        most, goal = measure(targets, arguments.seconds), GOALS.get(targets)
        print(f"| {targets} | {most:.1f} | {goal or ''} |", flush=True)
        if goal is not None and most > goal:
            missed.append(f"{most:.1f} MB with {targets} targets")
    end(arguments, missed)


def measure(targets: int, seconds: float) -> float:
    """Return the most memory that the exporter was seen with, in MB."""
    port = free_port()
    most = 0.0
    with (
        PageServer() as server,
        exporter(server.port, targets, "filtered", port) as command,
        running(*command) as pid,
    ):
        wait_until_ready(port)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(min(SCRAPE_INTERVAL, seconds))
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as page:
                page.read()
            most = max(most, resident_megabytes(pid))
    return most


def free_port() -> int:
    """Return a port that was free a moment ago."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
    return port


if __name__ == "__main__":
    main()
