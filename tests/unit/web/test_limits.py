"""Limits of concurrent requests, by client. Here clients differ by their loopback address."""

from __future__ import annotations

import asyncio
import gzip

import aiohttp
import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.monitor.snapshot import Snapshot
from spec_decode_exporter.web import limits as module
from spec_decode_exporter.web.application import create_app
from spec_decode_exporter.web.limits import LOCAL, LOOPBACK, Limit, counted_address, packed
from spec_decode_exporter.web.server import parse_listen_address, serve
from tests.conftest import settle

LARGE_PAGES = ["/", "/fragment", "/api/v1/snapshot", "/api/v1/engines/x", "/api/v1/requests"]
TOTAL, OF_CLIENT = 8, 2


@pytest.mark.parametrize(
    ("peer", "counted"),
    [
        (("10.1.2.3", 40000), "10.1.2.3"),
        (("::ffff:10.1.2.3", 40000, 0, 0), "10.1.2.3"),
        (("2001:db8:1:2:3:4:5:6", 40000, 0, 0), "2001:db8:1:2::/64"),
        (("2001:db8:1:2::1", 40001, 0, 0), "2001:db8:1:2::/64"),
        (("fe80::1%eth0", 40001, 0, 2), "fe80::/64"),
        (("127.0.0.1", 40000), LOOPBACK),
        (("127.9.9.9", 40000), LOOPBACK),
        (("::1", 40000, 0, 0), LOOPBACK),
        (("::ffff:127.0.0.2", 40000, 0, 0), LOOPBACK),
        ("", LOCAL),
        (None, LOCAL),
        ((), LOCAL),
        (("no address", 1), LOCAL),
    ],
)
def test_a_client_is_counted_by_the_part_of_its_address_that_it_cannot_choose(peer, counted):
    assert counted_address(peer) == counted


@given(st.ip_addresses(v=6), st.integers(0, 2**64 - 1))
def test_all_addresses_of_a_network_are_one_client(address, host):
    other = type(address)((int(address) >> 64 << 64) | host)
    if not any(each.ipv4_mapped or each.is_loopback for each in (address, other)):
        assert counted_address((str(address), 1)) == counted_address((str(other), 2))


@given(st.binary(max_size=300), st.integers(0, 1000))
def test_a_packed_body_is_unpacked_to_the_same(data, times):
    assert gzip.decompress(asyncio.run(packed(data * times))) == data * times


class Clients:
    """Clients with different addresses."""

    def __init__(self, url):
        self.url, self.sessions = url, {}

    def get(self, path, client=1):
        if client not in self.sessions:
            connector = aiohttp.TCPConnector(local_addr=(f"127.0.0.{client}", 0), limit=0)
            self.sessions[client] = aiohttp.ClientSession(connector=connector)
        return asyncio.create_task(self._get(self.sessions[client], path))

    async def _get(self, session, path):
        async with session.get(self.url + path) as answer:
            await answer.read()
            return answer

    async def close(self):
        for session in self.sessions.values():
            await session.close()


@pytest.fixture
async def clients_of(monkeypatch):
    """Return a function that serves an application and returns its clients."""
    monkeypatch.setattr(module, "client_address", lambda transport: transport.get_extra_info("peername")[0])
    running = []

    async def make(app):
        server = await serve(app, [parse_listen_address("127.0.0.1:0")])
        clients = Clients(server.urls[0].rstrip("/"))
        running.append((clients, server))
        return clients

    yield make
    for clients, server in running:
        await clients.close()
        await server.close()


class Limited:
    """An application whose page waits for ``go_on`` in a place of a limit."""

    def __init__(self, total=TOTAL, per_client=OF_CLIENT):
        self.go_on, self.begun, self.app = asyncio.Event(), [], web.Application()
        self.app.router.add_get("/", Limit(total, per_client).limit(self.page))

    async def page(self, request):
        self.begun.append(request.query_string)
        await self.go_on.wait()
        return web.Response(text="here")


