"""The command ``spec-decode-exporter run``: watch servers and serve their metrics."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Final

from spec_decode_exporter.app.options import Options
from spec_decode_exporter.app.service import Service
from spec_decode_exporter.cli.embedded_simulation import simulated
from spec_decode_exporter.cli.event_loop import Unwaited, run_loop
from spec_decode_exporter.cli.flags import Flags, UsageError
from spec_decode_exporter.cli.run_config import SPECULATIVE_CONFIG, read_config
from spec_decode_exporter.config.environment import FromVariable
from spec_decode_exporter.config.schema import Config
from spec_decode_exporter.core.background_tasks import Background
from spec_decode_exporter.core.clock import SystemClock
from spec_decode_exporter.core.log import configure_log
from spec_decode_exporter.core.open_files import raise_limit
from spec_decode_exporter.core.version import __version__
from spec_decode_exporter.web.security.hosts import AllowedHosts
from spec_decode_exporter.web.server.listen import parse_address

DEFAULT_ADDRESS: Final = ":7732"

Deliver = Callable[[str], Coroutine[None, None, None]]
"""Hands the embedded server's requests to the exporter at a URL, until it is cancelled."""


def add_arguments(parser: argparse.ArgumentParser, environ: Mapping[str, str]) -> None:
    """Add the flags of the command to its ``parser``; ``environ`` has the values of those not given."""
    parser.set_defaults(simulated=None)
    flags = Flags(parser, environ)
    flags.one("--config.file", "FILE", "the configuration; without one, flags and defaults")
    flags.switch("--config.auto-reload", "read the configuration again when its file changes")
    flags.several("--target", "URL", "a metrics page to watch, without a configuration; repeatable")
    flags.one(
        "--poll.interval", "DURATION", "how often a server is asked, such as 1s; goes before the file's"
    )
    flags.one("--speculative.method", "METHOD", "how the target speculates, such as eagle3 or ngram")
    flags.one("--speculative.tokens", "NUMBER", "how many tokens the target drafts at a time")
    flags.one("--speculative.draft-model", "NAME", "the name of the target's draft model")
    flags.one(SPECULATIVE_CONFIG, "JSON", "or what the target's vLLM is given as --speculative-config")
    flags.one("--cost.draft-cost-ratio", "RATIO", "what a draft token costs, in plain decode steps")
    flags.one("--cost.draft-parameters", "NUMBER", "or the size of the draft model, such as 500M …")
    flags.one("--cost.target-parameters", "NUMBER", "… beside that of the model that is served, such as 8B")
    flags.one("--state.file", "FILE", "what is remembered over a restart of the exporter", read=_absolute)
    flags.one("--shard.count", "NUMBER", "how many exporters share the targets")
    flags.one("--shard.index", "NUMBER", "which of them this is, from 0, or auto for a StatefulSet's pod")
    flags.several(
        "--web.listen-address",
        "ADDRESS",
        f"host:port or unix:/path to serve on; repeatable (default {DEFAULT_ADDRESS})",
    )
    flags.one("--web.telemetry-path", "PATH", "the path of the metrics (default /metrics)", "/metrics")
    flags.switch("--web.enable-lifecycle", "let POST /-/reload read the configuration again")
    flags.several(
        "--web.allowed-hosts",
        "HOST",
        "host name that clients may ask for, such as *.example.com; repeatable (default all)",
    )
    flags.one("--web.config.file", "FILE", "TLS and the passwords of the pages, as other exporters have it")
    flags.one("--log.level", "LEVEL", "debug, info, warning or error (default info)")
    flags.one("--log.format", "FORMAT", "logfmt or json (default logfmt)")
    flags.one(
        "--log.summary-interval",
        "DURATION",
        "how often a line sums up each engine: off, 10s, … (default off)",
    )
    flags.one("--simulate", "SCENARIO", "watch an embedded simulated vLLM instead of real servers")


def handle(arguments: argparse.Namespace) -> int:
    """Serve until SIGTERM or SIGINT; then the process ends, with status 0."""
    raise_limit()
    run_loop(_serve(arguments))
    with suppress(OSError):
        sys.stdout.flush()
    # A name look-up that hangs has its thread hang too, and the interpreter would wait for it.
    os._exit(0)


def _absolute(path: str) -> str:
    """Make a path one from where the exporter was started; those in a file are relative to the file."""
    absolute = str(Path(path).absolute())
    return FromVariable.of(absolute, path.variable) if isinstance(path, FromVariable) else absolute


async def _serve(arguments: argparse.Namespace) -> None:
    asyncio.get_running_loop().set_default_executor(Unwaited())
    async with AsyncExitStack() as stack:
        deliver: Deliver | None = None
        if arguments.simulate:
            arguments.simulated, deliver = await _embedded(arguments.simulate, stack)

        def read() -> Config:
            config = read_config(arguments, os.environ)
            configure_log(config.log.level, config.log.format)
            return config

        options = Options(
            addresses=[parse_address(text) for text in arguments.web_listen_address or [DEFAULT_ADDRESS]],
            telemetry_path=arguments.web_telemetry_path,
            lifecycle=arguments.web_enable_lifecycle,
            watched=_watched(arguments),
            allowed_hosts=AllowedHosts.parse(arguments.web_allowed_hosts or ()),
            web_config=Path(arguments.web_config_file) if arguments.web_config_file else None,
        )
        background = Background()
        stack.push_async_callback(background.cancel)

        def started(urls: Sequence[str]) -> None:
            _show_page(urls)
            if deliver is not None and options.web_config is None:  # which would take a password
                background.start(deliver(urls[0]))

        await Service(read, options, SystemClock()).run(started)


async def _embedded(name: str, stack: AsyncExitStack) -> tuple[dict[str, object], Deliver]:
    """Serve a simulated vLLM; return it as a target, and what hands over its requests."""
    from spec_decode_exporter.simulator.request_sender import RequestSender

    sender = RequestSender(lambda trouble: print(trouble, file=sys.stderr))  # noqa: T201
    return await stack.enter_async_context(simulated(name, sender.take)), sender.send_for_ever


def _watched(arguments: argparse.Namespace) -> Path | None:
    if not arguments.config_auto_reload:
        return None
    if not arguments.config_file:
        raise UsageError("--config.auto-reload is for use with --config.file; there is no file to watch")
    return Path(arguments.config_file)


def _show_page(urls: Sequence[str]) -> None:
    # Nobody may be there to read it, which is no reason not to serve.
    with suppress(OSError):
        print(f"spec-decode-exporter {__version__}: open {urls[0]}", flush=True)  # noqa: T201
