from __future__ import annotations

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from pydantic import SecretStr

from spec_decode_exporter.config.http_settings import Authorization
from spec_decode_exporter.config.target_settings import HttpDiscovery, Scrape
from spec_decode_exporter.discovery.http_sd import HttpListDiscovery
from spec_decode_exporter.discovery.target_discovery import DiscoveryError


@pytest.fixture
async def lists():
    """Start a real server; ``lists(answer)`` returns the URL of a handler or a text."""
    servers: list[TestServer] = []

    async def serve(answer, **response) -> str:
        async def handle(request: web.Request) -> web.Response:
            if callable(answer):
                return answer(request)
            return web.Response(**{"text": answer, "content_type": "application/json", **response})

        app = web.Application()
        app.router.add_get("/list", handle)
        servers.append(TestServer(app))
        await servers[-1].start_server()
        return str(servers[-1].make_url("/list"))

    yield serve
    for server in servers:
        await server.close()


def discovery(url: str, **keys) -> HttpListDiscovery:
    return HttpListDiscovery(HttpDiscovery(url=url, **keys), Scrape())


async def test_a_list_is_fetched_and_read(lists, urls):
    found = await discovery(await lists('[{"targets": ["a:1"], "labels": {"team": "x"}}]')).targets()
    assert urls(found) == ["http://a:1/metrics"]
    assert [(target.labels, target.discovery) for target in found] == [((("team", "x"),), "http")]


async def test_the_request_is_that_of_prometheus_with_credentials(lists):
    seen = {}

    def answer(request: web.Request) -> web.Response:
        seen.update(request.headers)
        return web.json_response([])  # with a charset after the type

    token = Authorization(credentials=SecretStr("hunter2"))
    assert await discovery(await lists(answer), authorization=token, refresh_interval=90.0).targets() == []
    assert seen["X-Prometheus-Refresh-Interval-Seconds"] == "90"
    assert seen["Accept"] == "application/json"
    assert seen["Authorization"] == "Bearer hunter2"


@pytest.mark.parametrize(
    ("answer", "response", "message"),
    [
        ("[]", {"content_type": "text/html"}, "Content-Type is not application/json"),
        ("[", {}, "is not JSON"),
        ('[{"targets": 5}]', {}, r"\[0\].targets must be a list"),
        ("[]", {"status": 503}, "status 503"),
        ("[]", {"status": 302, "headers": {"Location": "/elsewhere"}}, "status 302"),
    ],
)
async def test_a_response_that_is_no_list_is_rejected(lists, answer, response, message):
    with pytest.raises(DiscoveryError, match=message) as caught:
        await discovery(await lists(answer, **response)).targets()
    assert caught.value.targets is None


async def test_an_unreachable_server_is_reported(unused_tcp_port):
    with pytest.raises(DiscoveryError, match="Connection refused"):
        await discovery(f"http://127.0.0.1:{unused_tcp_port}/list").targets()
