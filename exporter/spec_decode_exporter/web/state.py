"""Interface of the handlers to the exporter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from aiohttp import web

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from spec_decode_exporter.core.clock import Clock
    from spec_decode_exporter.core.isolation import Isolation
    from spec_decode_exporter.metrics.page import MetricsPage
    from spec_decode_exporter.monitor.event_log import EventLog
    from spec_decode_exporter.monitor.snapshot import Snapshot
    from spec_decode_exporter.requests.receiver import RequestReceiver
    from spec_decode_exporter.views.fleet_view import TargetView
    from spec_decode_exporter.web.hosts import AllowedHosts


class AppState(Protocol):
    """Data sources of all handlers; ``app.exporter_state`` has them. Its methods return quickly."""

    version: str
    clock: Clock
    events: EventLog
    metrics: MetricsPage
    """Writer of ``/metrics``."""
    errors: Isolation
    """Omits items that fail with an internal error, and logs each error once."""
    reload: Callable[[], Awaitable[None]] | None
    """Reload the configuration or raise ConfigError; None if the lifecycle API is disabled."""
    allowed_hosts: AllowedHosts
    """Host names that clients may request."""

    async def snapshot(self) -> Snapshot:
        """Take a snapshot of every engine, experiment and request, at most once a second."""

    def labels(self) -> Sequence[str]:
        """Return the label names of engines."""

    def windows(self) -> Sequence[str]:
        """Return the configured windows, as in the label ``window``."""

    def targets(self) -> Sequence[TargetView]:
        """Return the view of every target."""

    def receiver(self) -> RequestReceiver | None:
        """Return the receiver of single requests; None if the configuration disables it."""

    def config_text(self) -> str:
        """Return the active configuration as YAML, without its secrets."""


STATE: Final = web.AppKey("state", AppState)
