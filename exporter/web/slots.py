"""How many pages are made at a time: a page of many engines takes memory until its client has read it."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from aiohttp import hdrs, web

from exporter.web.turns import Turns

if TYPE_CHECKING:
    from aiohttp.typedefs import Handler

MOST: Final = 16
"""Pages made and sent at a time. Two Prometheus servers and a few people need no more than a handful."""


class Slots:
    """Refuses what comes while all slots are taken; nobody waits in a queue, which would only grow.

    All slots together have the time of the event loop that ``Turns`` gives them.
    """

    def __init__(self, slots: int = MOST) -> None:
        self._slots = self._free = slots
        self._turns = Turns()

    def limit(self, handler: Handler) -> Handler:
        """Return the handler with a slot for each request, until the last byte of its answer is sent."""

        async def limited(request: web.Request) -> web.StreamResponse:
            if not self._free:
                return _busy(self._slots)
            self._free -= 1
            try:
                return await self._turns.take(_sent(request, handler))
            finally:
                self._free += 1

        return limited


async def _sent(request: web.Request, handler: Handler) -> web.StreamResponse:
    response = await handler(request)
    with suppress(ConnectionError):  # aiohttp sees it too, and lets go of the connection
        await response.prepare(request)
        await response.write_eof()
    return response


def _busy(slots: int) -> web.Response:
    return web.Response(
        status=503,
        text=f"{slots} requests like this are in hand already; come again later.\n",
        headers={hdrs.RETRY_AFTER: "1"},
    )
