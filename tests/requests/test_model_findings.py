"""What a model's mean hides: the example of docs/semantics.md, end to end through the board."""

from __future__ import annotations

import random

import pytest

from spec_decode_exporter.analysis.cost import CostSource
from spec_decode_exporter.requests.informative_requests import InformativeRequests
from spec_decode_exporter.requests.model_findings import hides_losers
from spec_decode_exporter.requests.request_findings import Effect
from spec_decode_exporter.requests.request_summary import summary
from spec_decode_exporter.requests.request_sums import PaySums, Sums

WELL = {"drafts": 1575, "accepted_tokens": 5166}
"""0.82 of 6300 draft tokens: 6741 tokens come out."""
BADLY = {"drafts": 2675, "accepted_tokens": 4066}
"""0.38 of 10,700: as many tokens come out, and it takes more drafts."""


@pytest.fixture(name="mix")
def mix_fixture(make_board, make_request, look, make_cost):
    """60 requests at 0.82 and 40 at 0.38, of equal length, at a cost of one draft token."""

    def mix(ratio, **types):
        board = make_board()
        for number in range(100):
            kind = "well" if number % 5 < 3 else "badly"
            said = WELL if kind == "well" else BADLY
            board.take(make_request(**said, request_type=types.get(kind, ""), temperature=0.0), 1000.0)
        cost = make_cost(ratio, 0.1)
        return look(board, 1000.0, costs=lambda *_: cost).windows["5m"]

    return mix


def test_an_average_hides_the_mix(mix):
    (model,) = mix(0.2).models
    said = model.summary
    # Over requests, which the server's counters do not show; the issue that asked for this says 0.65.
    assert said.mean_acceptance_ratio == pytest.approx(0.6 * 0.82 + 0.4 * 0.38)
    # Over draft tokens, as the server's counters have it.
    assert said.totals.accepted_tokens / said.totals.draft_tokens == pytest.approx(0.59, abs=0.005)
    assert (said.acceptance_ratio.p10, said.acceptance_ratio.p90) == (0.38, 0.82)
    assert said.acceptance_length_tokens.p50 == pytest.approx(4.28)
    assert model.mixed
    assert model.modes.low_share == pytest.approx(0.4)
    assert (model.modes.low_mean, model.modes.high_mean) == (pytest.approx(0.38), pytest.approx(0.82))


def test_where_both_populations_gain_there_is_nobody_to_route_away(mix):
    window = mix(0.2, well="code", badly="chat")
    (model,) = window.models
    assert [group.effect for group in window.groups] == [Effect.GAINS, Effect.GAINS]
    assert model.summary.below_break_even == 0
    assert not any("Serve" in sentence for sentence in model.advice)


def test_where_drafting_is_dear_the_worse_population_loses_though_all_together_gain(mix):
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


def test_a_mix_within_one_group_is_told_though_no_group_loses(mix):
    window = mix(0.4)
    (model,) = window.models
    assert [group.effect for group in window.groups] == [Effect.GAINS]
    assert any(sentence.startswith("All together gain, and yet 40") for sentence in model.advice)


def test_requests_that_are_alike_are_no_mix(make_board, make_request, look):
    board = make_board()
    for _ in range(100):
        board.take(make_request(**WELL), 1000.0)
    (model,) = look(board, 1000.0).windows["5m"].models
    assert (model.modes, model.mixed) == (None, False)


@pytest.mark.parametrize(
    ("x", "below", "expected"),
    [
        (200.0, 110, True),
        (200.0, 90, False),
        (90.0, 110, False),  # the mean loses too: nothing is hidden
    ],
)
def test_losers_are_hidden_if_more_than_a_tenth_loses_while_all_gain(x, below, expected):
    pay = PaySums(requests=1000, x=x, y=100.0, xx=x * x / 1000, xy=x / 10, yy=10.0)
    accepted = [10_000] * below + [30_000] * (1000 - below)
    telling = [InformativeRequests(4, 10_000, 40_000, each, 1.7) for each in accepted]
    assert hides_losers(pay, summary(Sums(pay=pay)), telling) is expected


def test_requests_that_are_alike_are_no_mix_though_chance_puts_a_third_of_them_below(
    make_board, make_request, look, make_cost
):
    board, generator, cost = make_board(), random.Random(2), make_cost(0.2, 0.05)
    for _ in range(300):
        # 1.97 tokens a draft of four take 1.85 plain steps: 1.06 times as fast.
        accepted = sum(drawn(generator, 0.51) for _ in range(30))
        board.take(make_request(30, accepted), 1000.0)
    (model,) = look(board, 1000.0, costs=lambda *_: cost).windows["5m"].models
    assert model.summary.speedup_ratio.value > 1
    assert model.summary.below_break_even > 75
    assert (model.modes, model.mixed) == (None, False)


@pytest.mark.parametrize(("few", "many"), [(2, 6), (1, 8)])
def test_two_numbers_of_draft_tokens_are_no_two_kinds_of_requests(
    make_board, make_request, look, make_cost, few, many
):
    """As where an experiment has two arms, or a server was restarted with another."""
    board, generator, cost = make_board(), random.Random(4), make_cost(0.05, 0.0)
    for number in range(200):
        tokens = many if number % 2 else few
        accepted = sum(drawn(generator, 0.8, tokens) for _ in range(40))
        board.take(make_request(40, accepted, tokens=tokens), 1000.0)
    (model,) = look(board, 1000.0, costs=lambda *_: cost).windows["5m"].models
    assert (model.modes, model.mixed) == (None, False)


def test_a_mix_is_found_within_one_number_of_draft_tokens(make_board, make_request, look):
    board = make_board()
    for number in range(200):
        drafted = {"drafts": 100, "tokens": 2, "accepted_tokens": 150}
        if number % 2:
            drafted = {"drafts": 100, "tokens": 4, "accepted_tokens": 320 if number % 4 == 1 else 150}
        board.take(make_request(**drafted), 1000.0)
    (model,) = look(board, 1000.0).windows["5m"].models
    assert model.mixed
    found = model.modes
    assert (found.low_share, found.low_mean, found.high_mean) == pytest.approx((0.5, 0.375, 0.8))


def drawn(generator, single, tokens=4):
    """How many tokens of a draft are accepted: one by one, until one is not."""
    return next((place for place in range(tokens) if generator.random() >= single), tokens)


def test_without_a_known_cost_nobody_can_be_hidden(make_board, make_request, look):
    board = make_board()
    for number in range(100):
        board.take(make_request(**(WELL if number % 5 else BADLY)), 1000.0)
    (model,) = look(board, 1000.0, costs=lambda *_: None).windows["5m"].models
    assert (model.summary.speedup_ratio, model.summary.evaluated) == (None, 0)
    assert model.mixed  # there are two populations all the same
    assert any("configure `cost`" in sentence for sentence in model.advice)


def test_by_a_cost_that_is_only_usual_nobody_is_hidden(make_board, make_request, look, make_cost):
    board, cost = make_board(), make_cost(0.4, 0.1, CostSource.DEFAULT)
    for number in range(100):
        board.take(make_request(**(WELL if number % 20 else BADLY)), 1000.0)
    (model,) = look(board, 1000.0, costs=lambda *_: cost).windows["5m"].models
    assert (model.summary.below_break_even, model.mixed) == (5, False)
    for _ in range(10):
        board.take(make_request(**BADLY), 1000.0)
    assert not hides_losers_at(look(board, 1000.0, costs=lambda *_: cost))


def hides_losers_at(found):
    (model,) = found.windows["5m"].models
    return any("All together gain" in sentence for sentence in model.advice)
