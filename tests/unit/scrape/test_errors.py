"""Texts of failed polls: the words of a server's rejection, and what to do."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.scrape.errors import StatusError, failure_remedy, no_engine_remedy, rejection_words

JSON = "application/json; charset=utf-8"


@pytest.mark.parametrize(
    ("kind", "body", "words"),
    [
        (JSON, '{"error":{"code":501,"message":"No metrics. Start it with `--metrics`","type":"e"}}', "No metrics. Start it with `--metrics`"),
        (JSON, '{"error": "model \\u001b[31mnot\\n found"}', "model ?[31mnot found"),
        (JSON, '{"object": "error", "message": "no"}', "no"),
        ("application/problem+json", '{"title": "t", "detail": "d"}', "d"),
        (JSON, '{"detail": [{"loc": ["query"]}]}', ""),
        (JSON, '{"error": ', ""),
        (JSON, "[" * 4000, ""),
        ("text/plain", "no route\r\n to host\n", "no route to host"),
        ("text/plain", "\n<b>no</b>", ""),
        ("text/html", "<html><head><TITLE>Sign in</title></head><body>dump</body>", "Sign in"),
        ("text/html", "<html>dump", ""),
        ("application/octet-stream", "abc", ""),
        ("text/plain", "x" * 1000, "x" * 256),
        ("text/plain", b"\xff", "�"),
    ],
)  # fmt: skip
def test_a_rejection_gives_its_first_words(kind, body, words):
    assert rejection_words(body if isinstance(body, bytes) else body.encode(), kind) == words


@given(
    st.one_of(st.binary(), st.text().map(json.dumps).map(str.encode)),
    st.sampled_from([JSON, "text/plain", "text/html"]),
)
def test_words_are_one_short_printable_line(body, kind):
    words = rejection_words(body, kind)
    assert len(words) <= 256
    assert words.isprintable()


@pytest.mark.parametrize(
    ("status", "words", "text"),
    [
        (404, "File Not Found", "status 404 Not Found"),
        (404, "404 page not found", "status 404 Not Found"),
        (404, "model gemma is not found here", "status 404 Not Found: model gemma is not found here"),
        (503, "Loading model", "status 503 Service Unavailable: Loading model"),
        (501, "", "status 501 Not Implemented"),
        (599, "busy", "status 599: busy"),
    ],
)
def test_a_status_has_the_words_that_say_more_than_its_phrase(status, words, text):
    assert str(StatusError(status, words=words)) == text


@pytest.mark.parametrize(
    ("failure", "part"),
    [
        ("status 400", "?model=NAME"),
        ("status 401", "AUTHORIZATION_CREDENTIALS"),
        ("no TLS", "http://"),
        ("status 501", "`--metrics`"),
        ("status 502", "log"),
        ("status 418", ""),
    ],
)
def test_a_rejection_has_the_remedy_of_its_status(failure, part):
    assert part in failure_remedy(failure)
    assert bool(part) == bool(failure_remedy(failure))


def test_only_a_routers_page_gives_addresses():
    line = b'up{server="http://10.0.0.1:80"} 1\n'
    assert "10.0.0.1" not in no_engine_remedy(line)
    assert "`http://10.0.0.1:80`" in no_engine_remedy(line + b"\nsmg_worker_health 1\n")
