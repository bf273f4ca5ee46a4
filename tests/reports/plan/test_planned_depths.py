"""Expected speed-up by number of draft tokens, compared with ``spec_decode_exporter.analysis``."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.analysis.knowledge import Knowledge
from spec_decode_exporter.analysis.window_evaluation import WindowEvaluation
from spec_decode_exporter.figures.window_figures import Price
from spec_decode_exporter.reports.plan.planned_depths import (
    MAX_TOKENS,
    best,
    break_even_token_acceptance,
    continued,
    depths,
    geometric,
)
from tests.fixtures.costs import make_cost
from tests.fixtures.windows import window

prices = st.builds(Price, st.floats(0, 1), st.floats(0, 1), st.booleans())


def evaluated(its, price):
    """Return the speed-ups of a window by number of tokens, and its acceptance rate at break-even."""
    found = WindowEvaluation(its, Knowledge())
    found.cost = make_cost(price.token, price.step, every_step=price.every_step)
    return [depth.speedup for depth in found.depths.each(price)], found.break_even_acceptance_ratio


def test_the_worked_example_of_the_semantics():
    found = depths(continued([0.8, 0.65, 0.5, 0.35], 1.5 / 1.95, 1.0), lambda _: Price(0.1, 0.0))
    assert [round(depth.speedup, 3) for depth in found[:6]] == [1.636, 2.042, 2.269, 2.357, 2.379, 2.360]
    assert best(found) == 4
    assert [depth.measured for depth in found] == [True] * 4 + [False] * 4


def test_a_draft_that_never_pays_is_not_drafted():
    assert best(depths(continued([0.4, 0.15], 0.375, 1.0), lambda _: Price(0.5, 0.0))) == 0


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=8), prices)
def test_a_window_gives_the_same_speedup(counts, price):
    counts = sorted(counts, reverse=True)
    speedups, rate = evaluated(window(1000, 1000 * len(counts), sum(counts), positions=counts), price)
    drafts = continued([count / 1000 for count in counts], 1.0, 1.0)
    found = depths(drafts, lambda _: price)[: len(counts)]
    assert [depth.speedup for depth in found] == pytest.approx(speedups[: len(counts)])
    assert found[-1].break_even_acceptance == pytest.approx(rate)


@given(st.integers(1, 1000), prices)
def test_rare_drafts_compensate_the_fixed_cost_of_the_steps_that_pay_it(drafted, price):
    steps = {"decode_steps": 1000, "generation_tokens": 2000 + drafted, "first_tokens": 1000}
    its = window(drafted, 2 * drafted, drafted, positions=[drafted, 0], **steps)
    (_, found, *_) = depths(continued([1.0, 0.0], 0.0, drafted / 1000), lambda _: price)
    speedups, rate = evaluated(its, price)
    assert (found.speedup, found.break_even_acceptance) == pytest.approx((speedups[1], rate))


@given(prices, st.integers(1, MAX_TOKENS))
def test_the_speedup_at_break_even_is_one(price, tokens):
    least = break_even_token_acceptance(tokens, price)
    if least is None:
        assert geometric(1.0).speedup(tokens, price) < 1
    else:
        assert geometric(least).speedup(tokens, price) == pytest.approx(1, abs=1e-9)


@given(prices, st.integers(1, MAX_TOKENS))
def test_the_rate_at_break_even_is_the_formula_of_the_exporter(price, tokens):
    least = break_even_token_acceptance(tokens, price)
    if least is not None:
        rate = sum(geometric(least).reached[:tokens]) / tokens
        assert rate == pytest.approx(price.token + price.step / tokens, abs=1e-9)


@given(st.floats(0, 1), st.floats(0, 1), prices, st.integers(1, MAX_TOKENS))
def test_more_acceptance_is_never_slower(one, other, price, tokens):
    less, more = (geometric(acceptance).speedup(tokens, price) for acceptance in sorted((one, other)))
    assert less <= more


@given(st.floats(0, 1), prices)
def test_the_best_is_nearly_as_fast_as_any_and_pays(acceptance, price):
    found = depths(geometric(acceptance), lambda _: price)
    most = max(depth.speedup for depth in found)
    tokens = best(found)
    if not tokens:
        assert most <= 1 or all(d.speedup < max(1, 0.97 * most) for d in found)
    else:
        assert found[tokens - 1].speedup >= max(1, 0.97 * most)
