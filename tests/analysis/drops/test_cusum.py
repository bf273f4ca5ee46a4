from __future__ import annotations

from math import exp, log, sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.analysis.drops.cusum import Cusum, least_threshold, threshold
from spec_decode_exporter.analysis.drops.interval import Interval
from spec_decode_exporter.analysis.drops.noise import LENGTHS, Variance

WEEK = 7 * 86_400

positive = st.floats(1e-3, 1e3)
drafts = st.floats(1, 1e12)


def test_the_threshold_of_a_worked_example():
    # A length of 2.1 at 20 drafts a second: κ is 7.5 % of it, and a week has 12 096 000 drafts.
    # 2 · 0.1575² · 12 096 000 / 6 = 100 018.8, its logarithm 11.5131; 6 / (2 · 0.1575) = 19.0476.
    assert threshold(6, 0.075 * 2.1, 20 * WEEK) == pytest.approx(219.30, abs=0.005)


@given(variance=positive, allowance=positive, drafts=drafts)
def test_the_threshold_is_passed_once_in_so_many_drafts(variance, allowance, drafts):
    # Siegmund's formula for a diffusion, without its small terms: (e^(2κh/V) - 1) V / (2κ²) drafts.
    height = threshold(variance, allowance, drafts)
    exponent = 2 * allowance * height / variance
    assert variance / (2 * allowance**2) * (exp(exponent) - 1) == pytest.approx(drafts, rel=1e-6)


@given(variance=st.floats(0.5, 100), allowance=st.floats(0.1, 0.5))
def test_where_sums_of_all_lengths_vary_alike_it_is_the_simple_threshold(variance, allowance):
    variances = [Variance(length, variance) for length in reversed(LENGTHS)]
    simple = threshold(variance, allowance, 20 * WEEK)
    assert least_threshold(variances, allowance, 20 * WEEK) == pytest.approx(simple, rel=1e-9)


def test_what_longer_sums_vary_more_decides():
    variances = [Variance(1024, 20.0), Variance(32, 1.0)]
    logarithm = log(1 + 2 * 0.1**2 * 1e6 / 20)
    # The likeliest length for V = 20 is 20 · 6.9 / 0.02 = 6900 drafts, of which 1448 are the nearest to 1024.
    length = 1024 * sqrt(2)
    expected = sqrt(2 * length * 20 * logarithm) - 0.1 * length
    assert least_threshold(variances, 0.1, 1e6) == pytest.approx(expected)
    assert least_threshold(variances[1:], 0.1, 1e6) < expected < threshold(20.0, 0.1, 1e6)


def test_what_varies_over_lengths_that_no_sum_reaches_does_not_matter():
    variances = [Variance(262_144, 20.0), Variance(64, 1.0), Variance(32, 1.0)]
    assert least_threshold(variances, 1.0, 1e6) == pytest.approx(threshold(1.0, 1.0, 1e6))


@given(
    values=st.lists(positive, min_size=len(LENGTHS), max_size=len(LENGTHS)),
    allowance=positive,
    drafts=drafts,
)
def test_no_threshold_is_above_that_of_the_noisiest_length(values, allowance, drafts):
    variances = [Variance(length, value) for length, value in zip(LENGTHS[::-1], values, strict=True)]
    highest = max(threshold(value, allowance, drafts) for value in values)
    assert 0 < least_threshold(variances, allowance, drafts) <= highest * (1 + 1e-9)


@given(st.lists(st.integers(-100, 100), min_size=1, max_size=30))
def test_the_sum_is_the_highest_that_any_beginning_gives(steps):
    cusum = Cusum()
    for place, step in enumerate(steps):
        cusum.add(step, 1e9, Interval(1.0, 2, 3))
        highest = max(0, *(sum(steps[first : place + 1]) for first in range(place + 1)))
        assert cusum.sum == highest


def test_it_remembers_what_was_drafted_since_it_was_0():
    cusum = Cusum()
    assert not cusum.add(5, 10, Interval(1.0, 20, 30))
    assert not cusum.add(-6, 10, Interval(1.0, 20, 40))
    assert cusum.since == Interval()
    assert not cusum.add(10, 10, Interval(1.0, 20, 10))
    assert cusum.add(1, 10, Interval(2.0, 30, 25))
    assert cusum.since == Interval(3.0, 50, 35)
