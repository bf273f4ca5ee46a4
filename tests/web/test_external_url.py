"""Address of the exporter in a browser."""

from __future__ import annotations

import pytest

from spec_decode_exporter.core.user_errors import UsageError
from spec_decode_exporter.web.external_url import parse_external_url


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
