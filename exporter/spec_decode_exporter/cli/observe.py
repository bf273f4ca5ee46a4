"""Command ``spec-decode-exporter observe``: monitor servers for a limited time and write a report."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress
from io import StringIO
from typing import Final

from spec_decode_exporter.cli.flags import PROFILE_FLAG, Flag, add_flags, duration, is_given, reject_pairs
from spec_decode_exporter.cli.observe_config import HTTP_HELP, PROMETHEUS, add_server_arguments, read_config
from spec_decode_exporter.cli.observe_files import (
    FILE_FLAGS,
    SECONDS,
    check_reference_flags,
    comparison,
    replayed,
    save,
    server_of,
)
from spec_decode_exporter.cli.observe_history import HISTORY_FLAGS, ProgressBar, observe_history
from spec_decode_exporter.cli.process import require_stdout, stop_on_signals, write_stdout
from spec_decode_exporter.cli.simulate import simulated
from spec_decode_exporter.config.types import format_duration
from spec_decode_exporter.core.clock import Clock
from spec_decode_exporter.core.log import configure_log
from spec_decode_exporter.core.number_formats import count
from spec_decode_exporter.core.tasks import cancel
from spec_decode_exporter.core.user_errors import UsageError
from spec_decode_exporter.discovery.target import Target, static_targets
from spec_decode_exporter.history.recording import Recorder
from spec_decode_exporter.reports.exit_status import ExitStatus, observation_status
from spec_decode_exporter.reports.history_report import HISTORY_FORMATS
from spec_decode_exporter.reports.observation import DEFAULT_SECONDS, Observation, check_complete
from spec_decode_exporter.reports.observation_report import json_report, report
from spec_decode_exporter.reports.observation_view import ObservationView
from spec_decode_exporter.reports.text import text_style
from spec_decode_exporter.web.state import ExporterState

DESCRIPTION: Final = """\
Monitor servers for a limited time, without serving anything, and report whether speculation pays, what to
change, and which data is missing. Ctrl-C ends the observation with a report; a second Ctrl-C ends it at once.
"""
EPILOG: Final = f"""\
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
to compare with. Both end with 1 and no result if a server does not answer. With --format prometheus: 0 if every
server is on the page with an engine, else 1.

