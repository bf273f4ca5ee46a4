from __future__ import annotations

import asyncio

import pytest
from aiohttp.test_utils import TestServer
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict

from spec_decode_exporter.core.user_errors import UsageError
from spec_decode_exporter.web.application import create_app
from spec_decode_exporter.web.hosts import (
    AllowedHosts,
    Authority,
    is_foreign,
    parse_authority,
    parse_external_url,
)

NAMES = AllowedHosts.parse(["exporter.example.com", "*.svc.cluster.local"])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("exporter", ("exporter", None)),
        ("Exporter.Example.COM:7732", ("exporter.example.com", 7732)),
        ("exporter.example.com.:80", ("exporter.example.com", 80)),
        ("exporter:", ("exporter", None)),
        ("[::1]:7732", ("::1", 7732)),
        ("[FE80::1]", ("fe80::1", None)),
        ("10.0.0.1", ("10.0.0.1", None)),
        ("", None),
        (".", None),
        ("a..b", None),
        ("[::1", None),
        ("::1", None),
        ("[exporter]", None),
        ("[::1%eth0]", None),
        ("a:b", None),
        ("a:123456", None),
        ("a:1:2", None),
        ("user@a", None),
        ("a/b", None),
        ("a b", None),
        ("a,b", None),
        ("ä.example", None),
        ("\u212aelvin.example", None),
        ("a\n", None),
        ("a" * 64, None),
        ("a." * 200, None),
    ],
)
def test_a_host_header_is_parsed_as_browsers_write_it(text, expected):
    assert parse_authority(text) == expected


@given(st.text())
def test_any_text_parses_to_a_host_or_none(text):
    authority = parse_authority(text)
    assert authority is None or authority.host in text.lower()


@given(st.text("ab.-_:[]%@/\\0", max_size=12))
def test_a_parsed_host_parses_to_itself(text):
    authority = parse_authority(text)
    if authority is not None:
        host = f"[{authority.host}]" if ":" in authority.host else authority.host
        assert parse_authority(host if authority.port is None else f"{host}:{authority.port}") == authority


@given(
    st.from_regex(r"[a-z0-9]{1,10}(\.[a-z0-9]{1,10}){0,3}", fullmatch=True),
    st.none() | st.integers(0, 65535),
    st.booleans(),
    st.booleans(),
)
def test_upper_case_and_the_roots_dot_make_no_difference(name, port, capitals, dot):
    text = (name.upper() if capitals else name) + "." * dot + ("" if port is None else f":{port}")
    assert parse_authority(text) == Authority(name, port)


def multidict(**headers):
    return CIMultiDict((name.replace("_", "-"), value) for name, value in headers.items())


@pytest.mark.parametrize(
    ("headers", "foreign"),
    [
        ({}, False),
        ({"Host": "exporter:7732"}, False),
        ({"Host": "exporter:7732", "Origin": "http://exporter:7732"}, False),
        ({"Host": "Exporter", "Origin": "https://exporter"}, False),
        ({"Host": "exporter", "Origin": "http://exporter:80"}, False),
        ({"Host": "[::1]:7732", "Origin": "http://[::1]:7732"}, False),
        ({"Host": "exporter:7732", "Origin": "http://exporter"}, True),
        ({"Host": "exporter:7732", "Origin": "http://exporter:7733"}, True),
        ({"Host": "exporter", "Origin": "https://evil.example"}, True),
        ({"Host": "exporter", "Origin": "https://exporter.evil.example"}, True),
        ({"Host": "exporter", "Origin": "null"}, True),
        ({"Host": "exporter", "Origin": ""}, True),
        ({"Host": "exporter", "Origin": "ftp://exporter"}, True),
        ({"Host": "exporter", "Origin": "http://exporter/"}, True),
        ({"Host": "exporter", "Origin": "http://user@exporter"}, True),
        ({"Origin": "http://exporter"}, True),
        ({"Host": "a b", "Origin": "http://a b"}, True),
        ({"Host": "exporter", "Origin": "http://exporter.example.com"}, False),
        ({"Host": "exporter", "Sec_Fetch_Site": "same-origin"}, False),
        ({"Host": "exporter", "Sec_Fetch_Site": "none"}, False),
        ({"Host": "exporter", "Sec_Fetch_Site": "same-site"}, True),
        ({"Host": "exporter", "Sec_Fetch_Site": "cross-site"}, True),
        ({"Host": "exporter", "Sec_Fetch_Site": "anything"}, True),
        (
            {"Host": "exporter", "Sec_Fetch_Site": "cross-site", "Origin": "http://exporter"},
            True,
        ),
    ],
)
def test_the_headers_reveal_a_cross_site_request(headers, foreign):
    assert is_foreign(multidict(**headers), NAMES, secure=False) is foreign


def test_with_tls_a_page_without_tls_is_another_site():
    headers = multidict(Host="exporter", Origin="http://exporter")
    assert is_foreign(headers, AllowedHosts(), secure=True)


def test_all_repeated_headers_must_be_of_the_own_site():
    several = CIMultiDict([("Host", "a"), ("Origin", "http://a"), ("Origin", "http://evil.example")])
    assert is_foreign(several, AllowedHosts(), secure=False)
    hosts = CIMultiDict([("Host", "a"), ("Host", "evil.example"), ("Origin", "http://evil.example")])
    assert is_foreign(hosts, AllowedHosts(), secure=False)


