"""Speed-up of speculation: the worked examples of docs/semantics.md, and unknown values."""

from __future__ import annotations

import random

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from spec_decode_exporter.analysis.cost import Cost
from spec_decode_exporter.analysis.cost_source import CostSource
from spec_decode_exporter.analysis.speedup import speedup_estimate
from spec_decode_exporter.analysis.statistics.ratio_bounds import independent_variance
from spec_decode_exporter.figures.acceptance import draft_acceptance_ratio, effective_tokens_per_step
from spec_decode_exporter.figures.decode_work import (
    break_even_acceptance_ratio,
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


def test_a_fixed_cost_is_paid_by_every_step(good):
    assert estimated_speedup_ratio(good, at(0.1, 0.2)) == pytest.approx(3.30 / 1.6)
    # 0.2 of a step, over four draft tokens a step
    assert break_even_acceptance_ratio(good, at(0.1, 0.2)) == pytest.approx(0.15)


def test_steps_without_a_draft_make_the_speed_up_smaller(make_window):
    # Half of the steps draft four tokens and give three; the others give one: two a step.
    window = make_window(50, 200, 100, decode_steps=100, generation_tokens=202, first_tokens=2)
    assert estimated_speedup_ratio(window, at(0.1)) == pytest.approx(2.0 / 1.2)
    assert speedup_ceiling_ratio(window) == 2.0
    assert break_even_acceptance_ratio(window, at(0.1, 0.1)) == pytest.approx(0.1 + 0.1 * 100 / 200)


def test_with_unknown_steps_every_step_is_assumed_to_draft(make_window):
    window = make_window(50, 200, 100, generation_tokens=202, first_tokens=2)
    assert estimated_speedup_ratio(window, at(0.1, 0.1)) == pytest.approx(3.0 / 1.5)
    assert speedup_ceiling_ratio(window) == 3.0
    assert break_even_acceptance_ratio(window, at(0.1, 0.1)) == pytest.approx(0.1 + 0.1 * 50 / 200)


def test_an_engine_that_finds_nothing_to_propose_only_pays(make_window):
    window = make_window(0, 0, 0, decode_steps=100, generation_tokens=102, first_tokens=2)
    assert estimated_speedup_ratio(window, at(0.03, 0.1)) == pytest.approx(1 / 1.1)
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
)
def test_it_pays_where_the_acceptance_rate_is_above_break_even(
    make_window, steps, drafts, length, share, c, c0
):
    drafts = min(drafts, steps)
    drafted = drafts * length
    accepted = int(drafted * share)
    window = make_window(
        drafts, drafted, accepted, decode_steps=steps, generation_tokens=steps + accepted, first_tokens=0
    )
    speedup = estimated_speedup_ratio(window, at(c, c0))
    rate, break_even = draft_acceptance_ratio(window), break_even_acceptance_ratio(window, at(c, c0))
    assume(abs(rate - break_even) > 1e-9 * max(1, break_even))
    assert (speedup > 1) == (rate > break_even)
    # and the other way to say it
    assert (speedup > 1) == (accepted / steps > c0 + c * drafted / steps)


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
