"""What the web stage is given: values and callables, so that it knows nothing of the stages before it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from aiohttp import web

from spec_decode_exporter.core.internal_errors import InternalErrors
from spec_decode_exporter.web.page.page_data import PageData
from spec_decode_exporter.web.security.hosts import EVERY_HOST, AllowedHosts

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from prometheus_client.registry import Collector

    from spec_decode_exporter.web.api.api_source import ApiSource


@dataclass(frozen=True, slots=True)
class AppState:
    """Everything that the pages show. The callables are asked anew at each request and must be quick."""

    collectors: Sequence[Collector]
    prepare: Callable[[], Awaitable[int]]
    """Takes the snapshot that the collectors and the API read, once a second at most; returns its number."""
    api: ApiSource
    """What is to be said as JSON."""
    version: str
    page: Callable[[], PageData]
    """Everything that the page at ``/`` shows."""
    config_text: Callable[[], str]
    """The configuration in force as YAML, its secrets already blanked."""
    reload: Callable[[], Awaitable[None]] | None = None
    """Reads the configuration again, or raises ConfigError; None where the lifecycle API is off."""
    telemetry_path: str = "/metrics"
    allowed_hosts: AllowedHosts = EVERY_HOST
    """The host names that clients may ask for."""
    errors: InternalErrors = field(default_factory=InternalErrors)
    """Omits what cannot be shown, and logs it once."""


STATE: Final = web.AppKey("state", AppState)