{HTTP_HELP}"""
_FLAGS: Final = (
    Flag("--for", "DURATION", "length of the observation (default: 1m; 5m with --save and --against; all of a recording); 0: until interrupted, over the last hour at most", read=duration(1.0, or_zero=True), kept_as="seconds"),
    Flag("--format", "FORMAT", "format of the report (default: text, also Markdown); html is for --prometheus.url alone; prometheus writes what /metrics of an exporter would show at the end", choices=(*HISTORY_FORMATS, PROMETHEUS), default="text"),
)  # fmt: skip
_EXCLUDED: Final = {
    "prometheus_url": "urls simulate replay record save against baseline_prometheus_url",
    "replay": "urls simulate record baseline_prometheus_url",
    "against": "save",
}
"""Flags of another source or another result."""
_INTERRUPTED: Final = 130
_SHOW_INTERVAL: Final = 1.0


def add_arguments(parser: argparse.ArgumentParser, environ: Mapping[str, str]) -> None:
    """Add the arguments of the command; ``environ`` has the values of flags that are not set."""
    add_server_arguments(parser, environ)
    add_flags(parser, _FLAGS)
    add_flags(parser, HISTORY_FLAGS, environ)
    add_flags(parser, FILE_FLAGS)
    add_flags(parser, [PROFILE_FLAG], environ)


def handle(arguments: argparse.Namespace) -> int:
    """Observe; return the exit status of the worst engine."""
    require_stdout("report")
    _check_flags(arguments)
    check_reference_flags(arguments)
    configure_log("critical", "logfmt")  # the report has the events
    return asyncio.run(_observe(arguments))


def _check_flags(arguments: argparse.Namespace) -> None:
    reject_pairs(arguments, _EXCLUDED)
    is_page, is_past = arguments.format == PROMETHEUS, arguments.prometheus_url is not None
    alone = [name for name in ("since", "until", "match") if getattr(arguments, name) is not None]
    if alone and not is_past:
        raise UsageError(f"--{alone[0]} needs --prometheus.url, the server with the history")
    if arguments.format == "html" and not is_past:
        raise UsageError("--format html needs --prometheus.url: it is the format of a history")
    if is_given(arguments.metrics_profile) and not is_page:
        raise UsageError("--metrics.profile needs --format prometheus")
    if is_page and is_past:
        raise UsageError("--format prometheus needs servers or a recording")


async def _observe(arguments: argparse.Namespace) -> int:
    bar = ProgressBar(sys.stderr or StringIO(), os.environ)
    try:
        if arguments.prometheus_url is not None:
            arguments.seconds = DEFAULT_SECONDS
            return await observe_history(arguments, bar, Clock())
        if arguments.replay is not None:
            # A replay never waits, so the event loop would not see a signal until its end.
            signal.signal(signal.SIGINT, signal.default_int_handler)
            return await _result(arguments, replayed(arguments, os.environ), None)
        async with AsyncExitStack() as stack:
            return await _measure(arguments, stack, bar)
    except (asyncio.CancelledError, KeyboardInterrupt):
        return _INTERRUPTED


def _compares(arguments: argparse.Namespace) -> bool:
    return arguments.save is not None or arguments.against is not None


async def _measure(arguments: argparse.Namespace, stack: AsyncExitStack, bar: ProgressBar) -> int:
    compares = _compares(arguments)
    if arguments.seconds is None:
        arguments.seconds = SECONDS if compares else DEFAULT_SECONDS
    if arguments.simulate:
        arguments.simulated, _ = await stack.enter_async_context(simulated(arguments.simulate))
    recorder = stack.enter_context(Recorder(arguments.record)) if arguments.record else None
    config, server = read_config(arguments, os.environ), server_of(arguments, os.environ)
    targets = [*static_targets(config), *([server] if server else [])]
    observation = Observation(config, Clock(), targets, recorder.take if recorder else None)
    stack.push_async_callback(observation.close)
    stop = asyncio.Event()
    stop_on_signals(stop)
    showing = asyncio.ensure_future(_show(observation, arguments.seconds, bar))
    end = _ended(arguments.seconds, stop)
    try:
        await observation.poll(end, stopped=stop.is_set, gives_up=bool(arguments.seconds), needs_all=compares)
    finally:
        await cancel([showing])
        bar.end()
    return await _result(arguments, observation, server)


async def _result(arguments: argparse.Namespace, observation: Observation, server: Target | None) -> int:
    """Write the result in the wanted form; return the exit status.

    Raises:
        NotMeasuredError: A server that is saved or compared is missing.
    """
    view = observation.observed()
    if _compares(arguments):
        check_complete(view)
    style = text_style(sys.stdout, os.environ)
    if arguments.against is not None:
        text, status = comparison(view, arguments.before, server, form=arguments.format, style=style)
        write_stdout(text)
        return status
    if arguments.format == PROMETHEUS:
        state = ExporterState(observation.fleet)
        write_stdout(state.metrics.text(await state.take()))
        # Its series say whether speculation pays: a script must not discard them because it does not.
        return ExitStatus.GOOD if all(target.engines for target in view.targets) else ExitStatus.FAILED
    write_stdout(json_report(view) if arguments.format == "json" else report(view, style))
    return observation_status(view) if arguments.save is None else save(arguments.save, view)


async def _ended(seconds: float, stop: asyncio.Event) -> None:
    """Wait until the time is over, a signal arrives, or the output is closed."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds or None):
            await stop.wait()


async def _show(observation: Observation, seconds: float, bar: ProgressBar) -> None:
    """Show the progress of an observation of ``seconds``; 0 for one without an end."""
    while bar.is_shown:
        await asyncio.sleep(_SHOW_INTERVAL)
        view = observation.observed()
        bar.show(view.seconds / seconds if seconds else 0.0, progress_words(view, seconds))


def progress_words(view: ObservationView, seconds: float) -> str:
    """Return the time, of ``seconds`` unless they are 0, and the drafts so far in a few words."""
    end = f" of {format_duration(seconds)}" if seconds else ""
    drafts = sum(engine.longest.counts.drafts or 0 for engine in view.engines if engine.longest)
    return f"{view.seconds:.0f} s{end}  {count(drafts)} drafts  Ctrl-C ends it"
