"""Flags that set a key of the configuration: one table, shared by the commands."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import structlog

from spec_decode_exporter.cli.flags import Flags, destination, unchanged
from spec_decode_exporter.config.environment import FromVariable
from spec_decode_exporter.core.user_errors import UsageError
from spec_decode_exporter.discovery.vllm_command_line import config_speculation

SPECULATIVE_CONFIG: Final = "--speculative.config"
"""The flag with vLLM's own JSON, for servers that neither the other flags nor a file describe."""

_log = structlog.get_logger()


class SettingFlag(NamedTuple):
    """A flag that sets a key of the configuration."""

    name: str
    metavar: str
    text: str
    key: str
    """The key, with dots between sections; of a target in ``TARGET_FLAGS``."""
    is_path: bool = False
    """Relative to the working directory, unlike a path in the file."""

    @property
    def destination(self) -> str:
        """The name under which the arguments hold the value."""
        return destination(self.name)


GENERAL_FLAGS: Final = (
    SettingFlag(
        "--poll.interval", "DURATION", "time between two polls of a server (default 1s)", "poll.interval"
    ),
    SettingFlag(
        "--cost.draft-cost-ratio",
        "RATIO",
        "cost of a draft token, relative to a decode step without speculation",
        "cost.draft_cost_ratio",
    ),
    SettingFlag(
        "--cost.running-requests",
        "NUMBER",
        "concurrent requests at which that cost was measured (default 4)",
        "cost.running_requests",
    ),
)
"""Flags of every command that polls servers."""

TARGET_FLAGS: Final = (
    SettingFlag(
        "--speculative.method",
        "METHOD",
        "method of the servers, such as eagle3 or ngram",
        "speculative.method",
    ),
)
"""Flags of every command that polls servers, for each server that is not from a file."""

BASELINE_FLAGS: Final = (
    SettingFlag(
        "--baseline.prometheus.url",
        "URL",
        "a Prometheus with the counters of the servers from before speculation was enabled",
        "baseline.prometheus.url",
    ),
)
"""Flags of ``run``, ``observe`` and ``recommend``."""

OBSERVATION_FLAGS: Final = (*GENERAL_FLAGS, *BASELINE_FLAGS)
"""Flags of ``observe`` and ``recommend`` that set a general key."""

PROFILE_FLAG: Final = SettingFlag(
    "--metrics.profile",
    "PROFILE",
    "metrics to export: minimal, standard or full (default standard)",
    "metrics.profile",
)
"""Flag of ``run`` and ``observe``."""

RUN_FLAGS: Final = (
    SettingFlag(
        "--state.file", "FILE", "file of the state that survives a restart", "state.file", is_path=True
    ),
    PROFILE_FLAG,
    SettingFlag("--log.level", "LEVEL", "debug, info, warning or error (default info)", "log.level"),
    SettingFlag("--log.format", "FORMAT", "logfmt or json (default logfmt)", "log.format"),
)
"""Flags of ``run`` alone."""


def add_setting_flags(flags: Flags, table: Sequence[SettingFlag]) -> None:
    """Add the flags of a table."""
    for flag in table:
        read = _absolute if flag.is_path else unchanged
        flags.one(flag.name, flag.metavar, flag.text, read=read)


def add_server_flags(flags: Flags) -> None:
    """Add the flags that every command has that polls servers."""
    add_setting_flags(flags, (*GENERAL_FLAGS, *TARGET_FLAGS))
    flags.one(SPECULATIVE_CONFIG, "JSON", "or the --speculative-config of their vLLM")


def overrides(arguments: argparse.Namespace, table: Sequence[SettingFlag]) -> dict[str, object]:
    """Return the values of the flags that are set, by key."""
    values = {flag.key: getattr(arguments, flag.destination) for flag in table}
    return {key: value for key, value in values.items() if value is not None}


def reject_baseline(arguments: argparse.Namespace, instead: str) -> None:
    """Reject the flags of a baseline, unless an environment variable set them.

    Args:
        arguments: Arguments of a command with these flags.
        instead: What the command reports without them.

    Raises:
        UsageError: One is set.
    """
    for flag in BASELINE_FLAGS:
        value = getattr(arguments, flag.destination)
        if value is not None and not isinstance(value, FromVariable):
            raise UsageError(f"{flag.name} is for servers that are observed now, and not for {instead}")


def sections(arguments: argparse.Namespace, table: Sequence[SettingFlag]) -> dict[str, dict[str, Any]]:
    """Return the values of the flags that are set, by section and key."""
    values: dict[str, dict[str, Any]] = {}
    for path, value in overrides(arguments, table).items():
        section, _, key = path.partition(".")
        values.setdefault(section, {})[key] = value
    return values


def vllm_speculation(text: str | None) -> dict[str, object]:
    """Return the keys of ``speculative`` that vLLM's ``--speculative-config`` holds.

    An injected sidecar copies that argument unseen from the pod into the variable: an unreadable variable is
    therefore logged and ignored.

    Raises:
        UsageError: The flag is not readable.
    """
    if text is None:
        return {}
    try:
        speculation = config_speculation(text)
    except ValueError as error:
        if not isinstance(text, FromVariable):
            raise UsageError(f"{SPECULATIVE_CONFIG} {error}") from None
        _log.warning("variable_not_understood", variable=text.origin, reason=str(error))
        return {}
    keys = {
        "method": speculation.method,
        "tokens": speculation.tokens,
        "draft_model": speculation.draft_model,
        "rejection_method": speculation.rejection_method,
        "schedule": speculation.schedule.ranges,
    }
    return {key: value for key, value in keys.items() if value}


def _absolute(path: str) -> str:
    absolute = str(Path(path).absolute())
    return FromVariable.of(absolute, path.origin) if isinstance(path, FromVariable) else absolute
