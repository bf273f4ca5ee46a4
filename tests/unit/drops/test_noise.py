"""Variances of sums, and thresholds of cumulative sums."""

from math import log, log1p, sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.drops.noise import LENGTHS, Noise, Variance, threshold

WEEK = 7 * 86_400


def test_variances_of_sums_follow_from_those_of_differences():
    # 32 drafts: (1 - 0)² / (2/32) = 16, nine times, so 16 (1 + √(3/9)); 64 drafts: all alike, 0.
    allan, noise = 16 * (1 + sqrt(1 / 3)), Noise()
    for accepted in [32, 0] * 5:
        noise.add(32, accepted, 1.0)
    assert dict(noise.variances(1e9)) == {64: 0.0, 32: pytest.approx(allan / 2)}


def simple(variance, allowance, drafts):
    """Siegmund's threshold of independent drafts: V/(2κ) · ln(1 + 2κ²N/V)."""
    return variance / (2 * allowance) * log1p(2 * allowance**2 * drafts / variance)


def test_the_threshold_of_a_worked_example():
    # A length of 2.1 at 20 drafts a second: κ is 7.5 % of it, and a week has 12 096 000 drafts.
    # 2 · 0.1575² · 12 096 000 / 6 = 100 018.8, its logarithm 11.5131; 6 / (2 · 0.1575) = 19.0476.
    constant = [Variance(length, 6.0) for length in reversed(LENGTHS)]
    assert threshold(constant, 0.075 * 2.1, 20 * WEEK) == pytest.approx(219.30, abs=0.005)


@given(variance=st.floats(0.5, 100), allowance=st.floats(0.1, 0.5))
def test_with_the_same_variance_at_all_lengths_it_is_the_simple_threshold(variance, allowance):
    constant = [Variance(length, variance) for length in reversed(LENGTHS)]
    assert threshold(constant, allowance, 20 * WEEK) == pytest.approx(
        simple(variance, allowance, 20 * WEEK), rel=1e-9
    )


def test_a_higher_variance_of_longer_sums_raises_the_threshold():
    pair = [Variance(1024, 20.0), Variance(32, 1.0)]
    logarithm = log(1 + 2 * 0.1**2 * 1e6 / 20)
    # The likeliest length for V = 20 is 20 · 6.9 / 0.02 = 6900 drafts, of which 1448 are the nearest to 1024.
    length = 1024 * sqrt(2)
    expected = sqrt(2 * length * 20 * logarithm) - 0.1 * length
    assert threshold(pair, 0.1, 1e6) == pytest.approx(expected)
    assert threshold(pair[1:], 0.1, 1e6) < expected < simple(20.0, 0.1, 1e6)
