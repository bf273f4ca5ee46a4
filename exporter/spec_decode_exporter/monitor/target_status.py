"""Plain records of the status of a target and of the exporter."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from spec_decode_exporter.discovery.target import Target, address
from spec_decode_exporter.monitor.target_engines import TargetEngines
from spec_decode_exporter.scrape.page.sample import PageReading
from spec_decode_exporter.scrape.poll.poll_record import PollRecord
from spec_decode_exporter.scrape.poll_errors import Reason


@dataclass(frozen=True, slots=True)
class TargetStatus:
    """Status of one target and of its polls. An unknown value is None or empty."""

    up: bool | None = None
    engine_kind: str = ""
    front_end: str = ""
    page: str = ""
    """``filtered`` or ``whole``."""
    version: str = ""
    polls: int = 0
    failures: Mapping[Reason, int] | None = None
    """Failed polls by reason."""
    poll_seconds: float | None = None
    poll_bytes: int | None = None
    interval: float = 0.0
    """Effective poll interval in seconds."""
    last_success: float | None = None
    """Unix time."""
    engines_on_page: int | None = None
    """Engines on the newest page; None before the first page and while the target is down."""
    engines_not_monitored: int = 0
    """Engines of the newest page beyond the limit."""
    name: str = ""
    address: str = ""
    """``host:port/path``, without user, password and query."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels of its metrics, ``target`` included."""
    discovery: str = ""
    error: str = ""
    """Reason and message of the newest poll's failure."""
    failure: str = ""
    """Reason of the newest poll's failure; of a rejected one the status too: ``status 401``."""
    engines: tuple[tuple[str, str], ...] = ()
    """Labels ``model_name`` and ``engine`` of its engines."""


def status_of(
    target: Target,
    record: PollRecord,
    server: PageReading,
    engines: TargetEngines,
    *,
    interval: float,
    names: Iterable[tuple[str, str]],
) -> TargetStatus:
    """Return the status of a target.

    Args:
        target: The target.
        record: Record of its polls.
        server: Server data of its newest page.
        engines: Its engines.
        interval: Effective poll interval in seconds.
        names: Labels ``model_name`` and ``engine`` of its engines.
    """
    return TargetStatus(
        up=record.up,
        engine_kind=server.engine_kind,
        front_end=server.front_end,
        page=record.page,
        version=record.version,
        polls=record.polls,
        failures=record.failures,
        poll_seconds=record.seconds,
        poll_bytes=record.size,
        interval=interval,
        last_success=record.last_success,
        engines_on_page=record.engines,
        engines_not_monitored=engines.not_monitored,
        name=target.name,
        address=f"{address(target.url)}{urlsplit(target.url).path}",
        labels=engines.target_labels,
        discovery=target.discovery,
        error=f"{record.error}: {record.message}" if record.error else "",
        failure=_failure(record),
        engines=tuple(names),
    )


def _failure(record: PollRecord) -> str:
    status = re.match(r"status \d{3}\b", record.message) if record.error == "status" else None
    return status[0] if status else record.error


@dataclass(frozen=True, slots=True)
class ExporterStatus:
    """Status of the exporter itself."""

    version: str
    revision: str
    python_version: str
    targets: Mapping[str, int]
    """Number of targets by kind of discovery."""
    reload_successful: bool
    reload_success_timestamp: float
    """Unix time."""
    config_hash: int
    web_reload_successful: bool | None = None
    """None without a web configuration."""
    targets_not_monitored: int = 0
    """Discovered targets beyond the limit."""
    external_url: str = ""
    """Address of the pages in a browser; empty if unknown."""
    log_lines_dropped: int = 0
    """Log lines dropped because their reader does not read."""
