"""Time to first token and prefix-cache hits of the arms of an experiment."""

from __future__ import annotations

from math import inf

import pytest

from spec_decode_exporter.experiments.arm_first_token import ArmFirstToken, arm_first_token
from spec_decode_exporter.experiments.experiment import Member, compare
from spec_decode_exporter.scrape.page.engine_table import Counter, Latency
from spec_decode_exporter.scrape.page.sample import Buckets
from tests.fixtures.arms import EAGLE, NANO, NOW, PLAIN, SETTINGS, member, window_of

SLOW = {
    "first_tokens": 2,
    "first_token_nanoseconds": 2 * NANO,
    "prefix_cache_queries": 1000,
    "prefix_cache_hits": 0,
}
FAST = {
    "first_tokens": 6,
    "first_token_nanoseconds": 2 * NANO,
    "prefix_cache_queries": 1000,
    "prefix_cache_hits": 800,
}


def histogram(*counts):
    return {Latency.TIME_TO_FIRST_TOKEN: Buckets((0.1, 1.0, 10.0, inf), counts)}


def test_the_mean_and_the_hits_are_ratios_of_the_sums_over_the_engines():
    found = arm_first_token([window_of(SLOW), window_of(FAST)])
    assert found == ArmFirstToken(mean=pytest.approx(0.5), prefix_hit_ratio=pytest.approx(0.4))


def test_an_engine_without_the_sum_is_left_out():
    hidden = {Counter.FIRST_TOKEN_NANOSECONDS, Counter.PREFIX_CACHE_QUERIES}
    found = arm_first_token([window_of(SLOW, hidden=hidden), window_of(FAST)])
    assert (found.mean, found.prefix_hit_ratio) == (pytest.approx(1 / 3), 0.8)


def test_quantiles_are_those_of_the_requests_of_all_engines_with_histograms():
    found = arm_first_token([], [histogram(0, 90, 100, 100), histogram(100, 100, 100, 100), {}])
    assert found.p50 == pytest.approx(0.1)
    assert found.p95 == pytest.approx(1.0)


def test_an_empty_arm_has_no_values():
    assert arm_first_token([]) == ArmFirstToken()


def test_a_comparison_has_them_for_the_baseline_and_the_arm_and_quantiles_over_the_longest_window():
    def engine(method, work):
        labels = member(method).labels
        windows = (window_of(work, 30.0), window_of(work, 300.0))
        return Member(labels, windows, histogram(0, 50, 100, 100))

    engines = [engine("off", PLAIN | FAST), engine("eagle", EAGLE | SLOW)]
    arms = compare(SETTINGS, engines, (30.0, 300.0), NOW).arms
    without, speculating = (arms[name].windows[-1].first_token for name in ("off", "eagle"))
    assert (without.mean, speculating.mean) == (pytest.approx(1 / 3), pytest.approx(1.0))
    assert (without.prefix_hit_ratio, speculating.prefix_hit_ratio) == (0.8, 0.0)
    assert (without.p50, speculating.p95) == (pytest.approx(1.0), pytest.approx(9.1))
    short = arms["eagle"].windows[0].first_token
    assert short.mean == pytest.approx(1.0)
    assert (short.p50, short.p95) == (None, None)
