"""Connections: what is closed when, what is counted, and which connection a new one replaces."""

import asyncio
import errno
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
    NO_TLS,
    RESERVED,
    SCARCE_CONNECTIONS,
    STALLED_SECONDS,
    Connection,
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
            for path in ("/", "/large", "/wait", "/fails"):
                app.router.add_get(path, self.answer)
            app.router.add_post("/body", self.answer)
        self.server = await serve(app, [parse_listen_address("127.0.0.1:0")], tls, limit)
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

    async def silent(self, number, until):
        """Connect ``number`` clients one after the other; return their readers."""
        readers = []
        for count in range(number):
            readers.append((await self.connect())[0])
            await until(lambda count=count: self.connections == count + 1)
        return readers

    async def waiting(self, number, until, **more):
        """Connect ``number`` clients that ask for the waiting page; return their readers."""
        asked = [await self.connect(WAIT, **more) for _ in range(number)]
        await until(lambda: self.begun == number)
        return [reader for reader, _ in asked]

    @property
    def connections(self):
        return len(self.server.connections)

    async def close(self):
        self.go_on.set()
        for writer in self.writers:
            writer.transport.abort()
        await self.server.close()


@pytest.fixture
async def idle():
    """Return a server that the test starts."""
    serving = Serving()
    yield serving
    await serving.close()


@pytest.fixture
async def serving(idle):
    """Return a server that is started, without TLS."""
    await idle.start()
    return idle


@pytest.fixture
def by_address(monkeypatch):
    """Count clients by their loopback address."""
    monkeypatch.setattr(module, "counted_address", lambda peer: peer[0])


