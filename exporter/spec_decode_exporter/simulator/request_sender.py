"""Hands what the responses say over to an exporter, as the middleware in a vLLM or a gateway would."""

from __future__ import annotations

import json
from collections import deque
from typing import TYPE_CHECKING, Final

from aiohttp import ClientConnectorError, ClientError, ClientSession, ClientTimeout, DummyCookieJar
from yarl import URL

from spec_decode_exporter.core.clock import Clock, SystemClock
from spec_decode_exporter.core.once_until_recovered import OnceUntilRecovered

if TYPE_CHECKING:
    from collections.abc import Callable

    from spec_decode_exporter.simulator.response_metrics import Answer

PATH: Final = "api/v1/requests"
EVERY_SECONDS: Final = 0.5
"""From one batch to the next."""
_MOST_KEPT: Final = 10_000
"""Requests that wait; beyond it the oldest are dropped, as nobody may be there to take them."""
_MOST_AT_ONCE: Final = 1000
_TIMEOUT: Final = ClientTimeout(total=5.0)
_LEAST_ERROR: Final = 400
_AGAIN: Final = frozenset((429, 503))
"""Statuses of a receiver that wants the same later."""


class RequestSender:
    """Posts what it takes to an exporter in batches, as NDJSON.

    What could not be delivered for want of a connection, or was put off, waits; what might have arrived is
    not sent twice.
    """

    def __init__(self, trouble: Callable[[str], None], clock: Clock | None = None) -> None:
        """Be ready to take requests; ``trouble`` is told why they cannot be delivered, once."""
        self._trouble = trouble
        self._clock = clock or SystemClock()
        self._kept: deque[bytes] = deque(maxlen=_MOST_KEPT)
        self._failures = OnceUntilRecovered()

    def take(self, answer: Answer) -> None:
        """Take one request, to be sent with the next batch."""
        self._kept.append(json.dumps(answer).encode())

    async def send_for_ever(self, exporter: str) -> None:
        """Send a batch now and then to the exporter whose pages are at this URL, until it is cancelled."""
        url = URL(exporter) / PATH
        async with ClientSession(timeout=_TIMEOUT, cookie_jar=DummyCookieJar()) as session:
            while True:
                await self._clock.sleep_until(self._clock.monotonic() + EVERY_SECONDS)
                await self._send(session, url)

    async def _send(self, session: ClientSession, url: URL) -> None:
        while self._kept:
            batch = [self._kept.popleft() for _ in range(min(len(self._kept), _MOST_AT_ONCE))]
            if not await self._posted(session, url, batch):
                return

    async def _posted(self, session: ClientSession, url: URL, batch: list[bytes]) -> bool:
        try:
            said = await _answer(session, url, b"\n".join(batch))
        except (ClientError, TimeoutError) as error:
            if isinstance(error, ClientConnectorError):
                self._kept.extendleft(reversed(batch))
            self._failed(str(error) or "no answer in time")
            return False
        if said in _AGAIN:
            self._kept.extendleft(reversed(batch))
        if said >= _LEAST_ERROR:
            self._failed(f"it answered {said}")
            return False
        self._failures.recovered()
        return True

    def _failed(self, reason: str) -> None:
        if self._failures.failed():
            self._trouble(f"requests cannot be delivered: {reason}")


async def _answer(session: ClientSession, url: URL, body: bytes) -> int:
    headers = {"Content-Type": "application/x-ndjson"}
    async with session.post(url, data=body, headers=headers) as answer:
        await answer.read()
        return answer.status
