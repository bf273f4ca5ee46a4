"""Connections: what is closed when, what is counted, and which connection a new one replaces."""

import asyncio
import errno
import gc
import re
import ssl
from asyncio import sslproto
from dataclasses import dataclass, field
from itertools import chain, repeat
from unittest.mock import DEFAULT, AsyncMock

import pytest
from aiohttp import web
from structlog.testing import capture_logs

from spec_decode_exporter.web import limits
from spec_decode_exporter.web import server as module
from spec_decode_exporter.web.limits import Limit
from spec_decode_exporter.web.server import (
    ANSWER_SECONDS,
    HEAD_SECONDS,
    IDLE_SECONDS,
    NO_TLS,
    UNREAD_SECONDS,
    Connection,
    Stage,
    Tls,
    parse_listen_address,
    serve,
)
from tests.conftest import settle

REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
WAIT = b"GET /wait HTTP/1.1\r\nHost: x\r\n\r\n"
BODY = b"POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: "
LARGE = b"x" * 32_000_000
HEADER = b"X: " + b"a" * 8000 + b"\r\n"


@dataclass
class Serving:
    """A server with a small, a large and a waiting page, and its clients, which send bytes."""

    go_on: asyncio.Event = field(default_factory=asyncio.Event)
    begun: int = 0
    writers: list = field(default_factory=list)

    async def start(self, tls=NO_TLS, limit=8, app=None):
        if app is None:
            app = web.Application()
            for path in ("/", "/large", "/wait", "/fails"):
                app.router.add_get(path, self.answer)
            app.router.add_post("/body", self.answer)
        self.server = await serve(app, [parse_listen_address("127.0.0.1:0")], tls, limit)
        self.connections = self.server.connections
        self.port = int(self.server.urls[0].rpartition(":")[2].strip("/"))

    async def answer(self, request):
        if request.path == "/fails":
            raise ValueError("an internal error")
        self.begun += 1
        if request.path == "/wait":
            await self.go_on.wait()
        bodies = {"/": b"here", "/large": LARGE, "/wait": b"at last"}
        return web.Response(body=bodies.get(request.path) or b"%d" % len(await request.read()))

    async def connect(self, data=b"", **more):
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, **more)
        self.writers.append(writer)
        writer.write(data)
        return reader, writer

    async def answered(self, **more):
        """Connect and ask for the small page; return the connection, which stays open."""
        reader, writer = await self.connect(REQUEST, **more)
        assert await text_of(reader) == "here"
        return reader, writer

    async def waiting(self, number, until, **more):
        """Connect ``number`` clients that ask for the waiting page; return their readers."""
        asked = [await self.connect(WAIT, **more) for _ in range(number)]
        await until(lambda: self.begun == number)
        return [reader for reader, _ in asked]

    @property
    def stages(self):
        return sorted(each.stage for each in self.connections)

    def after(self, seconds):
        self.server.end_overdue(asyncio.get_running_loop().time() + seconds)

    async def close(self):
        self.go_on.set()
        for writer in self.writers:
            writer.transport.abort()
        await self.server.close()


@pytest.fixture
async def idle(monkeypatch):
    """Return a server that is not started; a connection without an active request may be replaced at any age."""
    monkeypatch.setitem(module.KEPT_SECONDS, Stage.IDLE, 0)
    monkeypatch.setitem(module.KEPT_SECONDS, Stage.BEGUN, 0)
    serving = Serving()
    yield serving
    await serving.close()


@pytest.fixture
async def serving(idle):
    await idle.start()
    return idle


async def text_of(reader):
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(int(line.split()[1]) for line in head.splitlines() if line.startswith(b"Content-Length"))
    return (await reader.readexactly(length)).decode()


async def hung_up(reader):
    try:
        return await reader.read() == b""
    except ConnectionError:
        return True


# Time


@pytest.mark.parametrize("begun", [b"", b"GET / HTTP/1.1\r\n", b"GET / HTTP/1.1\r\nHost: x\r\nX: y"])
async def test_a_client_that_does_not_finish_its_first_head_is_disconnected(serving, until, begun):
    reader, _ = await serving.connect(begun)
    await until(lambda: serving.stages == [Stage.BEGUN if begun else Stage.IDLE])
    serving.after(HEAD_SECONDS - 1)
    await settle()
    assert len(serving.connections) == 1
    serving.after(HEAD_SECONDS + 1)
    assert await hung_up(reader)
    await until(lambda: not serving.connections)


