"""Requests for ``/version`` and ``/server_info``: facts about a server that its metrics lack."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Final

from spec_decode_exporter.core.event import Event
from spec_decode_exporter.core.urls import Url
from spec_decode_exporter.scrape.client import Client
from spec_decode_exporter.scrape.errors import PollError, StatusError
from spec_decode_exporter.scrape.poll_record import PollRecord
from spec_decode_exporter.scrape.server_info import served_speculation, served_version

SERVER_INFO_PATH: Final = "server_info?config_format=json"
"""Path beside the metrics page. An older vLLM ignores the query and returns text in the JSON."""
DETAILED: Final = frozenset({"vllm", "sglang"})
"""Kinds of engines with such pages; SGLang has no ``/version``."""
MAX_RESPONSE_BYTES: Final = 128 * 1024
"""Maximum bytes of a response to ``/server_info`` or ``/version``. vLLM's has 22 kB, SGLang's more."""
DETAILS_INTERVAL: Final = 60.0
"""Minimum seconds between two requests for details, also if counters appear to restart with every poll.

After a timeout ``/server_info`` is requested once more: vLLM collects the host's programs, drivers and
packages for its first response, which took 2 s without a GPU. vLLM keeps the result.
"""


class ServerDetails:
    """Requests a server's details after each of its starts, and writes them into the poll record."""

    def __init__(self, url: str, client: Client, record: PollRecord, emit: Callable[[Event], None]) -> None:
        """Request the pages beside the metrics page at ``url``; ``emit`` takes events for the log."""
        self._url, self._client, self._record, self._emit = url, client, record, emit
        self.reset()

    def reset(self) -> None:
        """Request the details again with the next update: the server restarted."""
        self._attempts = 2

    def is_due(self, moment: float) -> bool:
        """Return whether details are wanted at ``moment`` (monotonic)."""
        return self._attempts > 0 and moment >= self._record.details_at + DETAILS_INTERVAL

    async def update(self, moment: float) -> None:
        """Request the details at ``moment`` (monotonic); after a timeout, once more later.

        A failed request keeps the last settings, except for status 404: the server has no such page.
        """
        record = self._record
        record.details_at, self._attempts = moment, self._attempts - 1
        version = await self._get("version", "version")
        record.version = served_version(version) if isinstance(version, bytes) else ""
        answer = await self._get("server_info", SERVER_INFO_PATH)
        if isinstance(answer, bytes):
            record.speculation = served_speculation(answer)
            if record.speculation and (problem := record.speculation.problem):
                self._emit_unused("server_info", problem, problem)
        elif isinstance(answer, StatusError) and answer.status == HTTPStatus.NOT_FOUND:
            record.speculation = None
        if not isinstance(answer, PollError) or answer.reason != "timeout":
            self._attempts = 0

    async def _get(self, source: str, page: str) -> bytes | PollError:
        try:
            response = await self._client.get(
                str(Url.of(self._url).sibling(page)), max_body=MAX_RESPONSE_BYTES
            )
        except PollError as error:
            if error.reason == "too_large":
                self._emit_unused(source, error.reason, str(error))
            return error
        return response.body

    def _emit_unused(self, source: str, kind: str, reason: str) -> None:
        if (event := self._record.unused_event(source, kind, reason)) is not None:
            self._emit(event)
