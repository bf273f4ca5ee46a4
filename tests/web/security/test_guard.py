from __future__ import annotations

from base64 import b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from spec_decode_exporter.web.application import create_app
from spec_decode_exporter.web.security import guard as module
from spec_decode_exporter.web.security.guard import Guard
from spec_decode_exporter.web.security.live_config import LiveWebConfig
from spec_decode_exporter.web.security.passwords import Passwords
from spec_decode_exporter.web.server.fair_queue import QueueFullError


def basic(name, password):
    return "Basic " + b64encode(f"{name}:{password}".encode()).decode()


@pytest.fixture(scope="module")
def users(hashed):
    return f"basic_auth_users:\n  alice: {hashed(b'wonder:land')}\n  jürgen: {hashed('größe'.encode())}\n"


@pytest.fixture
def client_of(aiohttp_client, make_state, folder, clock):
    """Return a function that returns a client of an application with a web configuration."""

    async def make(text, **given):
        live = LiveWebConfig(folder.write(text), clock)
        client = await aiohttp_client(create_app(make_state(**given), Guard(live, clock)))
        client.live = live
        return client

    return make


EVERY_PAGE = [
    ("GET", "/"),
    ("GET", "/static/style.css"),
    ("GET", "/metrics"),
    ("GET", "/api/v1/snapshot"),
    ("GET", "/config"),
    ("GET", "/-/healthy"),
    ("GET", "/-/ready"),
    ("POST", "/-/reload"),
    ("GET", "/api/v1/requests"),
    ("POST", "/api/v1/requests"),
    ("GET", "/no/such/page"),
    ("DELETE", "/metrics"),
    ("OPTIONS", "/"),
]


@pytest.mark.parametrize(("method", "path"), EVERY_PAGE)
async def test_no_page_is_served_without_credentials(client_of, users, method, path):
    client = await client_of(users, snapshot=lambda: pytest.fail("the page was made"))
    answer = await client.request(method, path)
    assert answer.status == 401
    assert answer.headers["WWW-Authenticate"] == 'Basic realm="spec-decode-exporter", charset="UTF-8"'
    assert answer.headers["X-Frame-Options"] == "DENY"
    assert answer.headers["Connection"] == "close"
    assert "Unauthorized" in await answer.text()


@pytest.mark.parametrize(
    "header",
    [
        "",
        "Basic",
        "Basic ",
        "Basic !!!!",
        basic("alice", "wonder:land")[:-4] + "!" + basic("alice", "wonder:land")[-4:],
        "Basic " + b64encode(b"alice").decode(),
        "Bearer " + b64encode(b"alice:wonder:land").decode(),
        basic("alice", "wonder"),
        basic("alice", ""),
        basic("", ""),
        basic("bob", "wonder:land"),
        basic("ALICE", "wonder:land"),
        "Basic \udcff",
    ],
)
async def test_invalid_credentials_are_rejected(client_of, users, header):
    client = await client_of(users)
    with capture_logs() as logs:
        assert (await client.get("/metrics", headers={"Authorization": header})).status == 401
    assert logs == []


@pytest.mark.parametrize(
    "header",
    [
        basic("alice", "wonder:land"),
        basic("jürgen", "größe"),
        basic("alice", "wonder:land").replace("Basic", "basic"),
    ],
)
async def test_a_user_can_read_every_page(client_of, users, header):
    client = await client_of(users)
    for path in ("/", "/metrics", "/-/healthy", "/config"):
        assert (await client.get(path, headers={"Authorization": header})).status == 200


async def test_a_user_removed_from_the_file_is_rejected_immediately(client_of, users, folder):
    client = await client_of(users)
    header = {"Authorization": basic("alice", "wonder:land")}
    assert (await client.get("/", headers=header)).status == 200
    folder.write(users.replace("alice", "alicia"))
    with capture_logs():
        await client.live.check()
    assert (await client.get("/", headers=header)).status == 401


async def test_without_users_every_request_is_accepted(client_of):
    client = await client_of("rate_limit: {interval: 0}\n")
    assert (await client.get("/metrics")).status == 200


async def test_a_full_check_queue_returns_503_with_retry_after(client_of, users, monkeypatch):
    async def busy(*_, **__):
        raise QueueFullError

    client = await client_of(users)
    monkeypatch.setattr(Passwords, "match", busy)
    answer = await client.get("/metrics", headers={"Authorization": basic("alice", "x")})
    assert answer.status == 503
    assert answer.headers["Retry-After"] == "1"


async def test_requests_above_the_rate_limit_are_rejected(client_of, users, clock):
    client = await client_of("rate_limit: {interval: 1s, burst: 2}\n" + users)
    header = {"Authorization": basic("alice", "wonder:land")}
    assert [(await client.get("/", headers=header)).status for _ in range(3)] == [200, 200, 429]
    answer = await client.get("/")
    assert answer.status == 429
    assert answer.headers["Retry-After"] == "1"
    await clock.advance(1.0)
    assert [(await client.get("/", headers=header)).status for _ in range(2)] == [200, 429]


async def test_a_changed_rate_limit_applies(client_of, folder):
    client = await client_of("rate_limit: {interval: 1s, burst: 1}\n")
    assert [(await client.get("/")).status for _ in range(2)] == [200, 429]
    folder.write("rate_limit: {interval: 1s, burst: 3}\n")
    with capture_logs():
        await client.live.check()
    assert [(await client.get("/")).status for _ in range(4)] == [200, 200, 200, 429]


@given(st.text())
def test_any_header_parses_to_credentials_or_none(header):
    found = module._credentials(header)
    assert found is None or isinstance(found[0], str)


@given(st.text().filter(lambda name: ":" not in name and name.isprintable()), st.binary())
def test_encoded_credentials_are_decoded(name, password):
    written = b64encode(name.encode() + b":" + password).decode()
    assert module._credentials(f"Basic {written}") == (name, password)
