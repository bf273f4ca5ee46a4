"""What the exporter's own metrics are read from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from spec_decode_exporter.scrape.poll_errors import Reason


@dataclass(frozen=True, slots=True)
class TargetStatus:
    """How the polls of one target go. What is not known yet is None or empty."""

    up: bool | None = None
    engine_kind: str = ""
    front_end: str = ""
    page: str = ""
    """``filtered`` or ``full``."""
    version: str = ""
    polls: int = 0
    failures: Mapping[Reason, int] | None = None
    poll_seconds: float | None = None
    poll_bytes: int | None = None
    interval: float = 0.0
    """The effective poll interval in seconds."""
    last_success: float | None = None
    """Unix time."""
    engines_forgotten: int = 0
    engines_not_watched: int = 0
    """Engines on the newest page that are not watched, since the limit is reached."""


@dataclass(frozen=True, slots=True)
class ExporterStatus:
    """The exporter itself."""

    version: str
    revision: str
    python_version: str
    targets: Mapping[str, int]
    """How many targets each kind of discovery found."""
    reload_successful: bool
    reload_success_timestamp: float
    """Unix time."""
    config_hash: int
    web_reload_successful: bool | None = None
    """None without a web configuration."""
    targets_not_watched: int = 0
    """Targets that were found and are not watched, since the limit is reached."""
