"""Latency under speculation, and quantiles as in Prometheus."""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate
from math import inf, isnan, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.figures.latency import (
    counts_tokens_as_steps,
    decode_seconds,
    decoded_tokens,
    edges,
    quantile,
    step_seconds,
    time_per_output_token_seconds,
)
from spec_decode_exporter.scrape.page.sample import Buckets


def test_a_step_takes_longer_than_a_token_when_it_gives_several(make_window):
    window = make_window(
        decode_nanoseconds=2_693_510_425, decode_steps=45, generation_tokens=120, first_tokens=1
    )
    assert decode_seconds(window) == 2.693510425
    assert step_seconds(window) == pytest.approx(0.05985579)
    assert time_per_output_token_seconds(window) == pytest.approx(0.02263454)


def test_first_tokens_come_from_no_decode_step(make_window):
    assert decoded_tokens(make_window(generation_tokens=120, first_tokens=20)) == 100


@pytest.mark.parametrize("formula", [decode_seconds, step_seconds, time_per_output_token_seconds])
def test_a_figure_of_an_unknown_counter_has_no_value(make_window, formula):
    assert formula(make_window()) is None


def test_an_idle_window_has_no_times(make_window):
    window = make_window(decode_nanoseconds=0, decode_steps=0, generation_tokens=0, first_tokens=0)
    assert step_seconds(window) is None
    assert time_per_output_token_seconds(window) is None


def test_first_tokens_alone_have_no_time_per_output_token(make_window):
    # And a page torn between the two must not give a negative time.
    for generated in (5, 4):
        window = make_window(
            decode_nanoseconds=10, decode_steps=0, generation_tokens=generated, first_tokens=5
        )
        assert time_per_output_token_seconds(window) is None


class TestQuantile:
    # le 0.1: 10, 0.5: 30, 1: 40, +Inf: 50
    BUCKETS = Buckets((0.1, 0.5, 1.0, inf), (10, 30, 40, 50))

    @pytest.mark.parametrize(
        ("share", "expected"),
        [
            (0.1, 0.05),  # rank 5, half way through the first bucket, which begins at 0
            (0.2, 0.1),  # rank 10, exactly the first bound
            (0.5, 0.4),  # rank 25: 15 of 20 into 0.1 … 0.5
            (0.75, 0.875),  # rank 37.5: 7.5 of 10 into 0.5 … 1
            (0.8, 1.0),
            (0.81, 1.0),  # in the last bucket: the highest finite bound
            (1.0, 1.0),
        ],
    )
    def test_by_hand(self, share, expected):
        assert quantile(share, self.BUCKETS) == pytest.approx(expected)

    def test_an_empty_histogram_has_none(self):
        assert quantile(0.5, Buckets((0.1, inf), (0, 0))) is None
        assert quantile(0.5, Buckets((), ())) is None

    def test_a_histogram_without_a_finite_bound_has_none(self):
        assert quantile(0.5, Buckets((inf,), (5,))) is None

    def test_all_in_the_last_bucket_is_the_highest_bound(self):
        assert quantile(0.5, Buckets((0.1, 2.0, inf), (0, 0, 7))) == 2.0

    def test_a_first_bound_of_0_or_less_is_the_quantile_itself(self):
        assert quantile(0.5, Buckets((0.0, 1.0, inf), (9, 10, 10))) == 0.0
        assert quantile(0.5, Buckets((-1.0, 1.0, inf), (9, 10, 10))) == -1.0

    def test_empty_lower_buckets_are_skipped(self):
        assert quantile(0.5, Buckets((1.0, 2.0, 4.0, inf), (0, 0, 10, 10))) == pytest.approx(3.0)

    def test_decode_steps_of_a_recorded_page(self):
        # 45 steps: 5 in 10 ms, 24 in 25, 25 in 50, 26 in 75 and 100, all in 150
        bounds = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, inf)
        recorded = Buckets(bounds, (5, 24, 25, 26, 26, 45, 45, 45))
        assert quantile(0.5, recorded) == pytest.approx(0.01 + 0.015 * 17.5 / 19)
        assert quantile(0.95, recorded) == pytest.approx(0.1 + 0.05 * 16.75 / 19)
        assert quantile(0.99, recorded) == pytest.approx(0.1 + 0.05 * 18.55 / 19)

    @given(
        bounds=st.lists(st.floats(-5, 100), min_size=1, max_size=12, unique=True),
        counts=st.lists(st.integers(0, 1000), min_size=13, max_size=13),
        share=st.floats(0.001, 1),
    )
    def test_it_is_prometheus_bucket_quantile(self, bounds, counts, share):
        buckets = Buckets((*sorted(bounds), inf), tuple(accumulate(counts[: len(bounds) + 1])))
        expected = bucket_quantile(share, buckets.bounds, buckets.counts)
        found = quantile(share, buckets)
        assert (found is None) == isnan(expected)
        if found is not None:
            assert found == pytest.approx(expected)


def bucket_quantile(share, bounds, counts):
    """Prometheus' bucketQuantile (promql/quantile.go), line by line."""
    observations = counts[-1]
    if len(bounds) < 2 or observations == 0:
        return nan
    rank = share * observations
    b = bisect_left(counts, rank, hi=len(counts) - 1)
    if b == len(bounds) - 1:
        return bounds[-2]
    if b == 0 and bounds[0] <= 0:
        return bounds[0]
    start, end, count = 0.0, bounds[b], counts[b]
    if b > 0:
        start = bounds[b - 1]
        count -= counts[b - 1]
        rank -= counts[b - 1]
    return start + (end - start) * (rank / count)


class TestServersThatCountTokensAsSteps:
    @staticmethod
    def window(make_window, accepted, steps, tokens):
        return make_window(0, 0, accepted, decode_steps=steps, generation_tokens=tokens + 10, first_tokens=10)

    @pytest.mark.parametrize(
        ("accepted", "steps", "tokens", "expected"),
        [
            (500, 1000, 1000, True),  # one observation a token
            (500, 500, 1000, False),  # one a step: S = (G - F) - A
            (500, 751, 1000, True),  # nearer to the tokens than to the steps
            (500, 750, 1000, False),
            (99, 1000, 1000, False),  # too few accepted to tell
            (100, 1000, 1000, True),
            (100, 2001, 2001, False),  # fewer than one in 20 steps
            (100, 2000, 2000, True),
            (0, 0, 0, False),
        ],
    )
    def test_they_are_recognised_by_the_tokens_of_steps(self, make_window, accepted, steps, tokens, expected):
        assert counts_tokens_as_steps(self.window(make_window, accepted, steps, tokens)) is expected

    @pytest.mark.parametrize(
        "missing", ["accepted_tokens", "decode_steps", "generation_tokens", "first_tokens"]
    )
    def test_they_are_not_recognised_by_unknown_counters(self, make_window, missing):
        known = {
            "accepted_tokens": 500,
            "decode_steps": 1000,
            "generation_tokens": 1000,
            "first_tokens": 0,
        }
        assert counts_tokens_as_steps(make_window(**known))
        assert not counts_tokens_as_steps(make_window(**{**known, missing: None}))


def test_a_quantile_lies_between_the_edges_of_its_bucket():
    buckets = Buckets((0.3, 0.4, 0.8, inf), (50, 60, 90, 100))
    found = [edges(share, buckets) for share in (0.5, 0.55, 0.9, 0.99)]
    assert found == [(0.0, 0.3), (0.3, 0.4), (0.4, 0.8), (0.8, inf)]
    assert [each.are_far_apart for each in found] == [True, False, True, True]
    assert edges(0.5, Buckets((0.3, inf), (0, 0))) is None
