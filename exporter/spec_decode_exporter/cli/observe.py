"""The command ``spec-decode-exporter observe``: watch servers for a while and say what was seen."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress
from io import StringIO, TextIOWrapper
from math import inf
from typing import Final

from spec_decode_exporter.cli.embedded_simulation import simulated
from spec_decode_exporter.cli.event_loop import Unwaited, run_loop
from spec_decode_exporter.cli.flags import Flags, UsageError
from spec_decode_exporter.cli.observe_config import TOKEN, read_config
from spec_decode_exporter.cli.observe_requests import (
    PASSWORD,
    NotReadError,
    add_flags,
    exporter_url,
    http_settings,
    read_requests,
)
from spec_decode_exporter.cli.run_config import SPECULATIVE_CONFIG
from spec_decode_exporter.config.http_settings import HttpSettings
from spec_decode_exporter.config.units import format_duration, parse_duration
from spec_decode_exporter.core.clock import SystemClock
from spec_decode_exporter.core.log import configure_log
from spec_decode_exporter.reports.exit_status import observation_status
from spec_decode_exporter.reports.observe.progress import (
    FORMATS,
    FinalReport,
    NotWrittenError,
    Streams,
    output_for,
)
from spec_decode_exporter.reports.observe.session import Observation
from spec_decode_exporter.views.models import ObservationView

_DESCRIPTION: Final = """\
Watch servers for a while, without serving anything, and say what was seen: whether speculation pays, what to
change, and what is missing to say so. Ctrl-C ends it with the report of what was seen until then, a second
Ctrl-C at once.
"""
_EPILOG: Final = f"""\
exit status, by the worst of all engines; one that does not speculate does not count beside one that does:
  0  it pays: the verdict is optimal, healthy or marginal, or poor with an estimated speed-up of 1 or more
  1  a server could not be observed as a whole, or was gone at the end; or the command line is wrong
  2  it is harmful: slower than without speculation, beyond doubt
  3  not enough is known: the verdict is insufficient, or has no bounds, or is poor without an estimated
     speed-up of 1 or more
the order from worst to best is 2, 1, 3, 0.

