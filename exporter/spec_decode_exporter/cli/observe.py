"""Command ``spec-decode-exporter observe``: monitor servers for a limited time and write a report."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress
from io import StringIO
from typing import Final

from spec_decode_exporter.cli.embedded_simulation import simulated
from spec_decode_exporter.cli.event_loop import DetachedThreadPool, run_loop, stop_on_signals
from spec_decode_exporter.cli.exporter_access import NotReadError
from spec_decode_exporter.cli.flag_values import duration
from spec_decode_exporter.cli.flags import Flags
from spec_decode_exporter.cli.observe_config import TOKEN, add_settings, read_config
from spec_decode_exporter.cli.observe_history import (
    add_history_flags,
    check_history_flags,
    observe_history,
)
from spec_decode_exporter.cli.observe_recording import (
    add_recording_flags,
    check_recording_flags,
    recorder_of,
    replayed,
)
from spec_decode_exporter.cli.observe_requests import REQUESTS, read_requests
from spec_decode_exporter.cli.output import require_stdout
from spec_decode_exporter.cli.setting_flags import BASELINE_FLAGS, add_setting_flags
from spec_decode_exporter.config.http_settings import HttpSettings
from spec_decode_exporter.config.units import format_duration
from spec_decode_exporter.core.clock import SystemClock
from spec_decode_exporter.core.log import configure_log
from spec_decode_exporter.reports.exit_status import observation_status
from spec_decode_exporter.reports.history.history_output import HISTORY_FORMATS
from spec_decode_exporter.reports.observe.observation_config import DEFAULT_SECONDS
from spec_decode_exporter.reports.observe.progress import (
    FinalReport,
    NotWrittenError,
    Streams,
    output_for,
)
from spec_decode_exporter.reports.observe.session import Observation
from spec_decode_exporter.views.models import ObservationView

_DESCRIPTION: Final = """\
Monitor servers for a limited time, without serving anything, and report whether speculation pays, what to
change, and which data is missing. Ctrl-C ends the observation with a report; a second Ctrl-C ends it at once.
"""
_EPILOG: Final = f"""\
exit status, by the worst engine; an engine without speculation counts only if all are without it:
  0  speculation pays: the verdict is optimal, healthy or marginal, or poor with an estimated speed-up of 1
     or more
  1  a server could not be observed for the whole time
  2  the command line is wrong
  3  unknown: the verdict is insufficient, or has no bounds, or is poor without an estimated speed-up of 1
     or more
  4  speculation is harmful: slower than without it, statistically significant (95 %)
the order from worst to best is 4, 1, 3, 0.

