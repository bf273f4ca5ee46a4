from __future__ import annotations

from collections import Counter as Tally

import pytest

from spec_decode_exporter.scrape.page.engine_table import (
    ENGINES,
    MEANINGS,
    Counter,
    EngineMark,
    Gauge,
    Latency,
    TokenLengths,
)


def test_no_sample_name_has_two_meanings():
    names = [
        f"{prefix}{name}"
        for kind in ENGINES
        for prefix in kind.prefixes
        for series in kind.series
        for name in series.names
    ]
    assert max(Tally(names).values()) == 1
    assert len(MEANINGS) == len(names) + 1


@pytest.mark.parametrize("kind", ENGINES, ids=lambda kind: kind.name)
def test_an_engine_has_one_row_for_a_quantity(kind):
    quantities = [(type(series.quantity), series.quantity) for series in kind.series]
    assert len(set(quantities)) == len(quantities)


@pytest.mark.parametrize("kind", ENGINES, ids=lambda kind: kind.name)
def test_names_have_the_ending_that_their_kind_of_quantity_has(kind):
    endings = {
        Counter: ("_total", "_count", "_sum"),
        Latency: ("_bucket",),
        TokenLengths: ("_bucket",),
        EngineMark: ("_total", "_created", "_efficiency"),
        Gauge: ("",),
    }
    for series in kind.series:
        assert all(name.endswith(endings[type(series.quantity)]) for name in series.names), series


def test_every_counter_and_gauge_is_published_by_an_engine():
    told = {(type(meaning.quantity), meaning.quantity) for meaning in MEANINGS.values()}
    assert told >= {(type(one), one) for one in (*Counter, *Gauge, *Latency, *TokenLengths, *EngineMark)}
