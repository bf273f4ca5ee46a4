"""Sender of simulated requests to an exporter: what is sent, and what is reported."""

import asyncio
import contextlib
import json

import pytest
from aiohttp import web

from spec_decode_exporter.simulator.simulated_server import SEND_SECONDS, RequestSender


@pytest.mark.parametrize(
    ("statuses", "batches", "troubles"),
    [
        ([], [[1], [2]], []),
        ([404], [[1], [2]], ["requests cannot be delivered: it answered 404"]),
        ([], [[*range(1000)], [1000, 2]], []),
    ],
    ids=["taken", "refused", "as many as an exporter takes by default"],
)
async def test_a_batch_of_each_interval_is_sent_once(statuses, batches, troubles, clock, until, capsys):
    received, left = [], list(statuses)

    async def take(request):
        assert request.content_type == "application/x-ndjson"
        received.append([json.loads(line)["number"] for line in (await request.text()).splitlines()])
        return web.json_response({}, status=left.pop(0) if left else 200)

    app = web.Application()
    app.router.add_post("/api/v1/requests", take)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    sender = RequestSender(clock)
    task = asyncio.ensure_future(sender.send_for_ever(f"http://127.0.0.1:{runner.addresses[0][1]}/"))
    for waiting in [*batches[0], *batches[1][:-1]]:
        sender.take({"number": waiting})
    for number in range(1, len(batches) + 1):
        if number == len(batches):
            sender.take({"number": 2})
        await clock.advance(SEND_SECONDS)
        await until(lambda number=number: len(received) == number)
        await until(lambda: clock.asleep)
    assert (received, capsys.readouterr().err.splitlines()) == (batches, troubles)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    await runner.cleanup()


async def test_an_exporter_that_refuses_connections_is_reported_once(clock, until, unused_tcp_port, capsys):
    sender = RequestSender(clock)
    task = asyncio.ensure_future(sender.send_for_ever(f"http://127.0.0.1:{unused_tcp_port}/"))
    sender.take({"number": 1})
    for _ in range(3):
        await clock.advance(SEND_SECONDS)
        await until(lambda: clock.asleep)
    [reported] = capsys.readouterr().err.splitlines()
    assert "cannot be delivered" in reported
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
