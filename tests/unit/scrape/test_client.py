"""Client with a real server on loopback. Broken and hostile servers: tests/robustness/faults.py."""

from __future__ import annotations

import asyncio
import gc
import gzip
import socket
import threading
import zlib
from contextlib import AsyncExitStack, suppress

import pytest

from spec_decode_exporter.config.http_settings import Authorization, HeaderValues, HttpSettings, TlsConfig
from spec_decode_exporter.scrape.client import (
    MIN_PIECES,
    PIECE_BYTES,
    Client,
    Connection,
    Resolver,
    ResponseParser,
)
from spec_decode_exporter.scrape.errors import PollError
from spec_decode_exporter.scrape.poll_record import PollRecord
from tests.robustness.faults import (
    CHUNKED,
    FaultServer,
    Respond,
    answer,
    close,
    endless,
    hang,
    head,
    sends,
    serving,
)

PAGE = b'vllm:num_requests_running{engine="0"} 1.0\n' * 50
MAX_BODY = 10_000
GZIP = "Content-Encoding: gzip"
SOON = 0.05  # a timeout for what must run into it


OK = answer(PAGE)


class Loopback(AsyncExitStack):
    """Servers on loopback and clients, which are closed when it ends."""

    async def serve(self, respond: Respond | bytes, *, ssl=None) -> FaultServer:
        respond = respond if callable(respond) else sends(respond)
        return await self.enter_async_context(serving(respond, ssl))

    def client(self, http: HttpSettings | None = None, *, timeout=20.0, **more) -> Client:
        client = Client(http or HttpSettings(), timeout=timeout, max_body=MAX_BODY, **more)
        self.push_async_callback(client.close)
        return client


@pytest.fixture
async def loopback():
    gc.freeze()  # the collection below scans only objects of the test: all others take a third of a second
    async with Loopback() as loopback:
        yield loopback
    gc.collect()  # what was not closed warns now, and a warning is an error
    gc.unfreeze()


@pytest.fixture
def client(loopback):
    return loopback.client()


async def failure(client: Client, url: str) -> PollError:
    with pytest.raises(PollError) as caught:
        await client.get(url)
    return caught.value


# Requests.


async def test_credentials_and_headers_are_sent(loopback, tmp_path):
    token = tmp_path / "token"
    token.write_text("let-me-in\n")
    bearer = Authorization.model_construct(type="Bearer", credentials=None, credentials_file=token)
    client = loopback.client(
        HttpSettings(authorization=bearer, http_headers={"X-Scope": HeaderValues(values=("a",))})
    )
    server = await loopback.serve(OK)
    await client.get(server.url())
    assert b"\r\nAuthorization: Bearer let-me-in\r\n" in server.requests[0]
    assert b"\r\nX-Scope: a\r\n" in server.requests[0]
    token.unlink()
    assert "token" in str(await failure(client, server.url()))
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("second", "outcome", "requests"),
    [
        ((sends(b"", close), sends(OK)), PAGE, 3),
        ((sends(b"", close), sends(b"", close)), "refused", 3),
        ((sends(OK[:30], close),), "malformed", 2),
    ],
    ids=["again", "only once", "not after the first byte of a response"],
)
async def test_a_request_on_a_connection_that_closes_is_sent_again(
    client, loopback, second, outcome, requests
):
    responses = iter([sends(OK), *second])

    async def in_turn(writer):
        await next(responses)(writer)

    server = await loopback.serve(in_turn)
    await client.get(server.url())
    if outcome == PAGE:
        assert (await client.get(server.url())).body == PAGE
    else:
        assert (await failure(client, server.url())).reason == outcome
    assert len(server.requests) == requests


@pytest.mark.parametrize(
    "data",
    [
        answer(PAGE, "Connection: close"),
        OK.replace(b"HTTP/1.1", b"HTTP/1.0"),
        OK + b"and more",
        OK + answer(b"unasked"),
        OK + b"HTTP/1.1 404 Not Found\r\n\r\n",
    ],
    ids=["close", "http-1.0", "garbage after it", "second answer", "second answer, an error"],
)
async def test_a_connection_is_not_used_again_after(client, loopback, data):
    server = await loopback.serve(data)
    for _ in range(2):
        assert (await client.get(server.url())).body == PAGE
    assert server.connections == 2


async def test_a_connection_is_used_for_its_own_server_only(client, loopback):
    first, second = await loopback.serve(answer(b"first")), await loopback.serve(answer(b"second"))
    bodies = [(await client.get(server.url())).body for server in (first, second, first)]
    assert bodies == [b"first", b"second", b"first"]


async def test_unrequested_data_between_polls_closes_the_connection(client, loopback, until):
    server = await loopback.serve(OK)
    await client.get(server.url())
    next(iter(server.open)).write(answer(b"stale", status="408 Request Timeout"))
    await until(lambda: not client._connection.is_open)
    assert (await client.get(server.url())).body == PAGE


# Responses.


