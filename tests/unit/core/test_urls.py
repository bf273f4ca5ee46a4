"""One parser of URLs: normal form, mistakes with a remedy, parts for the client."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.core.urls import Url, address, api_address, normalise, without_query


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("http://localhost:8000", "http://localhost:8000/metrics"),
        ("HTTP://VLLM.Example.org", "http://vllm.example.org/metrics"),
        ("https://a/b/c?d=e", "https://a/b/c?d=e"),
        ("http://a?x=1", "http://a/metrics?x=1"),
        ("http://[2001:DB8::1]:8000", "http://[2001:db8::1]:8000/metrics"),
        ("http://a/", "http://a/"),
        ("http://[fe80::1%eth0]:1/m", "http://[fe80::1%eth0]:1/m"),
    ],
)
def test_a_url_is_completed(text, url):
    assert normalise(text) == url
    assert normalise(url) == url


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("localhost:8000", "is not an address"),
        ("localhost", "is not an address"),
        ("ftp://a/metrics", "is not an address"),
        ("http:///metrics", "is not an address"),
        ("http://user:hunter2@a/", "basic_auth"),
        ("http://@a/", "basic_auth"),
        ("http://a/#top", "fragment"),
        ("http://a/#", "fragment"),
        ("http://a b/", "space"),
        ("http://bücher/", "ASCII"),
        ("", "is empty"),
        ("http://a:0/", "port"),
        ("http://a:99999/", "port"),
        ("http://a:x/", "port"),
        ("http://a:/", "port"),
        ("http://[::1/", "port"),
        ("http://a_b\\c/", "has no valid host"),
        ("http://:80/", "has no valid host"),
        ("http://a..b/", "has no valid host"),
        ("http://[v1.a]/", "has no valid host"),
        ("http://[::1]a:80/", "has no valid host|port"),
        ("http://" + "a." * 127 + "a/", "has no valid host"),
    ],
)
def test_an_invalid_url_is_rejected(text, complaint):
    with pytest.raises(ValueError, match=complaint) as caught:
        normalise(text)
    assert "hunter2" not in str(caught.value)


@given(st.text(max_size=40) | st.from_regex(r"https?://[ -~]{0,30}", fullmatch=True))
def test_any_text_is_a_url_without_a_user_or_a_mistake(text):
    try:
        url = normalise(text)
    except ValueError:
        return
    assert normalise(url) == url
    assert "@" not in address(url)


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("http://a/metrics", "a:80"),
        ("https://a/metrics", "a:443"),
        ("http://a:8000/m?key=1", "a:8000"),
        ("http://[::1]:8000/m", "[::1]:8000"),
    ],
)
def test_the_default_name_of_a_page_is_host_and_port(url, name):
    assert address(url) == name


def test_the_port_of_the_scheme_makes_no_difference():
    assert Url.of("http://a/metrics") == Url.of("http://a:80/metrics")
    assert Url.of("http://a/metrics") != Url.of("https://a:80/metrics")


def test_a_query_is_not_shown():
    assert without_query("http://a/m?key=hunter2") == "http://a/m?<secret>"
    assert without_query("http://a/m") == "http://a/m"


@pytest.mark.parametrize(
    ("text", "authority", "target"),
    [
        ("http://A:80/m?x=<y>", "a", "/m?x=%3Cy%3E"),
        ("https://[::1]:9", "[::1]:9", "/"),
        ("http://[fe80::1%eth0]:1/m", "[fe80::1%eth0]:1", "/m"),
        ("http://a//b/%2f|c?", "a", "//b/%2f%7Cc"),
        ("https://a:80?x=1", "a:80", "/?x=1"),
    ],
)
def test_the_client_gets_the_host_and_an_encoded_target(text, authority, target):
    url = Url.of(text)
    assert (url.authority, url.target) == (authority, target)
    assert Url.of(str(url)) == url


@pytest.mark.parametrize(
    ("url", "sibling"),
    [
        ("http://a/metrics", "http://a/version"),
        ("http://a/proxy/metrics/?x=1/2", "http://a/proxy/version"),
        ("https://[::1]:8000", "https://[::1]:8000/version"),
    ],
)
def test_a_page_beside_another_has_its_server_and_folder(url, sibling):
    assert str(Url.of(url).sibling("version")) == sibling


@pytest.mark.parametrize("end", ["", "/", "/metrics", "/graph", "/query", "/api/v1"])
def test_the_address_of_an_api_may_be_copied_from_a_browser(end):
    assert api_address(f"http://p:9090/prometheus{end}") == "http://p:9090/prometheus"
