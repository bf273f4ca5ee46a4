"""Speed-up at other numbers of draft tokens: the worked examples of docs/explanation/semantics.md."""

from __future__ import annotations

import random
from itertools import pairwise
from math import sqrt
from statistics import mean, stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.analysis.cost import Cost
from spec_decode_exporter.analysis.cost_source import CostSource
from spec_decode_exporter.analysis.depth import (
    Depth,
    _DepthErrors,
    _drafts,
    depths,
    is_faster,
    marginal_benefits,
    present_depth,
    recommended,
)
from spec_decode_exporter.analysis.step_cost import StepCost
from spec_decode_exporter.figures.decode_work import estimated_speedup_ratio

TOLERANCE = 0.03


def at(draft_cost_ratio, fixed_cost_ratio=0.0):
    return Cost(draft_cost_ratio, fixed_cost_ratio, CostSource.CONFIGURED, None)


@pytest.fixture(name="drafted", scope="session")
def drafted_fixture(make_window):
    def drafted(*positions, drafts=100, length=None, **more):
        """Make a window of drafts that are as long as there are positions, or of ``length`` tokens."""
        tokens = len(positions) if length is None else length
        return make_window(drafts, round(drafts * tokens), sum(positions), positions=positions, **more)

    return drafted


@pytest.fixture(name="good")
def good_fixture(drafted):
    return drafted(80, 65, 50, 35)


@pytest.fixture(name="poor")
def poor_fixture(drafted):
    return drafted(40, 15, 5, 1)


def speedups(window, cost):
    return [depth.speedup for depth in depths(window, cost)]


class _Counted(list):
    """A list that counts how often one of its values is read."""

    reads = 0

    def __getitem__(self, place):
        self.reads += 1
        return super().__getitem__(place)


class TestWorkedExamples:
    def test_a_good_drafter(self, good):
        known = depths(good, at(0.1))
        assert [depth.speedup for depth in known] == pytest.approx(
            [1.636, 2.042, 2.269, 2.357, 2.379, 2.360], abs=5e-4
        )
        assert [depth.tokens for depth in known] == [1, 2, 3, 4, 5, 6]
        assert [depth.extrapolated for depth in known] == [False] * 4 + [True] * 2
        assert marginal_benefits(good, at(0.1), known) == pytest.approx(
            (8.0, 3.97, 2.45, 1.54, 1.14, 0.87), abs=5e-3
        )
        # 5 gains 0.9 %
        assert recommended(good, at(0.1), known, TOLERANCE) == known[3]

    @pytest.mark.parametrize(
        ("cost", "expected", "tokens"),
        [
            (0.1, [1.273, 1.292, 1.231, 1.150], 1),  # 2 gains 1.5 %
            (0.3, [1.077, 0.969, 0.842, 0.732], 1),
            (0.5, [0.933, 0.775, 0.640, 0.537], 0),
        ],
    )
    def test_a_poor_drafter(self, poor, cost, expected, tokens):
        known = depths(poor, at(cost))
        assert [depth.speedup for depth in known[:4]] == pytest.approx(expected, abs=5e-4)
        assert recommended(poor, at(cost), known, TOLERANCE).tokens == tokens

    def test_without_a_tolerance_the_best_is_recommended(self, good, poor):
        assert recommended(good, at(0.1), depths(good, at(0.1)), 0.0).tokens == 5
        assert recommended(poor, at(0.1), depths(poor, at(0.1)), 0.0).tokens == 2


