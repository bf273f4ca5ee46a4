"""Client with a real, possibly faulty server on loopback."""

from __future__ import annotations

import asyncio
import gc
import gzip
import socket
import ssl
import struct
import threading
import zlib
from contextlib import AsyncExitStack, suppress

import pytest

from spec_decode_exporter.config.http_settings import Authorization, HeaderValues, HttpSettings, TlsConfig
from spec_decode_exporter.scrape.client import Client, Connection, Resolver, ResponseParser
from spec_decode_exporter.scrape.errors import PollError, StatusError

PAGE = b'vllm:num_requests_running{engine="0"} 1.0\n' * 50
MAX_BODY = 10_000
SOON = 0.05
"""A timeout for what must run into it."""


def answer(body: bytes = PAGE, *headers: str, status: str = "200 OK", length: int | None = None) -> bytes:
    lines = [
        f"HTTP/1.1 {status}",
        f"Content-Length: {len(body) if length is None else length}",
        *headers,
        "",
        "",
    ]
    return "\r\n".join(lines).encode() + body


def unsized(body: bytes, *headers: str) -> bytes:
    return "\r\n".join(["HTTP/1.1 200 OK", *headers, "", ""]).encode() + body


def closing(data: bytes):
    """Respond with `data` and close the connection."""

    async def respond(reader, writer):
        writer.write(data)
        writer.close()

    return respond


def then_hang(data: bytes):
    """Respond with `data`, then hang."""

    async def respond(reader, writer):
        writer.write(data)
        await reader.read()

    return respond


def reset_after(data: bytes):
    """Respond with `data` and break the connection."""

    async def respond(reader, writer):
        writer.write(data)
        await writer.drain()
        if data:
            await asyncio.sleep(0.01)  # else the kernel throws away what the client has not read yet
        linger = struct.pack("ii", 1, 0)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        writer.transport.abort()

    return respond


def flood(head: bytes, piece: bytes):
    """Respond with `head`, then with `piece` endlessly."""

    async def respond(reader, writer):
        writer.write(head)
        while True:
            writer.write(piece)
            await writer.drain()

    return respond


@pytest.fixture
async def client():
    client = Client(HttpSettings(), timeout=20.0, max_body=MAX_BODY)
    yield client
    await client.close()


async def failure(client: Client, url: str) -> PollError:
    with pytest.raises(PollError) as caught:
        await client.get(url)
    return caught.value


async def test_credentials_and_headers_are_sent(fault_server, tmp_path):
    token = tmp_path / "token"
    token.write_text("let-me-in\n")
    settings = HttpSettings(
        authorization=Authorization.model_construct(type="Bearer", credentials=None, credentials_file=token),
        http_headers={"X-Scope": HeaderValues(values=("a",))},
    )
    client = Client(settings, timeout=20.0, max_body=MAX_BODY)
    server = await fault_server(answer())
    await client.get(server.url())
    await client.close()
    assert b"\r\nAuthorization: Bearer let-me-in\r\n" in server.requests[0]
    assert b"\r\nX-Scope: a\r\n" in server.requests[0]


async def test_a_request_on_a_closing_connection_is_sent_again(client, fault_server):
    async def answer_first_request_only(reader, writer):
        if len(server.requests) == 2:
            writer.close()
        else:
            writer.write(answer())

    server = await fault_server(answer_first_request_only)
    await client.get(server.url())
    assert (await client.get(server.url())).body == PAGE
    assert (server.connections, len(server.requests)) == (2, 3)


async def test_a_request_is_sent_again_only_once(client, fault_server):
    async def answer_first_request_only(reader, writer):
        writer.write(answer()) if len(server.requests) == 1 else writer.close()

    server = await fault_server(answer_first_request_only)
    await client.get(server.url())
    error = await failure(client, server.url())
    assert error.reason == "refused"
    assert "without an answer" in str(error)
    assert len(server.requests) == 3


