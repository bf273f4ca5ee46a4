"""Findings: requests below break-even that the mean hides, and acceptance that falls with the prompt."""

import random
from math import nan, sqrt
from statistics import NormalDist
from types import SimpleNamespace

import pytest

from spec_decode_exporter.costs.cost import CostSource
from spec_decode_exporter.figures.estimate import Estimate
from spec_decode_exporter.requests.cells import Effect
from spec_decode_exporter.requests.findings import (
    MAX_SAMPLE,
    LongRequest,
    PromptBucket,
    falls_with_prompt,
    hidden_share,
    modes_of,
    share_below_break_even,
)
from spec_decode_exporter.requests.mixture import even_sample
from tests.fakes.costs import make_cost

TOKENS = 4
BREAK_EVEN = 1.7
"""Accepted tokens of a draft of four at break-even, for c = 0.4 and c0 = 0.1."""


def long(tokens, drafts, draft_tokens, accepted, break_even):
    return LongRequest(0.0, "m", tokens, drafts, draft_tokens, accepted, break_even)


def draw(generator, share, drafts, *, break_even=BREAK_EVEN, tokens=TOKENS):
    """Return a request whose drafts are accepted entirely or not at all: tokens cannot depend more."""
    accepted = tokens * sum(generator.random() < share for _ in range(drafts))
    return long(tokens, drafts, tokens * drafts, accepted, break_even)


@pytest.mark.parametrize("speedup", [1.02, 1.1])
@pytest.mark.parametrize(("number", "drafts"), [(100, 16), (50, 100)])
def test_equal_requests_are_not_below_break_even(speedup, number, drafts):
    generator, below, alarms = random.Random(7), 0, 0
    share = (speedup * (1 + BREAK_EVEN) - 1) / TOKENS
    for _ in range(5):
        requests = [draw(generator, share, drafts) for _ in range(number)]
        below += sum(each.accepted_tokens < BREAK_EVEN * each.drafts for each in requests)
        alarms += share_below_break_even(requests) > 0.1
    assert alarms <= 1
    if speedup == 1.02:
        assert below > 0.25 * 5 * number  # by chance alone


def test_the_share_equals_the_formulas():
    """15 requests with 20 of 40 tokens and 15 with 36, of ten drafts each."""
    requests = [long(4, 10, 40, 20, 2.2)] * 15 + [long(4, 10, 40, 36, 2.2)] * 15
    variance = 2.8 * 1.2  # of a mean of 2.8
    q = 30 * 10 * 0.8**2 / variance
    assert q > 49.588  # the 0.99 quantile of 29 degrees
    between = variance * (q - 29) / (300 - 3000 / 300)
    weight = between / (between + variance / 10)
    spread = sqrt(weight * variance / 10)
    low, high = (NormalDist(2.8 + weight * apart, spread).cdf(2.2) for apart in (-0.8, 0.8))
    assert share_below_break_even(requests) == pytest.approx((low + high) / 2)


