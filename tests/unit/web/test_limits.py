"""Limits of concurrent requests."""

import asyncio

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.monitor.snapshot import Snapshot
from spec_decode_exporter.web import limits as module
from spec_decode_exporter.web.application import create_app
from spec_decode_exporter.web.limits import Limit
from tests.conftest import settle


class Response:
    async def prepare(self, _request):
        pass

    async def write_eof(self):
        pass


class Handling:
    """Requests in the places of a limit, each of which waits until it is ended."""

    def __init__(self, total):
        self.limit, self.running = Limit(total), []

    def ask(self):
        return asyncio.create_task(self.limit.limit(self._handle)(None))

    async def _handle(self, _request):
        ended = asyncio.get_running_loop().create_future()
        self.running.append(ended)
        try:
            return await ended
        finally:
            self.running.remove(ended)

    async def end(self, *, fails=False):
        if self.running and fails:
            self.running[0].set_exception(ZeroDivisionError())
        elif self.running:
            self.running[0].set_result(Response())
        await settle(6)


@given(st.lists(st.sampled_from(["ask", "end", "fail"]), max_size=40), st.integers(1, 4))
def test_no_place_is_lost_or_given_twice_even_if_a_handler_fails(steps, total):
    async def scenario():
        handling, asked = Handling(total), []
        for step in steps:
            if step == "ask":
                asked.append(handling.ask())
                await settle(6)
            else:
                await handling.end(fails=step == "fail")
            assert len(handling.running) <= total
        while handling.running:
            await handling.end()
        await asyncio.gather(*asked, return_exceptions=True)
        again = [handling.ask() for _ in range(total)]
        await settle(6)
        assert len(handling.running) == total
        for _ in again:
            await handling.end()
        await asyncio.gather(*again)

    asyncio.run(scenario())


async def test_a_request_that_waits_too_long_gets_503_and_its_connection_is_closed(monkeypatch):
    """Requests that were sent ahead would hold the connection, each for some seconds."""
    handling = Handling(total=2)
    asked = [handling.ask() for _ in range(2)]
    await settle(6)
    monkeypatch.setattr(module, "WAIT_SECONDS", 0)
    answer = await handling.ask()
    assert (answer.status, answer.headers["Retry-After"], answer.keep_alive) == (503, "1", False)
    while handling.running:
        await handling.end()
    await asyncio.gather(*asked)


@pytest.mark.parametrize(
    "path", ["/", "/fragment", "/api/v1/snapshot", "/api/v1/engines/x", "/api/v1/requests"]
)
async def test_large_pages_take_no_place_of_the_metrics(aiohttp_client, make_state, until, path):
    never, begun = asyncio.Event(), []

    async def taken():
        begun.append(1)
        if len(begun) <= 8:
            await never.wait()
        return Snapshot(number=1)

    client = await aiohttp_client(create_app(make_state(snapshot=taken)))
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
