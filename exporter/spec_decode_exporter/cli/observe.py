"""Command ``spec-decode-exporter observe``: monitor servers for a limited time and write a report."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Coroutine, Mapping
from contextlib import AsyncExitStack, suppress
from io import StringIO
from typing import Final

from spec_decode_exporter.app.metrics_text import MetricsText
from spec_decode_exporter.cli.embedded_simulation import simulated
from spec_decode_exporter.cli.event_loop import DetachedThreadPool, run_loop, stop_on_signals
from spec_decode_exporter.cli.flag_values import duration
from spec_decode_exporter.cli.flags import Flags
from spec_decode_exporter.cli.observe_config import PROMETHEUS, TOKEN, add_settings, read_config
from spec_decode_exporter.cli.observe_history import (
    add_history_flags,
    check_history_flags,
    observe_history,
)
from spec_decode_exporter.cli.observe_recording import (
    add_recording_flags,
    check_recording_flags,
    replayed,
)
from spec_decode_exporter.cli.observe_reference import (
    SECONDS,
    add_reference_flags,
    check_reference_flags,
    comparison,
    save,
    server_of,
)
from spec_decode_exporter.cli.output import require_stdout, write_stdout
from spec_decode_exporter.cli.setting_flags import BASELINE_FLAGS, PROFILE_FLAG, add_setting_flags
from spec_decode_exporter.config.environment import FromVariable
from spec_decode_exporter.config.types import format_duration
from spec_decode_exporter.core.clock import Clock, SystemClock
from spec_decode_exporter.core.log import configure_log
from spec_decode_exporter.core.user_errors import UsageError
from spec_decode_exporter.discovery.target import Target, static_targets
from spec_decode_exporter.history.recording import Recorder, RecordingError
from spec_decode_exporter.reports.exit_status import ExitStatus, observation_status
from spec_decode_exporter.reports.history.history_output import HISTORY_FORMATS
from spec_decode_exporter.reports.observe.observation_config import DEFAULT_SECONDS
from spec_decode_exporter.reports.observe.progress import (
    FinalReport,
    NotWrittenError,
    Streams,
    output_for,
)
from spec_decode_exporter.reports.observe.session import Observation
from spec_decode_exporter.reports.reference.measure_servers import NotMeasuredError, until_missing
from spec_decode_exporter.reports.reference_file import ReferenceFileError
from spec_decode_exporter.reports.terminal import terminal_style

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
the order from worst to best is 4, 1, 3, 0. With --against: 0 if the acceptance rate did not fall by more than
5 percentage points, 4 if it did, 3 if that is uncertain. With --save: 0, or 3 if there were too few requests
to compare with. Both end with 1 and no result if a server does not answer.

The environment variable {TOKEN} may hold a token for the servers.
"""
_INTERRUPTED: Final = 130
_MIN_SECONDS: Final = 1.0


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
        help="length of the observation (default: 1m; 5m with --save and --against; all of a recording); "
        "0: until interrupted, over the last hour at most",
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
        choices=(*HISTORY_FORMATS, PROMETHEUS),
        default="text",
        help="format of the report (default: text); html is for --prometheus.url alone; prometheus writes "
        "what /metrics of an exporter would show at the end",
    )
    parser.add_argument(
        "--simulate", metavar="SCENARIO", help="monitor an embedded simulated vLLM instead of real servers"
    )
    flags = Flags(parser, environ)
    add_history_flags(flags)
    add_recording_flags(parser)
    add_reference_flags(parser)
    add_settings(flags)
    add_setting_flags(flags, (*BASELINE_FLAGS, PROFILE_FLAG))


def handle(arguments: argparse.Namespace) -> int:
    """Observe; then end the process with the status of the worst engine."""
    require_stdout("report")
    check_history_flags(arguments)
    check_recording_flags(arguments)
    check_reference_flags(arguments)
    _check_format(arguments)
    configure_log("critical", "logfmt")  # the report has the events
    try:
        status = run_loop(_observe(arguments))
    except (NotWrittenError, NotMeasuredError, ReferenceFileError, RecordingError) as error:
        print(f"spec-decode-exporter: {error}", file=sys.stderr)  # noqa: T201
        status = ExitStatus.FAILED
    # The interpreter would wait for the thread of a DNS look-up that hangs.
    os._exit(status)


