"""The middleware never changes messages or their order, even with an internal error or without an exporter."""

from __future__ import annotations

import asyncio
import gzip
import logging
import threading
import tracemalloc

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from spec_decode_exporter.vllm_middleware import spec_decode_requests as inside
from tests.vllm_middleware.harness import (
    METRICS,
    SCOPE,
    Exporter,
    Server,
    answer,
    application,
    asked,
    body,
    json_exchange,
    run,
    start,
    stream,
    stream_exchange,
)

GONE = {"type": "http.disconnect"}
TOKENS = {"completion_tokens": 10, "prompt_tokens": 7, "prompt_tokens_details": {"cached_tokens": 4}}
RECORD = {"model": "tiny", "metrics": METRICS, "usage": TOKENS, "temperature": 0.5}


def reported(app, exporter, now=0.0):
    """Return the records that the exporter receives."""
    app._reporter.work(now)
    return exporter.records()


async def same(wrap, incoming, outgoing, scope=SCOPE):
    """Run an exchange with and without the middleware, compare the logs, and return them."""
    app = wrap(application(outgoing))
    assert await run(app, incoming, scope) == await run(application(outgoing), incoming, scope)
    return app


EXCHANGES = {
    "json": json_exchange(),
    "stream": stream_exchange(),
    "json in pieces": ([asked(b'{"tempe', more=True), asked(b'rature":0.5}')], [start(), *map(body, [b""])]),
    "a body that is no JSON": json_exchange(b'{"temperature": 0.5'),
    "no body": json_exchange(b""),
    "an empty answer": json_exchange(text=b""),
    "an answer that is no JSON": json_exchange(text=b"Not { json ["),
    "an answer without metrics": json_exchange(text=answer(None)),
    "an answer that ends in a text": json_exchange(text=b'{"metrics": {"a": "b'),
    "compressed": (
        [asked(b"{}")],
        [start(headers=[(b"content-encoding", b"gzip")]), body(gzip.compress(answer()))],
    ),
    "a stream without usage": stream_exchange(pieces=stream()[:2] + stream()[-1:]),
    "a stream that breaks off": ([asked(b"{}")], [*stream_exchange()[1][:2], RuntimeError("broken")]),
    "a stream of lines of its own": stream_exchange(pieces=[b": keep-alive\r\n\r\n", b"\n", b"data:\n\n"]),
    "refused": ([asked(b"{}")], [start(400), body(b'{"error": {"message": "no"}}')]),
    "headers of none": ([asked(b"{}")], [{"type": "http.response.start", "status": 200}, body(answer())]),
    "trailers": (
        [asked(b"{}")],
        [start(), body(answer()), {"type": "http.response.trailers", "headers": []}],
    ),
    "sent before the request has come": ([asked(b"{", more=True), GONE], [start(), body(answer())]),
    "a client that leaves": ([GONE], [start(), body(b"")]),
    "a server that breaks": ([asked(b"{}"), OSError("gone")], [start()]),
    "cancelled in the middle": ([asked(b"{}")], [*stream_exchange()[1][:3], asyncio.CancelledError()]),
    "messages of no kind that is known": ([asked(b"{}")], [start(), {"type": "http.response.zerocopysend"}]),
    "a body that is a view": ([asked(b"{}")], [start(), body(memoryview(answer()))]),
}


@pytest.mark.parametrize("name", EXCHANGES)
async def test_messages_and_their_order_are_the_same_with_and_without_the_middleware(wrap, name):
    app = await same(wrap, *EXCHANGES[name])
    app._reporter.work(0.0)


async def test_a_disconnect_of_the_client_reaches_the_application(wrap, exporter):
    """vLLM waits for a disconnect; a request without a complete response is not reported."""
    seen = []

    async def app(scope, receive, send):
        seen.append(await receive())
        await send(start(kind=b"text/event-stream"))
        await send(body(stream()[0], more=True))
        seen.append(await receive())

    wrapped = wrap(app)
    await run(wrapped, [asked(b"{}"), GONE])
    assert seen == [asked(b"{}"), GONE]
    assert reported(wrapped, exporter) == []


