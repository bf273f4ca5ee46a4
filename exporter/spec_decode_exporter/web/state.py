"""Interface of the web stage to the application: the values and callables that its handlers read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from aiohttp import web

from spec_decode_exporter.core.isolation import Isolation
from spec_decode_exporter.web.security.hosts import EVERY_HOST, AllowedHosts

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from spec_decode_exporter.core.clock import Clock
    from spec_decode_exporter.metrics.page import MetricsPage
    from spec_decode_exporter.monitor.event_log import EventLog
    from spec_decode_exporter.monitor.request_receiver import RequestReceiver
    from spec_decode_exporter.monitor.snapshot import Snapshot
    from spec_decode_exporter.views.fleet_view import TargetView
    from spec_decode_exporter.views.history import Histories


@dataclass(frozen=True, slots=True)
class AppState:
    """Data sources of all handlers. The callables run at each request and must return quickly."""

    version: str
    clock: Clock
    snapshot: Callable[[], Awaitable[Snapshot]]
    """Take a snapshot of every engine, experiment and request, at most once a second."""
    metrics: MetricsPage
    """Writer of ``/metrics``."""
    labels: Callable[[], Sequence[str]]
    """Return the label names of engines."""
    windows: Callable[[], Sequence[str]]
    """Return the configured windows, as in the label ``window``."""
    targets: Callable[[], Sequence[TargetView]]
    histories: Callable[[], Histories]
    events: EventLog
    config_text: Callable[[], str]
    """Return the active configuration as YAML, without its secrets."""
    receiver: Callable[[], RequestReceiver | None] = lambda: None
    """Return the receiver of single requests; None if the configuration disables it."""
    reload: Callable[[], Awaitable[None]] | None = None
    """Reload the configuration or raise ConfigError; None if the lifecycle API is disabled."""
    allowed_hosts: AllowedHosts = EVERY_HOST
    """Host names that clients may request."""
    errors: Isolation = field(default_factory=Isolation)
    """Omits items that fail with an internal error, and logs each error once."""


STATE: Final = web.AppKey("state", AppState)
