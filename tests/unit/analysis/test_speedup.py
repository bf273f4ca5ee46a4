"""Speed-up of speculation: the worked examples of docs/explanation/semantics.md, and unknown values."""

from __future__ import annotations

import random

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from spec_decode_exporter.analysis.cost import Cost
from spec_decode_exporter.analysis.cost_source import CostSource
from spec_decode_exporter.analysis.speedup import break_even_cost_estimate, speedup_estimate, speedup_range
from spec_decode_exporter.analysis.statistics.ratio_bounds import independent_variance
from spec_decode_exporter.analysis.step_cost import StepCost
from spec_decode_exporter.figures.acceptance import draft_acceptance_ratio, effective_tokens_per_step
from spec_decode_exporter.figures.decode_work import (
    break_even_acceptance_ratio,
    break_even_cost_ratio,
    estimated_speedup_ratio,
    speedup_ceiling_ratio,
    work,
)
from spec_decode_exporter.scrape.page.engine_table import Counter


def at(draft_cost_ratio, fixed_cost_ratio=0.0):
    return Cost(draft_cost_ratio, fixed_cost_ratio, CostSource.CONFIGURED, None)


@pytest.fixture(name="good")
def good_fixture(make_window):
    """p = .80 .65 .50 .35, every step with a draft, five requests."""
    return make_window(
        100,
        400,
        230,
        positions=(80, 65, 50, 35),
        decode_steps=100,
        generation_tokens=335,
        first_tokens=5,
    )


@pytest.fixture(name="poor")
def poor_fixture(make_window):
    """p = .40 .15 .05 .01, of an engine that does not show its steps."""
    return make_window(100, 400, 61, positions=(40, 15, 5, 1))


def test_a_good_drafter_is_worth_its_cost(good):
    assert estimated_speedup_ratio(good, at(0.1)) == pytest.approx(3.30 / 1.4)
    assert break_even_acceptance_ratio(good, at(0.1)) == pytest.approx(0.1)
    assert speedup_ceiling_ratio(good) == pytest.approx(3.30)


@pytest.mark.parametrize(("cost", "expected"), [(0.1, 1.150), (0.3, 0.732), (0.5, 0.537)])
def test_a_poor_drafter_is_as_far_as_it_is_cheap(poor, cost, expected):
    assert estimated_speedup_ratio(poor, at(cost)) == pytest.approx(expected, abs=5e-4)


def test_a_fixed_cost_is_paid_by_every_step_that_drafts(good):
    assert estimated_speedup_ratio(good, at(0.1, 0.2)) == pytest.approx(3.30 / 1.6)
    # 0.2 of a step, over four draft tokens a step
    assert break_even_acceptance_ratio(good, at(0.1, 0.2)) == pytest.approx(0.15)


def test_steps_without_a_draft_make_the_speed_up_smaller(make_window):
    # Half of the steps draft four tokens and give three; the others give one: two a step.
    window = make_window(50, 200, 100, decode_steps=100, generation_tokens=202, first_tokens=2)
    assert estimated_speedup_ratio(window, at(0.1)) == pytest.approx(2.0 / 1.2)
    assert speedup_ceiling_ratio(window) == 2.0
    # 50 drafts, and no step without one, pay a fixed cost.
    assert estimated_speedup_ratio(window, at(0.1, 0.1)) == pytest.approx(2.0 / 1.25)
    assert break_even_acceptance_ratio(window, at(0.1, 0.1)) == pytest.approx(0.1 + 0.1 * 50 / 200)
    assert break_even_cost_ratio(window, at(0.1, 0.1)) == pytest.approx((200 - 100 - 5) / 200)


def test_a_search_in_every_step_is_paid_by_all(make_window):
    window = make_window(50, 200, 100, decode_steps=100, generation_tokens=202, first_tokens=2)
    search = StepCost(0.1, 0.1, fixed_in_every_step=True)
    assert estimated_speedup_ratio(window, search) == pytest.approx(2.0 / 1.3)
    assert break_even_acceptance_ratio(window, search) == pytest.approx(0.1 + 0.1 * 100 / 200)
    assert break_even_cost_ratio(window, search) == pytest.approx((200 - 100 - 10) / 200)


