"""Lists of target groups. URLs of discovered pages lead only to the host of the list entry, record or pod."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from spec_decode_exporter.config.http_settings import HttpSettings
from spec_decode_exporter.config.target_settings import Scrape
from spec_decode_exporter.core.urls import Url
from spec_decode_exporter.discovery import lists
from spec_decode_exporter.discovery.lists import (
    TargetDiscovery,
    TargetGroup,
    ip_and_port,
    json_groups,
    page_url,
    yaml_groups,
)
from spec_decode_exporter.discovery.target import DiscoveryError
from spec_decode_exporter.scrape.client import Client
from spec_decode_exporter.scrape.filtered import filtered_url


def listed(found):
    return TargetDiscovery("file", "file a.yml", Scrape(), 5.0).targets_of(found)


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


def is_asked_alone(url: str, host: str) -> None:
    """Check that the client sends the request for a URL to ``host`` (``host:port``)."""
    name, _, port = host.rpartition(":") if re.search(r":\d+$", host) else (host, "", "")
    for page in (url, str(Url.of(url).sibling("version")), filtered_url(url, ["vllm:x"])):
        origin, head = Client(HttpSettings(), timeout=1.0, max_body=1)._request(page)
        lines = head.split(b"\r\n")
        assert origin.host == name.strip("[]").lower()
        assert origin.port == (int(port) if port else {"http": 80, "https": 443}[origin.scheme])
        authority = re.sub(rf":0*{ {'http': 80, 'https': 443}[origin.scheme] }$", "", host.lower())
        assert lines[1].decode() == f"Host: {authority}"
        assert re.fullmatch(rb"GET /[!-~]* HTTP/1\.1", lines[0])
        assert sum(line.startswith(b"Host:") for line in lines) == 1


@given(_SCHEME, _HOST, _PATH, st.lists(st.tuples(_TEXT, _TEXT), max_size=3))
@example(f"https://{EVIL}/?x=", "10.0.0.9:8000", "/metrics", [])
@example("http", f"10.0.0.9:8000@{EVIL}", "/metrics", [])
@example("http", f"[::1]{EVIL}:80", "/metrics", [])
@example("http", "[v1.evil]:80", "/metrics", [])
@example("http", "host.test", "/m#x", [])
@example("http", f"host.test\\{EVIL}", "/m", [])
@example("http", f"host.test\r\nHost: {EVIL}", "/m", [])
@example("http", "host.test", f"/m HTTP/1.1\r\nHost: {EVIL}", [])
@example("http", "\u212aevil:1", "/m", [])
def test_a_url_from_any_list_leads_to_its_own_host_or_is_rejected(scheme, host, path, parameters):
    labels = {"__scheme__": scheme, "__metrics_path__": path}
    labels |= {f"__param_{name}": value for name, value in parameters}
    with capture_logs() as logs:
        try:
            (target,) = listed([TargetGroup([host], labels)])
        except DiscoveryError as error:
            reason = str(error)
            assert EVIL not in reason
            assert reason.isprintable()
            assert len(reason) < 300
            return
    assert logs == []
    is_asked_alone(target.url, host)


def test_a_parameter_with_the_model_of_a_router_names_the_target():
    [found] = listed([TargetGroup(["a:1"], {"__param_model": "org/b"})])
    assert (found.name, found.url) == ("a:1/org/b", "http://a:1/metrics?model=org%2Fb")


def test_a_url_with_another_host_for_the_client_is_rejected(monkeypatch):
    class Other(Url):
        of = staticmethod(lambda url: Url.of(url.replace("good", "evil")))

    monkeypatch.setattr(lists, "Url", Other)
    with pytest.raises(ValueError, match="leads to another host"):
        page_url("http", "good:1", "/m")


@pytest.mark.parametrize(
    "ip", ["", "a", "10.0.0.9:1", "010.0.0.9", "0x7f.1", "1", "::1]:1", "fe80::1%eth0", "10.0.0.9\n"]
)
def test_an_invalid_address_is_rejected(ip):
    with pytest.raises(ValueError, match=r"is not an IP address|has no valid host"):
        page_url("http", ip_and_port(ip, 8000), "/m")


@pytest.mark.parametrize(
    ("read", "text", "message"),
    [
        (json_groups, '{"targets": ["a:1"]}', "the list must be a list, not a mapping"),
        (json_groups, "null", "the list must be a list, not null"),
        (json_groups, '[\n{"targets": ]', "line 2 is not JSON: invalid character"),
        (json_groups, "[", "line 1 is not JSON: Input data was truncated"),
        (json_groups, "[] 5", "line 1 is not JSON: trailing characters"),
        (json_groups, '[{"targets": ["\\ud800"]}]', "line 1 is not JSON"),
        (json_groups, '["a:1"]', r"\[0\] must be a mapping, not a text"),
        (json_groups, '[{"targts": ["hunter2"]}]', r"\[0\] has a key that is neither `targets` nor `labels`"),
        (json_groups, '[{"targets": ["a:1", 5]}]', r"\[0\].targets\[1\] must be a text, not a number"),
        (json_groups, '[{}, {"labels": {"a": {}}}]', r"\[1\].labels\[...\] must be a text, not a mapping"),
        (json_groups, '[{"targets": ["http://a:1"]}]', r"\[0\].targets\[0\] is not `host:port`"),
        (json_groups, '[{"targets": ["b", "u:hunter2@a"]}]', r"\[0\].targets\[1\] is not `host:port`"),
        (json_groups, '[{"targets": ["a"], "labels": {"__scheme__": "ftp"}}]', r"\[0\].targets\[0\] has a scheme that is neither"),
        (json_groups, '[{"targets": ["a"], "labels": {"__metrics_path__": "//evil/"}}]', r"\[0\] has an unusable path"),
        (yaml_groups, "targets: [a:1]", "the list must be a list, not a mapping"),
        (yaml_groups, "- targets: [a:1]\n  targets: [b:1]\n", "line 2 is there twice, first in line 1"),
        (yaml_groups, "- {}\n- targets: !x [a:1]\n", "line 2 has the tag !x"),
        (yaml_groups, "- targets: [", "line 1 is not YAML: expected the node content"),
        (yaml_groups, "- targets: [a:1]\n  lables: {}\n", r"\[0\] has a key that is neither"),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else value.__name__[:4],
)  # fmt: skip
def test_an_unusable_list_is_rejected_with_the_position(read, text, message):
    with pytest.raises(DiscoveryError, match=f"^{message}") as caught:
        listed(read(text.encode()))
    assert "hunter2" not in str(caught.value)
    assert caught.value.targets is None


def test_a_list_of_far_too_many_items_is_rejected_before_it_is_decoded():
    with pytest.raises(DiscoveryError, match="has more than 10000 groups or targets, or 50000 labels"):
        json_groups(b'[{"targets":[' + b'"a",' * 130_001 + b'"a"]}]')


def test_urls_of_too_many_characters_are_rejected():
    """tests/robustness has the other limits of a list."""
    with pytest.raises(DiscoveryError, match="URLs of more than 4194304 characters"):
        listed([TargetGroup(["a:1"] * 5_000, {"__metrics_path__": "x" * 1_000})])


def test_json_is_read_with_a_byte_order_mark_and_yaml_with_texts_as_written():
    assert json_groups(b'\xef\xbb\xbf[{"targets": ["a:1"]}]') == [TargetGroup(["a:1"])]
    assert yaml_groups(b"- targets: [a:1]\n  labels: {rack: 07, on: yes}\n- targets:") == [
        TargetGroup(["a:1"], {"rack": "07", "on": "yes"}),
        TargetGroup(),
    ]
    assert yaml_groups(b"") == []