def test_a_response_in_too_many_small_pieces_is_cut_off():
    response, limit = ResponseParser(4096), MIN_PIECES + 4096 // PIECE_BYTES
    response.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 4096\r\n\r\n")
    for _ in range(limit - 1):
        response.feed(b"x")
    with pytest.raises(PollError, match="small pieces"):
        response.feed(b"x")


@pytest.mark.parametrize(
    "data",
    [
        head(CHUNKED) + b"3\r\nabc\r\n2;extension=1\r\nde\r\n0\r\nTrailer: 1\r\n\r\n",
        b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + answer(b"abcde"),
        answer(gzip.compress(b"abcde"), "Content-Encoding: gzip"),
        answer(zlib.compress(b"abcde"), "Content-Encoding: deflate"),
        answer(b"abcde", "Content-Encoding: identity"),
    ],
    ids=["chunked", "after an interim answer", "gzip", "deflate", "identity"],
)
async def test_supported_encodings_of_a_body_are_decoded(client, loopback, data):
    server = await loopback.serve(data)
    assert [(await client.get(server.url())).body for _ in range(2)] == [b"abcde", b"abcde"]
    assert server.connections == 1


@pytest.mark.parametrize(
    ("expected", "respond"),
    [
        ("malformed", sends(head(CHUNKED) + b"2\r\nab\r\n", close)),
        ("malformed", sends(answer(gzip.compress(PAGE)[:-9], GZIP), close)),
        ("malformed", sends(answer(gzip.compress(PAGE) + b"more", GZIP), close)),
        ("malformed", sends(answer(PAGE, GZIP), close)),
        ("malformed", sends(answer(PAGE, "Content-Encoding: br"), close)),
        ("malformed", sends(head("Transfer-Encoding: gzip") + PAGE, close)),
        ("too_large: the body has", endless(head(GZIP), gzip.compress(bytes(10**7)))),
        ("too_large: the answer has more than 65536 bytes", endless(head(CHUNKED) + b"0\r\n", b"X-Trailer: 1\r\n" * 500)),
        ("too_large: the answer has more than 65536 bytes", endless(head(CHUNKED), b"1;" + b"e" * 5000)),
        # The body of an error is not waited for.
        ("status", sends(answer(b"", status="999 Odd", length=10**9), hang)),
    ],
    ids=[
        "without the last chunk", "cut gzip", "more after gzip", "not the gzip it claims", "unknown coding",
        "unknown transfer coding", "gzip bomb", "trailers", "chunk extension", "unknown status",
    ],
)  # fmt: skip
async def test_an_encoding_that_is_broken_or_without_end_is_rejected(client, loopback, expected, respond):
    server = await loopback.serve(respond)
    error = await failure(client, server.url())
    assert f"{error.reason}: {error}".startswith(expected)


@pytest.mark.parametrize(
    ("location", "shown"),
    [
        ("https://user:word@login.example/next?token=secret#here", "login.example"),
        ("/next?token=secret", "status 302 Found"),
        ("http://[::bad/?token=secret", "status 302 Found"),
        ("http://\xfftoken=secret/", "status 302 Found"),
    ],
)
async def test_a_redirect_is_not_followed_and_only_its_host_is_reported(client, loopback, location, shown):
    head = f"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: {location}\r\n\r\n"
    server = await loopback.serve(head.encode("latin-1"))
    error = await failure(client, server.url())
    assert error.reason == "status"
    assert shown in str(error)
    assert not [secret for secret in ("secret", "word", "next") if secret in str(error)]
    assert len(server.requests) == 1


JSON = "Content-Type: application/json"


@pytest.mark.parametrize(
    ("response", "text"),
    [
        (answer(b'{"error":{"message":"Loading model"}}', JSON, status="503 Service Unavailable"), "status 503 Service Unavailable: Loading model"),
        (answer(b"x" * 65_537, "Content-Type: text/plain", status="500 E"), "status 500 Internal Server Error"),
        (answer(gzip.compress(b"no"), "Content-Type: text/plain", GZIP, status="400 E"), "status 400 Bad Request"),
        (answer(b"no", "Content-Type: text/plain", status="500 E", length=5), "status 500 Internal Server Error: no"),
    ],
)  # fmt: skip
async def test_a_rejection_says_the_servers_reason_if_it_is_short(client, loopback, response, text):
    server = await loopback.serve(sends(response, close))
    assert str(await failure(client, server.url())) == text


async def test_a_rejection_that_echoes_the_request_reveals_no_secret(loopback, tmp_path):
    secrets = "sk-12345", "key=a%2Fb-c", "tenant-7"
    echo = "no sk-12345 a%2Fb-c a/b-c tenant-7 for gemma"
    (tmp_path / "token").write_text(secrets[0])
    http = HttpSettings(
        authorization=Authorization(credentials_file=tmp_path / "token"),
        http_headers={"X-Tenant": HeaderValues(values=(secrets[2],))},
    )
    server = await loopback.serve(answer(echo.encode(), "Content-Type: text/plain", status="400 E"))
    error = await failure(loopback.client(http), f"{server.url()}?{secrets[1]}&model=gemma")
    assert str(error) == "status 400 Bad Request: no … … … … for gemma"


