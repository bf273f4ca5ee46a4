"""Options of the service: settings that a reload does not change."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from spec_decode_exporter.web.security.hosts import EVERY_HOST, AllowedHosts
from spec_decode_exporter.web.server.listen import Address


@dataclass(frozen=True, slots=True)
class Options:
    """Settings that a reload does not change."""

    addresses: Sequence[Address]
    lifecycle: bool = False
    """Serve ``/-/reload``."""
    external_url: str = ""
    """Address of the pages in a browser, without a slash at its end; empty if unknown."""
    watched: Path | None = None
    """The configuration file to reload when its content changes; None without automatic reload."""
    web_config: Path | None = None
    """The file of ``--web.config.file``: TLS and users of the pages."""
    allowed_hosts: AllowedHosts = EVERY_HOST
    """Host names that a request may have."""
    log_lines_dropped: Callable[[], int] = lambda: 0
    """Returns the number of log lines that were dropped, because their reader does not read."""
    stopping: Callable[[], None] = lambda: None
    """Called at a signal to stop."""