def test_differences_within_chance_count_as_zero():
    # Q = 300·0.7²/3.36 = 43.8 is below the limit of 49.6; with ten times the drafts it is 438.
    def apart(drafts):
        accepted = (21 * drafts // 10, 35 * drafts // 10)
        return [long(4, drafts, 4 * drafts, each, 2.2) for each in accepted for _ in range(15)]

    assert share_below_break_even(apart(10)) == 0.0
    assert share_below_break_even(apart(100)) > 0.3


def test_requests_of_different_k_are_evaluated_separately():
    """All tokens have the same acceptance, at K = 2 and at K = 6."""
    generator = random.Random(5)
    requests = [draw(generator, 0.8, 60, tokens=2, break_even=1.6) for _ in range(100)]
    requests += [draw(generator, 0.8, 40, tokens=6, break_even=1.6) for _ in range(100)]
    assert share_below_break_even(requests) == 0.0


@pytest.mark.parametrize("number", [0, 1, 29])
def test_too_few_requests_of_a_k_count_as_zero(number):
    requests = [long(4, 1000, 4000, 0 if index % 2 else 4000, 1.7) for index in range(number)]
    assert share_below_break_even(requests) == 0.0
    assert share_below_break_even([*requests, *[long(5, 1000, 5000, 2500, 1.7)] * 30]) == 0.0


EXACT = 10_000
"""Drafts of a request whose own acceptance is known exactly."""


def model_of(speedup):
    return SimpleNamespace(speedup_ratio=speedup and Estimate(speedup, speedup, speedup, 0.0))


@pytest.mark.parametrize(
    ("speedup", "below", "expected"), [(2.0, 110, 0.11), (2.0, 90, None), (0.9, 110, None), (None, 110, None)]
)
def test_slow_requests_are_hidden_if_more_than_a_tenth_loses_while_the_model_gains(speedup, below, expected):
    accepted = [EXACT] * below + [3 * EXACT] * (1000 - below)
    sample = [long(4, EXACT, 0, each, 1.7) for each in accepted]
    assert hidden_share(model_of(speedup), sample) == pytest.approx(expected, abs=0.001)


def test_requests_without_a_known_cost_hide_nothing_and_do_not_count():
    known = [long(4, EXACT, 0, 3 * EXACT if index % 4 else EXACT, 1.7) for index in range(40)]
    unknown = [each._replace(break_even=nan) for each in known]
    assert hidden_share(model_of(2.0), unknown) is hidden_share(model_of(2.0), []) is None
    assert hidden_share(model_of(2.0), [*known, *unknown]) == hidden_share(model_of(2.0), known) is not None


def test_a_large_sample_is_even():
    sample = even_sample([long(4, 10 + place, 40, 20, 1.0) for place in range(5 * MAX_SAMPLE)], MAX_SAMPLE)
    assert [each.drafts for each in sample] == list(range(10, 10 + 5 * MAX_SAMPLE, 5))
    assert even_sample([], MAX_SAMPLE) == []


@pytest.mark.parametrize(("few", "many"), [(2, 6), (1, 8)])
def test_two_numbers_of_draft_tokens_are_not_two_modes(few, many):
    """As with an experiment of two arms, or after a restart with another number."""
    generator = random.Random(4)
    requests = [draw(generator, 0.8, 40, tokens=many if number % 2 else few) for number in range(200)]
    assert modes_of(requests) is None


WELL = {"drafts": 1575, "accepted_tokens": 5166}
"""0.82 of 6300 draft tokens: 6741 tokens come out."""
BADLY = {"drafts": 2675, "accepted_tokens": 4066}
"""0.38 of 10,700 draft tokens: as many tokens come out, from more drafts."""


@pytest.fixture(name="mix")
def mix_fixture(taken, make_request):
    """Function that takes 60 requests at 0.82 and 40 at 0.38, of equal length, at a cost of one draft token.

    The example of docs/explanation/request-statistics.md.
    """

    def mix(ratio, **types):
        kinds = ["well" if number % 5 < 3 else "badly" for number in range(100)]
        counts = {"well": WELL, "badly": BADLY}
        requests = [
            make_request(**counts[kind], request_type=types.get(kind, ""), temperature=0.0) for kind in kinds
        ]
        return taken(requests, make_cost(ratio, 0.1))

    return mix


def test_an_average_hides_the_mix(mix):
    window = mix(0.2, well="code", badly="chat")
    assert [group.summary.effect for group in window.groups] == [Effect.GAINS, Effect.GAINS]
    (model,) = window.models
    assert not any("Serve" in sentence for sentence in model.advice)
    summary = model.summary
    assert summary.mean_acceptance_ratio == pytest.approx(0.6 * 0.82 + 0.4 * 0.38)
    assert summary.accepted_tokens / summary.draft_tokens == pytest.approx(0.59, abs=0.005)
    found = summary.acceptance_ratio
    assert (found.p10, found.p90) == pytest.approx((0.38, 0.82), abs=0.01)
    assert model.mixed
    modes = model.modes.low_share, model.modes.low_mean, model.modes.high_mean
    assert modes == pytest.approx((0.4, 0.38, 0.82))


def test_at_a_high_cost_the_worse_population_loses_while_the_model_gains(mix):
    window = mix(0.4, well="code", badly="chat")
    (model,) = window.models
    effects = {group.key.request_type: group.summary.effect for group in window.groups}
    assert effects == {"code": Effect.GAINS, "chat": Effect.LOSES}
    # 4 tokens a draft take 1 + 0.1 + 1.6 plain steps.
    expected = 6741 * 100 / (2.7 * (60 * 1575 + 40 * 2675))
    assert model.summary.speedup_ratio.value == pytest.approx(expected)
    assert (model.summary.below_break_even, model.summary.evaluated, model.mixed) == (40, 100, True)
    begin = "Serve chat requests at temperature 0 (0.93 times as fast with speculation"
    assert any(sentence.startswith(begin) for sentence in model.advice)


def test_a_mix_within_one_group_is_reported_even_if_no_group_loses(mix):
    window = mix(0.4)
    assert [group.summary.effect for group in window.groups] == [Effect.GAINS]
    begin = "The requests with answers of more than 32 tokens gain on average, but 40 % of them are slower"
    assert any(sentence.startswith(begin) for sentence in window.models[0].advice)


def test_a_typical_cost_does_not_prove_hidden_requests(taken, make_request):
    # At c = 0.1 four tokens a draft need 0.5 accepted ones, which all have.
    requests = [make_request(**(WELL if number % 20 else BADLY)) for number in range(100)]
    (model,) = taken(requests, make_cost(0.4, 0.1, CostSource.TYPICAL, low=0.1)).models
    assert (model.summary.below_break_even, model.mixed) == (5, False)


@pytest.mark.parametrize(("answer", "mixed"), [(32, False), (33, True)])
def test_requests_of_few_tokens_are_not_in_the_sample(taken, make_request, answer, mixed):
    """Of those with 31 tokens after the first nothing is known; 10 drafts took 1.5 plain steps each."""
    requests = [make_request(10, 0 if n % 5 == 0 else 40, completion_tokens=answer) for n in range(200)]
    assert taken(requests, make_cost(0.2, 0.1)).models[0].mixed is mixed


@pytest.mark.parametrize("every_step", [False, True])
def test_break_even_counts_the_steps_that_pay_the_fixed_cost(taken, make_request, every_step):
    """A fifth drafts in 100 of 890 steps: 990 tokens in 890 + 100·c0, or in 890·(1 + c0)."""
    searching, drafting = make_request(100, 100, completion_tokens=991), make_request(400, 900)
    cost = make_cost(0.01, 0.2, every_step=every_step)
    (model,) = taken([searching] * 20 + [drafting] * 80, cost).models
    assert any("gain on average" in sentence for sentence in model.advice) is every_step


def bucket(tokens, length):
    return PromptBucket("", SimpleNamespace(mean_prompt_tokens=tokens, acceptance_length=length))


def estimate(value, error=0.05, degrees=100):
    return Estimate(value, value - 2 * error, value + 2 * error, error, degrees)


def test_a_fall_is_between_the_shortest_and_the_longest_prompts_with_enough_requests():
    known = [bucket(2000, estimate(2.3)), bucket(9000, estimate(2.6)), bucket(20_000, estimate(1.08))]
    buckets = [bucket(500, None), *known, bucket(90_000, None)]
    assert falls_with_prompt(buckets)
    assert not falls_with_prompt(buckets[:3])
    for few in ([], known[:1], [known[0], bucket(90_000, None)]):
        assert not falls_with_prompt(few)


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
    assert falls_with_prompt([bucket(1, short), bucket(2, long)]) is falls
