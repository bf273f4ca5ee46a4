"""One parser of URLs: normal form, mistakes with a remedy, parts for the client."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.core.urls import Url, address, api_address, model_of, normalise, without_query


@pytest.mark.parametrize(
    ("text", "url", "name"),
    [
        ("http://localhost:8000", "http://localhost:8000/metrics", "localhost:8000"),
        ("HTTP://VLLM.Example.org", "http://vllm.example.org/metrics", "vllm.example.org:80"),
        ("https://a/b/c?d=e", "https://a/b/c?d=e", "a:443"),
        ("http://a?x=1", "http://a/metrics?x=1", "a:80"),
        ("http://[2001:DB8::1]:8000", "http://[2001:db8::1]:8000/metrics", "[2001:db8::1]:8000"),
        ("http://a/", "http://a/", "a:80"),
        ("http://[fe80::1%eth0]:1/m", "http://[fe80::1%eth0]:1/m", "[fe80::1%eth0]:1"),
    ],
)
def test_a_url_is_completed_and_its_default_name_is_host_and_port(text, url, name):
    assert normalise(text) == normalise(url) == url
    assert address(url) == name


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


def test_the_port_of_the_scheme_makes_no_difference():
    assert Url.of("http://a/metrics") == Url.of("http://a:80/metrics")
    assert Url.of("http://a/metrics") != Url.of("https://a:80/metrics")


@pytest.mark.parametrize(
    ("query", "model"),
    [
        ("", ""),
        ("?key=a", ""),
        ("?model=", ""),
        ("?key=a&model=b", "b"),
        ("?model=ggml-org%2Fgemma:Q4&autoload=false", "ggml-org/gemma:Q4"),
        ("?model=a%0Ab", ""),
        ("?model=" + "a" * 300, "a" * 256),
    ],
)
def test_the_query_of_a_routers_page_names_a_model(query, model):
    assert model_of(f"http://a/metrics{query}") == model


def test_a_query_is_not_shown():
    assert without_query("http://a/m?key=hunter2") == "http://a/m?<secret>"
    assert without_query("http://a/m") == "http://a/m"


@pytest.mark.parametrize(
    ("text", "authority", "target", "sibling"),
    [
        ("http://A:80/m?x=<y>", "a", "/m?x=%3Cy%3E", "http://a/version"),
        ("https://[::1]:9", "[::1]:9", "/", "https://[::1]:9/version"),
        ("http://[fe80::1%eth0]:1/m", "[fe80::1%eth0]:1", "/m", "http://[fe80::1%eth0]:1/version"),
        ("http://a//b/%2f|c?", "a", "//b/%2f%7Cc", "http://a//b/version"),
        ("https://a:80?x=1", "a:80", "/?x=1", "https://a:80/version"),
        ("http://a/proxy/metrics/?x=1/2", "a", "/proxy/metrics/?x=1/2", "http://a/proxy/version"),
    ],
)
def test_the_client_gets_the_host_an_encoded_target_and_a_page_beside_it(text, authority, target, sibling):
    url = Url.of(text)
    assert (url.authority, url.target) == (authority, target)
    assert Url.of(str(url)) == url
    assert str(url.sibling("version")) == sibling


@pytest.mark.parametrize("end", ["", "/", "/metrics", "/graph", "/query", "/api/v1"])
def test_the_address_of_an_api_may_be_copied_from_a_browser(end):
    assert api_address(f"http://p:9090/prometheus{end}") == "http://p:9090/prometheus"
