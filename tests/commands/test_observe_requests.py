from __future__ import annotations

import argparse

import pytest
from aiohttp import web

from exporter.commands.observe_requests import NotReadError, exporter_url, read_requests
from exporter.export.request_models import RequestsView
from exporter.export.request_snapshot import head, lists
from exporter.requests.findings import RequestFindings

EMPTY = RequestsView(
    time=100.0,
    **head(RequestFindings(enabled=True, taken=7)),
    **{key: tuple(each) for key, each in lists(RequestFindings()).items()},
)


@pytest.fixture
async def exporter():
    """A function that serves an answer as an exporter does, a mock of one; returns its address."""
    runners = []

    async def serve(text, status=200):
        async def answer(_):
            return web.Response(text=text, status=status, content_type="application/json")

        app = web.Application()
        app.router.add_get("/api/v1/requests", answer)
        runner = web.AppRunner(app)
        runners.append(runner)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        return f"127.0.0.1:{runner.addresses[0][1]}"

    yield serve
    for runner in runners:
        await runner.cleanup()


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("localhost:7732", "http://localhost:7732/api/v1/requests"),
        ("https://exporter/", "https://exporter/api/v1/requests"),
        ("http://proxy/spec/", "http://proxy/spec/api/v1/requests"),
    ],
)
def test_an_exporter_is_named_by_its_address(text, url):
    assert exporter_url(text) == url


@pytest.mark.parametrize(
    "text", ["", "ftp://exporter", "http://", "http://[::1", "http://me:secret@exporter"]
)
def test_what_is_no_address_is_refused(text):
    with pytest.raises(argparse.ArgumentTypeError, match="is no exporter's URL"):
        exporter_url(text)


async def test_what_it_says_is_read_as_it_is(exporter):
    url = exporter_url(await exporter(EMPTY.model_dump_json()))
    assert await read_requests(url) == EMPTY


@pytest.mark.parametrize(
    ("text", "status", "says"),
    [("{}", 200, "this version"), ("no", 200, "this version"), (EMPTY.model_dump_json(), 401, "401")],
)
async def test_another_answer_is_told_in_words(exporter, text, status, says):
    with pytest.raises(NotReadError, match=says):
        await read_requests(exporter_url(await exporter(text, status)))
