"""Configuration of ``observe`` and ``recommend``, from their flags and a file."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from spec_decode_exporter.cli.flags import ENVIRONMENT_PREFIX, Flags
from spec_decode_exporter.cli.setting_flags import (
    OBSERVATION_FLAGS,
    PROFILE_FLAG,
    TARGET_FLAGS,
    SettingFlag,
    add_server_flags,
    overrides,
    sections,
    vllm_speculation,
)
from spec_decode_exporter.config.environment import Expanded
from spec_decode_exporter.config.schema import DEFAULT_URL, Config
from spec_decode_exporter.config.types import format_duration
from spec_decode_exporter.core.user_errors import UsageError
from spec_decode_exporter.reports.observe.observation_config import (
    MAX_WINDOW,
    MIN_POLLS,
    observed_config,
    seconds_of,
)

OBSERVE_FLAGS: Final = (*OBSERVATION_FLAGS, PROFILE_FLAG)
"""Flags of ``observe`` that set a general key."""
PROMETHEUS: Final = "prometheus"
"""The value of ``--format`` for metrics, as an exporter would show them."""
TOKEN: Final = f"{ENVIRONMENT_PREFIX}AUTHORIZATION_CREDENTIALS"
"""The environment variable of the servers' token: a flag would be visible to every user of the machine."""


def add_settings(flags: Flags) -> None:
    """Add the flags about the servers: addresses, speculation and cost."""
    flags.one(
        "--config.file",
        "FILE",
        "a configuration with cost and policy, and with targets if no URL is given",
    )
    add_server_flags(flags)


def read_config(
    arguments: argparse.Namespace,
    environ: Mapping[str, str],
    general: Sequence[SettingFlag] = OBSERVE_FLAGS,
    *,
    needs_targets: bool = True,
) -> Config:
    """Load the configuration of an observation; ``general`` are the command's flags of general keys.

    ``needs_targets`` rejects a configuration without targets.

    Raises:
        ConfigError: It has mistakes.
        UsageError: Flags contradict each other.
    """
    path = Path(arguments.config_file) if arguments.config_file else None
    targets = _targets(arguments, environ)
    values = overrides(arguments, general)
    if getattr(arguments, "record", None) is not None:
        values["poll.filter"] = "off"  # recordings hold whole pages, so that every replay has histograms
    _check_interval(arguments)
    config = observed_config(
        targets,
        arguments.seconds,
        path=path,
        environ=environ,
        overrides=values,
        as_exporter=getattr(arguments, "format", "") == PROMETHEUS,
    )
    if needs_targets and not config.targets:
        raise UsageError(f"{path} lists no targets, and this command does not use discovery: give URLs")
    return config


def _check_interval(arguments: argparse.Namespace) -> None:
    """Reject an interval that leaves too few polls; the configuration rejects an invalid duration."""
    interval, limit = seconds_of(arguments.poll_interval), (arguments.seconds or MAX_WINDOW) / MIN_POLLS
    if interval > limit:
        raise UsageError(
            f"--poll.interval {arguments.poll_interval} is too long for --for "
            f"{format_duration(arguments.seconds)}: an observation needs {MIN_POLLS} polls of a server, "
            f"so give {format_duration(limit)} at most"
        )


def _targets(arguments: argparse.Namespace, environ: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the targets of the command line; empty for those of the file."""
    if arguments.simulate:
        if arguments.urls or arguments.config_file:
            raise UsageError("--simulate brings its own target; use it without URLs and --config.file")
        return [arguments.simulated]
    settings = _settings(arguments, environ)
    if arguments.config_file and not arguments.urls:
        return []
    return [{"url": url, **settings} for url in arguments.urls or [DEFAULT_URL]]


def _settings(arguments: argparse.Namespace, environ: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Return the keys that the flags set for every server."""
    settings: dict[str, dict[str, Any]] = {}
    speculation = vllm_speculation(arguments.speculative_config)
    if speculation:
        settings["speculative"] = speculation
    for section, keys in sections(arguments, TARGET_FLAGS).items():
        settings.setdefault(section, {}).update(keys)
    token = environ.get(TOKEN)
    if token:
        settings["authorization"] = {"credentials": Expanded.of(token, f"${{{TOKEN}}}")}
    return settings
