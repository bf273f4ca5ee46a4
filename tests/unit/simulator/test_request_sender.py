from __future__ import annotations

import asyncio
import contextlib
import json
import socket

import pytest
from aiohttp import web

from spec_decode_exporter.simulator.request_sender import EVERY_SECONDS, RequestSender


class Exporter:
    """Stand-in for the exporter: it keeps the posted requests, and answers with a scripted status."""

    def __init__(self):
        self._socket = socket.socket()
        self._socket.bind(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}/"
        app = web.Application()
        app.router.add_post("/api/v1/requests", self._take)
        self._runner = web.AppRunner(app)
        self.statuses = []
        self.batches = []

    async def _take(self, request):
        assert request.content_type == "application/x-ndjson"
        self.batches.append([json.loads(line)["number"] for line in (await request.text()).splitlines()])
        return web.json_response({}, status=self.statuses.pop(0) if self.statuses else 200)

    async def listen(self):
        await self._runner.setup()
        await web.SockSite(self._runner, self._socket).start()

    async def close(self):
        await self._runner.cleanup()
        self._socket.close()


@pytest.fixture
async def exporter():
    """Exporter that refuses connections until ``listen`` is called."""
    found = Exporter()
    yield found
    await found.close()


@pytest.fixture
async def sending(exporter, clock):
    """Running sender, with the failures that it reports."""
    troubles = []
    sender = RequestSender(troubles.append, clock)
    task = asyncio.ensure_future(sender.send_for_ever(exporter.url))
    yield sender, troubles
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


def take(sender, *numbers):
    for number in numbers:
        sender.take({"number": number})


async def test_the_sender_waits_for_the_exporter_and_reports_it_once(exporter, sending, clock, until):
    sender, troubles = sending
    take(sender, 1)
    await clock.advance(EVERY_SECONDS)
    await until(lambda: troubles)
    await clock.advance(EVERY_SECONDS)
    await exporter.listen()
    while not exporter.batches:
        await clock.advance(EVERY_SECONDS)
    assert exporter.batches == [[1]]
    assert len(troubles) == 1
    assert "cannot be delivered" in troubles[0]


async def test_a_deferred_batch_is_sent_again_and_a_refused_one_is_not(exporter, sending, clock, until):
    await exporter.listen()
    exporter.statuses = [503, 404]
    sender, troubles = sending
    take(sender, 1)
    for batches in (1, 2):
        await clock.advance(EVERY_SECONDS)
        await until(lambda batches=batches: len(exporter.batches) == batches)
        await until(lambda: troubles)
    take(sender, 2)
    while len(exporter.batches) < 3:
        await clock.advance(EVERY_SECONDS)
    assert exporter.batches == [[1], [1], [2]]
    assert troubles == ["requests cannot be delivered: it answered 503"]
