"""Command ``spec-decode-exporter run``: monitor servers and serve their metrics."""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

from spec_decode_exporter.app.reload import load_config
from spec_decode_exporter.app.service import Options, Service
from spec_decode_exporter.cli.flags import (
    RUN_FLAGS,
    SERVER_FLAGS,
    Flag,
    add_flags,
    completed,
    general_keys,
    reader,
    scenario,
    speculation_keys,
    with_speculation,
)
from spec_decode_exporter.cli.process import DroppingStream, log_without_waiting, raise_file_limit
from spec_decode_exporter.config.schema import DEFAULT_URL, Config
from spec_decode_exporter.core.clock import Clock
from spec_decode_exporter.core.log import configure_log
from spec_decode_exporter.core.tasks import Background
from spec_decode_exporter.core.user_errors import UsageError
from spec_decode_exporter.web.hosts import AllowedHosts, parse_external_url
from spec_decode_exporter.web.server import parse_address

DEFAULT_ADDRESS: Final = ":7732"
_FLAGS: Final = (
    Flag("--config.file", "FILE", "the configuration; without one, flags and defaults"),
    Flag("--config.auto-reload", "", "reload the configuration when its file changes"),
    Flag("--target", "URL", "a metrics page to poll, without a configuration, such as localhost:8000; repeatable", read=completed, repeats=True),
    *SERVER_FLAGS,
    *RUN_FLAGS,
    Flag("--web.listen-address", "ADDRESS", f"host:port or unix:/path to serve on; repeatable (default {DEFAULT_ADDRESS})", read=reader(parse_address), repeats=True),
    Flag("--web.external-url", "URL", "the address of the pages in a browser; alerts link there"),
    Flag("--web.enable-lifecycle", "", "let POST /-/reload reload the configuration"),
    Flag("--web.allowed-hosts", "HOST", "host name that a request may have, such as *.example.com; repeatable (default all)", repeats=True),
    Flag("--web.config.file", "FILE", "TLS and users of the pages, in the format of other exporters"),
    Flag("--simulate", "SCENARIO", "monitor an embedded simulated vLLM instead of real servers; repeatable", read=scenario, repeats=True),
)  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser, environ: Mapping[str, str]) -> None:
    """Add the flags of the command; ``environ`` has the values of those that are not set."""
    parser.set_defaults(simulated=None)
    add_flags(parser, _FLAGS, environ)


def handle(arguments: argparse.Namespace) -> int:
    """Serve until SIGTERM or SIGINT; return the exit status."""
    raise_file_limit()
    log = log_without_waiting()
    asyncio.run(_serve(arguments, _options(arguments, log)))
    return 0


async def _serve(arguments: argparse.Namespace, options: Options) -> None:
    if not arguments.simulate:
        await Service(_reader(arguments), options, Clock()).run()
        return
    async with AsyncExitStack() as stack:
        await _serve_demo(arguments, options, stack)


async def _serve_demo(arguments: argparse.Namespace, options: Options, stack: AsyncExitStack) -> None:
    """Serve an exporter of simulated vLLMs, whose past it has lived through."""
    from spec_decode_exporter.cli.simulate import PastClock, live_through, simulated
    from spec_decode_exporter.simulator.simulated_server import RequestSender

    clock, sender, background = PastClock(), RequestSender(), Background()
    opened = [simulated(scenario, sender.take, clock) for scenario in arguments.simulate]
    found = [await stack.enter_async_context(each) for each in opened]
    arguments.simulated, servers = [target for target, _ in found], [server for _, server in found]
    service = Service(_reader(arguments), options, clock)
    stack.push_async_callback(background.cancel)

    async def begin(urls: Sequence[str]) -> None:
        await live_through(clock, servers, lambda: [each.poller() for each in service.fleet])
        print(f"Page: {options.external_url or urls[0]}", flush=True)  # noqa: T201
        if options.web_config is None:  # the sender has no password
            await sender.send_for_ever(urls[0])

    await service.run(lambda urls: background.start(begin(urls)))


def _reader(arguments: argparse.Namespace) -> Callable[[], Config]:
    """Return a function that reads the configuration and sets the log accordingly."""

    def read() -> Config:
        config = read_config(arguments, os.environ)
        configure_log(config.log.level, config.log.format)
        return config

    return read


def _options(arguments: argparse.Namespace, log: DroppingStream | None) -> Options:
    if arguments.config_auto_reload and not arguments.config_file:
        raise UsageError("--config.auto-reload needs --config.file; there is no file to watch")
    return Options(
        addresses=arguments.web_listen_address or [parse_address(DEFAULT_ADDRESS)],
        lifecycle=arguments.web_enable_lifecycle,
        external_url=parse_external_url(arguments.web_external_url) if arguments.web_external_url else "",
        simulated=bool(arguments.simulate),
        watched=Path(arguments.config_file) if arguments.config_auto_reload else None,
        allowed_hosts=AllowedHosts.parse(arguments.web_allowed_hosts or ()),
        web_config=Path(arguments.web_config_file) if arguments.web_config_file else None,
        log_lines_dropped=lambda: log.lines_dropped if log else 0,
    )


def read_config(arguments: argparse.Namespace, environ: Mapping[str, str]) -> Config:
    """Load the configuration that the flags of ``run`` ask for.

    Raises:
        ConfigError: It has mistakes.
        UsageError: Targets come from more than one of a file, flags and the simulator.
    """
    values, speculation = general_keys(arguments), speculation_keys(arguments)
    if targets := _targets(arguments, speculation):
        values["targets"] = targets
    if arguments.simulated:
        values["requests.ingest"] = True  # the simulator sends its requests
    path = Path(arguments.config_file) if arguments.config_file else None
    config = load_config(path, environ=environ, overrides=values)
    return with_speculation(config, speculation) if path else config


def _targets(arguments: argparse.Namespace, speculation: Mapping[str, object]) -> list[dict[str, object]]:
    """Return the targets that the flags name; empty if no flag is about targets."""
    if arguments.simulate and (arguments.target or arguments.config_file):
        raise UsageError("--simulate brings its own targets; use it without --target and --config.file")
    if len({Path(each).stem for each in arguments.simulate}) < len(arguments.simulate):
        raise UsageError("--simulate names its target like the scenario: give each scenario once")
    if arguments.config_file:
        if arguments.target:
            raise UsageError(
                "--target, or its variable, is for use without --config.file; put it into the file, under `targets`"
            )
        return []
    settings = {"speculative": speculation} if speculation else {}
    if arguments.simulated:
        return [{**each, **settings} for each in arguments.simulated]
    urls = arguments.target or ([DEFAULT_URL] if settings else [])
    return [{"url": url, **settings} for url in urls]
