"""The middleware never changes messages or their order, even with an internal error or without an exporter."""

import asyncio
import gzip
import logging
import threading
import tracemalloc
from itertools import chain
from unittest.mock import AsyncMock, Mock

import pytest

from spec_decode_exporter.vllm_middleware import spec_decode_requests as inside
from tests.unit.vllm_middleware.harness import (
    HANG,
    RESET,
    SCOPE,
    Exporter,
    Server,
    answer,
    application,
    asked,
    body,
    configure,
    json_exchange,
    run,
    start,
    stream,
    stream_exchange,
)

GONE = {"type": "http.disconnect"}
ASKS = [asked(b"{}")]
EXCHANGES = {
    "json": json_exchange(),
    "stream": stream_exchange(),
    "a request in pieces": ([asked(b'{"tempe', more=True), asked(b'rature":0.5}')], [start(), body(answer())]),
    "a body beyond the limit": json_exchange(b'{"prompt":"%s"}' % (b"a" * inside.BODY_BYTES)),
    "an answer that is no JSON": json_exchange(text=b"Not { json ["),
    "an answer beyond the limit": json_exchange(text=answer(text="a" * inside.BODY_BYTES)),
    "an answer without metrics": json_exchange(text=answer(None)),
    "compressed": (ASKS, [start(headers=[(b"content-encoding", b"gzip")]), body(gzip.compress(answer()))]),
    "a stream without usage": stream_exchange(pieces=stream()[:2] + stream()[-1:]),
    "a stream that breaks off": (ASKS, [*stream_exchange()[1][:2], RuntimeError("broken")]),
    "refused": (ASKS, [start(400), body(b'{"error": {"message": "no"}}')]),
    "headers that are none": (ASKS, [{"type": "http.response.start", "status": 200, "headers": 7}]),
    "sent before the request has come": ([asked(b"{", more=True), GONE], [start(), body(answer())]),
    "a client that leaves": ([GONE], [start(), body(b"")]),
    "a server that breaks": ([*ASKS, OSError("gone")], [start()]),
    "cancelled in the middle": (ASKS, [*stream_exchange()[1][:3], asyncio.CancelledError()]),
    "a body that is a view": (ASKS, [start(), body(memoryview(answer()))]),
}  # fmt: skip


async def same(incoming, outgoing):
    """Run an exchange with and without the middleware, compare the logs, and return the middleware."""
    app = inside.Middleware(application(outgoing))
    assert await run(app, incoming) == await run(application(outgoing), incoming)
    return app


@pytest.mark.usefixtures("exporter")
@pytest.mark.parametrize("name", EXCHANGES)
async def test_messages_and_their_order_are_the_same_with_and_without_the_middleware(name):
    app = await same(*EXCHANGES[name])
    app._reporter.work(0.0)


STEPS = [
    (inside.Exchange, "_is_end"),
    (inside.Exchange, "take"),
    (inside.Reporter, "attributes"),
    (inside.Reporter, "put"),
    (inside.Reporter, "_read"),
    (inside.Connection, "connect"),
    (inside.Connection, "post"),
    (inside.threading.Thread, "start"),
]


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step[1])
@pytest.mark.parametrize("error", [RuntimeError("Rumpelstilzchen"), MemoryError()], ids=repr)
@pytest.mark.parametrize("exchange", [json_exchange(), stream_exchange()], ids=["json", "stream"])
async def test_an_internal_error_in_any_step_affects_no_message_and_is_counted(
    exporter, monkeypatch, caplog, step, error, exchange
):
    with monkeypatch.context() as patch:
        patch.setattr(*step, Mock(side_effect=error))
        broken = await same(*exchange)
        if step[1] != "start":  # the timer of a reply is a thread too
            broken._reporter.work(0.0)
    broken._reporter.work(100.0)
    lost = [head for head, _ in exporter.requests if f"{inside.DROPPED}: 1" in head]
    assert len(lost) + len(exporter.records()) == 1
    assert len([one for one in caplog.records if one.levelno == logging.WARNING]) == 1
    assert "Rumpelstilzchen" not in caplog.text