async def test_a_later_head_has_its_time_from_its_first_byte(serving, until):
    _, writer = await serving.answered()
    serving.after(HEAD_SECONDS + 1)
    writer.write(b"GET / HT")
    await until(lambda: serving.stages == [Stage.BEGUN])
    serving.after(HEAD_SECONDS - 1)
    writer.write(b"TP")  # a further byte gives no further time
    await settle()
    serving.after(HEAD_SECONDS + 1)
    await until(lambda: not serving.connections)


async def test_a_connection_that_a_scrape_each_minute_uses_is_kept(serving):
    reader, writer = await serving.answered()
    serving.after(60 + HEAD_SECONDS)
    writer.write(REQUEST)
    assert await text_of(reader) == "here"
    serving.after(IDLE_SECONDS + 1)
    assert await hung_up(reader)


async def test_a_slow_body_is_no_head_and_its_connection_is_kept(serving, until):
    """aiohttp stops reading a large body, and then passes nothing to itself: that is no request ahead."""
    reader, writer = await serving.connect()
    for number in range(1, 4):
        writer.write(BODY + b"300000\r\n\r\n" + b"a" * 200_000)
        await until(lambda number=number: serving.begun == number)
        serving.after(HEAD_SECONDS + 1)
        writer.write(b"a" * 100_000)
        assert await text_of(reader) == "300000"


async def test_a_request_whose_answer_takes_too_long_is_ended(serving, until):
    [waiting] = await serving.waiting(1, until)
    serving.after(ANSWER_SECONDS - 1)
    await settle()
    assert serving.stages == [Stage.ACTIVE]
    serving.after(ANSWER_SECONDS + 1)
    assert await hung_up(waiting)


@pytest.mark.parametrize("close", [b"", b"Connection: close\r\n"], ids=["kept alive", "to be closed"])
@pytest.mark.parametrize("has_tls", [False, True], ids=["plain", "tls"])
async def test_a_client_that_does_not_read_is_disconnected(idle, secured, until, close, has_tls):
    tls, encrypted = secured if has_tls else (NO_TLS, {})
    await idle.start(tls)
    _, writer = await idle.connect(limit=1, **encrypted)
    writer.transport.pause_reading()
    writer.write(b"GET /large HTTP/1.1\r\nHost: x\r\n%b\r\n" % close)
    await until(lambda: idle.begun == 1 and idle.stages == [Stage.IDLE])
    idle.after(UNREAD_SECONDS / 2)
    await settle()
    assert len(idle.connections) == 1
    idle.after(UNREAD_SECONDS + 1)
    await until(lambda: not idle.connections)


async def test_connections_are_checked_again_and_again(idle, monkeypatch):
    monkeypatch.setattr(module, "SWEEP_SECONDS", 0)
    monkeypatch.setattr(module, "HEAD_SECONDS", 0)
    await idle.start()
    for _ in range(2):
        reader, _ = await idle.connect()
        assert await hung_up(reader)


# Limits


async def test_at_the_limit_the_longest_idle_connection_is_replaced(idle, until):
    await idle.start(limit=3)
    silent = []
    for number in range(3):
        silent.append((await idle.connect())[0])
        await until(lambda number=number: len(idle.connections) == number + 1)
    with capture_logs() as logs:
        for reader in silent[:2]:
            await idle.answered()
            assert await hung_up(reader)
    assert len(idle.connections) == 3
    assert [(entry["event"], entry["reason"]) for entry in logs] == [("connections_full", "limit")]


async def test_a_connection_without_a_byte_yet_is_not_replaced_while_older_heads_do_not_end(
    idle, until, monkeypatch
):
    """Otherwise, in a flood of heads that do not end, each new client would be replaced before it sends its own."""
    await idle.start(limit=2)
    begun, _ = await idle.connect(REQUEST[:9])
    await until(lambda: idle.stages == [Stage.BEGUN])
    monkeypatch.setitem(module.KEPT_SECONDS, Stage.IDLE, 60)
    young, writer = await idle.connect()
    await until(lambda: len(idle.connections) == 2)
    with capture_logs():
        await idle.answered()
    assert await hung_up(begun)
    writer.write(REQUEST)
    assert await text_of(young) == "here"


