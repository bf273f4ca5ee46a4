from __future__ import annotations

from math import exp, log, sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.drops.threshold import min_threshold, threshold
from spec_decode_exporter.drops.variance import LENGTHS, Variance

WEEK = 7 * 86_400

positive = st.floats(1e-3, 1e3)
drafts = st.floats(1, 1e12)


def test_the_threshold_of_a_worked_example():
    # A length of 2.1 at 20 drafts a second: κ is 7.5 % of it, and a week has 12 096 000 drafts.
    # 2 · 0.1575² · 12 096 000 / 6 = 100 018.8, its logarithm 11.5131; 6 / (2 · 0.1575) = 19.0476.
    assert threshold(6, 0.075 * 2.1, 20 * WEEK) == pytest.approx(219.30, abs=0.005)


@given(variance=positive, allowance=positive, drafts=drafts)
def test_independent_drafts_exceed_the_threshold_once_in_the_given_number(variance, allowance, drafts):
    # Siegmund's formula for a diffusion, without its small terms: (e^(2κh/V) - 1) V / (2κ²) drafts.
    height = threshold(variance, allowance, drafts)
    exponent = 2 * allowance * height / variance
    assert variance / (2 * allowance**2) * (exp(exponent) - 1) == pytest.approx(drafts, rel=1e-6)


@given(variance=st.floats(0.5, 100), allowance=st.floats(0.1, 0.5))
def test_with_a_constant_variance_it_equals_the_simple_threshold(variance, allowance):
    variances = [Variance(length, variance) for length in reversed(LENGTHS)]
    simple = threshold(variance, allowance, 20 * WEEK)
    assert min_threshold(variances, allowance, 20 * WEEK) == pytest.approx(simple, rel=1e-9)


def test_a_higher_variance_of_longer_sums_raises_the_threshold():
    variances = [Variance(1024, 20.0), Variance(32, 1.0)]
    logarithm = log(1 + 2 * 0.1**2 * 1e6 / 20)
    # The likeliest length for V = 20 is 20 · 6.9 / 0.02 = 6900 drafts, of which 1448 are the nearest to 1024.
    length = 1024 * sqrt(2)
    expected = sqrt(2 * length * 20 * logarithm) - 0.1 * length
    assert min_threshold(variances, 0.1, 1e6) == pytest.approx(expected)
    assert min_threshold(variances[1:], 0.1, 1e6) < expected < threshold(20.0, 0.1, 1e6)


def test_the_variance_of_sums_that_are_too_long_has_no_effect():
    variances = [Variance(262_144, 20.0), Variance(64, 1.0), Variance(32, 1.0)]
    assert min_threshold(variances, 1.0, 1e6) == pytest.approx(threshold(1.0, 1.0, 1e6))


@given(
    values=st.lists(positive, min_size=len(LENGTHS), max_size=len(LENGTHS)),
    allowance=positive,
    drafts=drafts,
)
def test_the_threshold_is_at_most_that_of_the_highest_variance(values, allowance, drafts):
    variances = [Variance(length, value) for length, value in zip(LENGTHS[::-1], values, strict=True)]
    highest = max(threshold(value, allowance, drafts) for value in values)
    assert 0 < min_threshold(variances, allowance, drafts) <= highest * (1 + 1e-9)