def test_a_break_even_cost_needs_no_cost_of_a_token(make_window):
    window = make_window(50, 200, 100, decode_steps=100, generation_tokens=202, first_tokens=2)
    assert break_even_cost_ratio(window, None) == pytest.approx(0.5)
    assert estimated_speedup_ratio(window, at(0.5)) == pytest.approx(1)
    assert break_even_cost_ratio(make_window(), None) is None


def test_unknown_steps_are_the_tokens_less_the_accepted_ones(make_window):
    window = make_window(50, 200, 100, generation_tokens=202, first_tokens=2)
    assert estimated_speedup_ratio(window, at(0.1, 0.1)) == pytest.approx(2.0 / 1.25)
    assert speedup_ceiling_ratio(window) == 2.0


def test_with_unknown_tokens_every_step_is_assumed_to_draft(make_window):
    window = make_window(50, 200, 100)
    assert estimated_speedup_ratio(window, at(0.1, 0.1)) == pytest.approx(3.0 / 1.5)
    assert speedup_ceiling_ratio(window) == 3.0
    assert break_even_acceptance_ratio(window, at(0.1, 0.1)) == pytest.approx(0.1 + 0.1 * 50 / 200)


def test_an_engine_that_finds_nothing_to_propose_only_pays(make_window):
    window = make_window(0, 0, 0, decode_steps=100, generation_tokens=102, first_tokens=2)
    search = StepCost(0.03, 0.1, fixed_in_every_step=True)
    assert estimated_speedup_ratio(window, search) == pytest.approx(1 / 1.1)
    assert estimated_speedup_ratio(window, at(0.03, 0.1)) == 1
    assert break_even_acceptance_ratio(window, at(0.03, 0.1)) is None


def test_without_drafts_there_is_no_break_even_rate_and_no_ceiling(make_window):
    for drafts in (None, 0):
        window = make_window(drafts, drafts, drafts, decode_steps=100, generation_tokens=102, first_tokens=2)
        assert break_even_acceptance_ratio(window, at(0.1)) is None
        assert speedup_ceiling_ratio(window) is None


def test_more_first_tokens_than_tokens_have_no_speed_up(make_window):
    window = make_window(50, 200, 100, decode_steps=100, generation_tokens=10, first_tokens=11)
    assert estimated_speedup_ratio(window, at(0.1)) is None
    assert speedup_ceiling_ratio(window) is None
    assert effective_tokens_per_step(window) is None
    none = make_window(50, 200, 100, decode_steps=100, generation_tokens=10, first_tokens=10)
    assert estimated_speedup_ratio(none, at(0.1)) == 0
    assert effective_tokens_per_step(none) == 0


@pytest.mark.parametrize("formula", [estimated_speedup_ratio, break_even_acceptance_ratio, speedup_estimate])
@pytest.mark.parametrize(
    "counters",
    [
        {},
        {"drafts": 0, "draft_tokens": 0, "accepted": 0},
        {
            "drafts": 0,
            "draft_tokens": 0,
            "accepted": 0,
            "decode_steps": 0,
            "generation_tokens": 0,
            "first_tokens": 0,
        },
        # torn: drafts, but no step yet
        {
            "drafts": 2,
            "draft_tokens": 8,
            "accepted": 4,
            "decode_steps": 0,
            "generation_tokens": 0,
            "first_tokens": 0,
        },
        {"decode_steps": 10, "generation_tokens": 10, "first_tokens": 0},
    ],
)
def test_an_unknown_or_idle_window_has_no_speedup(make_window, formula, counters):
    assert formula(make_window(**counters), at(0.1, 0.1)) is None


counts = st.integers(1, 10**9)


