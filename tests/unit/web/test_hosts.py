"""Names of the own site: Host headers, allowed hosts and the external address."""

import asyncio

import pytest
from aiohttp.test_utils import TestServer
from multidict import CIMultiDict

from spec_decode_exporter.core.user_errors import UsageError
from spec_decode_exporter.web.application import create_app
from spec_decode_exporter.web.hosts import AllowedHosts, parse_authority, parse_external_url
from tests.unit.web.plain_state import plain_state

NAMES = AllowedHosts.parse(["exporter.example.com", "*.svc.cluster.local"])


INVALID = (
    ". a..b [::1 ::1 [exporter] [::1%eth0] a:b a:123456 a:1:2 user@a a/b a,b ä.example \u212aelvin.example"
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("exporter", ("exporter", None)),
        ("Exporter.Example.COM:7732", ("exporter.example.com", 7732)),
        ("exporter.:80", ("exporter", 80)),
        ("[FE80::1]:7732", ("fe80::1", 7732)),
        *[(text, None) for text in ("", "a b", "a\n", "a" * 64, "a." * 200, *INVALID.split())],
    ],
)
def test_a_host_header_is_parsed_as_browsers_write_it_and_anything_else_is_no_host(text, expected):
    assert parse_authority(text) == expected


ALLOWED = (
    "exporter.example.com EXPORTER.example.com.:7732 vllm.default.svc.cluster.local localhost:7732 "
    "10.1.2.3:7732 [2001:db8::1]:7732"
)
OTHERS = (
    "evil.example exporter.example.com.evil.example svc.cluster.local evilsvc.cluster.local "
    "localhost.evil.example 127.1"
)


@pytest.mark.parametrize(
    ("host", "allowed"), [*[(host, True) for host in ALLOWED.split()], *[(host, False) for host in OTHERS.split()], ("", False)]
)  # fmt: skip
def test_only_the_named_hosts_addresses_and_localhost_are_allowed(host, allowed):
    assert NAMES.allow("/", CIMultiDict(Host=host)) is allowed
    assert NAMES.allow(f"http://{host}/", CIMultiDict(Host="localhost")) is allowed
    assert AllowedHosts().allow(f"http://{host}/", CIMultiDict(Host=host))


@pytest.mark.parametrize("text", ["http://a", "a:80", "", "*", "*.", "a b", "[::1]", "a.*", "a/b"])
def test_an_invalid_host_name_is_rejected_with_the_remedy(text):
    with pytest.raises(UsageError, match=r"--web\.allowed-hosts: write it without scheme and port"):
        AllowedHosts.parse([text])


async def test_a_host_that_is_not_allowed_gets_421(aiohttp_client):
    client = await aiohttp_client(create_app(plain_state(allowed_hosts=NAMES)))
    for path in ("/", "/metrics", "/config", "/api/v1/snapshot", "/docs/", "/-/healthy", "/no/such"):
        answer = await client.get(path, headers={"Host": "evil.example"})
        assert answer.status == 421
        assert "spec_decode" not in await answer.text()
        for host in ("exporter.example.com:7732", "127.0.0.1:7732"):
            assert (await client.get(path, headers={"Host": host})).status in {200, 404}


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"GET / HTTP/1.0\r\n\r\n", 421),
        (b"GET / HTTP/1.0\r\nHost: localhost\r\n\r\n", 200),
        (b"GET http://localhost/ HTTP/1.1\r\nHost: evil.example\r\n\r\n", 421),
        (b"GET http://evil.example/ HTTP/1.1\r\nHost: localhost\r\n\r\n", 421),
        (b"GET http://localhost@evil.example/ HTTP/1.1\r\nHost: localhost\r\n\r\n", 421),
        (b"OPTIONS * HTTP/1.1\r\nHost: evil.example\r\n\r\n", 421),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n", 400),
    ],
)
async def test_no_other_form_of_a_request_bypasses_the_allowed_hosts(head, status):
    async with TestServer(create_app(plain_state(allowed_hosts=NAMES))) as server:
        reader, writer = await asyncio.open_connection(server.host, server.port)
        writer.write(head)
        assert int((await reader.readline()).split()[1]) == status
        writer.close()
        await writer.wait_closed()


def test_the_external_address_has_no_slash_at_its_end():
    assert parse_external_url("https://a.example/spec-decode/") == "https://a.example/spec-decode"
    assert parse_external_url("http://[::1]:7732/") == "http://[::1]:7732"


NO_URL = 'gpu-1:7732 ftp://a http://user:secret@a http://a?b=c http://a#b http://a/" javascript:x'


@pytest.mark.parametrize("text", ["http://a b", *NO_URL.split()])
def test_anything_else_is_no_external_address(text):
    with pytest.raises(UsageError, match=r"--web\.external-url"):
        parse_external_url(text)
