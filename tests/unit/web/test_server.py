"""Connections: what is closed when, what is counted, and which connection a new one replaces."""

from __future__ import annotations

import asyncio
import errno
import os
import re
import ssl
from types import SimpleNamespace

import pytest
import trustme
from aiohttp import web
from structlog.testing import capture_logs

from spec_decode_exporter.web import server as module
from spec_decode_exporter.web.application import create_app
from spec_decode_exporter.web.server import (
    HEAD_SECONDS,
    MAX_HEAD_BYTES,
    NO_TLS,
    RESERVED,
    SCARCE_CONNECTIONS,
    STALLED_SECONDS,
    Connection,
    Tls,
    parse_listen_address,
    serve,
)

REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
WAIT = b"GET /wait HTTP/1.1\r\nHost: x\r\n\r\n"
LARGE = b"x" * 32_000_000
HEADER = b"X: " + b"a" * 8000 + b"\r\n"


class Timer:
    def __init__(self, seconds, action):
        self.seconds, self.action = seconds, action

    def cancel(self):
        self.action = None


@pytest.fixture
def pass_time(monkeypatch):
    """Return a function that runs the timers of ``seconds`` seconds, and returns their number."""
    timers = []

    def start(connection, seconds, action):
        if seconds not in connection._timers:
            timers.append(Timer(seconds, action))
            connection._timers[seconds] = timers[-1]

    def over(seconds):
        due = [timer.action for timer in timers if timer.seconds == seconds and timer.action]
        for action in due:
            action()
        return len(due)

    monkeypatch.setattr(Connection, "_start", start)
    return over


class Serving:
    """A server with a small, a large and a waiting page, and its clients, which send bytes."""

    def __init__(self):
        self.go_on, self.begun, self.writers = asyncio.Event(), 0, []

    async def start(self, tls=NO_TLS, limit=8, app=None):
        if app is None:
            app = web.Application()
            app.router.add_get("/", self.small)
            app.router.add_get("/large", self.large)
            app.router.add_get("/wait", self.wait)
            app.router.add_get("/fails", self.fails)
            app.router.add_post("/body", self.body)
        self.server = await serve(app, [parse_listen_address("127.0.0.1:0")], tls, limit)
        self.port = int(self.server.urls[0].rpartition(":")[2].strip("/"))
        return self

    async def small(self, _request):
        self.begun += 1
        return web.Response(text="here")

    async def large(self, _request):
        self.begun += 1
        return web.Response(body=LARGE)

    async def wait(self, _request):
        self.begun += 1
        await self.go_on.wait()
        return web.Response(text="at last")

    async def body(self, request):
        self.begun += 1
        return web.Response(text=str(len(await request.read())))

    async def fails(self, _request):
        raise ValueError("an internal error")

    async def connect(self, data=b"", **more):
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, **more)
        self.writers.append(writer)
        writer.write(data)
        return reader, writer

    @property
    def connections(self):
        return len(self.server.connections)

    async def close(self):
        self.go_on.set()
        for writer in self.writers:
            writer.transport.abort()
        await self.server.close()


@pytest.fixture
async def serving():
    serving = Serving()
    yield serving
    await serving.close()


@pytest.fixture
def by_address(monkeypatch):
    """Count clients by their loopback address."""
    monkeypatch.setattr(module, "counted_address", lambda peer: peer[0])


async def answered(reader):
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(int(line.split()[1]) for line in head.splitlines() if line.startswith(b"Content-Length"))
    return (await reader.readexactly(length)).decode()


async def hung_up(reader):
    """Return whether the other side has closed or reset the connection."""
    try:
        return await reader.read() == b""
    except ConnectionError:
        return True


@pytest.mark.parametrize("begun", [b"", b"GET / HTTP/1.1\r\n", b"GET / HTTP/1.1\r\nHost: x\r\nX: y"])
async def test_a_client_that_does_not_finish_its_head_is_disconnected(serving, pass_time, until, begun):
    await serving.start()
    reader, _ = await serving.connect(begun)
    await until(lambda: pass_time(HEAD_SECONDS) == 1)
    assert await hung_up(reader)
    await until(lambda: serving.connections == 0)


async def test_the_time_for_a_head_begins_with_its_first_byte(serving, pass_time, until):
    await serving.start()
    reader, writer = await serving.connect(REQUEST)
    assert await answered(reader) == "here"
    assert pass_time(HEAD_SECONDS) == 0
    writer.write(b"GET / HT")
    await until(lambda: pass_time(HEAD_SECONDS) == 1)
    assert await hung_up(reader)


