"""How much faster speculation made some requests, and how sure that is."""

from __future__ import annotations

import random
from math import sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.analysis.cost import Cost, CostSource
from spec_decode_exporter.requests.request import Request
from spec_decode_exporter.requests.request_findings import Effect, GroupKey
from spec_decode_exporter.requests.request_group import RequestGroup
from spec_decode_exporter.requests.request_speedup import LEAST_REQUESTS, effect, speedup_estimate
from spec_decode_exporter.requests.request_sums import sums
from spec_decode_exporter.requests.stored_requests import StoredRequests

AT_A_TENTH = Cost(0.1, 0.1, CostSource.CONFIGURED, None)


@pytest.fixture(name="pay")
def pay_fixture(make_cost):
    """The sums over requests of so many drafts and accepted tokens each, K = 4."""

    def pay(requests, ratio=0.1, fixed=0.1, source=CostSource.CONFIGURED):
        kept, group, cost = (
            StoredRequests(10_000),
            RequestGroup(GroupKey("llama", "chat", "0")),
            make_cost(ratio, fixed, source),
        )
        for drafts, accepted in requests:
            kept.add(Request("llama", drafts, 4 * drafts, accepted, 4), group, 0.0)
        return sums(kept.since(0.0), lambda target: cost).pay

    return pay


def test_requests_that_are_alike_have_the_speed_up_of_each_and_no_scatter(pay):
    # 3.3 tokens a draft in 1 + 0 + 0.1·4 plain steps: docs/semantics.md has 2.357.
    found = speedup_estimate(pay([(100, 230)] * 40, ratio=0.1, fixed=0.0))
    assert found.value == pytest.approx(3.30 / 1.4)
    assert (found.lower, found.upper) == pytest.approx((found.value, found.value), abs=1e-6)


def test_of_too_few_requests_nobody_knows_the_scatter(pay):
    assert speedup_estimate(pay([(100, 230)] * (LEAST_REQUESTS - 1))) is None
    assert speedup_estimate(pay([(100, 230)] * LEAST_REQUESTS)) is not None


def test_requests_without_drafts_are_not_evaluated(pay):
    found = pay([(0, 0)] * 50 + [(10, 20)])
    assert found.requests == 1
    assert speedup_estimate(found) is None


def test_a_request_is_below_break_even_if_less_came_out_than_plain_decoding_gives(pay):
    # 100 drafts of four take 150 plain steps at c = c0 = 0.1; 50 accepted tokens make that even.
    found = pay([(100, 49), (100, 50), (100, 51)])
    assert (found.requests, found.below_break_even) == (3, 1)


@given(
    st.lists(
        st.tuples(st.integers(1, 500), st.floats(0, 1)).map(
            lambda pair: (pair[0], int(4 * pair[0] * pair[1]))
        ),
        min_size=LEAST_REQUESTS,
        max_size=80,
    )
)
def test_the_error_is_that_of_a_ratio_estimator(requests):
    kept, group = StoredRequests(1000), RequestGroup(GroupKey("llama", "chat", "0"))
    for drafts, accepted in requests:
        kept.add(Request("llama", drafts, 4 * drafts, accepted, 4), group, 0.0)
    found = speedup_estimate(sums(kept.since(0.0), lambda target: AT_A_TENTH).pay)
    xs = [drafts + accepted for drafts, accepted in requests]
    ys = [1.5 * drafts for drafts, _ in requests]
    value = sum(xs) / sum(ys)
    squares = sum((x - value * y) ** 2 for x, y in zip(xs, ys, strict=True))
    error = sqrt(len(xs) / (len(xs) - 1) * squares) / sum(ys)
    assert found.value == pytest.approx(value)
    assert found.standard_error == pytest.approx(error, abs=1e-6)
    assert found.lower <= found.value <= found.upper


def test_the_bounds_hold_the_truth_about_as_often_as_they_say(pay):
    generator = random.Random(3)
    held = 0
    for _ in range(400):
        requests = [drawn(generator) for _ in range(40)]
        found = speedup_estimate(pay(requests))
        held += found.lower <= TRUTH <= found.upper
    assert 0.92 <= held / 400 <= 0.98


@pytest.mark.parametrize(
    ("accepted", "expected"),
    [(60, Effect.GAINS), (50, Effect.UNCLEAR), (40, Effect.LOSES)],
)
def test_the_bounds_say_what_speculation_does(pay, accepted, expected):
    # 100 drafts of four take 150 plain steps: 50 accepted tokens make that even.
    requests = [(100, accepted + turn % 5 - 2) for turn in range(40)]
    assert effect(pay(requests)) is expected


def test_of_too_few_requests_nobody_knows(pay):
    assert effect(pay([(100, 300)] * 10)) is Effect.UNCLEAR


@pytest.mark.parametrize(
    ("accepted", "expected"), [(15, Effect.LOSES), (25, Effect.UNCLEAR), (99, Effect.GAINS)]
)
def test_by_a_cost_that_is_only_usual_nobody_loses_whose_drafts_give_more_than_hardly_a_token(
    pay, accepted, expected
):
    assert effect(pay([(100, accepted)] * 40, source=CostSource.DEFAULT)) is expected


def drawn(generator):
    """A request of 20 to 200 drafts, each of which accepts four tokens or none, as the request is inclined."""
    inclined = generator.choice([0.2, 0.5, 0.8])
    drafts = generator.randrange(20, 201)
    return drafts, 4 * sum(generator.random() < inclined for _ in range(drafts))


TRUTH = (1 + 4 * 0.5) / 1.5
"""Half of the drafts accept four, whatever the number of drafts, at c = c0 = 0.1."""
