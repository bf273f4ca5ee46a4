"""Command ``spec-decode-exporter run``: monitor servers and serve their metrics."""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import structlog

from spec_decode_exporter.app.service import Options, Service
from spec_decode_exporter.cli.background_output import BackgroundOutput
from spec_decode_exporter.cli.embedded_simulation import EmbeddedServer, simulated
from spec_decode_exporter.cli.event_loop import DetachedThreadPool, run_loop
from spec_decode_exporter.cli.flags import Flags
from spec_decode_exporter.cli.run_config import read_config
from spec_decode_exporter.cli.setting_flags import (
    BASELINE_FLAGS,
    RUN_FLAGS,
    add_server_flags,
    add_setting_flags,
)
from spec_decode_exporter.cli.simulated_past import PAST_SECONDS, PastClock, live_through
from spec_decode_exporter.cli.start_report import first_answers, start_report
from spec_decode_exporter.config.schema import Config
from spec_decode_exporter.core.clock import SystemClock
from spec_decode_exporter.core.log import configure_log
from spec_decode_exporter.core.tasks import Background
from spec_decode_exporter.core.user_errors import UsageError
from spec_decode_exporter.web.hosts import AllowedHosts, parse_external_url
from spec_decode_exporter.web.server import parse_address

if TYPE_CHECKING:
    from spec_decode_exporter.simulator.request_sender import RequestSender

DEFAULT_ADDRESS: Final = ":7732"
STOP_SECONDS: Final = 10.0
"""Seconds from a signal to the end: three for open requests, and some to save the state."""

_log = structlog.get_logger()


def add_arguments(parser: argparse.ArgumentParser, environ: Mapping[str, str]) -> None:
    """Add the flags of the command; ``environ`` has the values of those that are not set."""
    parser.set_defaults(simulated=None)
    flags = Flags(parser, environ)
    flags.one("--config.file", "FILE", "the configuration; without one, flags and defaults")
    flags.switch("--config.auto-reload", "reload the configuration when its file changes")
    flags.several("--target", "URL", "a metrics page to poll, without a configuration; repeatable")
    add_server_flags(flags)
    add_setting_flags(flags, (*BASELINE_FLAGS, *RUN_FLAGS))
    _add_web_flags(flags)
    flags.one("--simulate", "SCENARIO", "monitor an embedded simulated vLLM instead of real servers")


def _add_web_flags(flags: Flags) -> None:
    flags.several(
        "--web.listen-address",
        "ADDRESS",
        f"host:port or unix:/path to serve on; repeatable (default {DEFAULT_ADDRESS})",
    )
    flags.one("--web.external-url", "URL", "the address of the pages in a browser; alerts link there")
    flags.switch("--web.enable-lifecycle", "let POST /-/reload reload the configuration")
    flags.several(
        "--web.allowed-hosts",
        "HOST",
        "host name that a request may have, such as *.example.com; repeatable (default all)",
    )
    flags.one("--web.config.file", "FILE", "TLS and users of the pages, in the format of other exporters")


def handle(arguments: argparse.Namespace) -> int:
    """Serve until SIGTERM or SIGINT; then end the process with status 0."""
    _raise_file_limit()
    with BackgroundOutput() as output:
        run_loop(_serve(arguments, output))
    # The interpreter would wait for the thread of a DNS look-up that hangs.
    os._exit(0)


def _end_soon(output: BackgroundOutput) -> None:
    """End the process after ``STOP_SECONDS``, whatever it waits for then."""

    def end() -> None:
        _log.error("stopped_late", seconds=STOP_SECONDS)
        output.flush()
        os._exit(1)

    timer = threading.Timer(STOP_SECONDS, end)
    timer.daemon = True
    timer.start()


def _raise_file_limit() -> None:
    """Raise the soft limit of open files to the hard limit, as programs in Go do.

    The soft limit is often 1,024 for programs that use ``select``. This one does not, and a thousand targets
    need more.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # The hard limit of macOS is higher than the system allows.
    with suppress(OSError, ValueError):
        if soft != hard:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


async def _serve(arguments: argparse.Namespace, output: BackgroundOutput) -> None:
    asyncio.get_running_loop().set_default_executor(DetachedThreadPool())
    async with AsyncExitStack() as stack:
        clock = SystemClock()
        sender: RequestSender | None = None
        embedded: EmbeddedServer | None = None
        if arguments.simulate:
            clock, sender = PastClock(PAST_SECONDS), _request_sender()
            embedded = await stack.enter_async_context(simulated(arguments.simulate, sender.take, clock))
            arguments.simulated = embedded.target

        def read() -> Config:
            config = read_config(arguments, os.environ)
            configure_log(config.log.level, config.log.format)
            return config

        options = _options(arguments, output)
        background = Background()
        stack.push_async_callback(background.cancel)

        service = Service(read, options, clock)

        async def begin(urls: Sequence[str]) -> None:
            if isinstance(clock, PastClock) and embedded is not None:
                await live_through(
                    clock, embedded.catch_up, lambda: [each.poller() for each in service.fleet]
                )
            targets = await first_answers(lambda: [each.status() for each in service.fleet], asyncio.sleep)
            print(start_report(targets, urls, options), end="")  # noqa: T201
            if sender is not None and options.web_config is None:  # the sender has no password
                await sender.send_for_ever(urls[0])

        await service.run(lambda urls: background.start(begin(urls)))


def _options(arguments: argparse.Namespace, output: BackgroundOutput) -> Options:
    return Options(
        addresses=[parse_address(text) for text in arguments.web_listen_address or [DEFAULT_ADDRESS]],
        lifecycle=arguments.web_enable_lifecycle,
        external_url=parse_external_url(arguments.web_external_url) if arguments.web_external_url else "",
        watched=_watched(arguments),
        allowed_hosts=AllowedHosts.parse(arguments.web_allowed_hosts or ()),
        web_config=Path(arguments.web_config_file) if arguments.web_config_file else None,
        log_lines_dropped=lambda: output.dropped,
        stopping=lambda: _end_soon(output),
    )


def _request_sender() -> RequestSender:
    from spec_decode_exporter.simulator.request_sender import RequestSender

    return RequestSender(lambda reason: print(reason, file=sys.stderr))  # noqa: T201


def _watched(arguments: argparse.Namespace) -> Path | None:
    if not arguments.config_auto_reload:
        return None
    if not arguments.config_file:
        raise UsageError("--config.auto-reload needs --config.file; there is no file to watch")
    return Path(arguments.config_file)
