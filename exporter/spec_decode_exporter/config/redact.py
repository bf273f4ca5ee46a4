"""The configuration in effect, without its secrets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import yaml

if TYPE_CHECKING:
    from spec_decode_exporter.config.schema import Config


def redacted(config: Config) -> str:
    """Return the configuration as YAML, with ``<secret>`` for secrets and for the query of an address."""
    written = _trimmed(config.model_dump(mode="json"))
    return yaml.safe_dump(written, sort_keys=False, allow_unicode=True)


def _trimmed(value: object) -> object:
    """Omit keys without a value."""
    if isinstance(value, dict):
        trimmed = {key: _trimmed(inner) for key, inner in value.items()}
        return {key: inner for key, inner in trimmed.items() if inner not in (None, {}, [])}
    return [_trimmed(inner) for inner in value] if isinstance(value, list) else value
