"""Processor time of a poll, from the timer to the windows, in the process that polls.

    python -m benchmarks.polls [--targets 200 1000] [--seconds 20] [--parts] [--smoke]

A fleet polls K = 4 engines once a second for their filtered pages, which another process serves on loopback.
There are no readers: evaluations are those of every 5 s. The time is that of the whole process, in the
program and in the kernel. With ``--parts`` a second table shows in which part of the program it was, by
samples of the stack at every millisecond of processor time.
"""

from __future__ import annotations

import asyncio
import gc
import signal
import time
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType

from benchmarks.options import parsed, parser
from benchmarks.page_server import PageServer
from benchmarks.poll_cpu import urls
from spec_decode_exporter.config.schema import Config
from spec_decode_exporter.core.clock import SystemClock
from spec_decode_exporter.core.internal_errors import InternalErrors
from spec_decode_exporter.core.log import configure_log
from spec_decode_exporter.discovery.target import Target
from spec_decode_exporter.monitor.event_log import EventLog
from spec_decode_exporter.monitor.fleet import Fleet
from spec_decode_exporter.monitor.persistence.remembered_engines import RememberedEngines

PARTS = {
    "selector_events.py write": "sending",
    "selector_events.py _read_ready__get_buffer": "receiving",
    "/selectors.py": "waiting",
    "/asyncio/": "event loop",
    "/scrape/http/": "client",
    "/scrape/page/": "reading",
    "/scrape/poll/": "poll",
    "/monitor/drops/": "drops",
    "/monitor/": "monitor",
    "/window/": "windows",
    "/analysis/": "evaluation",
    "/figures/": "evaluation",
    "/core/": "core",
}
"""Part of the program by a piece of a function's file and name; the first match counts."""
SAMPLE_SECONDS = 0.001
FUNCTIONS = 5
"""Functions shown for each part."""

Samples = Counter[tuple[str, str]]
"""Number of samples by part and function."""


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--targets", type=int, nargs="+", default=[200, 1000])
    options.add_argument("--seconds", type=float, default=20.0)
    options.add_argument("--warm-up", type=float, default=15.0, help="seconds before the figures")
    options.add_argument("--parts", action="store_true", help="show the parts of the program")
    arguments = parsed(options, targets=[2], seconds=1.0, warm_up=1.0)
    configure_log("error", "logfmt")
    print("| targets | polls | ms a poll |\n|--:|--:|--:|")
    for targets in arguments.targets:
        asyncio.run(measure(targets, arguments))


async def measure(targets: int, arguments: Namespace) -> None:
    """Let a fleet poll ``targets`` targets, and print what a poll costs."""
    clock = SystemClock()
    errors = InternalErrors(clock.monotonic)
    config = Config.model_validate({"poll": {"max_duty_cycle": 1}, "limits": {"engines": 2 * targets}})
    fleet = Fleet(config, clock, RememberedEngines(), EventLog("1"), errors)
    with PageServer() as server, ExitStack() as stack:
        fleet.follow([Target(url, url) for url in urls(server.port, targets, "whole")])
        await asyncio.sleep(arguments.warm_up)
        gc.collect()
        gc.freeze()
        samples = stack.enter_context(_sampled()) if arguments.parts else None
        before, polls = time.process_time(), _polls(fleet)
        await asyncio.sleep(arguments.seconds)
        seconds, polls = time.process_time() - before, _polls(fleet) - polls
        await fleet.stop()
        await fleet.close()
    if polls < 0.8 * targets * arguments.seconds and not arguments.smoke:
        raise RuntimeError(f"{polls} polls of {targets} targets in {arguments.seconds:g} s")
    print(f"| {targets} | {polls} | {seconds / polls * 1e3:.3f} |", flush=True)
    if samples:
        _show_parts(samples, seconds / polls * 1e6)


def _polls(fleet: Fleet) -> int:
    return sum(monitor.status().polls for monitor in fleet)


@contextmanager
def _sampled() -> Iterator[Samples]:
    """Count the samples of the stack in the block."""
    samples: Samples = Counter()

    def take(_number: int, frame: FrameType | None) -> None:
        samples[_place(frame)] += 1

    signal.signal(signal.SIGPROF, take)
    signal.setitimer(signal.ITIMER_PROF, SAMPLE_SECONDS, SAMPLE_SECONDS)
    try:
        yield samples
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _place(frame: FrameType | None) -> tuple[str, str]:
    """Return the part and the function of the innermost frame that belongs to a part."""
    while frame is not None:
        file, name = frame.f_code.co_filename, frame.f_code.co_qualname
        part = next((part for piece, part in PARTS.items() if piece in f"{file} {frame.f_code.co_name}"), "")
        if part:
            return part, f"{file.rpartition('/')[2]} {name}"
        frame = frame.f_back
    return "other", ""


def _show_parts(samples: Samples, microseconds: float) -> None:
    """Print each part's share of the ``microseconds`` of a poll, and its costliest functions."""
    each = microseconds / samples.total()
    parts: Counter[str] = Counter()
    for (part, _), number in samples.items():
        parts[part] += number
    print("\n| part | µs a poll | costliest functions |\n|---|--:|---|")
    for part, number in parts.most_common():
        own = Counter({function: count for (its, function), count in samples.items() if its == part})
        shown = ", ".join(f"{function} {count * each:.1f}" for function, count in own.most_common(FUNCTIONS))
        print(f"| {part} | {number * each:.1f} | {shown} |")
    print()


if __name__ == "__main__":
    main()
