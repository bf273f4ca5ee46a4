"""Notation of the series of promtool tests."""

from __future__ import annotations

import pytest

from config.prometheus.generate.case import ENGINE, counter, gauge, of


@pytest.mark.parametrize(
    ("interval", "notation"), [(15, "0+30x3 120+0x7"), (60, "0+120x0 120+0x1"), (5, "0+10x11 120+0x23")]
)
def test_a_counter_grows_as_fast_however_often_it_is_scraped(interval, notation):
    assert counter((1, 2), (2, 0)).notation(interval) == notation


def test_a_gauge_that_is_absent_ends_with_a_marker_and_comes_back():
    assert gauge((1, 0.5), (1, None), (0.5, 1)).notation(15) == "0.5x3 stale _x3 1x1"


def test_a_gauge_that_misses_one_scrape():
    assert gauge((1, 1), (1, None), (1, 1)).notation(60) == "1x0 stale 1x0"


def test_a_name_has_the_labels_of_an_engine_and_more():
    assert of("x", {"a": "1"}, b="2") == 'x{a="1",b="2"}'
    assert of("x").count("=") == len(ENGINE)
