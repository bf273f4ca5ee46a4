"""The application: headers of every response, reloads, and internal errors."""

import gc
from unittest.mock import AsyncMock

import pytest
from structlog.testing import capture_logs
from yarl import URL

from spec_decode_exporter.config.mistakes import ConfigError, Problem
from spec_decode_exporter.views.engine_view import EngineView
from spec_decode_exporter.views.fleet_view import TargetView
from spec_decode_exporter.web.application import create_app
from tests.unit.web.pages import watched
from tests.unit.web.plain_state import plain_state


@pytest.fixture
async def client(aiohttp_client):
    return await aiohttp_client(create_app(plain_state()), skip_auto_headers=["Accept-Encoding", "Accept"])


EVERYWHERE = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Server": "spec-decode-exporter",
}
GIVEN = "/ /fragment /static/style.css /static/page.js /static/icon.svg /metrics /config /-/healthy /-/ready"
STATUSES = [
    *[("GET", path, 200) for path in GIVEN.split()],
    ("POST", "/-/reload", 403),
    ("GET", "/no/such/page", 404),
    ("GET", "/static/../app.py", 404),
    ("POST", "/metrics", 405),
    ("GET", "/-/reload", 405),
]


async def test_every_response_has_the_security_headers(client):
    for method, path, status in STATUSES:
        answer = await client.request(method, path)
        assert answer.status == status, path
        assert EVERYWHERE.items() <= dict(answer.headers).items()
        assert answer.headers["Content-Security-Policy"].startswith("default-src 'none'; style-src 'self';")


@pytest.mark.parametrize("path", ["/", "/fragment"])
async def test_a_page_leaves_no_engine_to_the_garbage_collector(aiohttp_client, path):
    taken = AsyncMock(return_value=await watched())
    client = await aiohttp_client(create_app(plain_state(snapshot=taken)))
    gc.collect()
    gc.disable()
    before = sum(isinstance(each, EngineView | TargetView) for each in gc.get_objects())  # of other tests
    assert (await client.get(path)).status == 200
    after = sum(isinstance(each, EngineView | TargetView) for each in gc.get_objects())
    gc.enable()
    assert after <= before


@pytest.mark.parametrize(
    ("path", "root"), [("/no", "./"), ("/no/such/page", "../../"), ("/docs/no.md", "../")]
)
async def test_a_browser_at_an_unknown_address_gets_a_link_to_the_first_page(client, path, root):
    """Relative, as a proxy may add a prefix."""
    answer = await client.get(path, headers={"Accept": "text/html,*/*"})
    text = await answer.text()
    assert (answer.status, answer.content_type) == (404, "text/html")
    assert f'<a href="{root}">all engines</a>' in text
    assert str(answer.url.join(URL(root)).path) == "/"
    assert f'"{root}static/style.css"' in text
    plain = await client.get(path)
    assert (plain.status, plain.content_type) == (404, "text/plain")


async def test_an_unknown_path_of_the_api_is_a_problem_in_a_browser_too(client):
    answer = await client.get("/api/no", headers={"Accept": "text/html"})
    assert (answer.status, answer.content_type) == (404, "application/problem+json")


@pytest.mark.parametrize(
    ("path", "content_type"), [("/metrics", "text/plain"), ("/api/v1/snapshot", "application/problem+json")]
)
async def test_an_unexpected_error_stays_in_the_log(aiohttp_client, path, content_type):
    fail = AsyncMock(side_effect=RuntimeError("password=secret"))
    client = await aiohttp_client(create_app(plain_state(snapshot=fail)))
    with capture_logs() as logs:
        answer = await client.get(path)
    assert (answer.status, answer.content_type) == (500, content_type)
    text = await answer.text()
    assert "The exporter failed to answer; see its log." in text
    assert "secret" not in text
    assert answer.headers["X-Frame-Options"] == "DENY"
    assert [(log["event"], log["path"]) for log in logs] == [("request_failed", path)]


async def test_a_failed_reload_reports_the_position_of_the_error(aiohttp_client):
    error = ConfigError([Problem("exporter.yml:3", "targets[0].url", "is not a URL")])
    client = await aiohttp_client(create_app(plain_state(reload=AsyncMock(side_effect=error))))
    answer = await client.post("/-/reload")
    assert answer.status == 500
    assert "exporter.yml:3" in await answer.text()
    assert "the previous one stays active" in await answer.text()
