"""Address of the page, and what its filter finds."""

from urllib.parse import parse_qsl

import pytest
from multidict import MultiDict

from spec_decode_exporter.analysis.verdict import State, Verdict
from spec_decode_exporter.core.numbers import MAX_TEXT
from spec_decode_exporter.web.fleet import MAX_OPEN, SORTS, PageQuery, terms

TERMS = [
    *[("target", "chat-1"), ("model_name", "Llama 3"), ("verdict", "poor")],
    *[("Team", "Search all"), ("state", "disabled"), ("state", "Off")],
]


def read(address):
    return PageQuery.read(MultiDict(parse_qsl(address)))


def test_an_address_is_read_and_written():
    query = read("q=verdict%3Dpoor&engine=a&engine=b&engine=a&other=1")
    assert query == PageQuery("verdict=poor", ("a", "b"))
    assert query.href == "./?q=verdict%3Dpoor&engine=a&engine=b"
    assert query.toggled("a").href == "./?q=verdict%3Dpoor&engine=b"
    assert query.toggled("c").filtered("").href == "./?engine=a&engine=b&engine=c"
    assert PageQuery().href == "./"


def test_a_click_sorts_by_a_column_then_the_other_way_then_by_attention_again():
    query, orders = read("q=x&sort=bad"), []
    for _ in range(3):
        query = query.sorted_by("length")
        orders.append(query.sort)
    assert orders == ["-length", "length", ""]
    assert PageQuery().sorted_by("engine").sorted_by("engine").sort == "-engine"
    assert read("sort=-length").sorted_by("k").href == "./?sort=-k"


def test_engines_without_a_value_are_last_in_both_orders(engines):
    several = [engines[0].model_copy(update={"configured_tokens": tokens}) for tokens in (4, None, 7)]
    for sort, tokens in (("k", [4, 7, None]), ("-k", [7, 4, None])):
        assert [engine.configured_tokens for engine in PageQuery(sort=sort).in_order(several)] == tokens
    for column in SORTS:
        assert len(PageQuery(sort=column).in_order(several)) == 3


def test_the_oldest_open_engine_closes_at_the_limit():
    query = read("&".join(f"engine={number}" for number in range(20)))
    assert query.opened == tuple(map(str, range(20 - MAX_OPEN, 20)))
    assert len(read(f"q={'x' * 5000}").text) == MAX_TEXT


MATCHING = [
    "",
    "LLAMA",
    "chat poor",
    "verdict=poor",
    'Team="search all"',
    'verdict=poor "llama 3"',
    "state=off",
]
OTHERS = ["chat harmful", "verdict=Poor TEAM=x", '"3 llama"', 'team="search', "verdict=po", "unknown=poor"]


@pytest.mark.parametrize(
    ("text", "found"), [*((text, True) for text in MATCHING), *((text, False) for text in OTHERS)]
)
def test_a_filter_matches_if_every_word_is_found(text, found):
    assert PageQuery(text).matches(TERMS) is found


@pytest.mark.parametrize(
    ("text", "update"),
    [
        ("verdict=unclear Unclear", {"verdict": Verdict.UNCLEAR}),
        ('state=idle "engine 0"', {"state": State.IDLE}),
        ("method=mtp", {"method": "mtp"}),
    ],
)
def test_a_filter_finds_the_words_of_page_and_api(engines, text, update):
    assert PageQuery(text).matches(terms(engines[0].model_copy(update=update)))
    assert not PageQuery(text).matches(terms(engines[0]))


def test_an_engine_that_does_not_draft_is_not_found_as_too_early(engines):
    idle = engines[0].model_copy(update={"state": State.IDLE, "verdict": Verdict.INSUFFICIENT})
    assert not PageQuery("verdict=too").matches(terms(idle))
    assert not PageQuery('"too early"').matches(terms(idle))
    active = idle.model_copy(update={"state": State.ACTIVE})
    assert PageQuery('verdict="too early"').matches(terms(active))