class TestWhetherAChangeIsWorthIt:
    """S(1) … S(4) at c = .1 and p = .8 .6 .4 .2: 1.636 2.000 2.154 2.143."""

    @pytest.mark.parametrize(
        ("tokens", "tolerance", "expected"),
        [(3, 0.03, False), (3, 0.005, True), (2, 0.0, False), (4, 0.0, False)],
    )
    def test_only_if_it_is_faster_than_the_present_one(self, drafted, tokens, tolerance, expected):
        window = drafted(80, 60, 40, 20)
        assert is_faster(window, at(0.1), tokens, tolerance) is expected

    def test_the_present_depth_is_the_last_known_one(self, good):
        assert present_depth(good, at(0.1)) == depths(good, at(0.1))[3]

    @pytest.mark.parametrize(("swing", "expected"), [(0, True), (30, False)])
    def test_not_if_the_difference_may_be_chance(self, make_window, swing, expected):
        # 1.8 / 1.3 = 1.385 with one token, 1.8 / 1.6 = 1.125 with two; the second is never accepted,
        # or in half of the window for a time.
        ons = [swing if second < 150 else 0 for second in range(300)]
        window = make_window(
            300 * 40,
            300 * 80,
            300 * 32 + sum(ons),
            positions=(300 * 32, sum(ons)),
            length=300.0,
            seconds=300.0,
            gauges=(4.0, None, None),
            first_tokens=600,
            increments=[
                {"drafts": 40, "draft_tokens": 80, "accepted_tokens": 32 + on, "positions": (32, on)}
                for on in ons
            ],
        )
        cost = at(0.3)
        one = depths(window, cost)[0]
        assert present_depth(window, cost).speedup < one.speedup
        assert is_faster(window, cost, one.tokens, 0.0) is expected

    def test_not_without_drafts_or_positions(self, drafted, make_window):
        for window in (drafted(0, 0, drafts=0), make_window(100, 200, 80, positions=(0, 0))):
            assert present_depth(window, at(0.1)) is None
            assert depths(window, at(0.1)) == ()
            assert not is_faster(window, at(0.1), 1, 0.0)


class TestTokensPastTheEndOfAnAnswer:
    @pytest.mark.parametrize(("generated", "expected"), [(330, 4), (141, 4), (139, 5), (138, 0), (0, 0)])
    def test_a_depth_must_pay_without_them(self, drafted, generated, expected):
        # S(4) = 330 / 140, and the best, S(5), is 0.9 % more.
        counters = {"decode_steps": 100, "generation_tokens": generated, "first_tokens": 0}
        window = drafted(80, 65, 50, 35, **counters)
        assert recommended(window, at(0.1), depths(window, at(0.1)), TOLERANCE).tokens == expected

    def test_more_tokens_than_were_counted_make_no_depth_pay(self, drafted):
        counters = {"decode_steps": 100, "generation_tokens": 400, "first_tokens": 0}
        window = drafted(40, 15, 5, 1, **counters)
        assert recommended(window, at(0.5), depths(window, at(0.5)), TOLERANCE).tokens == 0

    def test_a_depth_that_was_slower_is_not_recommended(self, drafted):
        counters = {"decode_steps": 100, "generation_tokens": 139, "first_tokens": 0}
        window = drafted(80, 65, 50, 35, **counters)
        assert estimated_speedup_ratio(window, at(0.1)) < 1 < depths(window, at(0.1))[3].speedup
        assert recommended(window, at(0.1), depths(window, at(0.1)), TOLERANCE).tokens != 4


class TestCoverage:
    # Half of the steps have a draft of four tokens.
    COUNTERS = {"decode_steps": 200, "generation_tokens": 440, "first_tokens": 10}  # noqa: RUF012

    def test_steps_without_a_draft_give_one_token_and_cost_none(self, drafted):
        window = drafted(80, 65, 50, 35, **self.COUNTERS)
        assert speedups(window, at(0.1, 0.05))[:4] == pytest.approx(
            [1.4 / 1.075, 1.725 / 1.125, 1.975 / 1.175, 2.15 / 1.225]
        )

    def test_a_drafter_that_searches_in_every_step_costs_then_too(self, drafted):
        window = drafted(80, 65, 50, 35, **self.COUNTERS)
        assert speedups(window, StepCost(0.1, 0.05, fixed_in_every_step=True))[:2] == pytest.approx(
            [1.4 / 1.10, 1.725 / 1.15]
        )

    @pytest.mark.parametrize("every_step", [False, True])
    def test_the_present_depth_has_the_estimated_speedup(self, drafted, every_step):
        window = drafted(80, 65, 50, 35, **{**self.COUNTERS, "generation_tokens": 200 + 230 + 10})
        cost = StepCost(0.1, 0.05, every_step)
        assert speedups(window, cost)[3] == pytest.approx(estimated_speedup_ratio(window, cost))