async def test_a_request_is_not_sent_again_after_the_first_byte_of_a_response(client, fault_server):
    async def cut_second_answer(reader, writer):
        writer.write(answer() if len(server.requests) == 1 else answer()[:30])
        if len(server.requests) == 2:
            writer.close()

    server = await fault_server(cut_second_answer)
    await client.get(server.url())
    assert (await failure(client, server.url())).reason == "malformed"
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    "data",
    [
        answer(PAGE, "Connection: close"),
        answer().replace(b"HTTP/1.1", b"HTTP/1.0"),
        answer() + b"and more",
        answer() + answer(b"unasked"),
        answer() + b"HTTP/1.1 404 Not Found\r\n\r\n",
    ],
    ids=["close", "http-1.0", "garbage after it", "second answer", "second answer, an error"],
)
async def test_a_connection_is_not_used_again_after(client, fault_server, data):
    server = await fault_server(data)
    for _ in range(2):
        assert (await client.get(server.url())).body == PAGE
    assert server.connections == 2


async def test_a_new_connection_is_opened_after_the_old_one_is_closed(client, fault_server, monkeypatch):
    """Its descriptor may be the only free one."""

    async def connecting(*arguments, **more):
        closed.append(connections[-1].lost.done() if connections else None)
        transport, connection = await connect(*arguments, **more)
        connections.append(connection)
        return transport, connection

    connections, closed, loop = [], [], asyncio.get_running_loop()
    connect = loop.create_connection
    monkeypatch.setattr(loop, "create_connection", connecting)
    server = await fault_server(answer(length=MAX_BODY + 1))
    for _ in range(3):
        await failure(client, server.url())
    assert closed == [None, True, True]


async def test_a_connection_is_used_for_its_own_server_only(client, fault_server):
    first, second = await fault_server(answer(b"first")), await fault_server(answer(b"second"))
    bodies = [(await client.get(server.url())).body for server in (first, second, first)]
    assert bodies == [b"first", b"second", b"first"]


async def test_unrequested_data_between_polls_closes_the_connection(client, fault_server, until):
    server = await fault_server(answer())
    await client.get(server.url())
    next(iter(server.open)).write(answer(b"stale", status="408 Request Timeout"))
    await until(lambda: not client._connection.is_open)
    assert (await client.get(server.url())).body == PAGE


@pytest.mark.parametrize(
    "data",
    [
        unsized(b"3\r\nabc\r\n2;extension=1\r\nde\r\n0\r\nTrailer: 1\r\n\r\n", "Transfer-Encoding: chunked"),
        b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + answer(b"abcde"),
        answer(gzip.compress(b"abcde"), "Content-Encoding: gzip"),
        answer(zlib.compress(b"abcde"), "Content-Encoding: deflate"),
        answer(b"abcde", "Content-Encoding: identity"),
    ],
    ids=["chunked", "after an interim answer", "gzip", "deflate", "identity"],
)
async def test_supported_encodings_of_a_body_are_decoded(client, fault_server, data):
    server = await fault_server(data)
    assert [(await client.get(server.url())).body for _ in range(2)] == [b"abcde", b"abcde"]
    assert server.connections == 1


async def test_a_body_may_end_with_the_connection(client, fault_server):
    server = await fault_server(closing(unsized(PAGE, "Content-Type: text/plain")))
    assert (await client.get(server.url())).body == PAGE


@pytest.mark.parametrize(
    "data",
    [
        unsized(b"5\r\nab", "Transfer-Encoding: chunked"),
        unsized(b"2\r\nab\r\n", "Transfer-Encoding: chunked"),
        answer(gzip.compress(PAGE)[:-9], "Content-Encoding: gzip"),
        answer(gzip.compress(PAGE) + b"more", "Content-Encoding: gzip"),
        answer(PAGE, "Content-Encoding: gzip"),
        answer(PAGE, "Content-Encoding: br"),
        unsized(PAGE, "Transfer-Encoding: gzip"),
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"HTTP/1.1 twohundred OK\r\n\r\n",
    ],
    ids=[
        "cut in a chunk", "without the last chunk", "cut gzip", "more after gzip", "not the gzip it claims",
        "unknown coding", "unknown transfer coding", "ssh", "bad status",
    ],
)  # fmt: skip
async def test_a_malformed_response_is_rejected(client, fault_server, data):
    server = await fault_server(closing(data))
    assert (await failure(client, server.url())).reason == "malformed"


@pytest.mark.parametrize(
    "status", ["204 No Content", "206 Partial Content", "404 Not Found", "503 Busy", "999 Odd"]
)
async def test_any_status_but_200_is_an_error_with_its_number(client, fault_server, status):
    # It hangs after its head: the body of an error is not waited for.
    server = await fault_server(
        then_hang(answer(b"", status=status, length=10**9).partition(b"\r\n\r\n")[0] + b"\r\n\r\n")
    )
    error = await failure(client, server.url())
    assert isinstance(error, StatusError)
    assert (error.reason, error.status) == ("status", int(status[:3]))


