"""The configuration in effect as YAML, for ``/config``; the types in ``values`` and ``url`` hide secrets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import yaml

if TYPE_CHECKING:
    from spec_decode_exporter.config.schema import Config


def active_yaml(config: Config) -> str:
    """Return the configuration without keys that have no value, secrets, or queries of addresses."""
    written = _trimmed(config.model_dump(mode="json"))
    return yaml.safe_dump(written, sort_keys=False, allow_unicode=True)


def _trimmed(value: object) -> object:
    """Omit keys without a value."""
    if isinstance(value, dict):
        trimmed = {key: _trimmed(inner) for key, inner in value.items()}
        return {key: inner for key, inner in trimmed.items() if inner not in (None, {}, [])}
    return [_trimmed(inner) for inner in value] if isinstance(value, list) else value