async def test_a_request_whose_answer_takes_long_has_no_limit_of_time(serving, pass_time, until):
    await serving.start()
    reader, _ = await serving.connect(WAIT)
    await until(lambda: serving.begun == 1)
    assert pass_time(HEAD_SECONDS) == 0
    serving.go_on.set()
    assert await answered(reader) == "at last"


async def test_a_body_is_no_head(serving, pass_time, until):
    """aiohttp itself knows when a head ends: by its private future, which this test guards."""
    await serving.start()
    head = b"POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: 300000\r\n\r\n"
    reader, writer = await serving.connect(head + b"a" * 200_000)
    await until(lambda: serving.begun == 1)
    assert pass_time(HEAD_SECONDS) == 0
    writer.write(b"a" * 100_000)
    assert await answered(reader) == "300000"


async def test_a_client_that_does_not_read_is_disconnected(serving, pass_time, until):
    await serving.start()
    await serving.connect(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n", limit=1)
    await until(lambda: serving.begun == 1)
    await until(lambda: pass_time(STALLED_SECONDS) == 1)
    await until(lambda: serving.connections == 0)


async def test_a_client_that_does_not_read_before_the_end_is_disconnected(serving, pass_time, until):
    """The connection is to close after the response, which does not end while bytes are unsent."""
    await serving.start()
    _, writer = await serving.connect(limit=1)
    writer.transport.pause_reading()
    writer.write(b"GET /large HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    await until(lambda: serving.begun == 1)
    await until(lambda: pass_time(STALLED_SECONDS) == 1)
    await until(lambda: serving.connections == 0)


async def test_at_the_limit_the_longest_idle_connection_is_replaced(serving, until):
    await serving.start(limit=3)
    readers = []
    for number in range(3):
        readers.append((await serving.connect())[0])
        await until(lambda number=number: serving.connections == number + 1)
    with capture_logs() as logs:
        reader, _ = await serving.connect(REQUEST)
        assert await answered(reader) == "here"
        assert await hung_up(readers[0])
        reader, _ = await serving.connect(REQUEST)
        assert await answered(reader) == "here"
        assert await hung_up(readers[1])
    assert serving.connections == 3
    assert [entry["event"] for entry in logs] == ["connections_full"]


async def test_with_few_free_descriptors_few_connections_are_open(serving, until, monkeypatch):
    """The other descriptors are for the polls."""
    monkeypatch.setattr(module.resource, "getrlimit", lambda _: (RESERVED, RESERVED))
    await serving.start()
    with capture_logs() as logs:
        readers = [(await serving.connect())[0] for _ in range(SCARCE_CONNECTIONS)]
        await until(lambda: serving.connections == SCARCE_CONNECTIONS)
        reader, _ = await serving.connect(REQUEST)
        assert await answered(reader) == "here"
        assert await hung_up(readers[0])
    assert serving.connections == SCARCE_CONNECTIONS
    assert [(entry["event"], entry["reason"]) for entry in logs] == [
        ("connections_not_taken", os.strerror(errno.EMFILE))
    ]


async def test_a_connection_with_an_active_request_is_not_replaced_by_its_own_address(serving, until):
    await serving.start(limit=2)
    asked = [await serving.connect(WAIT) for _ in range(2)]
    await until(lambda: serving.begun == 2)
    with capture_logs():
        reader, _ = await serving.connect(REQUEST)
        assert await hung_up(reader)
    serving.go_on.set()
    assert [await answered(reader) for reader, _ in asked] == ["at last", "at last"]
    reader, _ = await serving.connect(REQUEST)
    assert await answered(reader) == "here"


async def test_a_connection_whose_request_takes_long_is_replaced(serving, until, monkeypatch):
    """Otherwise slow readers at the address of Prometheus would keep it out."""
    await serving.start(limit=2)
    asked = [await serving.connect(WAIT) for _ in range(2)]
    await until(lambda: serving.begun == 2)
    monkeypatch.setattr(module, "SLOW_SECONDS", 0.0)
    with capture_logs():
        reader, _ = await serving.connect(REQUEST)
        assert await answered(reader) == "here"
    assert await hung_up(asked[0][0])


@pytest.mark.usefixtures("by_address")
async def test_a_busy_connection_of_an_address_with_many_is_replaced(serving, until):
    await serving.start(limit=3)
    asked = [await serving.connect(WAIT) for _ in range(3)]
    await until(lambda: serving.begun == 3)
    with capture_logs():
        reader, _ = await serving.connect(REQUEST, local_addr=("127.0.0.2", 0))
        assert await answered(reader) == "here"
    assert await hung_up(asked[0][0])
    serving.go_on.set()
    assert [await answered(reader) for reader, _ in asked[1:]] == ["at last", "at last"]


@pytest.mark.usefixtures("by_address")
async def test_an_address_with_few_connections_loses_none_to_one_with_many(serving, until):
    await serving.start(limit=4)
    kept, _ = await serving.connect(REQUEST, local_addr=("127.0.0.2", 0))
    assert await answered(kept) == "here"
    with capture_logs():
        for number in range(10):
            await serving.connect()
            await until(lambda number=number: serving.connections == min(number + 2, 4))
        serving.writers[0].write(REQUEST)
        assert await answered(kept) == "here"


@pytest.mark.usefixtures("by_address")
async def test_many_addresses_with_one_connection_replace_no_busy_one(serving, until):
    await serving.start(limit=3)
    for host in (2, 3):
        await serving.connect(WAIT, local_addr=(f"127.0.0.{host}", 0))
    idle, _ = await serving.connect(local_addr=("127.0.0.4", 0))
    await until(lambda: serving.begun == 2 and serving.connections == 3)
    with capture_logs():
        await serving.connect(WAIT, local_addr=("127.0.0.5", 0))
        assert await hung_up(idle)
        await until(lambda: serving.begun == 3)
        reader, _ = await serving.connect(REQUEST, local_addr=("127.0.0.6", 0))
        assert await hung_up(reader)


class Accepting:
    """Raises errors instead of accepting, one for each attempt."""

    def __init__(self, monkeypatch, errors):
        self.errors, loop = errors, asyncio.get_running_loop()
        self._accept = loop.sock_accept
        monkeypatch.setattr(loop, "sock_accept", self)
        monkeypatch.setattr(module, "PAUSE", 0)

    async def __call__(self, listening):
        if self.errors and (error := self.errors.pop(0)):
            raise error
        return await self._accept(listening)


EXHAUSTED = OSError(errno.EMFILE, "as the system says it")


def none_free(*_arguments):
    raise EXHAUSTED


async def test_without_free_descriptors_the_spare_one_is_used(serving, monkeypatch, until):
    Accepting(monkeypatch, [EXHAUSTED])
    with capture_logs() as logs, monkeypatch.context() as patched:
        await serving.start()
        patched.setattr(module.os, "open", none_free)
        reader, _ = await serving.connect(REQUEST)
        assert await answered(reader) == "here"
        assert await hung_up(reader)  # it has the last descriptor, so it is closed after the response
    reader, _ = await serving.connect(REQUEST)
    assert await answered(reader) == "here"
    await until(lambda: serving.server.connections.has_spare)
    assert [(entry["event"], entry["reason"]) for entry in logs] == [
        ("connections_not_taken", "as the system says it")
    ]


async def test_without_the_spare_descriptor_an_idle_connection_is_closed(serving, monkeypatch, until):
    accepting = Accepting(monkeypatch, [])
    await serving.start()
    waiting, _ = await serving.connect()
    await until(lambda: serving.connections == 1)
    monkeypatch.setattr(module.os, "open", none_free)
    accepting.errors = [EXHAUSTED, EXHAUSTED, OSError(errno.ECONNABORTED, "gone")]
    with capture_logs():
        await serving.connect()
        assert await hung_up(waiting)
        await until(lambda: not accepting.errors)


@pytest.mark.parametrize("error", [ValueError("an internal error"), OSError(errno.EBADF, "no socket")])
async def test_an_internal_error_on_accept_is_logged_once_and_the_next_connection_is_accepted(
    serving, until, monkeypatch, error
):
    accepting = Accepting(monkeypatch, [error] * 3)
    with capture_logs() as logs:
        await serving.start()
        await until(lambda: not accepting.errors)
        reader, _ = await serving.connect(REQUEST)
        assert await answered(reader) == "here"
    assert [(entry["event"], entry["exc_info"]) for entry in logs] == [("connection_failed", error)]


async def test_close_leaves_no_connection_and_no_task(serving, until):
    await serving.start()
    for _ in range(3):
        await serving.connect()
    await until(lambda: serving.connections == 3)
    await serving.close()
    await until(lambda: serving.connections == 0)
    assert len(asyncio.all_tasks()) == 1
    assert not serving.server.connections.has_spare


async def test_expect_100_continue_is_supported(serving):
    await serving.start()
    head = b"POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nExpect: 100-Continue\r\n\r\n"
    reader, writer = await serving.connect(head)
    assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    writer.write(b"ab")
    assert await answered(reader) == "2"


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        (b"<b>mine</b> is no request\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n<b>mine</b>: x\r\n\r\n", 400),
        (b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\n" + b"A: b\r\n" * 100 + b"\r\n", 400),
        (b"GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\nExpect: <b>mine</b>\r\n\r\n", 417),
        (b"GET /nothing HTTP/1.1\r\nHost: x\r\nExpect: mine\xff\r\n\r\n", 417),
        (b"GET / HTTP/1.1\r\nHost: x\r\n" + 5 * HEADER + b"\r\n", 431),
        (b"GET /fails HTTP/1.1\r\nHost: x\r\n\r\n", 500),
    ],
)
async def test_an_error_response_without_a_handler_repeats_nothing_of_the_request(
    serving, caplog, asked, status
):
    await serving.start()
    reader, _ = await serving.connect(asked)
    answer = await reader.read()
    assert re.match(rb"HTTP/1\.[01] %d " % status, answer)
    assert b"\r\nServer: spec-decode-exporter\r\n" in answer
    assert b"\r\nX-Content-Type-Options: nosniff\r\n" in answer
    assert not re.search(rb"aiohttp|Python|mine|aaaa|defect", answer)
    assert answer.endswith(b".\n")
    assert bool(caplog.records) == ("an internal error" in caplog.text) == (status == 500)
    assert serving.begun == 0


async def test_an_unfinished_head_above_the_total_limit_is_disconnected(serving):
    await serving.start()
    reader, _ = await serving.connect(b"GET / HTTP/1.1\r\nHost: x\r\n" + 5 * HEADER)
    assert await hung_up(reader)
    assert serving.begun == 0


@pytest.mark.parametrize("cut", [1, 2, 3, 10])
async def test_a_head_at_the_limit_is_accepted_in_any_parts(serving, until, cut):
    await serving.start()
    request = b"GET / HTTP/1.1\r\nHost: x\r\n" + 4 * HEADER + b"Content-Length: 60000\r\n\r\n"
    assert MAX_HEAD_BYTES - 8000 < len(request) < MAX_HEAD_BYTES
    reader, writer = await serving.connect(request[:-cut])
    await until(
        lambda: [each._head_bytes for each in serving.server.connections._open] == [len(request) - cut]
    )
    writer.write(request[-cut:] + b"a" * 60000)
    assert await answered(reader) == "here"


async def test_a_client_that_pipelines_too_much_is_disconnected(serving, until):
    await serving.start()
    reader, writer = await serving.connect(WAIT)
    await until(lambda: serving.begun == 1)
    writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nX: %b\r\n\r\n" % (b"x" * 4000) * 20)
    assert await hung_up(reader)


async def test_a_connection_with_requests_ahead_is_closed_after_the_response(serving, until):
    await serving.start()
    reader, writer = await serving.connect(WAIT)
    await until(lambda: serving.begun == 1)
    writer.write(REQUEST)
    await until(lambda: any(each._ahead for each in serving.server.connections._open))
    serving.go_on.set()
    assert await answered(reader) == "at last"
    assert await hung_up(reader)


async def test_of_requests_that_arrive_together_the_first_is_answered(serving):
    await serving.start()
    reader, _ = await serving.connect(REQUEST * 80)
    assert await answered(reader) == "here"
    assert await hung_up(reader)
    assert serving.begun == 1


async def test_bodies_that_end_in_the_middle_are_logged_once_without_a_traceback(serving, until, caplog):
    async def read(request):
        try:
            await request.read()
        finally:
            ended.append(1)

    ended, app = [], web.Application()
    app.router.add_post("/", read)
    await serving.start(app=app)
    with capture_logs() as logs:
        for number in range(5):
            _, writer = await serving.connect(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n1")
            await until(lambda: any(each._request for each in serving.server.connections._open))
            writer.transport.abort()
            await until(lambda number=number: len(ended) == number + 1 and not serving.connections)
    assert [entry["event"] for entry in logs] in ([], ["requests_incomplete"])
    assert not caplog.records


async def test_a_client_that_leaves_while_its_password_is_checked_logs_nothing(serving, make_state, until):
    @web.middleware
    async def check(request, handler):
        waiting.set()
        await serving.go_on.wait()
        try:
            return await handler(request)
        finally:
            ended.set()

    waiting, ended = asyncio.Event(), asyncio.Event()
    await serving.start(app=create_app(make_state(), SimpleNamespace(middleware=check)))
    with capture_logs() as logs:
        _, writer = await serving.connect(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        await waiting.wait()
        writer.transport.abort()
        await until(lambda: not serving.connections)
        serving.go_on.set()
        await ended.wait()
        await until(lambda: len(asyncio.all_tasks()) == 2)  # the test and the accept loop
    assert logs == []


@pytest.mark.parametrize(
    "head", [b"Content-Length: 100000", b"Transfer-Encoding: chunked", b"Content-Length: 99999999999999"]
)
async def test_an_unread_body_is_rejected_without_waiting_for_it(serving, make_state, monkeypatch, head):
    monkeypatch.setitem(module._OPTIONS, "lingering_time", 0.01)
    await serving.start(app=create_app(make_state()))
    reader, writer = await serving.connect(b"POST /-/reload HTTP/1.1\r\nHost: x\r\n" + head + b"\r\n\r\n")
    assert (await reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 413 ")
    writer.write_eof()
    answer = await reader.read()
    assert b"Connection: close\r\n" in answer
    assert b"at most 65536 bytes" in answer


@pytest.fixture
def context(authority):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    return context


@pytest.fixture
def encrypted(trusting):
    return {"ssl": trusting(), "server_hostname": "localhost"}


async def test_a_client_that_is_not_admitted_gets_no_response(serving, context, encrypted, until):
    await serving.start(Tls(lambda: context, lambda _transport: False))
    reader, _ = await serving.connect(REQUEST, **encrypted)
    assert await hung_up(reader)
    await until(lambda: serving.connections == 0)
    assert serving.begun == 0


async def test_a_handshake_that_does_not_begin_times_out(serving, context, monkeypatch):
    monkeypatch.setattr(module, "HANDSHAKE_SECONDS", 0.01)
    await serving.start(Tls(lambda: context))
    reader, _ = await serving.connect()
    assert await hung_up(reader)


async def test_handshakes_count_as_connections_and_can_be_replaced(serving, context, encrypted, until):
    await serving.start(Tls(lambda: context), limit=2)
    readers = [(await serving.connect())[0] for _ in range(2)]
    await until(lambda: serving.connections == 2)
    with capture_logs():
        reader, _ = await serving.connect(REQUEST, **encrypted)
        assert await answered(reader) == "here"
    assert await hung_up(readers[0])
    assert serving.connections == 2


async def test_a_request_that_arrives_with_the_end_of_the_handshake_is_answered(serving, context, encrypted):
    await serving.start(Tls(lambda: context))
    for _ in range(5):
        reader, _ = await serving.connect(REQUEST, **encrypted)
        async with asyncio.timeout(20):
            assert await answered(reader) == "here"


async def test_a_client_that_does_not_read_over_tls_is_disconnected(
    serving, context, encrypted, pass_time, until
):
    await serving.start(Tls(lambda: context))
    _, writer = await serving.connect(limit=1, **encrypted)
    writer.transport.pause_reading()
    writer.write(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
    await until(lambda: serving.begun == 1)
    await until(lambda: pass_time(STALLED_SECONDS) == 1)
    await until(lambda: serving.connections == 0)


async def test_a_client_that_has_read_everything_stays_connected(serving, pass_time, until):
    await serving.start()
    reader, writer = await serving.connect(REQUEST)
    assert await answered(reader) == "here"
    assert pass_time(STALLED_SECONDS) == 1
    writer.write(REQUEST)
    assert await answered(reader) == "here"


async def test_a_rotated_certificate_is_that_of_new_connections(serving, context, encrypted, authority):
    contexts = [context]
    await serving.start(Tls(lambda: contexts[-1]))
    reader, writer = await serving.connect(REQUEST, **encrypted)
    assert await answered(reader) == "here"
    contexts.append(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
    trustme.CA().issue_cert("localhost").configure_cert(contexts[-1])
    with pytest.raises(ssl.SSLError):
        await serving.connect(REQUEST, **encrypted)
    writer.write(REQUEST)  # the open connection stays
    assert await answered(reader) == "here"
