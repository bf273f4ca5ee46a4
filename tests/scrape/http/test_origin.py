"""Origin and request target of a URL."""

from __future__ import annotations

import pytest

from spec_decode_exporter.scrape.http.origin import Origin, split
from spec_decode_exporter.scrape.poll_errors import PollError


@pytest.mark.parametrize(
    ("url", "origin", "target", "authority"),
    [
        ("http://vllm/metrics", Origin("http", "vllm", 80), "/metrics", "vllm"),
        ("https://vllm/metrics", Origin("https", "vllm", 443), "/metrics", "vllm"),
        ("http://vllm:443/", Origin("http", "vllm", 443), "/", "vllm:443"),
        ("http://vllm:8000", Origin("http", "vllm", 8000), "/", "vllm:8000"),
        ("http://vllm?a=b", Origin("http", "vllm", 80), "/?a=b", "vllm"),
        ("http://VLLM:8000/Metrics", Origin("http", "vllm", 8000), "/Metrics", "vllm:8000"),
        ("http://[::1]:8000/m", Origin("http", "::1", 8000), "/m", "[::1]:8000"),
        ("http://[fe80::1]/m", Origin("http", "fe80::1", 80), "/m", "[fe80::1]"),
        ("http://me:secret@vllm/m#part", Origin("http", "vllm", 80), "/m", "vllm"),
        ("http://v/m/?name[]=vllm:a&x=%20", Origin("http", "v", 80), "/m/?name[]=vllm:a&x=%20", "v"),
        ("http://v/a b/ü", Origin("http", "v", 80), "/a%20b/%C3%BC", "v"),
        ("http://v/a\r\nEvil: 1", Origin("http", "v", 80), "/aEvil:%201", "v"),
    ],
)
def test_a_url_is_split(url, origin, target, authority):
    assert split(url) == (origin, target)
    assert split(url)[0].authority == authority


def test_an_origin_is_written_with_its_port():
    assert [str(split(url)[0]) for url in ("http://vllm", "https://[::1]")] == ["vllm:80", "[::1]:443"]


@pytest.mark.parametrize(
    "url",
    ["ftp://secret/", "secret", "http:///secret", "http://[::secret", "http://h:secret/", "http://h:99999/secret",
     "http://se cret/", "http://se<cret/", "http://s\u00e9cret/", "http://se%2fcret/", "http://[secret]/"],
)  # fmt: skip
def test_an_invalid_url_is_rejected_without_repeating_it(url):
    with pytest.raises(PollError) as caught:
        split(url)
    assert "cret" not in str(caught.value)