def _check_format(arguments: argparse.Namespace) -> None:
    if arguments.format != PROMETHEUS:
        if arguments.metrics_profile is not None and not isinstance(arguments.metrics_profile, FromVariable):
            raise UsageError("--metrics.profile needs --format prometheus")
        return
    if arguments.prometheus_url is not None or arguments.every is not None:
        raise UsageError("--format prometheus needs servers or a recording, and is written once, at the end")


async def _observe(arguments: argparse.Namespace) -> int:
    asyncio.get_running_loop().set_default_executor(DetachedThreadPool())
    streams = Streams(sys.stdout, sys.stderr or StringIO(), os.environ)
    if arguments.prometheus_url is not None:
        arguments.seconds = DEFAULT_SECONDS
        try:
            return await observe_history(arguments, os.environ, SystemClock())
        except asyncio.CancelledError:
            return _INTERRUPTED
    if arguments.replay is not None:
        observation, clock = replayed(arguments, os.environ)
        form = "text" if arguments.format == PROMETHEUS else arguments.format
        return await _result(arguments, observation, clock, FinalReport(form, streams), None)
    async with AsyncExitStack() as stack:
        return await _measure(arguments, stack, streams)


async def _measure(arguments: argparse.Namespace, stack: AsyncExitStack, streams: Streams) -> int:
    """Poll servers, and write the result."""
    if arguments.seconds is None:
        arguments.seconds = SECONDS if arguments.save or arguments.against else DEFAULT_SECONDS
    if arguments.simulate:
        embedded = await stack.enter_async_context(simulated(arguments.simulate))
        arguments.simulated = embedded.target
    recorder = stack.enter_context(Recorder(arguments.record)) if arguments.record else None
    config, server, clock = (
        read_config(arguments, os.environ),
        server_of(arguments, os.environ),
        SystemClock(),
    )
    targets = [*static_targets(config), *([server] if server else [])]
    observation = Observation(config, clock, targets, recorder.take if recorder else None)
    stack.push_async_callback(observation.close)
    form = "text" if arguments.format == PROMETHEUS else arguments.format
    progress = output_for(form, arguments.seconds, arguments.every, streams)
    try:
        await _poll(observation, arguments, progress)
    except asyncio.CancelledError:
        return _INTERRUPTED
    finally:
        progress.end()
    return await _result(arguments, observation, clock, progress, server)


async def _result(
    arguments: argparse.Namespace,
    observation: Observation,
    clock: Clock,
    progress: FinalReport,
    server: Target | None,
) -> int:
    """Write the result in the wanted form; return the exit status."""
    observed = observation.observed()
    if arguments.against is not None:
        text, status = comparison(
            observed,
            arguments.before,
            server,
            form=arguments.format,
            style=terminal_style(sys.stdout, os.environ),
        )
        write_stdout(text)
        return status
    view = observed.view()
    if arguments.format == PROMETHEUS:
        write_stdout(await MetricsText(observation.fleet, observation.events, clock).text())
    else:
        with suppress(BrokenPipeError):
            progress.report(view)
    return observation_status(view) if arguments.save is None else save(arguments.save, observed)


async def _poll(observation: Observation, arguments: argparse.Namespace, progress: FinalReport) -> None:
    """Poll until the time is over, a signal arrives, or the output is closed."""
    stop = asyncio.Event()
    stop_on_signals(stop)
    showing = asyncio.ensure_future(_show(observation, progress, stop))
    end: Coroutine[None, None, None] = _ended(arguments.seconds, stop)
    if arguments.save is not None or arguments.against is not None:
        end = until_missing(observation, end, SystemClock())
    try:
        await observation.poll(end, stopped=stop.is_set)
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