STEPS = {
    "the exchange": (inside.Exchange, "__init__"),
    "a message that comes": (inside.Exchange, "received"),
    "a message that goes": (inside.Exchange, "sent"),
    "a piece": (inside.Tail, "add"),
    "the headers": (inside.Reporter, "type_and_user"),
    "the queue": (inside.Reporter, "put"),
    "the thread's start": (inside.Reporter, "_start"),
    "the answer": (inside, "read_response"),
    "the request": (inside, "read_request"),
    "the keys": (inside, "top_level"),
    "the value": (inside, "value_at"),
    "the connection": (inside, "connection_to"),
    "the sending": (inside, "post"),
}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize(
    "error", [RuntimeError("bug"), MemoryError(), RecursionError(), UnicodeError("x")], ids=repr
)
@pytest.mark.parametrize("exchange", [json_exchange(), stream_exchange()], ids=["json", "stream"])
async def test_an_internal_error_in_any_step_affects_no_message(
    wrap, exporter, monkeypatch, caplog, step, error, exchange
):
    def fail(*words, **named):
        raise error

    monkeypatch.setattr(*STEPS[step], fail)
    broken = await same(wrap, *exchange)
    for now in (0.0, 100.0):
        broken._reporter.work(now)
    sent = any("X-Spec-Decode-Dropped: 1" in head for head, _ in exporter.requests)
    assert (
        sent or broken._reporter.sender.dropped + len(broken._reporter.sender._records) > 0
    )  # one that never left is kept
    assert len([one for one in caplog.records if one.levelno == logging.WARNING]) == 1


async def test_each_message_is_forwarded_before_it_is_read(wrap, monkeypatch):
    server = Server([asked(b"{}")])
    seen = []
    monkeypatch.setattr(
        inside.Exchange, "sent", lambda self, message: seen.append(server.log[-1] == ("sent", message))
    )
    outgoing = stream_exchange()[1]
    await wrap(application(outgoing))(SCOPE, server.receive, server.send)
    assert seen == [True] * len(outgoing)


async def test_the_thread_survives_an_internal_error(wrap, monkeypatch):
    rounds = []

    def work(reporter, now):
        rounds.append(now)
        if len(rounds) == 1:
            raise RuntimeError("bug")
        raise SystemExit

    monkeypatch.setattr(inside, "ROUND_SECONDS", 0.0)
    monkeypatch.setattr(inside.Reporter, "work", work)
    reporter = wrap(None)._reporter
    with pytest.raises(SystemExit):
        reporter._run()
    assert len(rounds) == 2


@pytest.mark.parametrize(
    "reply", [Exporter.HANG, Exporter.RESET, b"", b"nonsense", b"HTTP/1.1 500 X\r\n\r\n"]
)
async def test_an_exporter_that_does_not_answer_affects_no_message(settings, monkeypatch, caplog, reply):
    monkeypatch.setattr(inside, "TIMEOUT_SECONDS", 0.05)
    with Exporter(reply) as exporter:
        settings(URL=exporter.url)
        app = await same(inside.Middleware, *json_exchange())
        app._reporter.work(0.0)
        assert len(exporter.requests) == 1
        app._reporter.work(0.0)
    assert app._reporter.sender.dropped == 1
    assert len(caplog.records) == 1


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # that is how it ends
async def test_no_request_waits_for_the_thread(wrap, exporter, monkeypatch):
    """Requests pass while the exporter blocks the thread."""
    monkeypatch.setattr(inside, "ROUND_SECONDS", 0.0)
    hung, go_on = threading.Event(), threading.Event()

    def hang(*words):
        hung.set()
        go_on.wait(30)
        raise SystemExit

    monkeypatch.setattr(inside, "connection_to", hang)
    app = await same(wrap, *json_exchange())
    thread = threading.Thread(target=app._reporter._run, daemon=True)
    thread.start()
    assert hung.wait(30)
    for _ in range(10):
        await run(app, *json_exchange()[:1])
    assert len(app._reporter._exchanges) == 2 * 10  # a request, and its answer
    go_on.set()
    thread.join()


@pytest.mark.parametrize("room", [6, 7])
async def test_requests_beyond_the_queue_are_dropped_and_reported(wrap, exporter, monkeypatch, room):
    """A request whose body or response does not fit is dropped once."""
    monkeypatch.setattr(inside, "EXCHANGES", room)
    app = wrap(application(json_exchange()[1]))
    for _ in range(5):
        await run(app, json_exchange()[0])
    assert len(reported(app, exporter)) == 3
    assert "X-Spec-Decode-Dropped: 2" in exporter.requests[0][0]


async def test_long_requests_in_the_queue_stay_within_the_memory_limit(wrap, monkeypatch):
    monkeypatch.setattr(inside, "EXCHANGE_BYTES", 12_000)
    app = wrap(application(json_exchange()[1]))
    for _ in range(5):
        await run(app, [asked(b" " * 2000)])
    waiting = app._reporter._exchanges
    assert 10_000 < waiting.size <= 12_000
    assert app._reporter.sender.dropped == 4
    app._reporter.work(0.0)
    assert waiting.size == len(waiting) == 0