class TestDraftsThatDifferInLength:
    def test_a_depth_costs_no_more_tokens_than_drafts_have(self, drafted):
        window = drafted(60, 40, 20, 10, length=2.5)
        assert speedups(window, at(0.1)) == pytest.approx([1.6 / 1.1, 2.0 / 1.2, 2.2 / 1.25, 2.3 / 1.25])

    @pytest.mark.parametrize(("length", "beyond"), [(4, 2), (3.8, 2), (3.79, 0), (2.5, 0), (4.02, 2)])
    def test_short_drafts_prevent_extrapolation(self, drafted, length, beyond):
        known = depths(drafted(80, 65, 50, 35, length=length), at(0.1))
        assert len([depth for depth in known if depth.extrapolated]) == beyond

    def test_a_depth_beyond_costs_all_of_its_tokens(self, drafted):
        window = drafted(50, 50, length=1.95)
        assert speedups(window, at(0.1)) == pytest.approx([1.5 / 1.1, 2 / 1.195, 2.5 / 1.3, 3 / 1.4])

    def test_with_unknown_draft_tokens_drafts_have_k_tokens(self, make_window):
        window = make_window(100, None, 145, positions=(80, 65))
        known = depths(window, at(0.1))
        assert [depth.tokens for depth in known] == [1, 2]
        assert known[1].speedup == pytest.approx(2.45 / 1.2)


class TestBeyondTheKnownPositions:
    def test_one_position_shows_no_decay_and_stands_in_for_it_once(self, drafted):
        known = depths(drafted(80), at(0.1))
        assert known == (Depth(1, 1.8 / 1.1, False), Depth(2, pytest.approx(2.44 / 1.2), True))
        assert marginal_benefits(drafted(80), at(0.1), known) == pytest.approx(
            (8.0, 0.64 / (0.1 * 1.8 / 1.1))
        )

    def test_positions_that_do_not_decay_stay_what_they_are(self, drafted):
        assert speedups(drafted(80, 80), at(0.0)) == pytest.approx([1.8, 2.6, 3.4, 4.2])

    def test_a_torn_page_cannot_make_them_grow(self, drafted):
        assert speedups(drafted(80, 82), at(0.0)) == pytest.approx([1.8, 2.62, 3.44, 4.26])

    def test_without_acceptance_more_tokens_only_cost(self, drafted):
        window = drafted(0, 0)
        assert speedups(window, at(0.1)) == pytest.approx([1 / 1.1, 1 / 1.2, 1 / 1.3, 1 / 1.4])
        assert recommended(window, at(0.1), depths(window, at(0.1)), TOLERANCE) == Depth(0, 1.0, False)


class TestWhatHasNoValue:
    @pytest.mark.parametrize("counters", [(), (0, 0, 0), (10, 40, 4)])
    def test_without_drafts_or_positions_there_are_no_depths(self, make_window, counters):
        window = make_window(*counters)
        assert depths(window, at(0.1)) == ()
        assert marginal_benefits(window, at(0.1), ()) == ()
        assert recommended(window, at(0.1), (), TOLERANCE) is None

    def test_an_idle_engine_with_positions_has_none(self, make_window):
        assert depths(make_window(0, 0, 0, positions=(0, 0)), at(0.1)) == ()

    def test_a_drafter_that_costs_nothing_has_no_marginal_benefit(self, good):
        known = depths(good, at(0.0, 0.1))
        assert marginal_benefits(good, at(0.0, 0.1), known) == ()
        assert recommended(good, at(0.0, 0.1), known, 0.0).tokens == 6


def falling(drafts=1000, most=12):
    """Accepted tokens of every position, each at most those of the one before."""
    return st.lists(st.integers(0, drafts), min_size=1, max_size=most).map(
        lambda counts: tuple(sorted(counts, reverse=True))
    )


costs = st.builds(at, st.floats(0, 2), st.floats(0, 1))


@given(positions=falling(), cost=costs)
def test_with_more_tokens_it_gets_better_until_it_gets_worse(drafted, positions, cost):
    known = speedups(drafted(*positions, drafts=1000), cost)
    steps = [later - earlier for earlier, later in pairwise(known) if abs(later - earlier) > 1e-12]
    signs = [step > 0 for step in steps]
    assert signs == sorted(signs, reverse=True)


