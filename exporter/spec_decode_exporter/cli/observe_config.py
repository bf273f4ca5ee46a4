"""The configuration that the flags of ``observe`` ask for."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from spec_decode_exporter.cli.flags import ENVIRONMENT_PREFIX, UsageError
from spec_decode_exporter.cli.run_config import understood
from spec_decode_exporter.config.environment import Expanded
from spec_decode_exporter.config.schema import DEFAULT_URL, Config
from spec_decode_exporter.config.units import format_duration
from spec_decode_exporter.reports.observe.observation_config import (
    MAX_WINDOW,
    MIN_POLLS,
    observed_config,
    seconds_of,
)

TOKEN: Final = f"{ENVIRONMENT_PREFIX}AUTHORIZATION_CREDENTIALS"
"""The environment variable that holds a token for the servers; a flag would show it to everybody."""

_OVERRIDES: Final = {
    "poll_interval": "poll.interval",
    "cost_draft_cost_ratio": "cost.draft_cost_ratio",
    "cost_draft_parameters": "cost.draft_parameters",
    "cost_target_parameters": "cost.target_parameters",
}
"""Flags that stand for a key of the configuration."""

_OF_TARGETS: Final = {
    "speculative_method": ("speculative", "method"),
    "speculative_tokens": ("speculative", "tokens"),
    "speculative_draft_model": ("speculative", "draft_model"),
    "authorization_credentials_file": ("authorization", "credentials_file"),
    "tls_config_ca_file": ("tls_config", "ca_file"),
}
"""Flags that stand for a key of every target that is named by its address."""


def read_config(arguments: argparse.Namespace, environ: Mapping[str, str]) -> Config:
    """Load the configuration of an observation.

    Raises:
        ConfigError: It has mistakes.
        UsageError: Flags are given that do not go together.
    """
    path = Path(arguments.config_file) if arguments.config_file else None
    targets = _targets(arguments, environ)
    overrides = {
        key: getattr(arguments, flag)
        for flag, key in _OVERRIDES.items()
        if getattr(arguments, flag) is not None
    }
    _check_interval(arguments)
    config = observed_config(targets, arguments.seconds, path=path, environ=environ, overrides=overrides)
    if not config.targets:
        raise UsageError(
            f"{path} names no targets one by one; what discovery finds is not observed: give URLs"
        )
    return config


def _check_interval(arguments: argparse.Namespace) -> None:
    """Refuse an interval in which too little is seen; what is no duration the configuration refuses."""
    interval, most = seconds_of(arguments.poll_interval), (arguments.seconds or MAX_WINDOW) / MIN_POLLS
    if interval > most:
        raise UsageError(
            f"--poll.interval {arguments.poll_interval} is too long for --for "
            f"{format_duration(arguments.seconds)}: a server is asked {MIN_POLLS} times at least, so give "
            f"{format_duration(most)} at most"
        )


def _targets(arguments: argparse.Namespace, environ: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the targets that the command line names; none for those of the file."""
    if arguments.simulate:
        if arguments.urls or arguments.config_file:
            raise UsageError("--simulate brings its own target; it is for use without URLs and --config.file")
        return [arguments.simulated]
    settings = _settings(arguments, environ)
    if arguments.config_file and not arguments.urls:
        return []
    return [{"url": url, **settings} for url in arguments.urls or [DEFAULT_URL]]


def _settings(arguments: argparse.Namespace, environ: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Return what the flags say of every server."""
    settings: dict[str, dict[str, Any]] = {}
    said = understood(arguments.speculative_config)
    if said:
        settings["speculative"] = said
    for section, keys in sections(arguments, _OF_TARGETS).items():
        settings.setdefault(section, {}).update(keys)
    if arguments.tls_config_insecure_skip_verify:
        settings.setdefault("tls_config", {})["insecure_skip_verify"] = True
    token = environ.get(TOKEN)
    if token and "authorization" not in settings:
        settings["authorization"] = {"credentials": Expanded.of(token, f"${{{TOKEN}}}")}
    return settings


def sections(
    arguments: argparse.Namespace, flags: Mapping[str, tuple[str, str]]
) -> dict[str, dict[str, Any]]:
    """Return what is given of ``flags``, each of which stands for a key of a section."""
    said: dict[str, dict[str, Any]] = {}
    for flag, (section, key) in flags.items():
        value = getattr(arguments, flag)
        if value is not None:
            said.setdefault(section, {})[key] = value
    return said
