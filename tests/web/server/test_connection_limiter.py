from __future__ import annotations

import asyncio
import errno
import re
import ssl

import pytest
import trustme
from aiohttp import web
from structlog.testing import capture_logs

from spec_decode_exporter.web.application import create_app
from spec_decode_exporter.web.server import connection_limiter, handshake
from spec_decode_exporter.web.server.client_connection import (
    HEAD_SECONDS,
    MAX_HEAD_BYTES,
    STALLED_SECONDS,
    ClientConnection,
)
from spec_decode_exporter.web.server.http_server import serve
from spec_decode_exporter.web.server.listen import parse_listen_address

REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
LARGE = b"x" * 8_000_000


class Timer:
    def __init__(self, seconds, action):
        self.seconds, self.action = seconds, action

    def cancel(self):
        self.action = None


@pytest.fixture
def pass_time(monkeypatch):
    """Return a function that runs the timers of ``seconds`` seconds, and returns their number."""
    timers = []

    def later(connection, seconds):
        timers.append(Timer(seconds, connection.abort))
        return timers[-1]

    def over(seconds):
        due = [timer for timer in timers if timer.seconds == seconds and timer.action]
        for timer in due:
            timer.action()
        return len(due)

    monkeypatch.setattr(ClientConnection, "_later", later)
    return over


class Serving:
    """A server with a small, a large and a waiting page, and its clients, which send bytes."""

    def __init__(self):
        self.go_on, self.begun, self.writers = asyncio.Event(), 0, []

    async def start(self, tls=None, most=8):
        app = web.Application()
        app.router.add_get("/", self.small)
        app.router.add_get("/large", self.large)
        app.router.add_get("/wait", self.wait)
        app.router.add_get("/fails", self.fails)
        app.router.add_post("/body", self.body)
        self.server = await serve(app, [parse_listen_address("127.0.0.1:0")], tls, most)
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


def connections(serving):
    return len(serving.server.limiter._open)


@pytest.mark.parametrize("begun", [b"", b"GET / HTTP/1.1\r\n", b"GET / HTTP/1.1\r\nHost: x\r\nX: y"])
async def test_a_client_that_does_not_finish_its_head_is_disconnected(serving, pass_time, until, begun):
    await serving.start()
    reader, _ = await serving.connect(begun)
    await until(lambda: pass_time(HEAD_SECONDS) == 1)
    assert await hung_up(reader)
    await until(lambda: connections(serving) == 0)


