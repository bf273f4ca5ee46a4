"""Speed-up of speculation, break-even, and their bounds: the worked examples of docs/explanation/semantics.md."""

import random
from dataclasses import replace

import pytest

from spec_decode_exporter.analysis.knowledge import Knowledge
from spec_decode_exporter.analysis.speculation import Speculation
from spec_decode_exporter.analysis.window_evaluation import WindowEvaluation
from spec_decode_exporter.config.policy import Policy
from spec_decode_exporter.costs.cost import CostAtLoad, CostByLoad, CostSource, CostSources
from spec_decode_exporter.costs.methods import Interval
from spec_decode_exporter.window.engine_windows import Means
from tests.fakes.costs import cost_between, make_cost, tokens_of
from tests.fakes.evaluations import knowledge
from tests.fakes.windows import summed, window

ADAPTIVE = Speculation("mtp", is_adaptive=True)
HALF = Policy().max_half_width


def evaluated(its, cost, known=None):
    found = WindowEvaluation(its, known or Knowledge())
    found.cost = cost
    return found


# p = .80 .65 .50 .35, every step with a draft, five requests.
GOOD = window(
    100, 400, 230, positions=(80, 65, 50, 35), decode_steps=100, generation_tokens=335, first_tokens=5
)
# p = .40 .15 .05 .01, of an engine that does not show its steps.
POOR = window(100, 400, 61, positions=(40, 15, 5, 1))
# Half of the steps draft four tokens and give three; the others give one: two a step.
RARE = window(50, 200, 100, decode_steps=100, generation_tokens=202, first_tokens=2)
UNSHOWN = window(50, 200, 100, generation_tokens=202, first_tokens=2)
DRAFTS = window(50, 200, 100)
IDLE_SEARCH = window(0, 0, 0, decode_steps=100, generation_tokens=102, first_tokens=2)


@pytest.mark.parametrize(
    ("its", "cost", "speedup", "rate", "break_even_cost"),
    [
        (GOOD, make_cost(0.1, 0.0), 3.30 / 1.4, 0.1, 2.3 / 4),
        (GOOD, make_cost(0.1, 0.2), 3.30 / 1.6, 0.15, 2.1 / 4),  # 0.2 of a step, over four draft tokens
        (POOR, make_cost(0.1, 0.0), 1.61 / 1.4, 0.1, 0.61 / 4),
        (POOR, make_cost(0.3, 0.0), 1.61 / 2.2, 0.3, 0.61 / 4),
        (POOR, make_cost(0.5, 0.0), 1.61 / 3.0, 0.5, 0.61 / 4),
        (RARE, make_cost(0.1, 0.0), 2.0 / 1.2, 0.1, 0.5),
        (RARE, make_cost(0.5, 0.0), 1.0, 0.5, 0.5),
        (RARE, None, None, None, 0.5),  # the break-even cost needs no cost of a token
        (RARE, make_cost(0.1, 0.1), 2.0 / 1.25, 0.1 + 0.1 * 50 / 200, 95 / 200),  # 50 drafts pay c0
        (RARE, make_cost(0.1, 0.1, every_step=True), 2.0 / 1.3, 0.1 + 0.1 * 100 / 200, 90 / 200),
        (UNSHOWN, make_cost(0.1, 0.1), 2.0 / 1.25, 0.1 + 0.1 * 50 / 200, 95 / 200),
        # Every step counts as drafting.
        (DRAFTS, make_cost(0.1, 0.1), 3.0 / 1.5, 0.1 + 0.1 * 50 / 200, 95 / 200),
        (IDLE_SEARCH, make_cost(0.03, 0.1, every_step=True), 1 / 1.1, None, None),
        (IDLE_SEARCH, make_cost(0.03, 0.1), 1.0, None, None),
    ],
)
def test_the_worked_examples(its, cost, speedup, rate, break_even_cost):
    found = evaluated(its, cost)
    assert found.estimated_speedup_ratio == pytest.approx(speedup)
    assert found.break_even_acceptance_ratio == pytest.approx(rate)
    assert found.break_even_cost_ratio == pytest.approx(break_even_cost)


def test_an_engine_that_verifies_what_it_chooses_has_no_ratio_to_its_drafts_and_a_cost_down_to_that_of_a_tokens():
    trimmed, whole = (
        WindowEvaluation(GOOD, Knowledge(each, CostSources(method="mtp")))
        for each in (ADAPTIVE, Speculation("mtp"))
    )
    assert trimmed.cost.low.token == pytest.approx(whole.cost.low.token * 230 / 400)
    assert (trimmed.cost.guess, trimmed.cost.high) == (whole.cost.guess, whole.cost.high)
    assert trimmed.possible_cost == trimmed.cost
    assert trimmed.speedup_range.at_lowest_cost > whole.speedup_range.at_lowest_cost
    assert trimmed.speedup_range.at_highest_cost == whole.speedup_range.at_highest_cost
    assert trimmed.draft_acceptance_ratio is trimmed.break_even_acceptance_ratio is trimmed.depths is None
    assert (trimmed.positions.acceptance, trimmed.acceptance_length_tokens) == ([], 3.3)
    curves = (CostByLoad((CostAtLoad(1.0, Interval(0.1, 0.1, 0.1)),), CostSource.MEASURED),)
    running = replace(GOOD, mean=Means(1.0))
    known = WindowEvaluation(running, Knowledge(ADAPTIVE, CostSources(measured=curves)))
    assert tokens_of(known.cost) == (0.1, 0.1, 0.1)


