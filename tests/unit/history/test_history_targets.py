"""Selectors of the known series."""

from __future__ import annotations

import re

from spec_decode_exporter.history.history_targets import HistoryTarget, every_engine
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
    selector = HistoryTarget(ENGINES[0], "vllm:", {"pod": 'a"}\n\\'}, created=True).selector
    assert selector.endswith(',pod="a\\"}\\n\\\\"}')