@pytest.mark.usefixtures("exporter")
async def test_each_message_is_forwarded_before_it_is_read(monkeypatch):
    server = Server([asked(b"{}")])
    seen = []
    monkeypatch.setattr(
        inside.Exchange, "sent", lambda self, message: seen.append(server.log[-1] == ("sent", message))
    )
    outgoing = stream_exchange()[1]
    await inside.Middleware(application(outgoing))(SCOPE, server.receive, server.send)
    assert seen == [True] * len(outgoing)


@pytest.mark.parametrize(
    "reply",
    [
        HANG, RESET, b"", b"nonsense", b"HTTP/1.1 500 X\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 1000, b"HTTP/1.1 200 OK\r\nX: " + b"y" * 2**20,
        b"HTTP/1.1 100 Continue\r\n\r\n" * 1000,
    ],
    ids=lambda reply: repr(reply)[:40],
)  # fmt: skip
async def test_an_exporter_that_gives_no_answer_affects_no_message(monkeypatch, caplog, reply):
    monkeypatch.setattr(inside, "TIMEOUT_SECONDS", 1.0)
    with Exporter(reply) as exporter:
        configure(monkeypatch, URL=exporter.url)
        app = await same(*json_exchange())
        app._reporter.work(0.0)
        app._reporter.work(0.0)  # it waits before the next attempt
        assert len(exporter.requests) == 1
    assert list(app._reporter.unreported) == [False]
    assert len(caplog.records) == 1


async def test_a_reply_without_an_end_is_cut(monkeypatch):
    """The limit is one of the whole reply: a byte in each timeout is not enough."""
    monkeypatch.setattr(inside, "TIMEOUT_SECONDS", 0.5)
    sent, stop = [], threading.Event()

    class Drip(Exporter):
        def answer(self, connection):
            with connection:
                while len(sent) < 100 and not stop.wait(0.05):
                    sent.append(connection.send(b"H"))

    with Drip() as exporter:
        configure(monkeypatch, URL=exporter.url)
        app = await same(*json_exchange())
        app._reporter.work(0.0)
        stop.set()
    assert 1 <= len(sent) < 50
    assert list(app._reporter.unreported) == [False]


async def test_requests_beyond_the_queue_are_dropped_and_reported(exporter, monkeypatch):
    monkeypatch.setattr(inside, "WAITING_BYTES", 3 * inside.EXCHANGE_BYTES + 6000)
    app = inside.Middleware(application(json_exchange()[1]))
    for _ in range(5):
        await run(app, json_exchange()[0])
    app._reporter.work(0.0)
    assert len(exporter.records()) == 3
    assert f"{inside.DROPPED}: 2" in exporter.requests[0][0]
    await run(app, json_exchange()[0])
    app._reporter.work(1.0)
    assert len(exporter.records()) == 4


@pytest.mark.parametrize(("pieces", "size"), [(10_000, 10_000), (50, 2**20)])
async def test_a_long_stream_is_not_kept(exporter, pieces, size):
    """50 to 100 MB pass; at most 10 MB are kept. Long requests: tests/robustness."""
    many = (body(b"data: " + bytes(size) + b"\n\n", more=True) for _ in range(pieces))
    first, *last = stream_exchange()[1]
    wrapped = inside.Middleware(application(chain([first], many, last)))
    tracemalloc.start()
    try:
        await wrapped(SCOPE, Server([*ASKS]).receive, lambda _: asyncio.sleep(0))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    wrapped._reporter.work(0.0)
    assert most < 10_000_000
    assert len(exporter.records()) == 1


@pytest.mark.usefixtures("exporter")
@pytest.mark.parametrize(
    "change",
    [{"type": "lifespan"}, {"type": "websocket"}, *({"path": path} for path in ("/metrics", "/v1/completions/1"))],
    ids=str,
)  # fmt: skip
async def test_other_connections_and_paths_are_not_changed(change):
    app = AsyncMock()
    words = ({**SCOPE, **change}, object(), object())
    await inside.Middleware(app)(*words)
    assert [one is other for one, other in zip(app.await_args.args, words, strict=True)] == [True, True, True]