The environment variable {TOKEN} may hold a token for the servers,
{REQUESTS.password_variable} the password for the exporter of --requests.
"""
_INTERRUPTED: Final = 130
_MIN_SECONDS: Final = 1.0
_NOT_WRITTEN: Final = 1


def add_arguments(parser: argparse.ArgumentParser, environ: Mapping[str, str]) -> None:
    """Add the arguments of the command; ``environ`` has the values of flags that are not set."""
    parser.description, parser.epilog = _DESCRIPTION, _EPILOG
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.set_defaults(simulated=None)
    parser.add_argument(
        "urls",
        metavar="URL",
        nargs="*",
        help="metrics pages (default: localhost:8000); the default path is /metrics",
    )
    parser.add_argument(
        "--for",
        dest="seconds",
        metavar="DURATION",
        type=_length,
        default=DEFAULT_SECONDS,
        help="length of the observation (default: 1m); 0: until interrupted, over the last hour at most",
    )
    parser.add_argument(
        "--every",
        metavar="DURATION",
        type=_interval,
        help="time between two reports during the observation; a terminal shows the last one, other outputs "
        "all of them (default: 5s with --for 0, else one report at the end)",
    )
    parser.add_argument(
        "--format",
        choices=HISTORY_FORMATS,
        default="text",
        help="format of the report (default: text); html is for --prometheus.url alone",
    )
    parser.add_argument(
        "--simulate", metavar="SCENARIO", help="monitor an embedded simulated vLLM instead of real servers"
    )
    parser.add_argument(
        "--requests",
        metavar="URL",
        type=REQUESTS.url,
        help="an exporter that receives requests, such as localhost:7732; the report includes its findings",
    )
    flags = Flags(parser, environ)
    add_history_flags(flags)
    add_recording_flags(parser)
    REQUESTS.add_flags(flags)
    add_settings(flags)
    add_setting_flags(flags, BASELINE_FLAGS)


def handle(arguments: argparse.Namespace) -> int:
    """Observe; then end the process with the status of the worst engine."""
    require_stdout("report")
    check_history_flags(arguments)
    check_recording_flags(arguments)
    configure_log("critical", "logfmt")  # the report has the events
    try:
        status = run_loop(_observe(arguments))
    except NotWrittenError as error:
        print(f"spec-decode-exporter: {error}", file=sys.stderr)  # noqa: T201
        status = _NOT_WRITTEN
    # The interpreter would wait for the thread of a DNS look-up that hangs.
    os._exit(status)


async def _observe(arguments: argparse.Namespace) -> int:
    asyncio.get_running_loop().set_default_executor(DetachedThreadPool())
    if arguments.prometheus_url is not None:
        try:
            return await observe_history(arguments, os.environ, SystemClock())
        except asyncio.CancelledError:
            return _INTERRUPTED
    if arguments.replay is not None:
        return _replay(arguments)
    async with AsyncExitStack() as stack:
        if arguments.simulate:
            embedded = await stack.enter_async_context(simulated(arguments.simulate))
            arguments.simulated = embedded.target
        http = REQUESTS.http_settings(arguments, os.environ) if arguments.requests else HttpSettings()
        recorder = recorder_of(arguments)
        received = stack.enter_context(recorder).take if recorder else None
        config = read_config(arguments, os.environ)
        observation = Observation(config, SystemClock(), received=received)
        stack.push_async_callback(observation.close)
        streams = Streams(sys.stdout, sys.stderr or StringIO(), os.environ)
        progress = output_for(arguments.format, arguments.seconds, arguments.every, streams)
        try:
            await _poll(observation, arguments.seconds, progress)
        except asyncio.CancelledError:
            return _INTERRUPTED
        finally:
            progress.end()
        view = await _with_requests(observation.observed().view(), arguments.requests, http)
        with suppress(BrokenPipeError):
            progress.report(view)
        return observation_status(view)


def _replay(arguments: argparse.Namespace) -> int:
    """Report a recording."""
    view = replayed(arguments, os.environ).view()
    streams = Streams(sys.stdout, sys.stderr or StringIO(), os.environ)
    with suppress(BrokenPipeError):
        FinalReport(arguments.format, streams).report(view)
    return observation_status(view)


async def _with_requests(view: ObservationView, url: str | None, http: HttpSettings) -> ObservationView:
    """Add the request findings of the exporter at ``url``, or print why they are missing."""
    if url is None:
        return view
    try:
        return view.model_copy(update={"requests": await read_requests(url, http)})
    except NotReadError as error:
        print(f"spec-decode-exporter: no requests: {error}", file=sys.stderr)  # noqa: T201
        return view


async def _poll(observation: Observation, seconds: float, progress: FinalReport) -> None:
    """Poll until the time is over, a signal arrives, or the output is closed."""
    stop = asyncio.Event()
    stop_on_signals(stop)
    showing = asyncio.ensure_future(_show(observation, progress, stop))
    try:
        await observation.poll(_ended(seconds, stop), stopped=stop.is_set)
    finally:
        showing.cancel()


async def _ended(seconds: float, stop: asyncio.Event) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds or None):
            await stop.wait()


async def _show(observation: Observation, progress: FinalReport, stop: asyncio.Event) -> None:
    try:
        await asyncio.sleep(progress.first)
        while True:
            progress.show(observation.observed().view())
            await asyncio.sleep(progress.every)
    except (BrokenPipeError, NotWrittenError):
        stop.set()


def _length(text: str) -> float:
    seconds = duration(text)
    if 0 < seconds < _MIN_SECONDS:
        raise argparse.ArgumentTypeError(f"{text!r} is shorter than {format_duration(_MIN_SECONDS)}")
    return seconds


def _interval(text: str) -> float:
    seconds = duration(text)
    if not seconds:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time between two reports")
    return seconds