def run(seconds=60, *, shows_steps=True):
    """Seconds of an engine that drafts three tokens every other step, and accepts at random."""
    chance, rows = random.Random(1), []
    for _ in range(seconds):
        drafts = reached = 100 + chance.randrange(20)
        positions = tuple(reached := round(reached * chance.uniform(0.5, 0.8)) for _ in range(3))
        counts = {"drafts": drafts, "draft_tokens": 3 * drafts, "first_tokens": 20}
        if shows_steps:
            counts |= {"generation_tokens": 2 * drafts + sum(positions) + 20, "decode_steps": 2 * drafts}
        rows.append({**counts, "accepted_tokens": sum(positions), "positions": positions})
    return rows


def whole(rows):
    return summed(rows, length=float(len(rows)), seconds=float(len(rows)), gauges=(20.0, 0.0, 0.5))


class TestBounds:
    @pytest.mark.parametrize("shows_steps", [True, False])
    def test_they_are_around_the_value_of_the_whole_window(self, shows_steps):
        found = evaluated(whole(run(shows_steps=shows_steps)), make_cost(0.1, 0.05))
        bounds = found.speedup_bounds
        assert bounds.value == pytest.approx(found.estimated_speedup_ratio)
        assert bounds.lower < bounds.value < bounds.upper
        assert 0.001 < bounds.standard_error < 0.2

    def test_they_are_never_narrower_than_those_of_independent_drafts(self):
        cost = make_cost(0.1, 0.0)
        found = evaluated(whole(run(1) * 60), cost)
        expected = (found.draft_variance * found.total.drafts) ** 0.5 / cost.guess.plain_steps(found.work)
        assert found.speedup_bounds.standard_error == pytest.approx(expected)

    def test_they_are_within_the_possible_range(self):
        # Nearly everything is accepted in one half of the window and nearly nothing in the other.
        steps = {"drafts": 100, "draft_tokens": 300, "decode_steps": 100, "first_tokens": 20}
        good, bad = (
            {**steps, "accepted_tokens": 3 * n, "positions": (n,) * 3, "generation_tokens": 120 + 3 * n}
            for n in (99, 1)
        )
        bounds = evaluated(whole([good] * 30 + [bad] * 30), make_cost(0.1, 0.05)).speedup_bounds
        assert (bounds.lower, bounds.upper) == pytest.approx((1 / 1.35, 4 / 1.35))


class TestBoundsWithPrefills:
    """Prompts that share steps make a bound nearer to 1, on its side."""

    @pytest.mark.parametrize("token", [0.05, 0.9], ids=["pays", "hurts"])
    @pytest.mark.parametrize("share", [0.3, 0.95])
    def test_both_stay_on_their_side_of_1(self, token, share):
        alone, mixed = (evaluated(whole(run(300)), make_cost(token, 0.0)) for _ in range(2))
        mixed.prefill_share_ratio = share
        lower, upper = alone.speedup_bounds[1:3]
        found = mixed.speedup_bounds
        assert min(lower, upper) > 1 or max(lower, upper) < 1
        if lower > 1:
            assert found[1:3] == pytest.approx((1 + (lower - 1) * (1 - share), upper))
        else:
            assert found[1:3] == pytest.approx((lower, 1 + (upper - 1) * (1 - share)))

    @pytest.mark.parametrize(("seconds", "is_kept"), [(240, True), (239, False)])
    def test_the_share_in_a_long_window_is_kept_where_it_may_be(self, seconds, is_kept):
        known = Knowledge(prefill_shares={})
        first, later, alone = (
            evaluated(whole(run(seconds)), make_cost(0.05, 0.0), its) for its in (known, known, Knowledge())
        )
        first.prefill_share_ratio, later.prefill_share_ratio, alone.prefill_share_ratio = 0.3, 0.9, 0.9
        kept = first.speedup_bounds
        assert later.speedup_bounds == (kept if is_kept else alone.speedup_bounds)
        assert kept != alone.speedup_bounds

    @pytest.mark.parametrize("share", [0.4, 1.0])
    @pytest.mark.parametrize(("later", "raised"), [(0.5, True), (1.3, False)], ids=["mixture", "dense"])
    def test_plain_steps_may_take_as_long_as_those_that_draft_where_the_cost_falls(
        self, later, raised, share
    ):
        model = CostSources(
            measured=(
                CostByLoad(
                    (CostAtLoad(20, Interval(0.9, 0.9, 0.9)), CostAtLoad(40, Interval(*[later] * 3))),
                    CostSource.BASELINE,
                ),
            )
        )
        alone, mixed = (WindowEvaluation(whole(run(300)), Knowledge(cost=model)) for _ in range(2))
        alone.drafting_requests = mixed.drafting_requests = 20.0
        mixed.prefill_steps_ratio = share
        upper = alone.speedup_bounds.upper
        gain = share * (1 - upper / alone.speedup_ceiling_ratio)
        assert mixed.speedup_bounds.upper == pytest.approx(min(1.0, upper + gain) if raised else upper)