@given(
    steps=counts,
    drafts=counts,
    length=st.integers(1, 16),
    share=st.floats(0, 1),
    c=st.floats(0, 2),
    c0=st.floats(0, 2),
    every_step=st.booleans(),
)
def test_it_pays_where_the_acceptance_rate_is_above_break_even(
    make_window, steps, drafts, length, share, c, c0, every_step
):
    drafts = min(drafts, steps)
    drafted = drafts * length
    accepted = int(drafted * share)
    window = make_window(
        drafts, drafted, accepted, decode_steps=steps, generation_tokens=steps + accepted, first_tokens=0
    )
    cost = StepCost(c, c0, every_step)
    speedup = estimated_speedup_ratio(window, cost)
    rate, break_even = draft_acceptance_ratio(window), break_even_acceptance_ratio(window, cost)
    assume(abs(rate - break_even) > 1e-9 * max(1, break_even))
    assert (speedup > 1) == (rate > break_even)
    # and the other ways to say it
    assert (speedup > 1) == (accepted > c0 * (steps if every_step else drafts) + c * drafted)
    assert (speedup > 1) == (c < break_even_cost_ratio(window, cost))


def _run(seed, seconds, *, shows_steps=True):
    """Increments of an engine that drafts three tokens every other step, and accepts as it likes."""
    chance, increments = random.Random(seed), []
    for _ in range(seconds):
        drafts = 100 + chance.randrange(20)
        reached, positions = drafts, []
        for _ in range(3):
            reached = round(reached * chance.uniform(0.5, 0.8))
            positions.append(reached)
        decoded = {"generation_tokens": 2 * drafts + sum(positions) + 20, "decode_steps": 2 * drafts}
        increments.append(
            {
                "drafts": drafts,
                "draft_tokens": 3 * drafts,
                "accepted_tokens": sum(positions),
                "positions": tuple(positions),
                "first_tokens": 20,
                **(decoded if shows_steps else {}),
            }
        )
    return increments


def summed(make_window, increments, *, seconds, shows_steps=True):
    names = ["first_tokens"] + (["generation_tokens", "decode_steps"] if shows_steps else [])
    total = {name: sum(one[name] for one in increments) for name in names}
    return make_window(
        *(sum(one[name] for one in increments) for name in ("drafts", "draft_tokens", "accepted_tokens")),
        positions=tuple(map(sum, zip(*(one["positions"] for one in increments), strict=True))),
        increments=increments,
        seconds=seconds,
        length=seconds,
        gauges=(20.0, 0.0, 0.5),
        **total,
    )


