"""Findings about a model: the example of docs/explanation/request-statistics.md, end to end through the store."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.analysis.cost import CostSource
from spec_decode_exporter.requests.below_break_even import InformativeRequest
from spec_decode_exporter.requests.model_findings import BOUNDS, acceptance_histogram, hidden_share
from spec_decode_exporter.requests.request_aggregate import RequestSums, summary
from spec_decode_exporter.requests.request_findings import Effect
from spec_decode_exporter.requests.request_speedup import PlainSteps, SpeedupSums
from tests.fixtures.costs import make_cost

WELL = {"drafts": 1575, "accepted_tokens": 5166}
"""0.82 of 6300 draft tokens: 6741 tokens come out."""
BADLY = {"drafts": 2675, "accepted_tokens": 4066}
"""0.38 of 10,700 draft tokens: as many tokens come out, from more drafts."""


@pytest.fixture(name="mix")
def mix_fixture(make_store, make_request, evaluate):
    """60 requests at 0.82 and 40 at 0.38, of equal length, at a cost of one draft token."""

    def mix(ratio, **types):
        store = make_store()
        for number in range(100):
            kind = "well" if number % 5 < 3 else "badly"
            counts = WELL if kind == "well" else BADLY
            store.take(make_request(**counts, request_type=types.get(kind, ""), temperature=0.0), 1000.0)
        cost = make_cost(ratio, 0.1)
        return evaluate(store, 1000.0, costs=lambda *_: cost).windows["5m"]

    return mix


def test_an_average_hides_the_mix(mix):
    (model,) = mix(0.2).models
    summary_of_model = model.summary
    # Over requests, which the server's counters do not show; the issue that asked for this says 0.65.
    assert summary_of_model.mean_acceptance_ratio == pytest.approx(0.6 * 0.82 + 0.4 * 0.38)
    # Over draft tokens, as the server's counters have it.
    totals = summary_of_model.totals
    assert totals.accepted_tokens / totals.draft_tokens == pytest.approx(0.59, abs=0.005)
    assert (summary_of_model.acceptance_ratio.p10, summary_of_model.acceptance_ratio.p90) == (0.38, 0.82)
    assert summary_of_model.acceptance_length_tokens.p50 == pytest.approx(4.28)
    assert model.mixed
    assert model.modes.low_share == pytest.approx(0.4)
    assert (model.modes.low_mean, model.modes.high_mean) == (pytest.approx(0.38), pytest.approx(0.82))


def test_if_both_populations_gain_there_is_no_advice_to_route(mix):
    window = mix(0.2, well="code", badly="chat")
    (model,) = window.models
    assert [group.effect for group in window.groups] == [Effect.GAINS, Effect.GAINS]
    assert model.summary.below_break_even == 0
    assert not any("Serve" in sentence for sentence in model.advice)


def test_at_a_high_cost_the_worse_population_loses_while_the_model_gains(mix):
    window = mix(0.4, well="code", badly="chat")
    (model,) = window.models
    effects = {group.key.request_type: group.effect for group in window.groups}
    assert effects == {"code": Effect.GAINS, "chat": Effect.LOSES}
    # 4 tokens a draft take 1 + 0.1 + 1.6 plain steps.
    assert model.summary.speedup_ratio.value == pytest.approx(6741 * 100 / (2.7 * (60 * 1575 + 40 * 2675)))
    assert (model.summary.below_break_even, model.summary.evaluated) == (40, 100)
    assert model.mixed
    assert any(
        sentence.startswith("Serve chat requests at temperature 0 (0.93 times as fast with speculation")
        for sentence in model.advice
    )


def test_a_mix_within_one_group_is_reported_even_if_no_group_loses(mix):
    window = mix(0.4)
    (model,) = window.models
    assert [group.effect for group in window.groups] == [Effect.GAINS]
    assert any(
        sentence.startswith(
            "The requests with answers of more than 32 tokens gain on average, but 40 % of them are slower"
        )
        for sentence in model.advice
    )


@pytest.mark.parametrize("known", [False, True])
def test_the_mean_of_two_modes_lies_between_them(make_store, make_request, evaluate, known):
    """200 short requests that accept nothing are in no mode, so they are not in the mean either."""
    store = make_store()
    for number in range(100):
        share = 0.82 if number % 5 < 3 else 0.38
        store.take(make_request(100, round(400 * share)), 1000.0)
    for _ in range(200):
        store.take(make_request(5, 0, completion_tokens=6 if known else None), 1000.0)
    (model,) = evaluate(store, 1000.0).windows["5m"].models
    assert model.summary.mean_acceptance_ratio < model.modes.low_mean
    assert model.modes.low_mean < model.modes.mean < model.modes.high_mean
    assert model.modes.mean == pytest.approx(0.6 * 0.82 + 0.4 * 0.38, abs=0.001)
    assert model.advice[0] == (
        "Two populations: of 100 requests with answers of more than 32 tokens, 40 % have 38 % of their draft "
        "tokens accepted and 60 % have 82 %; their mean of 64 % describes neither."
    )


def test_long_answers_that_accept_little_are_not_left_out(make_store, make_request, evaluate):
    """An n-gram drafter: 4 drafts in 100 tokens, of which all or no tokens are accepted."""
    store = make_store()
    for number in range(200):
        accepted = 0 if number % 2 else 60
        store.take(make_request(15, accepted, completion_tokens=100), 1000.0)
    (model,) = evaluate(store, 1000.0).windows["5m"].models
    assert model.modes.requests == 200
    assert (model.modes.low_mean, model.modes.high_mean) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("x", "below", "expected"),
    [
        (200.0, 110, True),
        (200.0, 90, False),
        (90.0, 110, False),  # the mean is below 1 too: nothing is hidden
    ],
)
def test_slow_requests_are_hidden_if_more_than_a_tenth_loses_while_the_model_gains(x, below, expected):
    plain = PlainSteps(y=100.0, xy=x / 10, yy=10.0)
    pay = SpeedupSums(requests=1000, x=x, xx=x * x / 1000, plain=plain, low=plain, high=plain)
    accepted = [10_000] * below + [30_000] * (1000 - below)
    sample = [InformativeRequest(4, 10_000, 40_000, each, 1.7) for each in accepted]
    share = hidden_share(summary(RequestSums(speedup=pay)), sample)
    assert share == (pytest.approx(below / 1000, abs=0.001) if expected else None)


def test_equal_requests_are_no_mix_even_if_chance_puts_a_third_below_break_even(
    make_store, make_request, evaluate
):
    store, generator, cost = make_store(), random.Random(2), make_cost(0.2, 0.05)
    for _ in range(300):
        # 1.97 tokens a draft of four take 1.85 plain steps: 1.06 times as fast.
        accepted = sum(drawn(generator, 0.51) for _ in range(30))
        store.take(make_request(30, accepted), 1000.0)
    (model,) = evaluate(store, 1000.0, costs=lambda *_: cost).windows["5m"].models
    assert model.summary.speedup_ratio.value > 1
    assert model.summary.below_break_even > 75
    assert (model.modes, model.mixed) == (None, False)


@pytest.mark.parametrize(("few", "many"), [(2, 6), (1, 8)])
def test_two_numbers_of_draft_tokens_are_not_two_modes(make_store, make_request, evaluate, few, many):
    """As with an experiment of two arms, or after a restart with another number."""
    store, generator, cost = make_store(), random.Random(4), make_cost(0.05, 0.0)
    for number in range(200):
        tokens = many if number % 2 else few
        accepted = sum(drawn(generator, 0.8, tokens) for _ in range(40))
        store.take(make_request(40, accepted, tokens=tokens), 1000.0)
    (model,) = evaluate(store, 1000.0, costs=lambda *_: cost).windows["5m"].models
    assert (model.modes, model.mixed) == (None, False)


def test_a_mix_is_found_within_one_number_of_draft_tokens(make_store, make_request, evaluate):
    store = make_store()
    for number in range(200):
        drafted = {"drafts": 100, "tokens": 2, "accepted_tokens": 150}
        if number % 2:
            drafted = {"drafts": 100, "tokens": 4, "accepted_tokens": 320 if number % 4 == 1 else 150}
        store.take(make_request(**drafted), 1000.0)
    (model,) = evaluate(store, 1000.0).windows["5m"].models
    assert model.mixed
    found = model.modes
    assert (found.low_share, found.low_mean, found.high_mean) == pytest.approx((0.5, 0.375, 0.8))


def drawn(generator, single, tokens=4):
    """Return the accepted tokens of a draft: tokens before the first rejection."""
    return next((place for place in range(tokens) if generator.random() >= single), tokens)


def test_without_a_known_cost_no_requests_are_hidden(make_store, make_request, evaluate):
    store = make_store()
    for number in range(100):
        store.take(make_request(**(WELL if number % 5 else BADLY)), 1000.0)
    (model,) = evaluate(store, 1000.0, costs=lambda *_: None).windows["5m"].models
    assert (model.summary.speedup_ratio, model.summary.evaluated) == (None, 0)
    assert model.mixed  # the requests are bimodal at any cost
    assert any("configure `cost`" in sentence for sentence in model.advice)


def test_a_typical_cost_does_not_prove_hidden_requests(make_store, make_request, evaluate):
    # At c = 0.1 four tokens a draft need 0.5 accepted ones, which all have.
    store, cost = make_store(), make_cost(0.4, 0.1, CostSource.TYPICAL, low=0.1)
    for number in range(100):
        store.take(make_request(**(WELL if number % 20 else BADLY)), 1000.0)
    (model,) = evaluate(store, 1000.0, costs=lambda *_: cost).windows["5m"].models
    assert (model.summary.below_break_even, model.mixed) == (5, False)
    for _ in range(10):
        store.take(make_request(**BADLY), 1000.0)
    assert not advises_on_hidden(evaluate(store, 1000.0, costs=lambda *_: cost))


def advises_on_hidden(found):
    (model,) = found.windows["5m"].models
    return any("gain on average" in sentence for sentence in model.advice)


@given(st.integers(0, 10_000), st.integers(1, 10_000))
def test_a_share_of_tokens_is_counted_between_its_bounds(accepted, tokens):
    ratio = min(accepted, tokens) / tokens
    place = acceptance_histogram([ratio]).index(1)
    assert BOUNDS[place] <= ratio < BOUNDS[place + 1] or ratio == BOUNDS[-1] == 1


@given(st.lists(st.floats(0, 1)))
def test_every_ratio_is_counted_once_where_it_belongs(ratios):
    alone = [acceptance_histogram([ratio]) for ratio in ratios]
    assert acceptance_histogram(sorted(ratios)) == tuple(
        sum(each[part] for each in alone) for part in range(20)
    )
    assert sum(acceptance_histogram(sorted(ratios))) == len(ratios)
