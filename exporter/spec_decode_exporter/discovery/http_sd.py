"""Targets from servers that list them, as for Prometheus' ``http_sd_configs``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spec_decode_exporter.config.http_settings import HeaderValues, HttpSettings
from spec_decode_exporter.config.url import without_query
from spec_decode_exporter.core.cooperative_yield import cooperatively
from spec_decode_exporter.discovery.group_reader import MAX_LIST_BYTES, json_groups
from spec_decode_exporter.discovery.protocol import DiscoveryError
from spec_decode_exporter.discovery.target_groups import Listing
from spec_decode_exporter.scrape.http.client import Client
from spec_decode_exporter.scrape.poll_errors import PollError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spec_decode_exporter.config.schema import HttpDiscovery, Scrape
    from spec_decode_exporter.discovery.target import Target

_TIMEOUT: Final = 10.0


class HttpListDiscovery:
    """The targets that one server lists."""

    kind: Final = "http"

    def __init__(self, settings: HttpDiscovery, scrape: Scrape) -> None:
        """Ask as ``settings`` say; the targets are asked as ``scrape`` says."""
        self.name = f"{self.kind} {without_query(settings.url)}"
        self.key = f"{self.kind} {settings.url}"
        self.refresh = settings.refresh_interval
        self._url = settings.url
        self._http = _announcing(settings.http, self.refresh)
        self._listing = Listing(self.name, self.kind, scrape, self.key)

    async def targets(self) -> Sequence[Target]:
        """Fetch the list: no redirects, at most ``MAX_LIST_BYTES``, within 10 s.

        Raises:
            DiscoveryError: There was no list, or it cannot be read.
        """
        client = Client(self._http, timeout=_TIMEOUT, max_body=MAX_LIST_BYTES)
        try:
            answer = await client.get(self._url)
        except PollError as error:
            raise DiscoveryError(str(error)) from None
        finally:
            await client.close()
        _check_json(answer.content_type)
        return await cooperatively(self._listing.read(json_groups(answer.body)))


def _announcing(http: HttpSettings, refresh: float) -> HttpSettings:
    """Add the headers that Prometheus sends with such a request."""
    headers = {"Accept": "application/json", "X-Prometheus-Refresh-Interval-Seconds": f"{refresh:g}"}
    added = {name: HeaderValues(values=(value,)) for name, value in headers.items()}
    return http.model_copy(update={"http_headers": {**http.http_headers, **added}})


def _check_json(content_type: str) -> None:
    kind = content_type.partition(";")[0].strip().lower()
    if kind != "application/json":
        raise DiscoveryError("the answer's Content-Type is not application/json")