@given(positions=falling(), cost=costs)
def test_a_position_is_worth_drafting_while_its_marginal_benefit_is_above_1(drafted, positions, cost):
    window = drafted(*positions, drafts=1000)
    known = depths(window, cost)
    gains = marginal_benefits(window, cost, known)
    before = [1 / (1 + cost.fixed_cost_ratio), *(depth.speedup for depth in known)]
    assert len(gains) == (len(known) if cost.draft_cost_ratio else 0)
    for gain, (earlier, later) in zip(gains, pairwise(before), strict=False):
        if abs(gain - 1) > 1e-9 and cost.draft_cost_ratio > 1e-6:
            assert (gain > 1) == (later > earlier)


@given(positions=falling(), cost=costs, tolerance=st.floats(0, 0.2), steps=st.integers(1000, 5000))
def test_the_recommended_depth_pays_and_is_nearly_the_best(drafted, positions, cost, tolerance, steps):
    window = drafted(*positions, drafts=1000, decode_steps=steps)
    known = depths(window, cost)
    found = recommended(window, cost, known, tolerance)
    best = max(depth.speedup for depth in known)
    if best < 1:
        assert found == Depth(0, 1.0, False)
        return
    assert found in known
    assert found.speedup >= max(1.0, (1 - tolerance) * best - 1e-12)
    assert not [
        depth
        for depth in known
        if depth.tokens < found.tokens and 1 <= depth.speedup >= (1 - tolerance) * best + 1e-9
    ]


def test_a_depth_that_does_not_pay_is_not_recommended_although_it_is_near_the_best(drafted):
    # S = .991, 1.010: the first is within 3 %, and slower than no speculation.
    window = drafted(289, 125, drafts=1000)
    cost = at(0.1, 0.2)
    known = depths(window, cost)
    assert known[0].speedup < 1 < known[1].speedup < known[0].speedup / 0.97
    assert recommended(window, cost, known[:2], TOLERANCE).tokens == 2


def second(drafts, *positions):
    """Increment of one second."""
    return {
        "drafts": drafts,
        "draft_tokens": drafts * len(positions),
        "accepted_tokens": sum(positions),
        "positions": positions,
        "first_tokens": 20,
    }


class TestHowSure:
    """S(3) is 3.5 % below S(4), which is more than the tolerance."""

    @pytest.fixture(name="windowed")
    def windowed_fixture(self, make_window):
        def windowed(seconds, *, running=20.0, **more):
            sums = tuple(map(sum, zip(*(one["positions"] for one in seconds), strict=True)))
            drafts = sum(one["drafts"] for one in seconds)
            return make_window(
                drafts,
                drafts * len(sums),
                sum(sums),
                positions=sums,
                length=float(len(seconds)),
                seconds=float(len(seconds)),
                first_tokens=20 * len(seconds),
                increments=seconds,
                gauges=(running, 0.0, 0.5),
                **more,
            )

        return windowed

    STEADY = (80, 70, 70, 45)
    SLOW = tuple(second(100, 80, 70, 70, 70 if at_second < 15 else 20) for at_second in range(30))
    COST = at(0.145)

    def recommended(self, window):
        return recommended(window, self.COST, depths(window, self.COST)[:4], TOLERANCE).tokens

    def test_a_steady_engine_gets_the_best_depth(self, windowed):
        window = windowed([second(100, *self.STEADY)] * 30)
        known = depths(window, self.COST)
        assert known[2].speedup < 0.97 * known[3].speedup
        assert self.recommended(window) == 4

    def test_an_uncertain_difference_is_none(self, windowed):
        assert self.recommended(windowed(self.SLOW)) == 3

    def test_common_variation_of_both_depths_does_not_widen_their_difference(self, windowed):
        # As unsteady, but in the first three positions.
        shared = [
            second(100, *(count + (15 if at_second < 15 else -15) for count in self.STEADY[:3]), 45)
            for at_second in range(30)
        ]
        assert self.recommended(windowed(shared)) == 4

    def test_without_bounds_the_tolerance_alone_counts(self, windowed):
        assert self.recommended(windowed(self.SLOW, running=None)) == 4

    def test_one_standard_error_is_not_enough(self, windowed):
        found = set()
        for swing in range(26):
            window = windowed(
                [
                    second(100, 80, 70, 70, 45 + (swing if at_second < 15 else -swing))
                    for at_second in range(30)
                ]
            )
            known = depths(window, self.COST)[:4]
            error = _DepthErrors(window, _drafts(window)).of_difference(self.COST, known[2], known[3])
            is_sure = known[3].speedup - known[2].speedup > error
            assert recommended(window, self.COST, known, 0.0).tokens == (4 if is_sure else 3)
            found.add(is_sure)
        assert found == {True, False}

    def test_comparing_128_depths_reads_two_sums_a_depth(self, windowed):
        falling = [1000 - 4 * position for position in range(128)]
        window = windowed([second(1000, *falling)] * 30)
        errors, known = _DepthErrors(window, _drafts(window)), depths(window, self.COST)
        errors._sums = _Counted(errors._sums)
        for depth in known:
            errors.of_difference(self.COST, depth, known[-1])
        assert errors._sums.reads == 2 * len(known)

    @pytest.mark.parametrize("coverage", [1, 0.5])
    def test_the_error_of_a_difference_is_its_standard_deviation_over_windows(self, windowed, coverage):
        chance = random.Random(1)

        def at_random():
            reached = drafts = chance.randrange(20, 180)
            positions = []
            for share in (0.8, 0.8, 0.75, 0.75):
                reached = sum(chance.random() < share for _ in range(reached))
                positions.append(reached)
            return second(drafts, *positions)

        differences, errors = [], []
        for _ in range(150):
            seconds = [at_random() for _ in range(30)]
            drafts = sum(one["drafts"] for one in seconds)
            window = windowed(seconds, decode_steps=round(drafts / coverage))
            known = depths(window, self.COST)
            differences.append(known[3].speedup - known[1].speedup)
            errors.append(_DepthErrors(window, _drafts(window)).of_difference(self.COST, known[1], known[3]))
        assert sqrt(mean(error**2 for error in errors)) == pytest.approx(stdev(differences), rel=0.15)


