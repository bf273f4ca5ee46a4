from __future__ import annotations

import random
from math import inf
from statistics import mean, stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.requests.ratio_estimate import (
    MIN_REQUESTS,
    RatioSums,
    add_ratio_sums,
    ratio_estimate,
    ratio_sums,
)

COUNTS = st.lists(st.tuples(st.integers(0, 1000), st.integers(1, 1000)), max_size=60)


def test_with_equal_denominators_it_is_the_mean_with_its_standard_error():
    xs = [random.Random(1).randrange(100) for _ in range(40)]
    xs = [x + place for place, x in enumerate(xs)]
    found = ratio_estimate(ratio_sums(xs, [1] * 40))
    assert found.value == pytest.approx(mean(xs))
    assert found.standard_error == pytest.approx(stdev(xs) / 40**0.5)
    assert found.degrees == 39
    assert (found.lower + found.upper) / 2 == pytest.approx(found.value)


def test_too_few_requests_and_nothing_to_divide_by_have_no_estimate():
    assert ratio_estimate(ratio_sums([1] * (MIN_REQUESTS - 1), [2] * (MIN_REQUESTS - 1))) is None
    assert ratio_estimate(ratio_sums([1] * MIN_REQUESTS, [2] * MIN_REQUESTS)).value == 0.5
    assert ratio_estimate(ratio_sums([0] * MIN_REQUESTS, [0] * MIN_REQUESTS)) is None


@given(COUNTS, COUNTS)
def test_sums_of_parts_are_the_sums_of_all(first, second):
    parts = [ratio_sums(*([pair[place] for pair in part] for place in (0, 1))) for part in (first, second)]
    whole = [*first, *second]
    assert add_ratio_sums(parts) == ratio_sums([x for x, _ in whole], [y for _, y in whole])
    assert add_ratio_sums([]) == RatioSums()


@given(COUNTS)
def test_bounds_contain_the_value(pairs):
    found = ratio_estimate(ratio_sums([x for x, _ in pairs], [y for _, y in pairs]))
    if found is not None:
        assert 0 <= found.lower <= found.value <= found.upper < inf
