from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.simulator.histogram import SimulatedHistogram, token_bounds


def test_a_value_on_a_bound_belongs_to_the_bucket_below():
    histogram = SimulatedHistogram([1.0, 2.0])
    histogram.observe(1.0)
    assert histogram.cumulative() == [1, 1, 1]


def test_a_value_above_all_bounds_is_only_in_the_last_bucket():
    histogram = SimulatedHistogram([1.0, 2.0])
    histogram.observe(3.0)
    assert histogram.cumulative() == [0, 0, 1]


@given(st.lists(st.floats(0, 100)))
def test_buckets_count_what_is_at_or_below_their_bound(values):
    histogram = SimulatedHistogram([1.0, 10.0, 50.0])
    for value in values:
        histogram.observe(value)
    expected = [sum(value <= bound for value in values) for bound in (1, 10, 50, 100)]
    assert histogram.cumulative() == expected
    assert histogram.count == len(values)
    assert histogram.total == pytest.approx(sum(values))


@pytest.mark.parametrize(("largest", "last"), [(1024, 1000.0), (8192, 5000.0), (1, 1.0), (2000, 2000.0)])
def test_token_bounds_end_at_the_last_step_that_a_request_can_reach(largest, last):
    assert token_bounds(largest)[-1] == last


def test_token_bounds_are_those_of_the_recorded_page(recorded):
    page = recorded("vllm-0.32.0-python-ngram-k4.prom")
    bounds = re.findall(r'^vllm:request_prompt_tokens_bucket\{engine="0",le="([0-9.]+)"', page, re.MULTILINE)
    assert [str(bound) for bound in token_bounds(1024)] == bounds