@pytest.mark.parametrize(
    ("host", "allowed"),
    [
        ("exporter.example.com", True),
        ("EXPORTER.example.com.:7732", True),
        ("vllm.default.svc.cluster.local", True),
        ("localhost:7732", True),
        ("10.1.2.3:7732", True),
        ("[2001:db8::1]:7732", True),
        ("evil.example", False),
        ("exporter.example.com.evil.example", False),
        ("svc.cluster.local", False),
        ("evilsvc.cluster.local", False),
        ("localhost.evil.example", False),
        ("127.1", False),
        ("", False),
    ],
)
def test_only_the_named_hosts_addresses_and_localhost_are_allowed(host, allowed):
    assert NAMES.allow("/", multidict(Host=host)) is allowed
    assert NAMES.allow(f"http://{host}/", multidict(Host="localhost")) is allowed
    assert AllowedHosts().allow(f"http://{host}/", multidict(Host=host))


def test_a_request_without_exactly_one_host_is_rejected():
    assert not NAMES.allow("/", CIMultiDict())
    assert not NAMES.allow("/", CIMultiDict([("Host", "localhost"), ("Host", "evil.example")]))


@pytest.mark.parametrize("text", ["http://a", "a:80", "", "*", "*.", "a b", "[::1]", "a.*", "a/b"])
def test_an_invalid_host_name_is_rejected_with_the_remedy(text):
    with pytest.raises(UsageError, match=r"--web\.allowed-hosts: write it without scheme and port"):
        AllowedHosts.parse([text])


EVIL = {"Origin": "https://evil.example"}


@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/-/reload"), ("PUT", "/-/reload"), ("POST", "/api/v1/requests")]
)
@pytest.mark.parametrize("sent_headers", [EVIL, {"Sec-Fetch-Site": "cross-site"}])
async def test_a_cross_site_request_changes_nothing(aiohttp_client, make_state, method, path, sent_headers):
    async def reload():
        pytest.fail("it was reloaded")

    client = await aiohttp_client(create_app(make_state(reload=reload)))
    answer = await client.request(method, path, headers=sent_headers)
    assert answer.status == 403
    assert "another site" in await answer.text()
    assert "evil" not in await answer.text()
    assert (await client.get("/", headers=sent_headers)).status == 200


async def test_the_own_site_and_programs_can_reload(aiohttp_client, make_state):
    reloads = []

    async def reload():
        reloads.append(1)

    client = await aiohttp_client(create_app(make_state(reload=reload)))
    own = str(client.make_url("/")).rstrip("/")
    for sent in ({}, {"Origin": own}, {"Origin": own, "Sec-Fetch-Site": "same-origin"}):
        assert (await client.post("/-/reload", headers=sent)).status == 200
    assert len(reloads) == 3


@pytest.mark.parametrize("path", ["/", "/metrics", "/config", "/api/v1/snapshot", "/-/healthy", "/no/such"])
async def test_a_host_that_is_not_allowed_gets_421(aiohttp_client, make_state, path):
    client = await aiohttp_client(create_app(make_state(allowed_hosts=NAMES)))
    answer = await client.get(path, headers={"Host": "evil.example"})
    assert answer.status == 421
    assert "spec_decode" not in await answer.text()
    for host in ("exporter.example.com:7732", "127.0.0.1:7732"):
        assert (await client.get(path, headers={"Host": host})).status in {200, 404}


async def ask_raw(state, head):
    async with TestServer(create_app(state)) as server:
        reader, writer = await asyncio.open_connection(server.host, server.port)
        writer.write(head)
        status = (await reader.readline()).split()[1]
        writer.close()
        await writer.wait_closed()
    return int(status)


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"GET / HTTP/1.0\r\n\r\n", 421),
        (b"GET / HTTP/1.0\r\nHost: localhost\r\n\r\n", 200),
        (b"GET http://localhost/ HTTP/1.1\r\nHost: evil.example\r\n\r\n", 421),
        (b"GET http://localhost:80/?a=/ HTTP/1.1\r\nHost: localhost\r\n\r\n", 200),
        (b"GET http://evil.example/ HTTP/1.1\r\nHost: localhost\r\n\r\n", 421),
        (b"GET http://evil.example?http://localhost/ HTTP/1.1\r\nHost: localhost\r\n\r\n", 421),
        (b"GET http://localhost@evil.example/ HTTP/1.1\r\nHost: localhost\r\n\r\n", 421),
        (b"GET HTTPS://EVIL.example/ HTTP/1.1\r\nHost: localhost\r\n\r\n", 421),
        (b"POST http://evil.example/-/reload HTTP/1.1\r\nHost: localhost\r\n\r\n", 421),
        (b"OPTIONS * HTTP/1.1\r\nHost: evil.example\r\n\r\n", 421),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n", 400),
    ],
)
async def test_no_other_form_of_a_request_bypasses_the_allowed_hosts(make_state, head, status):
    assert await ask_raw(make_state(allowed_hosts=NAMES), head) == status


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("http://gpu-1:7732", "http://gpu-1:7732"),
        ("https://monitoring.example.com/spec-decode/", "https://monitoring.example.com/spec-decode"),
        ("http://[::1]:7732/", "http://[::1]:7732"),
    ],
)
def test_an_address_has_no_slash_at_its_end(text, url):
    assert parse_external_url(text) == url


@pytest.mark.parametrize(
    "text",
    [
        "gpu-1:7732",
        "ftp://a",
        "http://user:secret@a",
        "http://a?b=c",
        "http://a#b",
        "http://a b",
        'http://a/"',
        "javascript:x",
    ],
)
def test_anything_else_is_rejected(text):
    with pytest.raises(UsageError, match=r"--web\.external-url"):
        parse_external_url(text)
