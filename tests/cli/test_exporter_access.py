"""A command reads the API of a running exporter, and shows why it was rejected."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web

from spec_decode_exporter.app.service import Options, Service
from spec_decode_exporter.cli.exporter_access import NotReadError, read_snapshot_of, snapshot_url
from spec_decode_exporter.config.load import load
from spec_decode_exporter.scrape.poller import Poller
from spec_decode_exporter.web.server import parse_listen_address


def read(url):
    return read_snapshot_of(url)


async def test_a_running_exporter_answers_its_own_command(clock, monkeypatch):
    """It rejects polls of exporters, which have another User-Agent."""

    async def no_poll(_):
        await asyncio.Event().wait()

    monkeypatch.setattr(Poller, "run", no_poll)
    service = Service(lambda: load(None, environ={}), Options([parse_listen_address("127.0.0.1:0")]), clock)
    await service.start()
    try:
        url = snapshot_url(service.urls[0].removeprefix("http://").rstrip("/"))
        assert (await read(url)).engines == ()
        with pytest.raises(NotReadError, match="status 400 Bad Request: The parameter windows is unknown"):
            await read(f"{url}?windows=30s")
    finally:
        await service.close()


@pytest.mark.parametrize(
    ("kind", "body", "shown"),
    [
        ("application/problem+json", '{"detail": "red \\u001b[31m"}', r": status 403 Forbidden: red \x1b[31m"),
        ("application/problem+json", '{"detail": 7}', ": status 403 Forbidden"),
        ("application/problem+json", "[" * 9_000, ": status 403 Forbidden"),
        ("application/problem+json", "{}", ": status 403 Forbidden"),
        ("application/problem+json", "7" * 20_000, ": the body has 20000 bytes, max_body is 16384"),
        ("text/html", '{"detail": "no"}', ": status 403 Forbidden"),
    ],
)  # fmt: skip
async def test_an_untrusted_explanation_is_bounded_and_escaped(aiohttp_server, kind, body, shown):
    async def answer(_):
        return web.Response(status=403, body=body.encode(), content_type=kind)

    app = web.Application()
    app.router.add_get("/api/v1/snapshot", answer)
    server = await aiohttp_server(app)
    with pytest.raises(NotReadError) as caught:
        await read(str(server.make_url("/api/v1/snapshot")))
    assert str(caught.value).endswith(shown)
