"""The configuration that the flags of ``run`` ask for."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import structlog

from spec_decode_exporter.app.load_config import load_config
from spec_decode_exporter.cli.flags import UsageError, destination
from spec_decode_exporter.config.environment import FromVariable
from spec_decode_exporter.config.schema import DEFAULT_URL, Config, SpeculativeSettings, TargetSettings
from spec_decode_exporter.discovery.vllm_command_line import config_speculation

_log = structlog.get_logger()

_OVERRIDES: Final = {
    "poll_interval": "poll.interval",
    "cost_draft_cost_ratio": "cost.draft_cost_ratio",
    "cost_draft_parameters": "cost.draft_parameters",
    "cost_target_parameters": "cost.target_parameters",
    "state_file": "state.file",
    "shard_index": "discovery.shard.index",
    "shard_count": "discovery.shard.count",
    "log_level": "log.level",
    "log_format": "log.format",
    "log_summary_interval": "log.summary_interval",
}
"""Flags that stand for a key of the configuration."""

_SPECULATIVE: Final = {
    "--speculative.method": "method",
    "--speculative.tokens": "tokens",
    "--speculative.draft-model": "draft_model",
}
"""Flags that stand for a key under ``speculative``, on every target that no file names."""

SPECULATIVE_CONFIG: Final = "--speculative.config"
"""The flag that says it in vLLM's own words, where neither those flags nor a file do."""


def read_config(arguments: argparse.Namespace, environ: Mapping[str, str]) -> Config:
    """Load the configuration that the flags of ``run`` ask for.

    Raises:
        ConfigError: It has mistakes.
        UsageError: Targets come from more than one of a file, flags and the simulator.
    """
    overrides: dict[str, object] = {
        key: getattr(arguments, flag)
        for flag, key in _OVERRIDES.items()
        if getattr(arguments, flag) is not None
    }
    targets = _targets(arguments)
    if targets:
        overrides["targets"] = targets
    if arguments.simulated:
        overrides["requests.ingest"] = True  # it sends them, so that there is something to see
    path = Path(arguments.config_file) if arguments.config_file else None
    config = load_config(path, environ=environ, overrides=overrides)
    return _told(config, understood(arguments.speculative_config))


def _targets(arguments: argparse.Namespace) -> list[dict[str, object]]:
    """Return the targets that the flags name; none, if they say nothing of targets."""
    said = {flag: getattr(arguments, destination(flag)) for flag in _SPECULATIVE}
    if arguments.simulate and (arguments.target or arguments.config_file):
        raise UsageError("--simulate is for use without --target and --config.file; it brings its own target")
    if arguments.config_file:
        _refuse_beside_file({"--target": next(iter(arguments.target), None), **said})
    speculative = {_SPECULATIVE[flag]: value for flag, value in said.items() if value is not None}
    more = {"speculative": speculative} if speculative else {}
    if arguments.simulated:
        return [{**arguments.simulated, **more}]
    urls = arguments.target or ([DEFAULT_URL] if speculative else [])
    return [{"url": url, **more} for url in urls]


def understood(text: str | None) -> dict[str, object]:
    """Return what vLLM's ``--speculative-config`` says.

    Who injects a sidecar copies it from the pod into the variable unseen: what cannot be understood there is
    no reason not to start.
    """
    if text is None:
        return {}
    try:
        found = config_speculation(text)
    except ValueError as error:
        if not isinstance(text, FromVariable):
            raise UsageError(f"{SPECULATIVE_CONFIG} {error}") from None
        _log.warning("variable_not_understood", variable=text.variable, reason=str(error))
        return {}
    said = {"method": found.method, "tokens": found.tokens, "draft_model": found.draft_model}
    return {key: value for key, value in said.items() if value}


def _told(config: Config, said: Mapping[str, object]) -> Config:
    """Give every configured target what is ``said`` of its speculation, where it does not say it itself."""
    if not said:
        return config
    targets = (
        target.model_copy(
            update={"speculative": SpeculativeSettings.model_validate({**said, **_own(target)})}
        )
        for target in config.targets
    )
    return config.model_copy(update={"targets": tuple(targets)})


def _own(target: TargetSettings) -> dict[str, object]:
    return target.speculative.model_dump(exclude_none=True) if target.speculative else {}


def _refuse_beside_file(said: Mapping[str, str | None]) -> None:
    for flag, value in said.items():
        if value is not None:
            name = value.variable if isinstance(value, FromVariable) else flag
            raise UsageError(
                f"{name} is for use without --config.file; put it into the file, under `targets`"
            )
