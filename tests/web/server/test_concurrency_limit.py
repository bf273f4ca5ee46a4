"""Concurrent requests. Here clients differ by their loopback address."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest
from structlog.testing import capture_logs

from spec_decode_exporter.monitor.snapshot import Snapshot
from spec_decode_exporter.web.application import create_app
from spec_decode_exporter.web.server.concurrency_limit import (
    MAX_CONCURRENT,
    MAX_CONCURRENT_PER_CLIENT,
    MAX_SCRAPES_PER_CLIENT,
)
from spec_decode_exporter.web.server.http_server import serve
from spec_decode_exporter.web.server.listen import parse_listen_address

LARGE_PAGES = ["/", "/fragment", "/api/v1/snapshot", "/api/v1/engines/x", "/api/v1/requests"]


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
    monkeypatch.setattr(
        "spec_decode_exporter.web.server.concurrency_limit.client_address",
        lambda transport: transport.get_extra_info("peername")[0],
    )
    running = []

    async def make(state):
        server = await serve(create_app(state), [parse_listen_address("127.0.0.1:0")])
        clients = Clients(server.urls[0].rstrip("/"))
        running.append((clients, server))
        return clients

    yield make
    for clients, server in running:
        await clients.close()
        await server.close()


class Preparing:
    """Preparation of snapshots that waits for ``go_on``."""

    def __init__(self):
        self.go_on, self.begun = asyncio.Event(), 0

    async def __call__(self):
        self.begun += 1
        await self.go_on.wait()
        return Snapshot(number=1)


@pytest.fixture
async def preparing():
    preparing = Preparing()
    yield preparing
    preparing.go_on.set()


@pytest.mark.parametrize("path", LARGE_PAGES)
async def test_large_pages_take_no_permit_of_the_metrics(clients_of, make_state, until, path):
    never, begun = asyncio.Event(), []

    async def taken():
        begun.append(1)
        if len(begun) <= MAX_CONCURRENT:
            await never.wait()
        return Snapshot(number=1)

    clients = await clients_of(make_state(snapshot=taken))
    asked = [
        clients.get(path, client) for client in range(1, 5) for _ in range(MAX_CONCURRENT_PER_CLIENT + 1)
    ]
    await until(lambda: len(begun) == MAX_CONCURRENT)
    assert (await clients.get("/metrics")).status == 200
    never.set()
    await asyncio.gather(*asked)


async def test_a_request_that_waits_too_long_gets_503_with_retry_after(
    clients_of, make_state, preparing, until, monkeypatch
):
    clients = await clients_of(make_state(snapshot=preparing))
    asked = [clients.get("/metrics") for _ in range(MAX_SCRAPES_PER_CLIENT)]
    await until(lambda: preparing.begun == MAX_SCRAPES_PER_CLIENT)
    monkeypatch.setattr("spec_decode_exporter.web.server.concurrency_limit.WAIT_SECONDS", 0)
    answer = await clients.get("/metrics")
    assert answer.status == 503
    assert answer.headers["Retry-After"] == "1"
    assert (await clients.get("/-/healthy")).status == 200
    preparing.go_on.set()
    await asyncio.gather(*asked)


async def test_a_permit_is_released_when_the_handler_fails(clients_of, make_state):
    fails = [True] * (MAX_SCRAPES_PER_CLIENT + 1)

    async def fail():
        if fails:
            fails.pop()
            raise RuntimeError
        return Snapshot(number=1)

    clients = await clients_of(make_state(snapshot=fail))
    with capture_logs():
        assert {(await clients.get("/metrics")).status for _ in range(MAX_SCRAPES_PER_CLIENT + 1)} == {500}
    assert (await clients.get("/metrics")).status == 200


async def test_a_client_that_does_not_read_the_metrics_holds_no_permit(clients_of, make_state, until):
    """Slow readers at the address of Prometheus, such as behind one gateway, do not delay it."""
    begun = []

    async def taken():
        begun.append(1)
        return Snapshot(number=1)

    clients = await clients_of(make_state(snapshot=taken, series=200_000))
    host, port = clients.url.removeprefix("http://").split(":")
    writers = []
    for _ in range(MAX_SCRAPES_PER_CLIENT):
        _, writer = await asyncio.open_connection(host, int(port), limit=1, local_addr=("127.0.0.1", 0))
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        writers.append(writer)
    assert (await clients.get("/metrics")).status == 200
    for writer in writers:
        writer.transport.abort()