@pytest.mark.parametrize(
    ("location", "shown"),
    [
        ("https://user:word@login.example/next?token=secret#here", "login.example"),
        ("/next?token=secret", "status 302 Found"),
        ("http://[::bad/?token=secret", "status 302 Found"),
        ("http://\xfftoken=secret/", "status 302 Found"),
    ],
)
async def test_a_redirect_is_not_followed_and_only_its_host_is_reported(
    client, fault_server, location, shown
):
    data = answer(b"", status="302 Found").replace(
        b"\r\n\r\n", b"\r\nLocation: " + location.encode("latin-1") + b"\r\n\r\n"
    )
    server = await fault_server(data)
    error = await failure(client, server.url())
    assert error.reason == "status"
    assert shown in str(error)
    for secret in ("secret", "word", "next"):
        assert secret not in str(error)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "respond",
    [
        flood(unsized(b"", "Content-Encoding: gzip"), gzip.compress(bytes(10**7))),
        flood(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 100),
        flood(unsized(b"0\r\n", "Transfer-Encoding: chunked"), b"X-Trailer: 1\r\n" * 500),
        flood(unsized(b"", "Transfer-Encoding: chunked"), b"1;" + b"e" * 5000),
    ],
    ids=["gzip bomb", "interim answers", "trailers", "chunk extension"],
)
async def test_an_endless_response_is_cut_off(client, fault_server, respond):
    server = await fault_server(respond)
    assert (await failure(client, server.url())).reason == "too_large"


async def test_max_body_can_lower_the_limit_of_a_page_and_not_raise_it(client, fault_server):
    server = await fault_server(answer(bytes(1000)))
    with pytest.raises(PollError) as caught:
        await client.get(server.url(), max_body=999)
    assert caught.value.reason == "too_large"
    assert len((await client.get(server.url(), max_body=1000)).body) == 1000
    large = await fault_server(answer(bytes(MAX_BODY + 1)))
    with pytest.raises(PollError, match=f"max_body is {MAX_BODY}"):
        await client.get(large.url(), max_body=2 * MAX_BODY)


async def test_the_timeout_is_for_the_whole_response_not_for_each_byte(fault_server):
    async def drip(reader, writer):
        for byte in answer():
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(SOON / 10)

    client = Client(HttpSettings(), timeout=SOON, max_body=MAX_BODY)
    assert (await failure(client, (await fault_server(drip)).url())).reason == "timeout"


async def test_the_timeout_covers_the_connection():
    # The backlog of the listening socket is full: connecting neither succeeds nor fails.
    with socket.socket() as silent, socket.socket() as first, socket.socket() as second:
        silent.bind(("127.0.0.1", 0))
        silent.listen(0)
        for queued in (first, second):
            queued.setblocking(False)
            queued.connect_ex(silent.getsockname())
        client = Client(HttpSettings(), timeout=SOON, max_body=MAX_BODY)
        assert (await failure(client, f"http://127.0.0.1:{silent.getsockname()[1]}/")).reason == "timeout"


async def test_after_a_timeout_the_next_poll_has_a_new_connection(fault_server):
    async def hang_at_first(reader, writer):
        if len(server.requests) == 1:
            await reader.read()
        writer.write(answer())

    server = await fault_server(hang_at_first)
    client = Client(HttpSettings(), timeout=SOON, max_body=MAX_BODY)
    assert (await failure(client, server.url())).reason == "timeout"
    client._timeout = 20.0
    assert (await client.get(server.url())).body == PAGE
    assert server.connections == 2
    await client.close()


async def test_a_cancelled_poll_leaves_nothing_behind(client, fault_server, until):
    server = await fault_server(then_hang(b"HTTP/1.1"))
    poll = asyncio.create_task(client.get(server.url()))
    await until(lambda: server.requests)
    poll.cancel()
    with pytest.raises(asyncio.CancelledError):
        await poll
    assert client._connection is None
    await until(lambda: not server.open)


