"""Sends the metrics of responses to an exporter, as the middleware in vLLM or a gateway does."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable
from typing import Final

from aiohttp import ClientError, ClientSession, ClientTimeout, DummyCookieJar
from yarl import URL

from spec_decode_exporter.core.clock import Clock
from spec_decode_exporter.core.recurring import OnceUntilRecovered
from spec_decode_exporter.simulator.simulated_request import Answer

EVERY_SECONDS: Final = 0.5
"""Interval of the batches."""
_MAX_WAITING: Final = 10_000
"""Requests that wait; beyond it the oldest are dropped."""
_MAX_BATCH: Final = 1000  # twice a second: the exporter's default rate, also after the past of a demo


class RequestSender:
    """Posts requests to an exporter in batches, as NDJSON; a batch that it does not take is lost."""

    def __init__(self, on_failure: Callable[[str], None], clock: Clock | None = None) -> None:
        """Call ``on_failure`` with the reason of the first of several failures."""
        self._on_failure = on_failure
        self._clock = clock or Clock()
        self._waiting: deque[bytes] = deque(maxlen=_MAX_WAITING)
        self._failures = OnceUntilRecovered()

    def take(self, answer: Answer) -> None:
        """Queue one request for the next batch."""
        self._waiting.append(json.dumps(answer).encode())

    async def send_for_ever(self, exporter: str) -> None:
        """Send batches to the exporter at this URL until cancelled."""
        url = URL(exporter) / "api/v1/requests"
        async with ClientSession(timeout=ClientTimeout(total=5.0), cookie_jar=DummyCookieJar()) as session:
            while True:
                await self._clock.sleep_until(self._clock.monotonic() + EVERY_SECONDS)
                if self._waiting:
                    await self._send(session, url)

    async def _send(self, session: ClientSession, url: URL) -> None:
        batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), _MAX_BATCH))]
        reason = ""
        try:
            headers = {"Content-Type": "application/x-ndjson"}
            async with session.post(url, data=b"\n".join(batch), headers=headers) as answer:
                await answer.read()
                reason = "" if answer.ok else f"it answered {answer.status}"
        except (ClientError, TimeoutError) as error:
            reason = str(error) or "no answer in time"
        if not reason:
            self._failures.recovered()
        elif self._failures.failed():
            self._on_failure(f"requests cannot be delivered: {reason}")