@pytest.mark.parametrize("path", LARGE_PAGES)
async def test_large_pages_take_no_place_of_the_metrics(clients_of, make_state, until, path):
    never, begun = asyncio.Event(), []

    async def taken():
        begun.append(1)
        if len(begun) <= TOTAL:
            await never.wait()
        return Snapshot(number=1)

    clients = await clients_of(create_app(make_state(snapshot=taken)))
    asked = [clients.get(path, client) for client in range(1, 5) for _ in range(OF_CLIENT + 1)]
    await until(lambda: len(begun) == TOTAL)
    assert (await clients.get("/metrics")).status == 200
    never.set()
    await asyncio.gather(*asked)


async def test_a_client_has_few_places_and_another_is_served_meanwhile(clients_of, until):
    limited = Limited(total=3, per_client=2)
    clients = await clients_of(limited.app)
    asked = [clients.get("/?greedy") for _ in range(5)]
    await until(lambda: len(limited.begun) == 2)
    asked.append(clients.get("/?other", client=2))
    await until(lambda: "other" in limited.begun)
    assert limited.begun == ["greedy", "greedy", "other"]
    limited.go_on.set()
    assert {answer.status for answer in await asyncio.gather(*asked)} == {200}


async def test_a_request_that_waits_too_long_gets_503_and_its_connection_is_closed(
    clients_of, until, monkeypatch
):
    """Requests that were sent ahead would hold the connection, each for some seconds."""
    limited = Limited()
    clients = await clients_of(limited.app)
    asked = [clients.get("/") for _ in range(OF_CLIENT)]
    await until(lambda: len(limited.begun) == OF_CLIENT)
    monkeypatch.setattr(module, "WAIT_SECONDS", 0)
    answer = await clients.get("/")
    assert answer.status == 503
    assert (answer.headers["Retry-After"], answer.headers["Connection"]) == ("1", "close")
    limited.go_on.set()
    await asyncio.gather(*asked)
    assert (await clients.get("/")).status == 200


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["ask", "end", "fail"])), max_size=40),
    st.integers(1, 4),
    st.integers(1, 3),
)
def test_no_place_is_lost_or_given_twice_even_if_a_handler_fails(steps, total, per_client):
    async def scenario():
        limit, running, asked = Limit(total, per_client), [], []

        async def handler(request):
            ended = asyncio.get_running_loop().create_future()
            running.append((request, ended))
            try:
                return await ended
            finally:
                running.remove((request, ended))

        async def end_first(step):
            if running and step == "fail":
                running[0][1].set_exception(ZeroDivisionError())
            elif running:
                running[0][1].set_result(Response())
            await settle(6)

        for client, step in steps:
            if step == "ask":
                asked.append(asyncio.create_task(limit.limit(handler)(Request(client))))
                await settle(6)
            else:
                await end_first(step)
            clients = [request.address for request, _ in running]
            assert len(clients) <= total
            assert all(clients.count(each) <= per_client for each in clients)
        while running:
            await end_first("end")
        await asyncio.gather(*asked, return_exceptions=True)
        assert not limit._clients
        assert limit._places._value == total

    asyncio.run(scenario())


class Request:
    """A request of a client at an address of its own."""

    def __init__(self, client):
        self.transport, self.address = self, f"10.0.0.{ord(client)}"

    def get_extra_info(self, _name):
        return self.address, 1


class Response:
    async def prepare(self, _request):
        pass

    async def write_eof(self):
        pass


async def test_a_client_that_does_not_read_loses_its_connection_and_its_place(clients_of, monkeypatch, until):
    app, sending = web.Application(), []

    async def large(request):
        sending.append(request.transport)
        return web.Response(body=b"x" * 30_000_000)

    app.router.add_get("/", Limit(1, 1).limit(large))
    clients = await clients_of(app)
    host, port = clients.url.removeprefix("http://").split(":")
    with monkeypatch.context() as patched:
        patched.setattr(module, "SEND_SECONDS", 0.01)
        for number in range(3):
            _, writer = await asyncio.open_connection(host, int(port), limit=1)
            writer.transport.pause_reading()
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            await until(lambda number=number: len(sending) == number + 1 and sending[-1].is_closing())
            writer.transport.abort()
    assert (await clients.get("/")).status == 200
