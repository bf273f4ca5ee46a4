"""Limits of concurrent requests."""

import asyncio
from unittest.mock import AsyncMock

import pytest
from aiohttp import web

from spec_decode_exporter.monitor.snapshot import Snapshot
from spec_decode_exporter.web import limits as module
from spec_decode_exporter.web.application import create_app
from spec_decode_exporter.web.limits import Limit
from tests.unit.web.plain_state import plain_state


async def test_a_handler_that_fails_frees_its_place(aiohttp_client):
    app = web.Application()
    handler = AsyncMock(side_effect=[ZeroDivisionError, ZeroDivisionError, web.Response()])
    app.router.add_get("/", Limit(1).limit(handler))
    client = await aiohttp_client(app)
    assert [(await client.get("/")).status for _ in range(3)] == [500, 500, 200]


async def test_a_request_that_waits_too_long_gets_503_and_its_connection_is_closed(
    aiohttp_client, monkeypatch
):
    """Requests that were sent ahead would hold the connection, each for some seconds."""
    begun, go_on, app = asyncio.Event(), asyncio.Event(), web.Application()

    async def wait(_request):
        begun.set()
        await go_on.wait()
        return web.Response()

    app.router.add_get("/", Limit(1).limit(wait))
    client = await aiohttp_client(app)
    monkeypatch.setattr(module, "WAIT_SECONDS", 0)
    first = asyncio.create_task(client.get("/"))
    await begun.wait()
    answer = await client.get("/")
    assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
    assert answer.headers["Connection"] == "close"
    go_on.set()
    assert (await first).status == 200


@pytest.mark.parametrize(
    "path", ["/", "/fragment", "/api/v1/snapshot", "/api/v1/engines/x", "/api/v1/requests"]
)
async def test_large_pages_take_no_place_of_the_metrics(aiohttp_client, until, path):
    never, begun = asyncio.Event(), []

    async def taken():
        begun.append(1)
        if len(begun) <= 8:
            await never.wait()
        return Snapshot(number=1)

    client = await aiohttp_client(create_app(plain_state(snapshot=taken)))
    asked = [asyncio.create_task(client.get(path)) for _ in range(12)]
    await until(lambda: len(begun) == 8)
    assert (await client.get("/metrics")).status == 200
    never.set()
    await asyncio.gather(*asked)


async def test_a_client_that_does_not_read_loses_its_connection_and_its_place(
    aiohttp_client, monkeypatch, until
):
    app, sending = web.Application(), []

    async def large(request):
        sending.append(request.transport)
        return web.Response(body=b"x" * 30_000_000)

    app.router.add_get("/", Limit(1).limit(large))
    client = await aiohttp_client(app)
    with monkeypatch.context() as patched:
        patched.setattr(module, "SEND_SECONDS", 0.01)
        for number in range(3):
            _, writer = await asyncio.open_connection(client.host, client.port, limit=1)
            writer.transport.pause_reading()
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            await until(lambda number=number: len(sending) == number + 1 and sending[-1].is_closing())
            writer.transport.abort()
    assert (await client.get("/")).status == 200
