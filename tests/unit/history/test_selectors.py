"""Selectors of the known series, and the user's matchers."""

from __future__ import annotations

import re

import pytest

from spec_decode_exporter.core.user_errors import UsageError
from spec_decode_exporter.history.selectors import checked_match, every_engine, of_target
from spec_decode_exporter.scrape.engines import ENGINES, MEANINGS, PLAIN_NAMES, PROCESS_START


def names_of(selector):
    return re.compile(re.search(r'__name__=~"([^"]*)"', selector)[1].replace("\\\\", "\\"))


def test_every_counter_and_gauge_that_the_scraper_knows_is_selected_and_no_histogram():
    names = names_of(every_engine(""))
    known = {name.decode() for name in PLAIN_NAMES} - {PROCESS_START}
    assert all(names.fullmatch(name) for name in known)
    assert not any(names.fullmatch(name.decode()) for name in MEANINGS.keys() - PLAIN_NAMES)


def test_the_selector_of_all_engines_is_short_enough_for_a_proxy():
    assert len(every_engine("")) < 4000


def test_a_label_value_cannot_leave_its_quotes():
    selector = of_target(ENGINES[0], "vllm:", {"pod": 'a"}\n\\'})
    assert selector.endswith(',pod="a\\"}\\n\\\\"}')


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ('job="vllm"', 'job="vllm"'),
        ('{job="vllm", namespace=~"prod-.*",}', 'job="vllm", namespace=~"prod-.*"'),
        ("", ""),
        ("{}", ""),
    ],
)
def test_matchers_are_taken_with_or_without_braces(text, match):
    assert checked_match(text) == match


@pytest.mark.parametrize("text", ["job=vllm", 'job="a"} or up{', "vllm:x", 'job="' + "a" * 5000 + '"'])
def test_anything_else_is_refused_with_an_example(text):
    with pytest.raises(UsageError, match="write for example"):
        checked_match(text)