async def test_an_idle_connection_is_replaced_before_an_older_one_that_has_begun(idle, until):
    await idle.start(limit=2)
    begun, writer = await idle.connect(REQUEST[:9])
    await until(lambda: idle.stages == [Stage.BEGUN])
    silent, _ = await idle.connect()
    await until(lambda: len(idle.connections) == 2)
    with capture_logs():
        await idle.answered()
    assert await hung_up(silent)
    writer.write(REQUEST[9:])
    assert await text_of(begun) == "here"


async def test_a_connection_with_an_active_request_is_replaced_only_if_that_takes_long(
    idle, until, monkeypatch
):
    """Otherwise slow readers would keep Prometheus out."""
    await idle.start(limit=2)
    slow, other = await idle.waiting(2, until)
    monkeypatch.setattr(module, "PAUSE", 0)
    with capture_logs() as logs:
        late, _ = await idle.connect(REQUEST)
        await until(lambda: logs)
        await settle()
        assert idle.stages == [Stage.ACTIVE, Stage.ACTIVE]
        monkeypatch.setitem(module.KEPT_SECONDS, Stage.ACTIVE, 0)
        assert await text_of(late) == "here"
    assert await hung_up(slow)
    idle.go_on.set()
    assert await text_of(other) == "at last"


@pytest.mark.parametrize(("error", "is_replaced"), [(errno.EMFILE, True), (errno.ECONNABORTED, False)])
async def test_without_a_free_descriptor_the_longest_idle_connection_is_replaced(
    idle, monkeypatch, error, is_replaced
):
    loop, failing = asyncio.get_running_loop(), OSError(error, "as the system says it")
    accept = AsyncMock(
        wraps=loop.sock_accept, side_effect=chain([DEFAULT, DEFAULT, failing], repeat(DEFAULT))
    )
    monkeypatch.setattr(loop, "sock_accept", accept)
    monkeypatch.setattr(module, "PAUSE", 0)
    await idle.start()
    with capture_logs() as logs:
        first, _ = await idle.answered()
        await idle.answered()
        await idle.answered()  # after the error
        assert len(idle.connections) == (2 if is_replaced else 3)
    assert [entry.get("reason") for entry in logs] == ["as the system says it"] * is_replaced
    assert not is_replaced or await hung_up(first)


async def test_close_waits_for_active_requests_and_leaves_no_connection_and_no_task(serving, until):
    [waiting] = await serving.waiting(1, until)
    for _ in range(3):
        await serving.connect()
    await until(lambda: len(serving.connections) == 4)
    closing = asyncio.create_task(serving.server.close())
    await settle()
    serving.go_on.set()
    assert await text_of(waiting) == "at last"
    await closing
    await until(lambda: not serving.connections)
    assert len(asyncio.all_tasks()) == 1
    with pytest.raises(ConnectionRefusedError):
        await serving.connect()


# Requests


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        (b"<b>mine</b> is no request\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\nExpect: <b>mine</b>\r\n\r\n", 417),
        (b"GET /nothing HTTP/1.1\r\nHost: x\r\nExpect: mine\xff\r\n\r\n", 417),
        (b"GET /fails HTTP/1.1\r\nHost: x\r\n\r\n", 500),
    ],
)
async def test_an_error_response_without_a_handler_repeats_nothing_of_the_request(
    serving, caplog, asked, status
):
    reader, _ = await serving.connect(asked)
    answer = await reader.read()
    assert re.match(rb"HTTP/1\.[01] %d " % status, answer)
    assert b"\r\nServer: spec-decode-exporter\r\n" in answer
    assert b"\r\nX-Content-Type-Options: nosniff\r\n" in answer
    assert not re.search(rb"aiohttp|Python|mine|aaaa|defect", answer)
    assert answer.endswith(b".\n")
    assert bool(caplog.records) == ("an internal error" in caplog.text) == (status == 500)
    assert serving.begun == 0


