"""Reading a history: time and memory of the program for a week of eight engines at 15 s.

    python -m benchmarks.history [--engines 8] [--days 7] [--interval 15] [--smoke]

A server of its own process has the counters of the engines; the installed program reads and reports them as
JSON. Time is that of the clock, with the server's share; memory is the peak of the program. The same for a
quarter of the days shows whether the cost is linear.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryFile
from typing import NamedTuple

from benchmarks.options import end, parsed, parser
from benchmarks.table import table

MAX_SECONDS = 60.0
MAX_MEGABYTES = 300.0
MAX_GROWTH = 1.3
"""Maximum cost of a sample relative to that in a quarter of the time."""


class Cost(NamedTuple):
    """Cost of one report."""

    samples: int
    seconds: float
    cpu_seconds: float
    megabytes: float


@contextmanager
def history_server(engines: int, seconds: int, interval: int) -> Iterator[int]:
    """Yield the port of a server with the counters of the engines."""
    words = [sys.executable, "-m", "benchmarks.history_server", *map(str, (engines, seconds, interval))]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout
        yield int(process.stdout.readline())
    finally:
        process.kill()
        process.wait()


def measured(port: int, seconds: int) -> Cost:
    """Return the cost of a report about the last seconds."""
    words = [sys.executable, "-m", "spec_decode_exporter", "observe", "--format", "json"]
    words += ["--prometheus.url", f"http://127.0.0.1:{port}", "--since", f"{seconds}s"]
    begun = time.monotonic()
    with TemporaryFile() as out:
        process = subprocess.Popen(words, stdout=out)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        spent = time.monotonic() - begun
        out.seek(0)
        report = json.loads(out.read())
    assert not report["incomplete"], report["incomplete"]
    samples = sum(engine["scrapes"] for engine in report["engines"]) * 22
    return Cost(samples, spent, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--engines", type=int, default=8)
    arguments.add_argument("--days", type=float, default=7.0)
    arguments.add_argument("--interval", type=int, default=15)
    options = parsed(arguments, engines=1, days=0.2)
    seconds = int(options.days * 86_400)
    with history_server(options.engines, seconds, options.interval) as port:
        quarter, whole = measured(port, seconds // 4), measured(port, seconds)
    heads = ["days", "samples", "seconds", "CPU seconds", "peak memory, MB", "CPU µs a sample"]
    table(
        heads,
        (
            [
                f"{days:g}",
                f"{cost.samples:,}",
                f"{cost.seconds:.1f}",
                f"{cost.cpu_seconds:.1f}",
                f"{cost.megabytes:.0f}",
                f"{cost.cpu_seconds / cost.samples * 1e6:.2f}",
            ]
            for days, cost in ((options.days / 4, quarter), (options.days, whole))
        ),
    )
    growth = whole.cpu_seconds / whole.samples / (quarter.cpu_seconds / quarter.samples)
    goals = (
        (whole.seconds <= MAX_SECONDS, f"{whole.seconds:.0f} s, at most {MAX_SECONDS:.0f} s"),
        (whole.megabytes <= MAX_MEGABYTES, f"{whole.megabytes:.0f} MB, at most {MAX_MEGABYTES:.0f} MB"),
        (growth <= MAX_GROWTH, f"a sample costs {growth:.2f} times as much, at most {MAX_GROWTH}"),
    )
    end(options, [text for reached, text in goals if not reached])


if __name__ == "__main__":
    main()
