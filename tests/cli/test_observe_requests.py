from __future__ import annotations

import argparse
import ssl

import bcrypt
import pytest
import trustme
from aiohttp import web

from spec_decode_exporter.cli.exporter_access import NotReadError
from spec_decode_exporter.cli.main import parse
from spec_decode_exporter.cli.observe_requests import REQUESTS, read_requests
from spec_decode_exporter.config.errors import ConfigError
from spec_decode_exporter.config.http_settings import HttpSettings
from spec_decode_exporter.core.clock import SystemClock
from spec_decode_exporter.core.internal_errors import InternalErrors
from spec_decode_exporter.requests.request_findings import RequestFindings
from spec_decode_exporter.views.request_models import RequestsView
from spec_decode_exporter.views.request_view import head, lists
from spec_decode_exporter.web.security.guard import Guard
from spec_decode_exporter.web.security.live_config import LiveWebConfig

EMPTY = RequestsView(
    time=100.0,
    **head(RequestFindings(enabled=True, taken=7)),
    **{key: tuple(each) for key, each in lists(RequestFindings(), InternalErrors()).items()},
)


@pytest.fixture
async def exporter():
    """A function that serves an answer as an exporter does, a mock of one; returns its address.

    With a ``guard`` the exporter's own stands before it.
    """
    runners = []

    async def serve(text, status=200, guard=None, tls=None):
        async def answer(_):
            return web.Response(text=text, status=status, content_type="application/json")

        app = web.Application(middlewares=[guard.middleware] if guard else [])
        app.router.add_get("/api/v1/requests", answer)
        runner = web.AppRunner(app)
        runners.append(runner)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
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
    assert REQUESTS.url(text) == url


@pytest.mark.parametrize("text", ["", "ftp://exporter", "http://", "http://[::1"])
def test_an_invalid_url_is_rejected(text):
    with pytest.raises(argparse.ArgumentTypeError, match="is not an exporter's URL"):
        REQUESTS.url(text)


@pytest.mark.parametrize(
    "text", ["http://me:secret@exporter", "me:secret@exporter:7732", "ftp://secret@exporter"]
)
def test_a_password_in_the_url_is_rejected_and_not_repeated(text):
    with pytest.raises(argparse.ArgumentTypeError, match="password-file") as refused:
        REQUESTS.url(text)
    assert "secret" not in str(refused.value)


async def test_the_findings_of_an_exporter_are_read_unchanged(exporter):
    url = REQUESTS.url(await exporter(EMPTY.model_dump_json()))
    assert await read_requests(url, HttpSettings()) == EMPTY


@pytest.mark.parametrize(
    ("text", "status", "says"),
    [("{}", 200, "this version"), ("no", 200, "this version"), (EMPTY.model_dump_json(), 401, "401")],
)
async def test_another_response_is_reported_in_words(exporter, text, status, says):
    with pytest.raises(NotReadError, match=says):
        await read_requests(REQUESTS.url(await exporter(text, status)), HttpSettings())


@pytest.fixture
def guard(tmp_path):
    """Return a guard that requires a password, by a web configuration."""
    hashed = bcrypt.hashpw(b"open: sesame", bcrypt.gensalt(4)).decode()
    (tmp_path / "web.yml").write_text(f"basic_auth_users: {{ann: {hashed}}}\n")
    return Guard(LiveWebConfig(tmp_path / "web.yml", SystemClock()), SystemClock())


def asked(*words, **environ):
    """Return the HTTP settings of these flags and variables."""
    arguments = parse(["observe", "--requests", "localhost:7732", *map(str, words)], environ)
    return REQUESTS.http_settings(arguments, environ)


@pytest.fixture
def password_file(tmp_path):
    (tmp_path / "password").write_text("open: sesame\n")
    return tmp_path / "password"


async def test_an_exporter_with_a_password_is_asked_with_it(exporter, guard, password_file):
    url = REQUESTS.url(await exporter(EMPTY.model_dump_json(), guard=guard))
    ann = ("--requests.basic-auth.username", "ann")
    by_file = asked(*ann, "--requests.basic-auth.password-file", password_file)
    by_variable = asked(*ann, **{REQUESTS.password_variable: "open: sesame"})
    for http in (by_file, by_variable):
        assert await read_requests(url, http) == EMPTY
    for http in (asked(), asked(*ann), asked(*ann, **{REQUESTS.password_variable: "sesame"})):
        with pytest.raises(NotReadError, match="401"):
            await read_requests(url, http)


def test_flags_can_be_variables_and_a_file_overrides_a_secret_in_a_variable(password_file):
    http = asked(
        SPEC_DECODE_EXPORTER_REQUESTS_BASIC_AUTH_USERNAME="ann",
        SPEC_DECODE_EXPORTER_REQUESTS_BASIC_AUTH_PASSWORD_FILE=str(password_file),
        **{REQUESTS.password_variable: "other"},
    )
    assert (http.basic_auth.username, http.basic_auth.password_file) == ("ann", password_file)
    assert http.basic_auth.password is None


def test_credentials_of_the_servers_are_not_sent_to_the_exporter(password_file):
    servers = ("--authorization.credentials-file", password_file, "--tls-config.insecure-skip-verify")
    assert asked(*servers, SPEC_DECODE_EXPORTER_AUTHORIZATION_CREDENTIALS="secret") == HttpSettings()


async def test_https_trusts_the_authority_of_the_flag(exporter, guard, password_file, tmp_path):
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    address = await exporter(EMPTY.model_dump_json(), guard=guard, tls=context)
    url = REQUESTS.url(f"https://{address}")
    who = ("--requests.basic-auth.username", "ann", "--requests.basic-auth.password-file", password_file)
    trusting = asked(*who, "--requests.tls-config.ca-file", tmp_path / "ca.pem")
    assert await read_requests(url, trusting) == EMPTY
    with pytest.raises(NotReadError, match=r"(?i)certificate"):
        await read_requests(url, asked(*who))


def test_a_token_for_a_proxy_of_the_exporter_is_a_file(password_file):
    http = asked("--requests.authorization.credentials-file", password_file)
    assert http.authorization.credentials_file == password_file


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--requests.basic-auth.password-file", "none"), "requests.basic_auth.password_file names a file"),
        (("--requests.basic-auth.password-file", "password"), "requests.basic_auth has no user"),
        (("--requests.tls-config.ca-file", "password"), "requests cannot be used: tls_config"),
        (
            (
                *("--requests.basic-auth.username", "ann"),
                *("--requests.authorization.credentials-file", "password"),
            ),
            "cannot stand beside `authorization`",
        ),
    ],
)
def test_unusable_flags_are_reported_before_the_observation(words, says, password_file, monkeypatch):
    monkeypatch.chdir(password_file.parent)
    with pytest.raises(ConfigError, match=says) as refused:
        asked(*words)
    assert "sesame" not in str(refused.value)


def test_a_password_without_a_user_is_reported_without_the_password():
    with pytest.raises(ConfigError, match="has no user") as refused:
        asked(**{REQUESTS.password_variable: "sesame"})
    assert "sesame" not in str(refused.value)