@given(positions=falling(), cost=costs, steps=st.integers(1000, 5000))
def test_every_depth_is_as_much_faster_as_its_positions_weigh(drafted, positions, cost, steps):
    window = drafted(*positions, drafts=1000, decode_steps=steps)
    drafts = _drafts(window)
    for depth in depths(window, cost):
        each, last = drafts.weights(cost, depth.tokens)
        known = drafts.reached[: drafts.known]
        gain = each * sum(known[: depth.tokens]) + last * known[-1]
        assert depth.speedup == pytest.approx(gain + 1 / drafts.plain_steps(cost, depth.tokens))


class TestChangingK:
    """A schedule drafts four tokens in half of the increments, and two in the others."""

    @pytest.fixture(name="changing")
    def changing_fixture(self, make_window):
        long = {"drafts": 50, "draft_tokens": 200, "positions": (40, 32, 24, 16)}
        short = {"drafts": 50, "draft_tokens": 100, "positions": (40, 32, 0, 0)}
        return make_window(1000, 3000, 1840, positions=(800, 640, 240, 160), increments=[long, short] * 10)

    def test_a_depth_is_the_schedule_limited_to_its_tokens(self, changing):
        accepted, drafted = (0.8, 1.44, 1.68, 1.84), (1, 2, 2.5, 3)
        expected = [(1 + a) / (1 + 0.2 + 0.1 * t) for a, t in zip(accepted, drafted, strict=True)]
        assert speedups(changing, at(0.1, 0.2)) == pytest.approx(expected)

    def test_the_present_depth_is_what_runs(self, changing):
        cost = at(0.1, 0.2)
        assert present_depth(changing, cost).speedup == pytest.approx(estimated_speedup_ratio(changing, cost))

    def test_a_position_s_benefit_is_of_the_drafts_that_had_it(self, changing):
        cost = at(0.1, 0.2)
        known = depths(changing, cost)
        reached, before = (0.8, 0.64, 0.48, 0.32), (1 / 1.2, *(depth.speedup for depth in known))
        expected = [p / (0.1 * speedup) for p, speedup in zip(reached, before, strict=False)]
        assert marginal_benefits(changing, cost, known) == pytest.approx(expected)
