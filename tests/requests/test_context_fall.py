from __future__ import annotations

import random

import pytest

from spec_decode_exporter.figures.estimate import Estimate
from spec_decode_exporter.requests.context_fall import context_fall
from spec_decode_exporter.requests.ratio_estimate import ratio_estimate, ratio_sums
from spec_decode_exporter.requests.request_findings import (
    ContextFall,
    Effect,
    PromptBucket,
    RequestTotals,
    Summary,
)

SUMMARY = Summary(RequestTotals(), None, None, None, None, None, 0, 0, 0, 0)


def bucket(tokens, length):
    return PromptBucket("", tokens, None, length, None, SUMMARY, Effect.UNCLEAR)


def estimate(value, error=0.05, degrees=100):
    return Estimate(value, value - 2 * error, value + 2 * error, error, degrees)


def drawn(random, number, mean, spread=1.0):
    """Return the acceptance length of requests that differ in their own acceptance and their drafts."""
    drafts = [random.randrange(10, 200) for _ in range(number)]
    own = [min(4, max(0, random.gauss(mean, spread))) for _ in range(number)]
    accepted = [round(each * count) for each, count in zip(own, drafts, strict=True)]
    found = ratio_estimate(ratio_sums(accepted, drafts))
    return Estimate(1 + found.value, 1 + found.lower, 1 + found.upper, found.standard_error, found.degrees)


def test_a_fall_has_the_shortest_and_the_longest_prompts_with_enough_requests():
    buckets = [
        bucket(500, None),
        bucket(2000, estimate(2.3)),
        bucket(9000, estimate(2.6)),
        bucket(20_000, estimate(1.08)),
        bucket(90_000, None),
    ]
    assert context_fall(buckets) == ContextFall(2000, 2.3, 20_000, 1.08)


@pytest.mark.parametrize(
    ("short", "long", "falls"),
    [
        # 0.85 · 2.0 - L less t · error, which is 1.972 · √(0.0425² + 0.05²) = 0.1294.
        (estimate(2.0), estimate(1.57), True),
        (estimate(2.0), estimate(1.571), False),
        # With exact lengths 15 % are needed.
        (estimate(2.0, 0.0), estimate(1.69, 0.0), True),
        (estimate(2.0, 0.0), estimate(1.7, 0.0), False),
        (estimate(2.0), estimate(3.0), False),
        (estimate(2.0, 0.5), estimate(1.1, 0.5), False),
    ],
)
def test_a_fall_is_15_percent_beyond_the_bounds(short, long, falls):
    assert (context_fall([bucket(1, short), bucket(2, long)]) is not None) is falls


def test_one_bucket_or_none_with_bounds_has_no_fall():
    assert context_fall([]) is None
    assert context_fall([bucket(1, estimate(2.0))]) is None
    assert context_fall([bucket(1, estimate(2.0)), bucket(2, None)]) is None


def test_requests_of_equal_acceptance_rarely_fall():
    """Of 4,000 independent windows with the fewest requests."""
    source = random.Random(7)
    false = sum(
        context_fall([bucket(1, drawn(source, 30, 1.3)), bucket(2, drawn(source, 30, 1.3))]) is not None
        for _ in range(4000)
    )
    assert false <= 5


def test_a_fall_from_2_3_to_1_1_is_found_in_the_fewest_requests():
    source = random.Random(7)
    assert all(
        context_fall([bucket(1, drawn(source, 30, 1.3)), bucket(2, drawn(source, 30, 0.1, 0.1))])
        for _ in range(200)
    )
