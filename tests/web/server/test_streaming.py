from __future__ import annotations

import asyncio

import pytest
from aiohttp import web
from structlog.testing import capture_logs

from spec_decode_exporter.web.application import _hide_errors
from spec_decode_exporter.web.server import streaming
from spec_decode_exporter.web.server.http_server import serve
from spec_decode_exporter.web.server.listen import parse_listen_address
from spec_decode_exporter.web.server.streaming import PIECE

PIECES = 400


class Serving:
    """A server with a response of many pieces, and its clients, which send bytes."""

    def __init__(self):
        self.made, self.fails_at, self.writers = 0, None, []

    async def start(self):
        app = web.Application(middlewares=[_hide_errors])
        app.router.add_get("/large", self.large)
        self.server = await serve(app, [parse_listen_address("127.0.0.1:0")])
        return self

    async def large(self, request):
        return await streaming.stream(request, self.pieces(), {"Content-Type": "text/plain"})

    async def pieces(self):
        for number in range(PIECES):
            if number == self.fails_at:
                raise ValueError("a defect")
            self.made += 1
            yield b"x" * PIECE

    async def ask(self, path, method=b"GET"):
        port = int(self.server.urls[0].rpartition(":")[2].strip("/"))
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**16)
        self.writers.append(writer)
        writer.write(method + b" " + path + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        return reader, writer

    async def close(self):
        for writer in self.writers:
            writer.transport.abort()
        await self.server.close()


@pytest.fixture
async def serving():
    serving = await Serving().start()
    yield serving
    await serving.close()


async def everything(reader):
    read = b""
    while True:
        try:
            piece = await reader.read(2**20)
        except ConnectionError:
            piece = b""
        if not piece:
            return read
        read += piece


async def test_an_unread_response_is_not_rendered_further(serving, until):
    reader, writer = await serving.ask(b"/large")
    await reader.readuntil(b"\r\n\r\n")
    writer.transport.pause_reading()
    made = -1
    while made != serving.made:  # until the system's buffers are full
        made = serving.made
        for _ in range(1000):
            await asyncio.sleep(0)
    assert 0 < made < PIECES


async def test_head_of_a_large_response_renders_one_piece(serving):
    reader, _ = await serving.ask(b"/large", b"HEAD")
    assert (await everything(reader)).endswith(b"\r\n\r\n")
    assert serving.made == 1


async def test_an_error_after_the_first_piece_aborts_the_connection(serving):
    serving.fails_at = PIECES // 2
    reader, _ = await serving.ask(b"/large")
    with capture_logs() as logs:
        answer = await everything(reader)
    assert answer.count(b"HTTP/1.1 ") == 1
    assert not answer.endswith(b"0\r\n\r\n")
    assert [each["event"] for each in logs] == ["request_failed"]


async def test_a_client_that_does_not_read_in_time_is_disconnected(serving, monkeypatch, until):
    monkeypatch.setattr(streaming, "SEND_SECONDS", 0.01)
    reader, writer = await serving.ask(b"/large")
    writer.transport.pause_reading()
    with capture_logs() as logs:
        await until(lambda: not len(serving.server.limiter._open))
    assert serving.made < PIECES
    assert not logs
    assert not reader.at_eof()


async def test_a_client_that_disconnects_is_not_an_error(serving, until):
    reader, writer = await serving.ask(b"/large")
    await reader.readuntil(b"\r\n\r\n")
    with capture_logs() as logs:
        writer.transport.abort()
        await until(lambda: not len(serving.server.limiter._open))
    assert not logs
