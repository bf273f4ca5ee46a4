"""Servers that a command measures for a while, and the time that it takes."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

from spec_decode_exporter.cli.embedded_simulation import simulated
from spec_decode_exporter.cli.event_loop import DetachedThreadPool
from spec_decode_exporter.cli.flag_values import duration
from spec_decode_exporter.cli.observe_config import read_config
from spec_decode_exporter.cli.setting_flags import OBSERVATION_FLAGS, SettingFlag
from spec_decode_exporter.config.schema import Config
from spec_decode_exporter.config.types import format_duration
from spec_decode_exporter.core.number_formats import plural

MIN_SECONDS: Final = 5.0
MAX_SECONDS: Final = 86_400.0


def measurement_time(text: str) -> float:
    """Read the time that a measurement takes, in seconds; for argparse."""
    seconds = duration(text)
    if not MIN_SECONDS <= seconds <= MAX_SECONDS:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not between {format_duration(MIN_SECONDS)} and {format_duration(MAX_SECONDS)}"
        )
    return seconds


@asynccontextmanager
async def configured_servers(
    arguments: argparse.Namespace, activity: str, general: Sequence[SettingFlag] = OBSERVATION_FLAGS
) -> AsyncIterator[Config]:
    """Yield the configuration of the servers, with the embedded simulation if ``arguments`` names one.

    ``activity`` is what the command says that it does, for ``arguments.seconds``, on standard error;
    ``general`` are its flags of general keys.

    Raises:
        ConfigError: The arguments or the configuration file cannot be used.
    """
    asyncio.get_running_loop().set_default_executor(DetachedThreadPool())
    async with AsyncExitStack() as stack:
        if arguments.simulate:
            embedded = await stack.enter_async_context(simulated(arguments.simulate))
            arguments.simulated = embedded.target
        config = read_config(arguments, os.environ, general)
        servers, time = plural(len(config.targets), "server"), format_duration(arguments.seconds)
        print(f"{activity} {servers} for {time} …", file=sys.stderr, flush=True)  # noqa: T201
        yield config
