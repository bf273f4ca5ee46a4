"""Sends the metrics of responses to an exporter, as the middleware in vLLM or a gateway does."""

from __future__ import annotations

import json
from collections import deque
from typing import TYPE_CHECKING, Final

from aiohttp import ClientConnectorError, ClientError, ClientSession, ClientTimeout, DummyCookieJar
from yarl import URL

from spec_decode_exporter.core.clock import Clock, SystemClock
from spec_decode_exporter.core.recurring import OnceUntilRecovered

if TYPE_CHECKING:
    from collections.abc import Callable

    from spec_decode_exporter.simulator.response_metrics import Answer

PATH: Final = "api/v1/requests"
EVERY_SECONDS: Final = 0.5
"""Interval of the batches."""
_MAX_WAITING: Final = 10_000
"""Requests that wait; beyond it the oldest are dropped."""
_MAX_BATCH: Final = 1000
_TIMEOUT: Final = ClientTimeout(total=5.0)
_MIN_ERROR_STATUS: Final = 400
_RETRY_STATUSES: Final = frozenset((429, 503))
"""Statuses after which the batch is sent again."""


class RequestSender:
    """Posts requests to an exporter in batches, as NDJSON.

    A batch waits after a refused connection and after 429 or 503. A batch that may have arrived is never sent
    again.
    """

    def __init__(self, on_failure: Callable[[str], None], clock: Clock | None = None) -> None:
        """Prepare to send; ``on_failure`` is called with the reason of the first of several failures."""
        self._on_failure = on_failure
        self._clock = clock or SystemClock()
        self._waiting: deque[bytes] = deque(maxlen=_MAX_WAITING)
        self._failures = OnceUntilRecovered()

    def take(self, answer: Answer) -> None:
        """Queue one request for the next batch."""
        self._waiting.append(json.dumps(answer).encode())

    async def send_for_ever(self, exporter: str) -> None:
        """Send batches to the exporter at this URL until cancelled."""
        url = URL(exporter) / PATH
        async with ClientSession(timeout=_TIMEOUT, cookie_jar=DummyCookieJar()) as session:
            while True:
                await self._clock.sleep_until(self._clock.monotonic() + EVERY_SECONDS)
                await self._send(session, url)

    async def _send(self, session: ClientSession, url: URL) -> None:
        while self._waiting:
            batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), _MAX_BATCH))]
            if not await self._posted(session, url, batch):
                return

    async def _posted(self, session: ClientSession, url: URL, batch: list[bytes]) -> bool:
        try:
            status = await _answer(session, url, b"\n".join(batch))
        except (ClientError, TimeoutError) as error:
            if isinstance(error, ClientConnectorError):
                self._waiting.extendleft(reversed(batch))
            self._failed(str(error) or "no answer in time")
            return False
        if status in _RETRY_STATUSES:
            self._waiting.extendleft(reversed(batch))
        if status >= _MIN_ERROR_STATUS:
            self._failed(f"it answered {status}")
            return False
        self._failures.recovered()
        return True

    def _failed(self, reason: str) -> None:
        if self._failures.failed():
            self._on_failure(f"requests cannot be delivered: {reason}")


async def _answer(session: ClientSession, url: URL, body: bytes) -> int:
    headers = {"Content-Type": "application/x-ndjson"}
    async with session.post(url, data=body, headers=headers) as answer:
        await answer.read()
        return answer.status
