"""Sender of simulated requests to an exporter: what is sent, and what is reported."""

import json

import pytest
from aiohttp import web

from spec_decode_exporter.core.tasks import cancel, spawn
from spec_decode_exporter.simulator.request_sender import EVERY_SECONDS, RequestSender


@pytest.mark.parametrize(
    ("waiting", "statuses", "batches", "troubles"),
    [
        ([[1], [2]], [200, 200], [[1], [2]], []),
        ([[1], [2]], [404, 200], [[1], [2]], ["requests cannot be delivered: it answered 404"]),
        ([[*range(1001)], [1001]], [200, 200], [[*range(1000)], [1000, 1001]], []),
    ],
    ids=["taken", "refused", "as many as an exporter takes by default"],
)
async def test_a_batch_of_each_interval_is_sent_once(
    waiting, statuses, batches, troubles, aiohttp_server, clock, until
):
    received, reported = [], []

    async def take(request):
        assert request.content_type == "application/x-ndjson"
        received.append([json.loads(line)["number"] for line in (await request.text()).splitlines()])
        return web.json_response({}, status=statuses[len(received) - 1])

    app = web.Application()
    app.router.add_post("/api/v1/requests", take)
    server = await aiohttp_server(app)
    sender = RequestSender(reported.append, clock)
    task = spawn(sender.send_for_ever(str(server.make_url("/"))))
    for number, each in enumerate(waiting, 1):
        for place in each:
            sender.take({"number": place})
        await clock.advance(EVERY_SECONDS)
        await until(lambda number=number: len(received) == number)
        await until(lambda: clock.asleep)
    assert (received, reported) == (batches, troubles)
    await cancel([task])


async def test_an_exporter_that_refuses_connections_is_reported_once(clock, until, unused_tcp_port):
    reported = []
    sender = RequestSender(reported.append, clock)
    task = spawn(sender.send_for_ever(f"http://127.0.0.1:{unused_tcp_port}/"))
    sender.take({"number": 1})
    for _ in range(3):
        await clock.advance(EVERY_SECONDS)
        await until(lambda: clock.asleep)
    assert len(reported) == 1
    assert "cannot be delivered" in reported[0]
    await cancel([task])