async def test_a_client_that_does_not_read_is_disconnected(serving, pass_time, until):
    await serving.start()
    await serving.connect(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n", limit=1)
    await until(lambda: pass_time(STALLED_SECONDS) == 1)
    await until(lambda: connections(serving) == 0)


async def test_at_the_limit_the_longest_idle_connection_is_replaced(serving, until):
    await serving.start(most=3)
    readers = []
    for number in range(3):
        readers.append((await serving.connect())[0])
        await until(lambda number=number: connections(serving) == number + 1)
    with capture_logs() as logs:
        reader, _ = await serving.connect(REQUEST)
        assert await answered(reader) == "here"
        assert await hung_up(readers[0])
        reader, _ = await serving.connect(REQUEST)
        assert await answered(reader) == "here"
        assert await hung_up(readers[1])
    assert connections(serving) == 3
    assert [entry["event"] for entry in logs] == ["connections_full"]


async def test_a_connection_with_an_active_request_is_not_replaced(serving, until):
    await serving.start(most=2)
    asked = [await serving.connect(b"GET /wait HTTP/1.1\r\nHost: x\r\n\r\n") for _ in range(2)]
    await until(lambda: serving.begun == 2)
    with capture_logs():
        reader, _ = await serving.connect(REQUEST)
        assert await hung_up(reader)
    serving.go_on.set()
    assert [await answered(reader) for reader, _ in asked] == ["at last", "at last"]
    reader, _ = await serving.connect(REQUEST)
    assert await answered(reader) == "here"


async def test_a_busy_connection_of_an_address_with_many_is_replaced(serving, until, monkeypatch):
    monkeypatch.setattr(connection_limiter, "counted_address", lambda peer: peer[0])
    await serving.start(most=3)
    asked = [await serving.connect(b"GET /wait HTTP/1.1\r\nHost: x\r\n\r\n") for _ in range(3)]
    await until(lambda: serving.begun == 3)
    with capture_logs():
        reader, _ = await serving.connect(REQUEST, local_addr=("127.0.0.2", 0))
        assert await answered(reader) == "here"
    assert await hung_up(asked[0][0])
    serving.go_on.set()
    assert [await answered(reader) for reader, _ in asked[1:]] == ["at last", "at last"]


async def test_without_free_descriptors_an_idle_connection_is_closed(serving, until, monkeypatch):
    monkeypatch.setattr(connection_limiter, "_PAUSE", 0)
    loop, errors = asyncio.get_running_loop(), [errno.EMFILE, errno.ENFILE, errno.EMFILE, errno.ECONNABORTED]
    accept = loop.sock_accept

    async def failing(listening):
        if errors and (len(errors) < 4 or serving.server.limiter._open):
            raise OSError(errors.pop(0), "as the system says it")
        return await accept(listening)

    monkeypatch.setattr(loop, "sock_accept", failing)
    await serving.start()
    with capture_logs() as logs:
        waiting, _ = await serving.connect()
        await until(lambda: not errors)
        assert await hung_up(waiting)
        reader, _ = await serving.connect(REQUEST)
        assert await answered(reader) == "here"
    assert [(entry["event"], entry["reason"]) for entry in logs] == [
        ("connections_not_taken", "as the system says it")
    ]


@pytest.mark.parametrize("error", [ValueError("an internal error"), OSError(errno.EBADF, "no socket")])
async def test_an_internal_error_on_accept_is_logged_once_and_the_next_connection_is_accepted(
    serving, until, monkeypatch, error
):
    monkeypatch.setattr(connection_limiter, "_PAUSE", 0)
    loop, errors = asyncio.get_running_loop(), [error] * 3
    accept = loop.sock_accept

    async def failing(listening):
        if errors:
            raise errors.pop()
        return await accept(listening)

    monkeypatch.setattr(loop, "sock_accept", failing)
    with capture_logs() as logs:
        await serving.start()
        await until(lambda: not errors)
        reader, _ = await serving.connect(REQUEST)
        assert await answered(reader) == "here"
    assert [(entry["event"], entry["exc_info"]) for entry in logs] == [("connection_failed", error)]


async def test_close_leaves_no_connection_and_no_task(serving, until):
    await serving.start()
    for _ in range(3):
        await serving.connect()
    await until(lambda: connections(serving) == 3)
    await serving.close()
    await until(lambda: connections(serving) == 0)
    assert len(asyncio.all_tasks()) == 1


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


HEADER = b"X: " + b"a" * 8000 + b"\r\n"


async def test_a_head_above_the_total_limit_is_disconnected(serving):
    await serving.start()
    reader, _ = await serving.connect(b"GET / HTTP/1.1\r\nHost: x\r\n" + 5 * HEADER + b"\r\n")
    assert await hung_up(reader)
    assert serving.begun == 0


@pytest.mark.parametrize("cut", [1, 2, 3, 10])
async def test_a_head_at_the_limit_is_accepted_in_any_parts(serving, until, cut):
    await serving.start()
    request = b"GET / HTTP/1.1\r\nHost: x\r\n" + 4 * HEADER + b"Content-Length: 60000\r\n\r\n"
    assert MAX_HEAD_BYTES - 8000 < len(request) < MAX_HEAD_BYTES
    reader, writer = await serving.connect(request[:-cut])
    await until(lambda: [each._head_bytes for each in serving.server.limiter._open] == [len(request) - cut])
    writer.write(request[-cut:] + b"a" * 60000)
    assert await answered(reader) == "here"


async def test_a_client_that_pipelines_too_much_is_disconnected(serving, until):
    await serving.start()
    reader, writer = await serving.connect(b"GET /wait HTTP/1.1\r\nHost: x\r\n\r\n")
    await until(lambda: serving.begun == 1)
    writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nX: %b\r\n\r\n" % (b"x" * 4000) * 20)
    assert await hung_up(reader)


@pytest.mark.parametrize(
    "head", [b"Content-Length: 100000", b"Transfer-Encoding: chunked", b"Content-Length: 99999999999999"]
)
async def test_an_unread_body_is_rejected_without_waiting_for_it(serving, make_state, monkeypatch, head):
    monkeypatch.setattr("spec_decode_exporter.web.server.http_server._LINGER_SECONDS", 0.01)
    app = create_app(make_state())
    serving.server = await serve(app, [parse_listen_address("127.0.0.1:0")])
    serving.port = int(serving.server.urls[0].rpartition(":")[2].strip("/"))
    reader, writer = await serving.connect(b"POST /-/reload HTTP/1.1\r\nHost: x\r\n" + head + b"\r\n\r\n")
    assert (await reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 413 ")
    writer.write_eof()
    answer = await reader.read()
    assert b"Connection: close\r\n" in answer
    assert b"at most 65536 bytes" in answer


class Tls:
    def __init__(self, authority):
        self.authority, self.admitting, self.names = authority, True, "localhost"
        self.made = None
        self.rotate()

    def rotate(self):
        self.made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.authority.issue_cert(self.names).configure_cert(self.made)

    def context(self):
        return self.made

    def admits(self, _transport):
        return self.admitting


@pytest.fixture
def authority():
    return trustme.CA()


@pytest.fixture
def tls(authority):
    return Tls(authority)


@pytest.fixture
def trusting(authority):
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return {"ssl": context, "server_hostname": "localhost"}


async def test_a_client_that_is_not_admitted_gets_no_response(serving, tls, trusting, until):
    tls.admitting = False
    await serving.start(tls)
    reader, _ = await serving.connect(REQUEST, **trusting)
    assert await hung_up(reader)
    await until(lambda: connections(serving) == 0)
    assert serving.begun == 0


async def test_a_handshake_that_does_not_begin_times_out(serving, tls, monkeypatch):
    monkeypatch.setattr(handshake, "HANDSHAKE_SECONDS", 0.01)
    await serving.start(tls)
    reader, _ = await serving.connect()
    assert await hung_up(reader)


async def test_handshakes_count_as_connections_and_can_be_replaced(serving, tls, trusting, until):
    await serving.start(tls, most=2)
    readers = [(await serving.connect())[0] for _ in range(2)]
    await until(lambda: connections(serving) == 2)
    with capture_logs():
        reader, _ = await serving.connect(REQUEST, **trusting)
        assert await answered(reader) == "here"
    assert await hung_up(readers[0])
    assert connections(serving) == 2
