"""URLs of discovered pages lead only to the host of the list entry, record or pod."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from spec_decode_exporter.config.http_settings import HttpSettings
from spec_decode_exporter.config.target_settings import Scrape
from spec_decode_exporter.core import urls
from spec_decode_exporter.core.urls import Url
from spec_decode_exporter.discovery import page_url as module
from spec_decode_exporter.discovery.page_url import (
    ip_and_port,
    page_url,
)
from spec_decode_exporter.discovery.target_discovery import DiscoveryError
from spec_decode_exporter.discovery.target_groups import Listing
from spec_decode_exporter.scrape.client import Client
from spec_decode_exporter.scrape.filtered import filtered_url

EVIL = "evil.example"
_PIECES = st.sampled_from(
    ["http", "https", "HTTP", "ftp", "://", "//", "/", "\\", ":", "@", "#", "?", "&", "=", "%2f", "%2F", "%40", "%5c",
     "%25eth0", "[", "]", "::1", "fe80::1%eth0", EVIL, f"u:p@{EVIL}", f"@{EVIL}", "10.0.0.9", "host.test", "..", ".",
     "0x7f.1", "0177.0.0.1", "2130706433", ":80", ":443", ":0", ":+80", ":8_0", ":٨٠", ":65536", "8000", "\r\n",
     "\n", "\t", " ", "\x00", "\x7f", "\u00a0", "\u2028", "\u3002", "\uff0e", "\uff41", "\u212a", "ß", "\u0130",
     "\ud800", "\u202e", "v1.x", "/metrics", "Host: " + EVIL, "x" * 300]
)  # fmt: skip
_TEXT = st.text(max_size=20) | st.lists(_PIECES, max_size=7).map("".join)
_VISIBLE = st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=20)
_SCHEME = st.sampled_from(["http", "https"]) | st.sampled_from(["http", "https"]) | _TEXT
_PATH = _VISIBLE | _VISIBLE | _TEXT
_HOST = st.sampled_from(["host.test:8000", "host.test", "10.0.0.9:1", "[::1]:65535"]) | _TEXT


def request_of(url: str) -> tuple[Url, list[bytes]]:
    """Return the address to which the client connects for a URL, and the lines that it sends."""
    parsed, head = Client(HttpSettings(), timeout=1.0, max_body=1)._request(url)
    return parsed, head.split(b"\r\n")


def is_asked_alone(url: str, host: str) -> None:
    """Check that the client sends the request for a URL to ``host`` (``host:port``)."""
    name, _, port = host.rpartition(":") if re.search(r":\d+$", host) else (host, "", "")
    for page in (url, str(Url.of(url).sibling("version")), filtered_url(url, ["vllm:x"])):
        origin, lines = request_of(page)
        assert origin.host == name.strip("[]").lower()
        assert origin.port == (int(port) if port else {"http": 80, "https": 443}[origin.scheme])
        authority = re.sub(rf":0*{ {'http': 80, 'https': 443}[origin.scheme] }$", "", host.lower())
        assert lines[1].decode() == f"Host: {authority}"
        assert re.fullmatch(rb"GET /[!-~]* HTTP/1\.1", lines[0])
        assert sum(line.startswith(b"Host:") for line in lines) == 1


def is_plain(error: Exception) -> None:
    """Check that a reason is short and repeats no untrusted text."""
    assert EVIL not in str(error)
    assert str(error).isprintable()
    assert len(str(error)) < 300


@given(_SCHEME, _HOST, _PATH, st.lists(st.tuples(_TEXT, _TEXT), max_size=3))
@example(f"https://{EVIL}/?x=", "10.0.0.9:8000", "/metrics", [])
@example("http", f"10.0.0.9:8000@{EVIL}", "/metrics", [])
@example("http", f"[::1]{EVIL}:80", "/metrics", [])
@example("http", "[v1.evil]:80", "/metrics", [])
@example("http", "host.test", "/m#x", [])
@example("http", "\u212aevil:1", "/m", [])
def test_a_url_from_any_list_leads_to_its_own_host_or_is_rejected(scheme, host, path, parameters):
    labels = {"__scheme__": scheme, "__metrics_path__": path}
    labels |= {f"__param_{name}": value for name, value in parameters}
    with capture_logs() as logs:
        try:
            (target,) = Listing("file a.yml", "file", Scrape()).targets(
                [{"targets": [host], "labels": labels}]
            )
        except DiscoveryError as error:
            is_plain(error)
            return
    assert logs == []
    is_asked_alone(target.url, host)


def test_a_url_with_another_host_for_the_client_is_rejected(monkeypatch):
    monkeypatch.setattr(module.Url, "of", lambda url: urls._parsed(url.replace("good", "evil")))
    with pytest.raises(ValueError, match="leads to another host"):
        page_url("http", "good:1", "/m")
    monkeypatch.setattr(module.Url, "of", lambda _: urls._parsed("none"))
    with pytest.raises(ValueError, match="leads to another host"):
        page_url("http", "good:1", "/m")


@pytest.mark.parametrize(
    "ip", ["", "a", "10.0.0.9:1", "010.0.0.9", "0x7f.1", "1", "::1]:1", "fe80::1%eth0", "10.0.0.9\n"]
)
def test_an_invalid_address_is_rejected(ip):
    with pytest.raises(ValueError, match=r"is not an IP address|a zone"):
        ip_and_port(ip, 8000)