class TestBoundsContainTheCost:
    COST = make_cost(0.1, 0.1, low=0.05, high=0.3)
    WINDOW = whole(run(300))

    def test_they_are_those_of_the_highest_and_the_lowest_cost(self):
        at_guess, low, high = (evaluated(self.WINDOW, make_cost(token, 0.1)) for token in (0.1, 0.05, 0.3))
        found = evaluated(self.WINDOW, self.COST).speedup_range
        assert found.is_bounded
        assert found.estimate == at_guess.speedup_bounds._replace(
            lower=high.speedup_bounds.lower, upper=low.speedup_bounds.upper
        )
        expected = (high.estimated_speedup_ratio, low.estimated_speedup_ratio)
        assert (found.at_highest_cost, found.at_lowest_cost) == expected

    def test_without_bounds_a_sampling_error_is_assumed(self):
        found = evaluated(GOOD, self.COST).speedup_range
        assert not found.is_bounded
        expected = ((1 - HALF) * found.at_highest_cost, (1 + HALF) * found.at_lowest_cost)
        assert found.estimate[1:3] == pytest.approx(expected)

    def test_an_unknown_cost_has_the_range_of_any_drafter(self):
        its = evaluated(self.WINDOW, None)
        assert its.speedup_bounds is None
        assert its.speedup_range.is_bounded
        assert its.speedup_range.at_highest_cost < 1 < its.speedup_range.at_lowest_cost

    def test_a_search_whose_steps_are_not_counted_has_an_upper_limit_alone(self):
        found = evaluated(DRAFTS, make_cost(0.1, 0.0), knowledge(method="ngram")).speedup_range
        assert (found.estimate.lower, found.at_highest_cost) == (0.0, 0.0)
        assert found.estimate.upper > 1

    def test_the_break_even_cost_needs_no_cost_but_the_range_of_the_fixed_one(self):
        cheap, dear = (
            evaluated(self.WINDOW, make_cost(0.1, step)).break_even_cost_ratio for step in (0.0, 0.2)
        )
        found = evaluated(self.WINDOW, cost_between(tokens_of(self.COST), (0.0, 0.1, 0.2)))
        bounds = found.break_even_cost_bounds
        assert bounds.lower < dear < bounds.value < cheap < bounds.upper
        assert bounds.value == found.break_even_cost_ratio


GB = 1e9
BUSY = summed([{"drafts": 40, "draft_tokens": 160, "accepted_tokens": 80 + 4 * (n % 3), "decode_steps": 40, "generation_tokens": 124 + 4 * (n % 3), "first_tokens": 4, "prompt_tokens": 4000, "gauges": (4.0, 0.0, 0.5)} for n in range(30)], gauges=(4.0, 0.0, 0.5))  # fmt: skip


def with_drafter(gauges=(4.0, 0.0, 0.5), *, size=2 * GB, **total):
    """The return of a busy window on the memory of its drafter."""
    its = Speculation("draft_model", draft_bytes=size)
    busy = replace(BUSY, mean=Means(*gauges), total=BUSY.total._replace(**total))
    return evaluated(busy, make_cost(0.1, 0.0), Knowledge(its))


class TestReturnOnMemory:
    def test_is_what_speculation_adds_to_the_rate_for_each_gigabyte(self):
        its = with_drafter()
        rate, speedup = its.total.generation_tokens / 30, its.estimated_speedup_ratio
        assert its.memory_return == pytest.approx((rate - rate / speedup) / 2)
        bounds = its.memory_return_bounds
        ends = (bounds.lower, bounds.upper)
        assert ends == pytest.approx([(rate - rate / end) / 2 for end in its.speedup_bounds[1:3]])
        assert bounds.lower < bounds.value == its.memory_return < bounds.upper

    def test_is_unknown_without_the_size_of_the_drafter_and_without_a_cost(self):
        assert with_drafter(size=0.0).memory_return is with_drafter(size=0.0).memory_return_bounds is None
        assert evaluated(BUSY, None, Knowledge(Speculation("mtp", draft_bytes=GB))).memory_return is None

    @pytest.mark.parametrize(
        ("gauges", "preemptions", "is_tight"),
        [
            ((4.0, 0.0, 0.89), 0, False),
            ((4.0, 0.0, 0.9), 0, True),
            ((4.0, 1.0, 0.5), 0, True),
            ((4.0, 0.9, 0.5), None, False),
            ((4.0, 0.0, 0.5), 1, True),
            ((4.0, 2.0, None), 1, None),
        ],
    )
    def test_more_cache_gives_something_only_where_it_is_scarce(self, gauges, preemptions, is_tight):
        its = with_drafter(gauges, preemptions=preemptions)
        assert its.is_cache_tight is is_tight