class TestHowSure:
    @pytest.mark.parametrize("shows_steps", [True, False])
    def test_the_bounds_are_around_the_value_of_the_whole_window(self, make_window, shows_steps):
        window = summed(
            make_window, _run(1, 60, shows_steps=shows_steps), seconds=60.0, shows_steps=shows_steps
        )
        estimate = speedup_estimate(window, at(0.1, 0.05))
        assert estimate.value == pytest.approx(estimated_speedup_ratio(window, at(0.1, 0.05)))
        assert estimate.lower < estimate.value < estimate.upper
        assert 0.001 < estimate.standard_error < 0.2

    def test_the_bounds_of_an_expensive_drafter_are_proportional(self, make_window):
        # Always 1.5 draft tokens a step, so that the cost only divides.
        window = summed(make_window, _run(1, 60), seconds=60.0)
        free, dear = speedup_estimate(window, at(0.0)), speedup_estimate(window, at(0.5))
        assert free.standard_error / dear.standard_error == pytest.approx(1.75)

    def test_they_are_never_narrower_than_those_of_independent_drafts(self, make_window):
        same = [{**_run(1, 1)[0]} for _ in range(60)]
        window = summed(make_window, same, seconds=60.0)
        done, drafts = work(window), window.counters[Counter.DRAFTS]
        expected = (independent_variance(window) * drafts) ** 0.5 / done.plain_steps(at(0.1))
        assert speedup_estimate(window, at(0.1)).standard_error == pytest.approx(expected)

    def test_drafts_of_different_lengths_may_make_them_narrower(self, make_window):
        # Two of three tokens at a time: how many were drafted and how many accepted may go together.
        same = [{**_run(1, 1)[0]} for _ in range(60)]
        for one in same:
            one["draft_tokens"] = 2 * one["drafts"]
        window = summed(make_window, same, seconds=60.0)
        done, drafts = work(window), window.counters[Counter.DRAFTS]
        speedup, plain = estimated_speedup_ratio(window, at(0.1)), done.plain_steps(at(0.1))
        certain = independent_variance(window) ** 0.5 - speedup * 0.1 * (2 * (3 - 2)) ** 0.5
        assert speedup_estimate(window, at(0.1)).standard_error == pytest.approx(
            certain * drafts**0.5 / plain
        )

    def test_the_bounds_are_within_the_possible_range(self, make_window):
        # Nearly everything is accepted in one half of the window and nearly nothing in the other.
        increments = []
        for second in range(60):
            hits = 99 if second < 30 else 1
            increments.append(
                {"drafts": 100, "draft_tokens": 300, "accepted_tokens": 3 * hits, "positions": (hits,) * 3,
                 "decode_steps": 100, "generation_tokens": 120 + 3 * hits, "first_tokens": 20}
            )  # fmt: skip
        estimate = speedup_estimate(summed(make_window, increments, seconds=60.0), at(0.1, 0.05))
        assert estimate.lower == pytest.approx(1 / 1.35)
        assert estimate.upper == pytest.approx(4 / 1.35)

    def test_an_engine_without_positions_has_bounds_too(self, make_window):
        increments = [{**one, "positions": ()} for one in _run(1, 60)]
        window = summed(make_window, increments, seconds=60.0)
        assert window.positions == ()
        estimate = speedup_estimate(window, at(0.1))
        assert 0 < estimate.lower < estimate.value < estimate.upper


class TestBoundsContainTheCost:
    COST = Cost(0.1, 0.1, CostSource.TYPICAL, None, (StepCost(0.05, 0.0), StepCost(0.3, 0.2)))

    def test_they_are_those_of_the_highest_and_the_lowest_cost(self, make_window):
        window = summed(make_window, _run(3, 300), seconds=300.0)
        exact = {
            cost: speedup_estimate(
                window, Cost(cost.draft_cost_ratio, cost.fixed_cost_ratio, CostSource.MEASURED, None)
            )
            for cost in (self.COST.low, self.COST.high)
        }
        found = speedup_estimate(window, self.COST)
        assert found.value == pytest.approx(estimated_speedup_ratio(window, self.COST))
        assert found.lower == pytest.approx(exact[self.COST.high].lower)
        assert found.upper == pytest.approx(exact[self.COST.low].upper)

    def test_the_range_tells_what_the_cost_and_what_sampling_decides(self, make_window):
        window = summed(make_window, _run(3, 300), seconds=300.0)
        bounds = speedup_estimate(window, self.COST)
        found = speedup_range(window, self.COST, bounds, 0.25)
        assert found.is_bounded
        assert found.estimate is bounds
        assert bounds.lower < found.at_highest_cost < bounds.value < found.at_lowest_cost < bounds.upper

    def test_without_bounds_a_sampling_error_is_assumed(self, make_window):
        window = summed(make_window, _run(3, 300), seconds=300.0)
        found = speedup_range(window, self.COST, None, 0.25)
        assert not found.is_bounded
        assert found.estimate.lower == pytest.approx(0.75 * found.at_highest_cost)
        assert found.estimate.upper == pytest.approx(1.25 * found.at_lowest_cost)

    def test_the_break_even_cost_needs_no_cost_but_the_range_of_the_fixed_one(self, make_window):
        window = summed(make_window, _run(3, 300), seconds=300.0)
        found = break_even_cost_estimate(window, self.COST, self.COST.low, self.COST.high)
        cheap, dear = (break_even_cost_ratio(window, cost) for cost in (self.COST.low, self.COST.high))
        assert found.lower < dear < found.value < cheap < found.upper
        assert found.value == break_even_cost_ratio(window, self.COST)
