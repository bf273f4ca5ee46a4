"""Targets from lists over HTTP, in the format of Prometheus' ``http_sd_configs``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spec_decode_exporter.config.http_settings import HeaderValues, HttpSettings
from spec_decode_exporter.core.cooperative_yield import cooperatively
from spec_decode_exporter.core.urls import without_query
from spec_decode_exporter.discovery.group_reader import MAX_LIST_BYTES, json_groups
from spec_decode_exporter.discovery.target_discovery import DiscoveryError
from spec_decode_exporter.discovery.target_groups import Listing
from spec_decode_exporter.scrape.client import Client
from spec_decode_exporter.scrape.errors import PollError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spec_decode_exporter.config.target_settings import HttpDiscovery, Scrape
    from spec_decode_exporter.discovery.target import Target

_TIMEOUT: Final = 10.0


class HttpListDiscovery:
    """Targets in the list of one server."""

    kind: Final = "http"

    def __init__(self, settings: HttpDiscovery, scrape: Scrape) -> None:
        """Request the list with ``settings``; poll its targets with ``scrape``."""
        self.name = f"{self.kind} {without_query(settings.url)}"
        self.key = f"{self.kind} {settings.url}"
        self.refresh = settings.refresh_interval
        self._url = settings.url
        self._http = _with_headers(settings.http, self.refresh)
        self._listing = Listing(self.name, self.kind, scrape, self.key)

    async def targets(self) -> Sequence[Target]:
        """Fetch the list: no redirects, at most ``MAX_LIST_BYTES``, within 10 s.

        Raises:
            DiscoveryError: There is no list, or no readable one.
        """
        client = Client(self._http, timeout=_TIMEOUT, max_body=MAX_LIST_BYTES)
        try:
            response = await client.get(self._url)
        except PollError as error:
            raise DiscoveryError(str(error)) from None
        finally:
            await client.close()
        _check_json(response.content_type)
        return await cooperatively(self._listing.read(json_groups(response.body)))


def _with_headers(http: HttpSettings, refresh: float) -> HttpSettings:
    """Add the headers of Prometheus' requests for lists."""
    headers = {"Accept": "application/json", "X-Prometheus-Refresh-Interval-Seconds": f"{refresh:g}"}
    added = {name: HeaderValues(values=(value,)) for name, value in headers.items()}
    return http.model_copy(update={"http_headers": {**http.http_headers, **added}})


def _check_json(content_type: str) -> None:
    kind = content_type.partition(";")[0].strip().lower()
    if kind != "application/json":
        raise DiscoveryError("the answer's Content-Type is not application/json")