async def test_a_failed_response_is_released_without_garbage_collection(client, fault_server, until):
    server = await fault_server(answer(b"x" * MAX_BODY * 2))
    gc.disable()
    try:
        with suppress(PollError):
            await client.get(server.url())
        await until(
            lambda: not [one for one in gc.get_objects() if isinstance(one, ResponseParser | Connection)]
        )
    finally:
        gc.enable()


@pytest.mark.parametrize("data", [b"", answer()[:60]], ids=["at once", "in the body"])
async def test_a_broken_connection_is_refused(client, fault_server, data):
    server = await fault_server(reset_after(data))
    assert (await failure(client, server.url())).reason == "refused"


async def test_an_unknown_name_is_a_dns_error(client):
    assert (await failure(client, "http://no-such-host.invalid:8000/metrics")).reason == "dns"


@pytest.mark.parametrize(
    "url", ["ftp://secret/", "http:///secret", "http://h:secret/", "http://se cret/", "http://a..secret/"]
)
async def test_an_invalid_url_is_rejected_without_repeating_it(client, url):
    error = await failure(client, url)
    assert error.reason == "malformed"
    assert "cret" not in str(error)


async def test_a_dead_name_of_one_resolver_delays_no_look_up_of_another(fault_server, monkeypatch):
    released = threading.Event()
    look_up = socket.getaddrinfo

    def stuck(host, *args, **kwargs):
        if host == "dead.test":
            released.wait(20)
            raise socket.gaierror(socket.EAI_AGAIN, "no answer")
        return look_up(host, *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", stuck)
    dead = Client(HttpSettings(), timeout=20.0, max_body=MAX_BODY, resolver=Resolver("a", 1))
    other = Client(HttpSettings(), timeout=20.0, max_body=MAX_BODY, resolver=Resolver("b", 1))
    waiting = asyncio.create_task(dead.get("http://dead.test/"))
    server = await fault_server(answer())
    assert (await other.get(f"http://localhost:{server.port}/")).body == PAGE
    assert not waiting.done()
    released.set()
    with pytest.raises(PollError, match="no answer") as caught:
        await waiting
    assert caught.value.reason == "dns"
    await other.close()


@pytest.fixture
def tls(certificates):
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificates.certificate, certificates.key)
    return context


def tls_client(**settings) -> Client:
    http = HttpSettings(tls_config=TlsConfig.model_construct(**settings))
    return Client(http, timeout=20.0, max_body=MAX_BODY)


@pytest.fixture
async def raw_server():
    """Start a server without HTTP or TLS: it sends its data at the first byte and waits for the end."""
    async with AsyncExitStack() as stack:

        async def start(piece: bytes) -> int:
            async def respond(reader, writer):
                await reader.read(1)
                writer.write(piece)
                with suppress(ConnectionError):
                    await reader.read()
                writer.close()
                done.set()

            done = asyncio.Event()
            listening = await asyncio.start_server(respond, "127.0.0.1", 0)
            stack.push_async_callback(done.wait)
            await stack.enter_async_context(listening)
            return listening.sockets[0].getsockname()[1]

        yield start


async def test_a_body_may_end_with_the_tls_connection(fault_server, tls, certificates):
    server = await fault_server(closing(unsized(PAGE)), ssl=tls)
    assert (await tls_client(ca_file=certificates.authority).get(server.url())).body == PAGE


async def test_a_certificate_of_an_unknown_authority_is_a_tls_error(client, fault_server, tls):
    server = await fault_server(answer(), ssl=tls)
    error = await failure(client, server.url())
    assert error.reason == "tls"
    assert "certificate" in str(error)


async def test_https_to_a_server_without_tls_is_a_tls_error(client, raw_server):
    port = await raw_server(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    assert (await failure(client, f"https://127.0.0.1:{port}/")).reason == "tls"


async def test_the_timeout_covers_the_tls_handshake(raw_server):
    client = Client(HttpSettings(), timeout=SOON, max_body=MAX_BODY)
    assert (await failure(client, f"https://127.0.0.1:{await raw_server(b'')}/")).reason == "timeout"


async def test_a_secret_that_is_missing_is_reported_before_anything_is_sent(fault_server, tmp_path):
    settings = HttpSettings(
        authorization=Authorization.model_construct(
            type="Bearer", credentials=None, credentials_file=tmp_path / "gone"
        )
    )
    server = await fault_server(answer())
    error = await failure(Client(settings, timeout=20.0, max_body=MAX_BODY), server.url())
    assert "gone" in str(error)
    assert server.connections == 0
