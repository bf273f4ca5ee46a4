"""Speed-up of requests, its bounds, and the effect."""

from __future__ import annotations

import random
from math import sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.analysis.cost import CostSource
from spec_decode_exporter.requests.group_totals import RequestGroup
from spec_decode_exporter.requests.ratio_estimate import MIN_REQUESTS
from spec_decode_exporter.requests.request_aggregate import sums
from spec_decode_exporter.requests.request_findings import Effect, GroupKey
from spec_decode_exporter.requests.request_record import RequestRecord
from spec_decode_exporter.requests.request_speedup import (
    effect,
    speedup_estimate,
)
from spec_decode_exporter.requests.stored_requests import StoredRequests
from tests.fixtures.costs import make_cost


def sums_at(requests, *, cost=None, **keys):
    """Return the sums over requests, or over (drafts, accepted tokens) at K = 4; by default at c = c0 = 0.1."""
    stored, group = StoredRequests(10_000), RequestGroup(GroupKey("llama", "chat", "0"))
    for one in requests:
        record = RequestRecord("llama", one[0], 4 * one[0], one[1], 4) if isinstance(one, tuple) else one
        stored.add(record, group, 0.0)
    cost = cost or make_cost(**keys)
    return sums(stored.since(0.0), lambda target: cost).speedup


def test_equal_requests_have_their_common_speed_up_without_scatter():
    # 3.3 tokens a draft in 1 + 0 + 0.1·4 plain steps: docs/explanation/semantics.md has 2.357.
    found = speedup_estimate(sums_at([(100, 230)] * 40, cost=make_cost(0.1, 0.0)))
    assert found.value == pytest.approx(3.30 / 1.4)
    assert (found.lower, found.upper) == pytest.approx((found.value, found.value), abs=1e-6)


def test_too_few_requests_have_no_estimate():
    assert speedup_estimate(sums_at([(100, 230)] * (MIN_REQUESTS - 1))) is None
    assert speedup_estimate(sums_at([(100, 230)] * MIN_REQUESTS)) is not None


def test_requests_without_drafts_are_not_evaluated():
    found = sums_at([(0, 0)] * 50 + [(10, 20)])
    assert found.requests == 1
    assert speedup_estimate(found) is None


@given(
    st.lists(
        st.tuples(st.integers(1, 500), st.floats(0, 1)).map(
            lambda pair: (pair[0], int(4 * pair[0] * pair[1]))
        ),
        min_size=MIN_REQUESTS,
        max_size=80,
    )
)
def test_the_error_is_that_of_a_ratio_estimator(requests):
    found = speedup_estimate(sums_at(requests))
    xs = [drafts + accepted for drafts, accepted in requests]
    ys = [1.5 * drafts for drafts, _ in requests]
    value = sum(xs) / sum(ys)
    squares = sum((x - value * y) ** 2 for x, y in zip(xs, ys, strict=True))
    error = sqrt(len(xs) / (len(xs) - 1) * squares) / sum(ys)
    assert found.value == pytest.approx(value)
    assert found.standard_error == pytest.approx(error, abs=1e-6)
    assert found.lower <= found.value <= found.upper


def test_the_bounds_contain_the_truth_in_about_95_percent_of_samples():
    generator = random.Random(3)
    held = 0
    for _ in range(400):
        requests = [drawn(generator) for _ in range(40)]
        found = speedup_estimate(sums_at(requests))
        held += found.lower <= TRUTH <= found.upper
    assert 0.92 <= held / 400 <= 0.98


@pytest.mark.parametrize(("every_step", "plain"), [(False, 80 + 0.1 * 20 + 0.1 * 80), (True, 1.1 * 80 + 8)])
def test_steps_without_drafts_are_in_the_speed_up(every_step, plain):
    """An n-gram request: 20 of 80 steps drafted, and 100 tokens came after the first."""
    request = RequestRecord("llama", 20, 80, 20, 4, completion_tokens=101)
    found = speedup_estimate(sums_at([request] * 40, every_step=every_step))
    assert found.value == pytest.approx(100 / plain)


def test_the_speed_up_of_drafts_alone_is_no_upper_limit_below_1():
    """Half of the steps draft in vain: the truth is nearer to 1 than that of the steps that draft."""
    request = RequestRecord("llama", 50, 200, 0, 4, completion_tokens=101)
    unknown = RequestRecord("llama", 50, 200, 0, 4)
    truth, drafts_alone = (speedup_estimate(sums_at([one] * 40)).value for one in (request, unknown))
    assert drafts_alone == pytest.approx(1 / 1.5)
    assert truth == pytest.approx(100 / 125)


def test_tokens_beyond_the_end_of_an_answer_are_no_gain():
    request = RequestRecord("llama", 10, 40, 30, 4, completion_tokens=37)
    assert speedup_estimate(sums_at([request] * 40)).value == pytest.approx(36 / 15)


def test_a_request_without_drafts_pays_only_if_every_step_searches():
    requests = [RequestRecord("llama", 0, 0, 0, 4, completion_tokens=101)] * 40
    searching, drafting = (sums_at(requests, every_step=every_step) for every_step in (True, False))
    assert speedup_estimate(searching).value == pytest.approx(1 / 1.1)
    assert speedup_estimate(drafting).value == 1.0
    assert (searching.below_break_even, drafting.below_break_even) == (40, 0)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(0.05, 0.10, Effect.GAINS), (0.05, 0.5, Effect.UNCLEAR), (0.4, 0.5, Effect.LOSES)],
)
@pytest.mark.parametrize("source", CostSource)
def test_the_effect_holds_at_both_corners_of_the_cost(low, high, expected, source):
    cost = make_cost((low + high) / 2, source=source, low=low, high=high)
    requests = [RequestRecord("llama", 100, 400, 100, 4)] * 40  # 2 tokens in 1.1 + 4·c plain steps
    total = sums_at(requests, cost=cost)
    found = speedup_estimate(total)
    bounds = (found.lower, found.value, found.upper)
    assert bounds == pytest.approx([2 / (1.1 + 4 * c) for c in (high, (low + high) / 2, low)], abs=1e-6)
    assert effect(total) is expected


@pytest.mark.parametrize(
    ("accepted", "expected"),
    [(60, Effect.GAINS), (50, Effect.UNCLEAR), (40, Effect.LOSES)],
)
def test_the_effect_follows_from_the_bounds(accepted, expected):
    # 100 drafts of four take 150 plain steps: 50 accepted tokens make that even.
    requests = [(100, accepted + turn % 5 - 2) for turn in range(40)]
    assert effect(sums_at(requests)) is expected
    assert effect(sums_at(requests[:10])) is Effect.UNCLEAR


def test_a_request_is_below_break_even_if_plain_decoding_gives_more_tokens():
    found = sums_at([(100, 49), (100, 50), (100, 51)])
    assert (found.requests, found.below_break_even) == (3, 1)


def drawn(generator):
    """Return a request of 20 to 200 drafts that accept four tokens or none, with a probability of its own."""
    probability = generator.choice([0.2, 0.5, 0.8])
    drafts = generator.randrange(20, 201)
    return drafts, 4 * sum(generator.random() < probability for _ in range(drafts))


TRUTH = (1 + 4 * 0.5) / 1.5
"""Half of the drafts accept four tokens, for any number of drafts, at c = c0 = 0.1."""
