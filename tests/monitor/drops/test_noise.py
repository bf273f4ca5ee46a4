from __future__ import annotations

import random
from math import sqrt

import pytest

from spec_decode_exporter.monitor.drops.noise import Differences, Noise


def filled(values, *, drafts=32, kept=1.0):
    """Return the noise of intervals of ``drafts`` drafts with these accepted tokens."""
    noise = Noise()
    for accepted in values:
        noise.add(drafts, accepted, kept)
    return noise


def as_dict(variances):
    return {variance.drafts: variance.value for variance in variances}


def test_a_difference_of_a_worked_example():
    differences = Differences()
    differences.compare(10, 20)
    differences.compare(30, 30)
    # (2 - 1)² / (1/10 + 1/30) = 7.5, and once its own standard error, √(2 / (2/3)).
    assert differences.variance() == pytest.approx(7.5 * (1 + sqrt(3)))


def test_variances_of_sums_follow_from_those_of_differences():
    noise = filled([32, 0] * 5)
    # 32 drafts: (1 - 0)² / (2/32) = 16, nine times, so 16 (1 + √(3/9)); 64 drafts: all alike, 0.
    allan = 16 * (1 + sqrt(1 / 3))
    assert as_dict(noise.variances(1e9)) == {64: 0.0, 32: pytest.approx(allan / 2)}


def test_a_length_with_too_few_differences_has_no_variance():
    assert filled([32, 0] * 2).variances(1e9) == []
    assert [variance.drafts for variance in filled([32, 0] * 3).variances(1e9)] == [32]


def test_variances_end_at_the_longest_length():
    noise = filled([random.Random(place).randint(0, 96) for place in range(400)])
    assert [variance.drafts for variance in noise.variances(1e9)] == [2048, 1024, 512, 256, 128, 64, 32]
    assert [variance.drafts for variance in noise.variances(300)] == [256, 128, 64, 32]
    assert [variance.drafts for variance in noise.variances(1)] == [32]


def test_independent_drafts_have_the_same_variance_at_all_lengths():
    chance = random.Random(1)
    noise = filled([sum(chance.random() < 0.5 for _ in range(32)) for _ in range(20_000)])
    for drafts, value in noise.variances(1000):
        assert value == pytest.approx(0.25, rel=0.25), drafts


def test_correlated_drafts_have_a_higher_variance_in_long_sums():
    chance = random.Random(2)
    # 8 intervals of 32 drafts in a row are of one request, with 1 or 2 accepted tokens a draft.
    values = [accepted for _ in range(4000) for accepted in [32 * chance.choice((1, 2))] * 8]
    found = as_dict(filled(values).variances(8192))
    # V = 0.25 · 256 for sums that are much longer than a request; less for shorter ones.
    assert found[4096] == pytest.approx(64, rel=0.25)
    assert found[32] < found[128] < found[256] < found[512]


def test_a_slow_trend_hardly_raises_the_variance():
    chance = random.Random(3)
    noise = filled([place / 300 + chance.gauss(64, 5.6) for place in range(5000)])
    around_the_mean = 32 * (5000 / 300 / 32) ** 2 / 12
    assert as_dict(noise.variances(32))[32] == pytest.approx(1, rel=0.15)
    assert as_dict(noise.variances(256))[256] < 1 + around_the_mean / 3


def test_an_interruption_separates_sums():
    noise = filled([32] * 10)
    noise.interrupt()
    for _ in range(10):
        noise.add(32, 64, 1.0)
    assert all(variance.value == 0 for variance in noise.variances(1e9))


def test_old_differences_lose_weight():
    noise = filled([32, 64] * 50, kept=0.8)
    for _ in range(100):
        noise.add(32, 32, 0.8)
    assert as_dict(noise.variances(32))[32] < 1e-6


def test_an_interval_of_many_drafts_counts_at_every_length_up_to_its_own():
    noise = filled([1000, 3000] * 5, drafts=1000)
    found = as_dict(noise.variances(1e9))
    assert found[1024] == 0  # two of them at a time, all alike
    assert found[512] == pytest.approx((2**2 / (2 / 1000)) * (1 + sqrt(3 / 9)) / 2)
    assert set(found) == {32, 64, 128, 256, 512, 1024}
