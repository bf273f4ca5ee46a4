"""Percentiles, held against the standard library's."""

from __future__ import annotations

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.requests.percentiles import percentiles

numbers = st.lists(st.floats(0, 100, allow_subnormal=False), min_size=2, max_size=200)


@given(numbers)
def test_percentiles_are_those_of_the_standard_library(values):
    deciles = statistics.quantiles(values, n=10, method="inclusive")
    found = percentiles(sorted(values))
    assert (found.p10, found.p50, found.p90) == pytest.approx((deciles[0], deciles[4], deciles[8]))


def test_one_value_is_all_of_its_percentiles():
    found = percentiles([0.4])
    assert (found.p10, found.p50, found.p90) == (0.4, 0.4, 0.4)


def test_of_nothing_there_are_none():
    assert percentiles([]) is None
