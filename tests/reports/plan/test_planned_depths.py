"""Expected speed-up by number of draft tokens, compared with ``spec_decode_exporter.analysis``."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.analysis import depth as measured_depth
from spec_decode_exporter.analysis.cost import Cost
from spec_decode_exporter.analysis.cost_source import CostSource
from spec_decode_exporter.figures.decode_work import break_even_acceptance_ratio
from spec_decode_exporter.reports.plan.planned_depths import (
    MAX_TOKENS,
    best,
    break_even_token_acceptance,
    continued,
    depths,
    geometric,
)
from tests.fixtures.windows import make_increments, make_window

__all__ = ("make_increments", "make_window")

costs = st.builds(
    lambda c, c0, every_step: Cost(c, c0, CostSource.CONFIGURED, None, fixed_in_every_step=every_step),
    st.floats(0, 1),
    st.floats(0, 1),
    st.booleans(),
)


def at(draft_cost_ratio, fixed_cost_ratio=0.0):
    return Cost(draft_cost_ratio, fixed_cost_ratio, CostSource.CONFIGURED, None)


def test_the_worked_example_of_the_semantics():
    found = depths(continued([0.8, 0.65, 0.5, 0.35], 1.5 / 1.95, 1.0), lambda _: at(0.1))
    assert [round(depth.speedup, 3) for depth in found[:6]] == [1.636, 2.042, 2.269, 2.357, 2.379, 2.360]
    assert best(found) == 4
    assert [depth.measured for depth in found] == [True] * 4 + [False] * 4


def test_a_draft_that_never_pays_is_not_drafted():
    assert best(depths(continued([0.4, 0.15], 0.375, 1.0), lambda _: at(0.5))) == 0


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=8), costs)
def test_a_window_gives_the_same_speedup(make_window, counts, cost):
    counts = sorted(counts, reverse=True)
    window = make_window(1000, 1000 * len(counts), sum(counts), positions=counts)
    seen = measured_depth.depths(window, cost)[: len(counts)]
    drafts = continued([count / 1000 for count in counts], 1.0, 1.0)
    found = depths(drafts, lambda _: cost)
    assert [depth.speedup for depth in found[: len(counts)]] == pytest.approx([d.speedup for d in seen])
    assert found[len(counts) - 1].break_even_acceptance == pytest.approx(
        break_even_acceptance_ratio(window, cost)
    )


@given(st.integers(1, 1000), costs)
def test_rare_drafts_compensate_the_fixed_cost_of_the_steps_that_pay_it(make_window, drafted, cost):
    window = make_window(
        drafted, 2 * drafted, drafted, positions=[drafted, 0],
        decode_steps=1000, generation_tokens=2000 + drafted, first_tokens=1000,
    )  # fmt: skip
    (_, found, *_) = depths(continued([1.0, 0.0], 0.0, drafted / 1000), lambda _: cost)
    assert found.speedup == pytest.approx(measured_depth.depths(window, cost)[1].speedup)
    assert found.break_even_acceptance == pytest.approx(break_even_acceptance_ratio(window, cost))


@given(costs, st.integers(1, MAX_TOKENS))
def test_the_speedup_at_break_even_is_one(cost, tokens):
    least = break_even_token_acceptance(tokens, cost)
    if least is None:
        assert geometric(1.0).speedup(tokens, cost) < 1
    else:
        assert geometric(least).speedup(tokens, cost) == pytest.approx(1, abs=1e-9)


@given(costs, st.integers(1, MAX_TOKENS))
def test_the_rate_at_break_even_is_the_formula_of_the_exporter(cost, tokens):
    least = break_even_token_acceptance(tokens, cost)
    if least is not None:
        rate = sum(geometric(least).reached[:tokens]) / tokens
        assert rate == pytest.approx(cost.draft_cost_ratio + cost.fixed_cost_ratio / tokens, abs=1e-9)


@given(st.floats(0, 1), st.floats(0, 1), costs, st.integers(1, MAX_TOKENS))
def test_more_acceptance_is_never_slower(one, other, cost, tokens):
    less, more = (geometric(acceptance).speedup(tokens, cost) for acceptance in sorted((one, other)))
    assert less <= more


@given(st.floats(0, 1), costs)
def test_the_best_is_nearly_as_fast_as_any_and_pays(acceptance, cost):
    found = depths(geometric(acceptance), lambda _: cost)
    most = max(depth.speedup for depth in found)
    tokens = best(found)
    if not tokens:
        assert most <= 1 or all(d.speedup < max(1, 0.97 * most) for d in found)
    else:
        assert found[tokens - 1].speedup >= max(1, 0.97 * most)