@pytest.mark.parametrize("kind", [b"u" * 2000, "😀".encode() * 500])
async def test_queued_parts_need_no_more_memory_than_counted(wrap, settings, kind):
    """With the longest type, user and beginning of a response."""
    settings(USER_HEADER="x-user")
    outgoing = stream_exchange(pieces=[b"data: {}" + b" " * 4000 + b"\n\n"])[1]

    async def app(scope, receive, send):
        await receive()
        (read, exchange), size = waiting._items.pop()
        waiting.size -= size
        read(exchange)  # the request; its answer will wait
        for message in outgoing:
            await send(message)

    wrapped = wrap(app)
    waiting = wrapped._reporter._exchanges
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for number in range(100):
            values = [b"%d" % number + kind for _ in range(2)]
            scope = {**SCOPE, "headers": list(zip((b"x-request-type", b"x-user"), values, strict=True))}
            await run(wrapped, [asked(b"{%d" % number)], scope)
        held = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert len(waiting) == 100
    assert held < waiting.size


async def test_a_long_stream_and_a_long_request_are_not_kept(wrap, exporter):
    """100 MB pass; at most 3 MB are kept, with the last MiB of the request."""
    piece = b"data: " + b"x" * 10_000 + b"\n\n"
    part = b'"' + b"y" * 65_000 + b'",'
    incoming = [
        asked(b'{"prompt":[', more=True),
        *[asked(part, more=True)] * 200,
        asked(b'"" ],"temperature":0.5}'),
    ]

    async def app(scope, receive, send):
        while (await receive())["more_body"]:
            pass
        await send(start(kind=b"text/event-stream"))
        for _ in range(10_000):
            await send(body(bytes(piece) + b"", more=True))
        for last in stream():
            await send(body(last, more=True))
        await send(body(b""))

    async def receive():
        message = incoming.pop(0)
        return {**message, "body": bytes(bytearray(message["body"]))}

    async def send(message):
        pass

    wrapped = wrap(app)
    tracemalloc.start()
    try:
        await wrapped(SCOPE, receive, send)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 3_000_000
    assert reported(wrapped, exporter) == [{**RECORD, "stream": True}]


@given(data=st.data())
@examples(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
async def test_the_division_into_pieces_does_not_matter(wrap, exporter, data):
    whole = data.draw(st.sampled_from([answer(), b"".join(stream())]))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=12)))
    pieces = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    kind = b"text/event-stream" if whole.startswith(b"data") else b"application/json"
    outgoing = [start(kind=kind), *(body(piece, more=True) for piece in pieces), body(b"")]
    app = await same(wrap, [asked(b'{"temperature":0.5}')], outgoing)
    del exporter.requests[:]
    assert reported(app, exporter) == [{**RECORD, "stream": kind != b"application/json"}]


async def test_prompts_and_completions_are_never_sent(wrap, exporter):
    secret = "Rumpelstilzchen"
    request = f'{{"messages":[{{"content":"{secret}"}}],"temperature":0.5,"user":"{secret}"}}'.encode()
    for exchange in (
        json_exchange(request, answer({**METRICS, "prompt": secret}, secret, prompt=secret)),
        stream_exchange(request, stream({**METRICS, "text": secret}, [secret])),
    ):
        app = await same(wrap, *exchange)
        app._reporter.work(0.0)
    assert len(exporter.requests) == 2
    assert not any(secret in head or secret.encode() in text for head, text in exporter.requests)


async def test_a_request_without_speculation_is_reported_without_metrics(wrap, exporter):
    """The exporter counts them: several sequences, or a stream without usage."""
    app = await same(wrap, *json_exchange(b'{"n":2}', answer(None)))
    assert reported(app, exporter) == [
        {"model": "tiny", "metrics": {}, "usage": TOKENS, "n": 2, "stream": False}
    ]


@pytest.mark.parametrize(
    "scope",
    [
        {**SCOPE, "type": "lifespan"},
        {**SCOPE, "type": "websocket"},
        *({**SCOPE, "path": path} for path in ("/metrics", "/v1/models", "/v1/completions/1", "/")),
    ],
)
async def test_other_connections_and_paths_are_not_changed(wrap, scope):
    seen = []

    async def app(*words):
        seen.extend(words)

    words = (scope, object(), object())
    await wrap(app)(*words)
    assert [one is other for one, other in zip(seen, words, strict=True)] == [True, True, True]


@pytest.mark.parametrize(
    ("path", "exchange", "streamed"),
    [
        ("/v1/chat/completions", json_exchange(), False),
        ("/v1/completions", stream_exchange(), True),
        ("/behind/a/proxy/v1/completions", json_exchange(), False),
    ],
)
async def test_the_metrics_of_a_response_are_sent(wrap, exporter, path, exchange, streamed):
    app = await same(wrap, *exchange, {**SCOPE, "path": path})
    assert reported(app, exporter) == [{**RECORD, "stream": streamed}]