async def text_of(reader):
    """Return the body of the next response."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(int(line.split()[1]) for line in head.splitlines() if line.startswith(b"Content-Length"))
    return (await reader.readexactly(length)).decode()


async def hung_up(reader):
    """Return whether the other side has closed or reset the connection."""
    try:
        return await reader.read() == b""
    except ConnectionError:
        return True


# Time


@pytest.mark.parametrize("begun", [b"", b"GET / HTTP/1.1\r\n", b"GET / HTTP/1.1\r\nHost: x\r\nX: y"])
async def test_a_client_that_does_not_finish_its_head_is_disconnected(serving, pass_time, until, begun):
    reader, _ = await serving.connect(begun)
    await until(lambda: pass_time(HEAD_SECONDS) == 1)
    assert await hung_up(reader)
    await until(lambda: serving.connections == 0)


async def test_a_body_is_no_head(serving, pass_time, until):
    """aiohttp itself knows when a head ends: by its private future, which this test guards."""
    reader, writer = await serving.connect(BODY + b"300000\r\n\r\n" + b"a" * 200_000)
    await until(lambda: serving.begun == 1)
    assert pass_time(HEAD_SECONDS) == 0
    writer.write(b"a" * 100_000)
    assert await text_of(reader) == "300000"


@pytest.mark.parametrize("close", [b"", b"Connection: close\r\n"], ids=["kept alive", "to be closed"])
@pytest.mark.parametrize("has_tls", [False, True], ids=["plain", "tls"])
async def test_a_client_that_does_not_read_is_disconnected(
    idle, context, encrypted, pass_time, until, close, has_tls
):
    await idle.start(Tls(lambda: context) if has_tls else NO_TLS)
    _, writer = await idle.connect(limit=1, **(encrypted if has_tls else {}))
    writer.transport.pause_reading()
    writer.write(b"GET /large HTTP/1.1\r\nHost: x\r\n%b\r\n" % close)
    await until(lambda: idle.begun == 1)
    await until(lambda: pass_time(STALLED_SECONDS) == 1)
    await until(lambda: idle.connections == 0)


async def test_a_client_that_has_read_everything_stays_connected(serving, pass_time):
    reader, writer = await serving.answered()
    assert pass_time(STALLED_SECONDS) == 1
    writer.write(REQUEST)
    assert await text_of(reader) == "here"


# Limits


async def test_at_the_limit_the_longest_idle_connection_is_replaced(idle, until):
    await idle.start(limit=3)
    with capture_logs() as logs:
        for reader in (await idle.silent(3, until))[:2]:
            await idle.answered()
            assert await hung_up(reader)
    assert idle.connections == 3
    assert [entry["event"] for entry in logs] == ["connections_full"]


async def test_a_connection_with_an_active_request_is_replaced_by_its_own_address_only_if_it_takes_long(
    idle, until, monkeypatch
):
    """Otherwise slow readers at the address of Prometheus would keep it out."""
    await idle.start(limit=2)
    slow, other = await idle.waiting(2, until)
    with capture_logs():
        assert await hung_up((await idle.connect(REQUEST))[0])
        monkeypatch.setattr(module, "SLOW_SECONDS", 0.0)
        await idle.answered()
    assert await hung_up(slow)
    idle.go_on.set()
    assert await text_of(other) == "at last"


@pytest.mark.usefixtures("by_address")
async def test_a_busy_connection_of_an_address_with_many_is_replaced(idle, until):
    await idle.start(limit=3)
    first, *others = await idle.waiting(3, until)
    with capture_logs():
        await idle.answered(local_addr=("127.0.0.2", 0))
    assert await hung_up(first)
    idle.go_on.set()
    assert [await text_of(reader) for reader in others] == ["at last", "at last"]


@pytest.mark.usefixtures("by_address")
async def test_many_addresses_with_one_connection_replace_no_busy_one(idle, until):
    await idle.start(limit=3)
    for host in (2, 3):
        await idle.connect(WAIT, local_addr=(f"127.0.0.{host}", 0))
    silent, _ = await idle.connect(local_addr=("127.0.0.4", 0))
    await until(lambda: idle.begun == 2 and idle.connections == 3)
    with capture_logs():
        await idle.connect(WAIT, local_addr=("127.0.0.5", 0))
        assert await hung_up(silent)
        await until(lambda: idle.begun == 3)
        reader, _ = await idle.connect(REQUEST, local_addr=("127.0.0.6", 0))
        assert await hung_up(reader)


# Descriptors


EXHAUSTED = OSError(errno.EMFILE, "as the system says it")


def none_free(*_arguments):
    raise EXHAUSTED


async def test_without_free_descriptors_the_spare_one_is_used(idle, monkeypatch, until):
    loop, errors = asyncio.get_running_loop(), [EXHAUSTED]
    accept = loop.sock_accept
    monkeypatch.setattr(
        loop, "sock_accept", lambda its: none_free() if errors and errors.pop() else accept(its)
    )
    monkeypatch.setattr(module, "PAUSE", 0)
    with capture_logs() as logs, monkeypatch.context() as patched:
        await idle.start()
        patched.setattr(module.os, "open", none_free)
        reader, _ = await idle.answered()
        assert await hung_up(reader)  # it has the last descriptor, so it is closed after the response
    await idle.answered()
    await until(lambda: idle.server.connections.has_spare)
    assert [(each["event"], each["reason"]) for each in logs] == [
        ("connections_not_taken", "as the system says it")
    ]


async def test_with_few_free_descriptors_few_connections_are_open(serving, until, monkeypatch):
    """The other descriptors are for the polls."""
    monkeypatch.setattr(module.resource, "getrlimit", lambda _: (RESERVED, RESERVED))
    with capture_logs() as logs:
        first, *_ = await serving.silent(SCARCE_CONNECTIONS, until)
        await serving.answered()
        assert await hung_up(first)
    assert serving.connections == SCARCE_CONNECTIONS
    assert [entry["event"] for entry in logs] == ["connections_not_taken"]


async def test_close_waits_for_active_requests_and_leaves_no_connection_and_no_task(serving, until):
    [waiting] = await serving.waiting(1, until)
    for _ in range(3):
        await serving.connect()
    await until(lambda: serving.connections == 4)
    closing = asyncio.create_task(serving.server.close())
    await settle()
    serving.go_on.set()
    assert await text_of(waiting) == "at last"
    await closing
    await until(lambda: serving.connections == 0)
    assert len(asyncio.all_tasks()) == 1
    assert not serving.server.connections.has_spare
    with pytest.raises(ConnectionRefusedError):
        await serving.connect()


# Requests


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        (b"<b>mine</b> is no request\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\nExpect: <b>mine</b>\r\n\r\n", 417),
        (b"GET /nothing HTTP/1.1\r\nHost: x\r\nExpect: mine\xff\r\n\r\n", 417),
        (b"GET / HTTP/1.1\r\nHost: x\r\n" + 5 * HEADER + b"\r\n", 431),
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


async def test_an_unfinished_head_above_the_total_limit_is_disconnected(serving):
    reader, _ = await serving.connect(b"GET / HTTP/1.1\r\nHost: x\r\n" + 5 * HEADER)
    assert await hung_up(reader)
    assert serving.begun == 0


async def test_a_client_that_pipelines_too_much_is_disconnected(serving, until):
    reader, writer = await serving.connect(WAIT)
    await until(lambda: serving.begun == 1)
    writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nX: %b\r\n\r\n" % (b"x" * 4000) * 20)
    assert await hung_up(reader)


async def test_a_connection_with_requests_ahead_is_closed_after_the_response(serving, pass_time, until):
    reader, writer = await serving.connect(WAIT)
    await until(lambda: serving.begun == 1)
    assert pass_time(HEAD_SECONDS) == 0, "an answer that takes long has no limit of time"
    writer.write(REQUEST)
    await until(lambda: any(each._ahead for each in serving.server.connections._open))
    serving.go_on.set()
    assert await text_of(reader) == "at last"
    assert await hung_up(reader)


async def test_of_requests_that_arrive_together_the_first_is_answered(serving):
    reader, _ = await serving.connect(REQUEST * 80)
    assert await text_of(reader) == "here"
    assert await hung_up(reader)
    assert serving.begun == 1


async def test_bodies_that_end_in_the_middle_are_logged_once_without_a_traceback(serving, until, caplog):
    with capture_logs() as logs:
        for number in range(5):
            _, writer = await serving.connect(BODY + b"9\r\n\r\n1")
            await until(lambda number=number: serving.begun == number + 1)
            writer.transport.abort()
            await until(lambda: not serving.connections)
    assert [entry["event"] for entry in logs] in ([], ["requests_incomplete"])
    assert not caplog.records


async def test_a_client_that_leaves_while_its_password_is_checked_logs_nothing(
    idle, make_state, until, caplog
):
    waiting, done = asyncio.Event(), asyncio.Event()

    @web.middleware
    async def check(request, handler):
        waiting.set()
        await idle.go_on.wait()
        try:
            return await handler(request)
        finally:
            done.set()

    await idle.start(app=create_app(make_state(), SimpleNamespace(middleware=check)))
    with capture_logs() as logs:
        _, writer = await idle.connect(REQUEST)
        await waiting.wait()
        writer.transport.abort()
        await until(lambda: not idle.connections)
        idle.go_on.set()
        await done.wait()
        await until(lambda: len(asyncio.all_tasks()) == 2)  # the test and the accept loop
    assert logs == []
    assert not caplog.records


# TLS


@pytest.fixture
def context(authority):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    return context


@pytest.fixture
def encrypted(trusting):
    return {"ssl": trusting(), "server_hostname": "localhost"}


async def test_a_client_that_is_not_admitted_gets_no_response(idle, context, encrypted):
    await idle.start(Tls(lambda: context, lambda _transport: False))
    reader, _ = await idle.connect(REQUEST, **encrypted)
    assert await hung_up(reader)
    assert idle.begun == 0


async def test_a_handshake_that_does_not_begin_times_out(idle, context, monkeypatch):
    monkeypatch.setattr(module, "HANDSHAKE_SECONDS", 0.01)
    await idle.start(Tls(lambda: context))
    reader, _ = await idle.connect()
    assert await hung_up(reader)


async def test_a_rotated_certificate_is_that_of_new_connections(idle, context, encrypted):
    contexts = [context]
    await idle.start(Tls(lambda: contexts[-1]))
    reader, writer = await idle.answered(**encrypted)
    contexts.append(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
    trustme.CA().issue_cert("localhost").configure_cert(contexts[-1])
    with pytest.raises(ssl.SSLError):
        await idle.connect(REQUEST, **encrypted)
    writer.write(REQUEST)  # the open connection stays
    assert await text_of(reader) == "here"
