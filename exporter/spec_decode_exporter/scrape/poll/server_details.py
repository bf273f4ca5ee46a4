"""Requests for ``/version`` and ``/server_info``: facts about a server that its metrics lack."""

from __future__ import annotations

import json
from collections.abc import Callable
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit, urlunsplit

from spec_decode_exporter.core.event import Event
from spec_decode_exporter.scrape.errors import PollError, StatusError
from spec_decode_exporter.scrape.http.client import Client, HttpResponse
from spec_decode_exporter.scrape.poll.poll_record import PollRecord
from spec_decode_exporter.scrape.poll.server_info import (
    MAX_RESPONSE_BYTES,
    SERVER_INFO_PATH,
    served_speculation,
    usable_label,
)

_MAX_VERSION: Final = 64


class ServerDetails:
    """Request a server's details after each start of the server, and write them into the poll record."""

    def __init__(self, url: str, client: Client, record: PollRecord, emit: Callable[[Event], None]) -> None:
        """Request the pages beside the metrics page at ``url``; ``emit`` takes events for the log."""
        self._url = url
        self._client = client
        self._record = record
        self._emit = emit
        self._is_wanted = True
        self._is_speculation_wanted = False

    def reset(self) -> None:
        """Request the details again with the next update: the server restarted."""
        self._is_wanted = True

    def is_due(self, moment: float) -> bool:
        """Return whether details are wanted at ``moment`` (monotonic)."""
        return (self._is_wanted or self._is_speculation_wanted) and self._record.details.is_due(moment)

    async def update(self, moment: float) -> None:
        """Request the wanted details at ``moment`` (monotonic); after a timeout, once more later."""
        self._record.details.done(moment)
        is_first, self._is_wanted = self._is_wanted, False
        if is_first:
            self._record.version = await self._version()
        is_late = await self._update_speculation()
        self._is_speculation_wanted = is_first and is_late

    async def _version(self) -> str:
        """Return the server's version; empty if an older server or a proxy does not serve it."""
        try:
            response = await self._get("version", "version")
            version = json.loads(response.body)["version"]
        except (PollError, ValueError, LookupError, TypeError, RecursionError):
            return ""
        return usable_label(version, _MAX_VERSION)

    async def _update_speculation(self) -> bool:
        """Update the reported speculation settings; return whether the request timed out.

        A failed request keeps the last settings, except for status 404: the server has no such page.
        """
        try:
            response = await self._get("server_info", SERVER_INFO_PATH)
        except PollError as error:
            if isinstance(error, StatusError) and error.status == HTTPStatus.NOT_FOUND:
                self._record.speculation = None
            return error.reason == "timeout"
        speculation = self._record.speculation = served_speculation(response.body)
        if speculation and speculation.problem:
            self._emit_unused("server_info", speculation.problem, speculation.problem)
        return False

    async def _get(self, source: str, page: str) -> HttpResponse:
        try:
            return await self._client.get(sibling_url(self._url, page), max_body=MAX_RESPONSE_BYTES)
        except PollError as error:
            if error.reason == "too_large":
                self._emit_unused(source, error.reason, str(error))
            raise

    def _emit_unused(self, source: str, kind: str, reason: str) -> None:
        event = self._record.unused_event(source, kind, reason)
        if event is not None:
            self._emit(event)


def sibling_url(url: str, page: str) -> str:
    """Return the URL of a page in the same folder as the metrics page."""
    parts = urlsplit(url)
    folder = parts.path.rstrip("/").rpartition("/")[0]
    return urlunsplit((parts.scheme, parts.netloc, f"{folder}/", "", "")) + page