A token for the servers can also be in the environment variable {TOKEN}, the
password for the exporter of --requests in {PASSWORD}.
"""
_INTERRUPTED: Final = 130
_ONE_INTERRUPT: Final = 0.5
"""Seconds within which signals are one interrupt: ``timeout`` sends its own to the process and its group."""
_SHORTEST: Final = 1.0
"""Seconds; in less nothing can be seen."""
_NOT_WRITTEN: Final = 1


def add_arguments(parser: argparse.ArgumentParser, environ: Mapping[str, str]) -> None:
    """Add the arguments of the command to its ``parser``; ``environ`` has the values of flags not given."""
    parser.description, parser.epilog = _DESCRIPTION, _EPILOG
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.set_defaults(simulated=None)
    parser.add_argument(
        "urls",
        metavar="URL",
        nargs="*",
        help="metrics pages (default: localhost:8000); /metrics is the usual path",
    )
    parser.add_argument(
        "--for",
        dest="seconds",
        metavar="DURATION",
        type=_length,
        default=30.0,
        help="how long to watch (default: 30s); 0: until interrupted, looking back on an hour at most",
    )
    parser.add_argument(
        "--every",
        metavar="DURATION",
        type=_pause,
        help="show the report so often output: drawn anew on a terminal, else one after the other "
        "(default: 5s with --for 0, else only at the end)",
    )
    parser.add_argument(
        "--format", choices=FORMATS, default="text", help="how to write the report (default: text)"
    )
    parser.add_argument(
        "--simulate", metavar="SCENARIO", help="watch an embedded simulated vLLM instead of real servers"
    )
    parser.add_argument(
        "--requests",
        metavar="URL",
        type=exporter_url,
        help="an exporter that takes requests, such as localhost:7732: what it says of them is in the report",
    )
    flags = Flags(parser, environ)
    add_flags(flags)
    add_settings(flags)


def add_settings(flags: Flags) -> None:
    """Add the flags that say which servers there are, how to ask them and what is known of them."""
    flags.one(
        "--config.file", "FILE", "a configuration: its targets where no URL is given, its cost and policy"
    )
    flags.one(
        "--poll.interval", "DURATION", "how often a server is asked (default 1s, and six times at least)"
    )
    flags.one("--speculative.method", "METHOD", "how the servers speculate, such as eagle3 or ngram")
    flags.one("--speculative.tokens", "NUMBER", "how many tokens they draft at a time")
    flags.one("--speculative.draft-model", "NAME", "the name of their draft model")
    flags.one(SPECULATIVE_CONFIG, "JSON", "or what their vLLM is given as --speculative-config")
    flags.one("--cost.draft-cost-ratio", "RATIO", "what a draft token costs, in plain decode steps")
    flags.one("--cost.draft-parameters", "NUMBER", "or the size of the draft model, such as 500M …")
    flags.one("--cost.target-parameters", "NUMBER", "… beside that of the model that is served, such as 8B")
    flags.one("--authorization.credentials-file", "FILE", "a file that holds a bearer token for the servers")
    flags.one("--tls-config.ca-file", "FILE", "the authorities to trust for https")
    flags.switch("--tls-config.insecure-skip-verify", "trust any certificate")


def handle(arguments: argparse.Namespace) -> int:
    """Observe; then the process ends, with a status that says what came of it."""
    if sys.stdout is None:  # closed, as the shell's >&- does
        raise UsageError("there is no standard output to write the report to")
    configure_log("critical", "logfmt")  # what happens is in the report
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a name may hold what cannot be written
    try:
        status = run_loop(_observe(arguments))
    except NotWrittenError as error:
        print(f"spec-decode-exporter: {error}", file=sys.stderr)  # noqa: T201
        status = _NOT_WRITTEN
    # A name look-up that hangs has its thread hang too, and the interpreter would wait for it.
    os._exit(status)


async def _observe(arguments: argparse.Namespace) -> int:
    asyncio.get_running_loop().set_default_executor(Unwaited())
    async with AsyncExitStack() as stack:
        if arguments.simulate:
            arguments.simulated = await stack.enter_async_context(simulated(arguments.simulate))
        http = http_settings(arguments, os.environ) if arguments.requests else HttpSettings()
        observation = Observation(read_config(arguments, os.environ), SystemClock())
        stack.push_async_callback(observation.close)
        streams = Streams(sys.stdout, sys.stderr or StringIO(), os.environ)
        output = output_for(arguments.format, arguments.seconds, arguments.every, streams)
        try:
            await _watched(observation, arguments.seconds, output)
        except asyncio.CancelledError:
            return _INTERRUPTED
        finally:
            output.end()
        seen = await _with_requests(observation.observed().view(), arguments.requests, http)
        with suppress(BrokenPipeError):
            output.report(seen)
        return observation_status(seen)


async def _with_requests(seen: ObservationView, url: str | None, http: HttpSettings) -> ObservationView:
    """Add what the exporter at ``url`` says of requests; what is wrong with it is told beside the report."""
    if url is None:
        return seen
    try:
        return seen.model_copy(update={"requests": await read_requests(url, http)})
    except NotReadError as error:
        print(f"spec-decode-exporter: no requests: {error}", file=sys.stderr)  # noqa: T201
        return seen


async def _watched(observation: Observation, seconds: float, output: FinalReport) -> None:
    """Watch until it is time, somebody interrupts it, or nobody reads any more."""
    stop = asyncio.Event()
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    first = -inf

    def interrupt() -> None:
        nonlocal first
        if loop.time() < first + _ONE_INTERRUPT:
            return
        if stop.is_set() and task is not None:
            task.cancel()
        first = loop.time()
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, interrupt)
    showing = asyncio.ensure_future(_shown(observation, output, stop))
    try:
        await observation.poll(_ended(seconds, stop))
    finally:
        showing.cancel()


async def _ended(seconds: float, stop: asyncio.Event) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds or None):
            await stop.wait()


async def _shown(observation: Observation, output: FinalReport, stop: asyncio.Event) -> None:
    try:
        await asyncio.sleep(output.first)
        while True:
            output.show(observation.observed().view())
            await asyncio.sleep(output.every)
    except (BrokenPipeError, NotWrittenError):
        stop.set()


def _length(text: str) -> float:
    seconds = _seconds(text)
    if 0 < seconds < _SHORTEST:
        raise argparse.ArgumentTypeError(f"{text!r} is shorter than {format_duration(_SHORTEST)}")
    return seconds


def _pause(text: str) -> float:
    seconds = _seconds(text)
    if not seconds:
        raise argparse.ArgumentTypeError(f"{text!r} is no time between two reports")
    return seconds


def _seconds(text: str) -> float:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} {error}") from None
