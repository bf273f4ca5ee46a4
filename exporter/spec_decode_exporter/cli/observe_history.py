"""``observe --prometheus.url``: report the history that a Prometheus has."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final, TextIO

from spec_decode_exporter.analysis.knowledge import Assumptions
from spec_decode_exporter.analysis.speculation import resolve
from spec_decode_exporter.cli.flags import Flag, reader
from spec_decode_exporter.cli.observe_config import read_config
from spec_decode_exporter.cli.process import stop_on_signals, write_stdout
from spec_decode_exporter.config.schema import Config
from spec_decode_exporter.config.types import format_duration, label_matchers, parse_duration
from spec_decode_exporter.core.clock import Clock
from spec_decode_exporter.core.urls import api_address
from spec_decode_exporter.core.user_errors import UsageError
from spec_decode_exporter.discovery.target import Target, static_targets
from spec_decode_exporter.history.history_reader import HistoryQuery, read_history
from spec_decode_exporter.history.query_api import MAX_BODY, TIMEOUT, QueryApi
from spec_decode_exporter.reports.history_report import HISTORY_FORMATS, history_status
from spec_decode_exporter.reports.observation import completed_url
from spec_decode_exporter.reports.text import bar as progress_bar
from spec_decode_exporter.reports.text import text_style
from spec_decode_exporter.scrape.client import Client

DEFAULT_SINCE: Final = "7d"
MIN_SECONDS: Final = 600.0
MAX_SECONDS: Final = 400 * 86400.0
ERASE_LINE: Final = "\r\x1b[K"

HISTORY_FLAGS: Final = (
    Flag("--prometheus.url", "URL", "report the past instead, from the server's metrics in this Prometheus, VictoriaMetrics, Thanos or Mimir", read=reader(lambda text: api_address(completed_url(text)))),
    Flag("--since", "TIME", f"begin of that report: how long ago, such as 12h, or a date in UTC (default: {DEFAULT_SINCE})"),
    Flag("--until", "TIME", "end of that report (default: now)"),
    Flag("--match", "MATCHERS", "labels of the series to report, such as 'job=\"vllm\"' (default: all)", read=reader(label_matchers)),
)  # fmt: skip


class ProgressBar:
    """Bar and a few words on one line of a stream, on a terminal only. A stream that is gone is ignored."""

    def __init__(self, stream: TextIO, environ: Mapping[str, str]) -> None:
        """Draw on a stream; some environment variables describe the terminal."""
        self._stream, self._width = stream, text_style(stream, environ).width
        self.is_shown = self._width is not None and environ.get("TERM") != "dumb"

    def show(self, share: float, words: str) -> None:
        """Replace the line; ``share`` of the work is done, 0 to 1."""
        self._write(f"{progress_bar(share):20} {words}"[: self._width])

    def end(self) -> None:
        """Erase the line."""
        self._write("")

    def _write(self, text: str) -> None:
        with suppress(OSError):
            if self.is_shown:
                self._stream.write(ERASE_LINE + text)
                self._stream.flush()


async def observe_history(arguments: argparse.Namespace, bar: ProgressBar, clock: Clock) -> int:
    """Read and report a history, with its progress on ``bar``; return the exit status.

    HistoryError is raised if nothing can be read, UsageError if the flags cannot be used.
    """

    def show(share: float) -> None:
        bar.show(share, f"{100 * share:.0f} %  Ctrl-C ends it with what was read")

    url = arguments.prometheus_url
    arguments.urls = [url]
    config = read_config(arguments, os.environ)
    (target,) = static_targets(config)
    client = Client(target.http, timeout=TIMEOUT, max_body=MAX_BODY)
    query, stop = query_of(arguments, clock.wall()), asyncio.Event()
    stop_on_signals(stop)
    try:
        api, known = QueryApi(url, client, stop=stop), _assumptions(target, config)
        result = await read_history(api, query, known, progress=show, stop=stop)
    finally:
        bar.end()
        await client.close()
    write_stdout(HISTORY_FORMATS[arguments.format](result, text_style(sys.stdout, os.environ)))
    return history_status(result)


def _assumptions(target: Target, config: Config) -> Callable[[str], Assumptions]:
    """Return the knowledge of the engines of a model from the flags and the file."""
    return lambda model_name: Assumptions(
        resolve(target.speculative, "", None, None, model_name),
        target.cost or config.cost,
        target.policy or config.policy,
        target.reference or config.reference,
    )


def query_of(arguments: argparse.Namespace, now: float) -> HistoryQuery:
    """Return what to read, until ``now`` (Unix time) at most.

    Raises:
        UsageError: The flags name no time of a history.
    """
    begin = moment(arguments.since or DEFAULT_SINCE, "--since", now)
    end = min(moment(arguments.until or "0", "--until", now), now)
    if not MIN_SECONDS <= end - begin <= MAX_SECONDS:
        raise UsageError(
            f"from --since to --until must be {format_duration(MIN_SECONDS)} to "
            f"{format_duration(MAX_SECONDS)}; it is {format_duration(max(end - begin, 0.0))}"
        )
    return HistoryQuery(begin, end, arguments.match or "")


def moment(text: str, flag: str, now: float) -> float:
    """Return the Unix time of a duration before ``now``, or of a date.

    Raises:
        UsageError: The text is neither.
    """
    with suppress(ValueError):
        return now - parse_duration(text)
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(
            f"{flag} {text!r} is no time; write how long ago, such as 7d or 12h, or a date such as "
            "2026-11-20 or 2026-11-20T14:00 (UTC)"
        ) from None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
