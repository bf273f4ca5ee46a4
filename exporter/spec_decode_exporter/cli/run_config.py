"""Configuration of ``run``, from its flags and its file."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

from spec_decode_exporter.app.reload import load_config
from spec_decode_exporter.cli.setting_flags import (
    BASELINE_FLAGS,
    GENERAL_FLAGS,
    RUN_FLAGS,
    TARGET_FLAGS,
    overrides,
    sections,
    vllm_speculation,
)
from spec_decode_exporter.config.cost_settings import SpeculativeSettings
from spec_decode_exporter.config.environment import FromVariable
from spec_decode_exporter.config.schema import DEFAULT_URL, Config
from spec_decode_exporter.config.target_settings import TargetSettings
from spec_decode_exporter.core.user_errors import UsageError


def read_config(arguments: argparse.Namespace, environ: Mapping[str, str]) -> Config:
    """Load the configuration that the flags of ``run`` ask for.

    Raises:
        ConfigError: It has mistakes.
        UsageError: Targets come from more than one of a file, flags and the simulator.
    """
    values = overrides(arguments, (*GENERAL_FLAGS, *BASELINE_FLAGS, *RUN_FLAGS))
    targets = _targets(arguments)
    if targets:
        values["targets"] = targets
    if arguments.simulated:
        values["requests.ingest"] = True  # the simulator sends its requests
    path = Path(arguments.config_file) if arguments.config_file else None
    config = load_config(path, environ=environ, overrides=values)
    return _with_speculation(config, vllm_speculation(arguments.speculative_config))


def _targets(arguments: argparse.Namespace) -> list[dict[str, object]]:
    """Return the targets that the flags name; empty if no flag is about targets."""
    if arguments.simulate and (arguments.target or arguments.config_file):
        raise UsageError("--simulate brings its own target; use it without --target and --config.file")
    if arguments.config_file:
        flags = {flag.name: getattr(arguments, flag.destination) for flag in TARGET_FLAGS}
        _reject_beside_file({"--target": next(iter(arguments.target), None), **flags})
    settings = sections(arguments, TARGET_FLAGS)
    if arguments.simulated:
        return [{**arguments.simulated, **settings}]
    urls = arguments.target or ([DEFAULT_URL] if settings else [])
    return [{"url": url, **settings} for url in urls]


def _with_speculation(config: Config, speculation: Mapping[str, object]) -> Config:
    """Add ``speculation`` to every configured target, except for keys that the target sets itself."""
    if not speculation:
        return config
    targets = (
        target.model_copy(
            update={"speculative": SpeculativeSettings.model_validate({**speculation, **_own(target)})}
        )
        for target in config.targets
    )
    return config.model_copy(update={"targets": tuple(targets)})


def _own(target: TargetSettings) -> dict[str, object]:
    return target.speculative.model_dump(exclude_none=True) if target.speculative else {}


def _reject_beside_file(flags: Mapping[str, str | None]) -> None:
    for flag, value in flags.items():
        if value is not None:
            name = value.origin if isinstance(value, FromVariable) else flag
            raise UsageError(
                f"{name} is for use without --config.file; put it into the file, under `targets`"
            )
