from __future__ import annotations

from urllib.parse import parse_qsl

import pytest
from multidict import MultiDict

from spec_decode_exporter.web.page.page_query import PageQuery, folded

WORDS = folded(
    [
        ("target", "chat-1"),
        ("model_name", "Llama 3"),
        ("verdict", "poor"),
        ("Team", "Search all"),
        ("state", "disabled"),
        ("state", "Off"),
    ]
)


def read(address):
    return PageQuery.read(MultiDict(parse_qsl(address)))


def test_an_address_is_read_and_written():
    query = read("q=verdict%3Dpoor&engine=a&engine=b&engine=a&other=1")
    assert query == PageQuery("verdict=poor", ("a", "b"))
    assert query.href == "./?q=verdict%3Dpoor&engine=a&engine=b"
    assert PageQuery().href == "./"


def test_the_oldest_open_engine_closes_at_the_limit():
    query = read("&".join(f"engine={number}" for number in range(20)))
    assert query.opened == tuple(map(str, range(12, 20)))
    assert len(read(f"q={'x' * 5000}").text) == 200


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("", True),
        ("LLAMA", True),
        ("chat poor", True),
        ("chat harmful", False),
        ("verdict=poor", True),
        ("verdict=Poor TEAM=x", False),
        ('Team="search all"', True),
        ('verdict=poor "llama 3"', True),
        ('"3 llama"', False),
        ('team="search', False),
        ('team="search ALL', True),
        ("state=off", True),
        ("state=disabled off", True),
        ("verdict=po", False),
        ("unknown=poor", False),
    ],
)
def test_every_word_of_a_filter_must_be_found(text, matches):
    assert PageQuery(text).matches(WORDS) is matches