async def test_an_unfinished_head_above_the_total_limit_is_disconnected(serving, until):
    reader, writer = await serving.connect(b"GET / HTTP/1.1\r\nHost: x\r\n" + 5 * HEADER)
    await until(lambda: serving.stages == [Stage.BEGUN])
    writer.write(20 * HEADER)  # more than the reads of one turn
    assert await hung_up(reader)
    assert serving.begun == 0


async def test_a_connection_with_requests_ahead_is_closed_after_the_response(serving, until, monkeypatch):
    closed, close = [], Connection.close
    monkeypatch.setattr(Connection, "close", lambda connection: (closed.append(1), close(connection)))
    reader, writer = await serving.connect(WAIT)
    await until(lambda: serving.begun == 1)
    writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nX: %b\r\n\r\n" % (b"x" * 4000) * 20)
    await until(lambda: closed)
    serving.go_on.set()
    assert await text_of(reader) == "at last"
    assert await hung_up(reader)
    assert serving.begun == 1


async def test_of_requests_that_arrive_together_two_are_answered(serving):
    """The second has the first bytes that are known to be ahead."""
    reader, _ = await serving.connect(REQUEST * 80)
    assert [await text_of(reader), await text_of(reader)] == ["here", "here"]
    assert await hung_up(reader)
    assert serving.begun == 2


async def test_bodies_that_end_in_the_middle_are_not_logged(serving, until, caplog):
    with capture_logs() as logs:
        for number in range(5):
            _, writer = await serving.connect(BODY + b"9\r\n\r\n1")
            await until(lambda number=number: serving.begun == number + 1)
            writer.transport.abort()
            await until(lambda: not serving.connections)
    assert logs == []
    assert not caplog.records


# TLS


@pytest.fixture
def secured(authority):
    """Return TLS of a server, and the options of a client that trusts its certificate."""
    context, trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    authority.issue_cert("localhost").configure_cert(context)
    authority.configure_trust(trusting)
    return Tls(lambda: context), {"ssl": trusting, "server_hostname": "localhost"}


async def test_a_client_that_is_not_admitted_gets_no_response(idle, secured):
    tls, encrypted = secured
    await idle.start(tls._replace(admits=lambda _transport: False))
    reader, _ = await idle.connect(REQUEST, **encrypted)
    assert await hung_up(reader)
    assert idle.begun == 0


def handshakes():
    """Return how many objects of asyncio's TLS there are, each with 256 KiB."""
    return sum(isinstance(each, sslproto.SSLProtocol) for each in gc.get_objects())


@pytest.mark.parametrize("ended", ["by the client", "when it is overdue", "to make room"])
async def test_a_handshake_that_is_not_finished_takes_memory_only_while_it_is_open(
    idle, secured, until, request, ended
):
    request.addfinalizer(gc.enable)
    gc.collect()
    gc.disable()
    await idle.start(secured[0], limit=3)
    before = handshakes()
    begun = [await idle.connect(b"\x16\x03\x01\x02\x00\x01") for _ in range(3)]
    await until(lambda: handshakes() == before + 3)
    assert idle.stages == [Stage.BEGUN] * 3
    if ended == "by the client":
        for _, writer in begun:
            writer.transport.abort()
        await until(lambda: not idle.connections)
    elif ended == "when it is overdue":
        idle.after(HEAD_SECONDS + 1)
        assert all([await hung_up(reader) for reader, _ in begun])
    else:
        with capture_logs():
            silent = [await idle.connect() for _ in range(3)]
            assert all([await hung_up(reader) for reader, _ in begun])
        assert len(silent) == 3
    await settle()
    assert handshakes() == before


async def test_with_tls_too_a_large_response_keeps_its_place_until_it_is_read(
    idle, secured, until, monkeypatch
):
    """asyncio takes any number of bytes at once, and encrypts all of them."""
    tls, encrypted = secured
    app = web.Application()
    app.router.add_get("/large", Limit(1).limit(idle.answer))
    await idle.start(tls, app=app)
    _, writer = await idle.connect(limit=1, **encrypted)
    writer.transport.pause_reading()
    writer.write(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
    await until(lambda: idle.begun == 1)
    monkeypatch.setattr(limits, "WAIT_SECONDS", 0)
    reader, _ = await idle.connect(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n", **encrypted)
    assert (await reader.readline()).split()[1] == b"503"
