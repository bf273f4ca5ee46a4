"""Quantiles as Prometheus computes them, the edges of their buckets, and their names."""

from bisect import bisect_left, bisect_right
from itertools import accumulate
from math import inf, log
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.figures.quantile import (
    LATENCY_QUANTILES,
    bounds,
    edges,
    needed_observations,
    quantile,
    quantile_ratio,
)
from spec_decode_exporter.scrape.sample import Buckets


@given(
    bounds=st.lists(st.floats(-5, 100), min_size=1, max_size=12, unique=True),
    counts=st.lists(st.integers(0, 1000), min_size=13, max_size=13),
    share=st.floats(0.001, 1),
)
def test_a_quantile_is_that_of_prometheus(bounds, counts, share):
    buckets = Buckets((*sorted(bounds), inf), tuple(accumulate(counts[: len(bounds) + 1])))
    assert quantile(share, buckets) == pytest.approx(bucket_quantile(share, buckets.bounds, buckets.counts))


def bucket_quantile(share, bounds, counts):
    """Prometheus' bucketQuantile (promql/quantile.go), line by line; None for NaN."""
    observations = counts[-1]
    if len(bounds) < 2 or observations == 0:
        return None
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


def test_a_quantile_lies_between_the_edges_of_its_bucket():
    buckets = Buckets((0.3, 0.4, 0.8, inf), (50, 60, 90, 100))
    found = [edges(share, buckets) for share in (0.5, 0.55, 0.9, 0.99)]
    assert found == [(0.0, 0.3), (0.3, 0.4), (0.4, 0.8), (0.8, inf)]
    assert [each.are_far_apart for each in found] == [True, False, True, True]
    assert edges(0.5, Buckets((0.3, inf), (0, 0))) is None


@pytest.mark.parametrize("each", LATENCY_QUANTILES, ids=lambda its: its.name)
def test_a_quantile_has_bounds_from_its_least_number_of_observations_on(each):
    least = needed_observations(each.share)
    assert bounds(each.share, Buckets((1.0, inf), (least, least))) == (0.0, 1.0)
    assert bounds(each.share, Buckets((1.0, inf), (least - 1, least - 1))) is None


@pytest.mark.parametrize("each", LATENCY_QUANTILES, ids=lambda its: its.name)
def test_bounds_hold_the_quantile_of_the_distribution_in_95_of_100_trials(each):
    """1,000 exponential times, in buckets so narrow that chance alone counts."""
    random, inside, trials = Random(1), 0, 200
    narrow = (*(place / 100 for place in range(1, 1300)), inf)
    truth = -log(1 - each.share)
    for _ in range(trials):
        values = sorted(random.expovariate(1) for _ in range(1000))
        counts = tuple(bisect_right(values, bound) for bound in narrow)
        lower, upper = bounds(each.share, Buckets(narrow, counts))
        inside += lower <= truth <= upper
    assert 0.93 < inside / trials < 0.985


COUNTS = st.lists(st.integers(0, 150), min_size=6, max_size=6)


@given(now=COUNTS, before=COUNTS, each=st.sampled_from(LATENCY_QUANTILES))
def test_a_ratio_and_that_of_any_values_in_the_buckets_are_within_its_bounds(now, before, each):
    one, other = (Buckets((0.025, 0.05, 0.1, 0.5, 1.0, inf), tuple(accumulate(own))) for own in (now, before))
    found = quantile_ratio(each.share, one, other)
    if found is not None:
        own, its = edges(each.share, one), edges(each.share, other)
        assert found.bounds.lower <= own.lower / its.upper
        assert found.bounds.lower <= found.value <= found.bounds.upper
        assert found.bounds.upper >= (own.upper / its.lower if its.lower else inf)


@pytest.mark.parametrize(
    ("now", "before", "expected"),
    [
        pytest.param((400, 400, 400), (0, 400, 400), (0.0, 1.0), id="from the first bucket"),
        pytest.param((0, 400, 400), (400, 400, 400), (1.0, inf), id="into the first bucket"),
        pytest.param((0, 400, 400), (0, 400, 400), (0.1, 10.0), id="within one bucket"),
        pytest.param((400, 400, 400), (400, 400, 400), None, id="within the first bucket"),
        pytest.param((0, 0, 400), (0, 400, 400), None, id="in the last bucket"),
        pytest.param((0, 3, 3), (0, 400, 400), None, id="with three requests"),
        pytest.param((0, 0, 0), (0, 400, 400), None, id="without requests"),
    ],
)
def test_a_ratio_is_as_certain_as_the_buckets(now, before, expected):
    found = quantile_ratio(0.5, Buckets((0.1, 1.0, inf), now), Buckets((0.1, 1.0, inf), before))
    assert (found and found.bounds) == expected