async def test_max_body_can_lower_the_limit_of_a_page_and_not_raise_it(client, loopback):
    server = await loopback.serve(answer(bytes(1000)))
    with pytest.raises(PollError) as caught:
        await client.get(server.url(), max_body=999)
    assert caught.value.reason == "too_large"
    assert len((await client.get(server.url(), max_body=1000)).body) == 1000
    large = await loopback.serve(answer(bytes(MAX_BODY + 1)))
    with pytest.raises(PollError, match=f"max_body is {MAX_BODY}"):
        await client.get(large.url(), max_body=2 * MAX_BODY)


# Timeouts, and what a poll leaves behind.


async def test_the_timeout_covers_the_connection(loopback):
    # The backlog of the listening socket is full: connecting neither succeeds nor fails.
    with socket.socket() as silent, socket.socket() as first, socket.socket() as second:
        silent.bind(("127.0.0.1", 0))
        silent.listen(0)
        for queued in (first, second):
            queued.setblocking(False)
            queued.connect_ex(silent.getsockname())
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        assert (await failure(loopback.client(timeout=SOON), url)).reason == "timeout"


async def test_after_a_timeout_the_next_poll_has_a_new_connection(loopback, until):
    server = await loopback.serve(hang)
    client = loopback.client(timeout=SOON)
    assert (await failure(client, server.url())).reason == "timeout"
    await until(lambda: server.connections == 1)  # a busy server takes the first one late
    client._timeout, server.respond = 20.0, sends(OK)
    assert (await client.get(server.url())).body == PAGE
    assert server.connections == 2


async def test_each_request_of_a_connection_has_the_whole_timeout(loopback):
    async def late(writer):
        await asyncio.sleep(0.6)
        writer.write(OK)

    server = await loopback.serve(OK)
    client = loopback.client(timeout=1.0)
    for respond in (sends(OK), late, late):
        server.respond = respond
        assert (await client.get(server.url())).body == PAGE
    server.respond = hang
    assert (await failure(client, server.url())).reason == "timeout"
    assert server.connections == 1


async def test_a_failed_response_is_released_without_garbage_collection(client, loopback, until):
    server = await loopback.serve(answer(b"x" * MAX_BODY * 2))
    gc.disable()
    try:
        with suppress(PollError):
            await client.get(server.url())
        await until(
            lambda: not [one for one in gc.get_objects() if isinstance(one, ResponseParser | Connection)]
        )
    finally:
        gc.enable()


# Names and TLS.


async def test_an_invalid_url_is_rejected_without_repeating_it(client):
    error = await failure(client, "http://h:secret/")
    assert (error.reason, "secret" in str(error)) == ("malformed", False)


async def test_a_dead_name_of_one_resolver_delays_no_look_up_of_another(loopback, monkeypatch):
    released = threading.Event()
    look_up = socket.getaddrinfo

    def stuck(host, *args, **kwargs):
        if host == "dead.test":
            released.wait(20)
            raise socket.gaierror(socket.EAI_AGAIN, "no answer")
        return look_up(host, *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", stuck)
    dead, other = (loopback.client(resolver=Resolver(name, 1)) for name in "ab")
    waiting = asyncio.create_task(dead.get("http://dead.test/"))
    server = await loopback.serve(OK)
    assert (await other.get(f"http://localhost:{server.port}/")).body == PAGE
    assert not waiting.done()
    released.set()
    with pytest.raises(PollError, match="no answer") as caught:
        await waiting
    assert caught.value.reason == "dns"


@pytest.mark.parametrize("with_tls", [False, True], ids=["http", "https"])
async def test_a_body_may_end_with_the_connection(loopback, certificates, with_tls):
    tls = certificates.server_context if with_tls else None
    server = await loopback.serve(sends(head() + PAGE, close), ssl=tls)
    trusted = TlsConfig.model_construct(ca_file=certificates.authority)
    client = loopback.client(HttpSettings(tls_config=trusted))
    assert (await client.get(server.url())).body == PAGE


async def test_a_server_without_tls_and_one_with_it_are_said_to_be_it(client, loopback, certificates):
    server = await loopback.serve(OK, ssl=certificates.server_context)
    error = await failure(client, server.url().replace("https", "http"))
    assert str(error).endswith("the connection was closed without an answer (with TLS, write https://)")
    answered = b"HTTP/1.1 400 Bad\r\n\r\n"
    plain = await asyncio.start_server(lambda _, to: (to.write(answered), to.close()), "127.0.0.1", 0)
    port = plain.sockets[0].getsockname()[1]
    error = await failure(client, f"https://127.0.0.1:{port}/metrics")
    plain.close()
    record = PollRecord()
    record.failed(error.reason, str(error))
    assert (record.failure_text, record.remedy) == (f"no TLS at 127.0.0.1:{port}", "write `http://`")


async def test_a_certificate_of_an_unknown_authority_is_a_tls_error(client, loopback, certificates):
    server = await loopback.serve(OK, ssl=certificates.server_context)
    error = await failure(client, server.url())
    assert error.reason == "tls"
    assert "certificate" in str(error)
