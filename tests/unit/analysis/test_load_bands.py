"""Draft tokens by load: steps, boundaries and regrets."""

from __future__ import annotations

from itertools import pairwise, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.analysis.cost import CostKnowledge, cost_by_curve
from spec_decode_exporter.analysis.cost_curve import CostCurve, LoadRange, around
from spec_decode_exporter.analysis.cost_source import CostSource
from spec_decode_exporter.analysis.depth import depths, speedups_alone
from spec_decode_exporter.analysis.load_bands import Drafting, load_bands, schedule_of
from spec_decode_exporter.analysis.step_cost import StepCost
from spec_decode_exporter.analysis.typical_costs import Range
from spec_decode_exporter.analysis.verdict import Verdict
from spec_decode_exporter.config.batch_schedule import NO_SCHEDULE, BatchSchedule
from spec_decode_exporter.config.cost_settings import Architecture
from spec_decode_exporter.config.policy import DepthPolicy, Policy

DENSE = CostKnowledge(method="draft_model", architecture=Architecture.DENSE)
TOLERANCE = 0.03


def curve(*points, margin=0.0, fixed=0.0):
    """Return c by load, of pairs of load and c."""
    return CostCurve(
        tuple(LoadRange(load, around(cost, margin)) for load, cost in points), CostSource.MEASURED, fixed
    )


def policy(tolerance):
    return Policy(depth=DepthPolicy(tolerance=tolerance))


@pytest.fixture(name="window", scope="module")
def window_fixture(make_window):
    """400 drafts of four tokens with a good drafter."""
    return make_window(400, 1600, 920, positions=[320, 260, 200, 140], decode_steps=400)


def banded(window, costs, *, present=NO_SCHEDULE, most=4, searches=False, tolerance=TOLERANCE):
    return load_bands(window, costs, DENSE, Drafting(4, most, present, searches=searches), policy(tolerance))


def steps(bands):
    return [(band.first, band.last, band.tokens) for band in bands]


RISING = curve((1, 0.05), (16, 0.1), (64, 0.9))


def test_where_drafts_become_expensive_fewer_are_drafted_and_then_none(window):
    bands = banded(window, RISING)
    assert steps(bands) == [(1, 23, 4), (24, 47, 2), (48, 64, 0)]
    assert schedule_of(bands) == BatchSchedule((1, 24, 48), (4, 2, 0))


def test_one_number_that_is_within_the_tolerance_at_every_load_needs_no_schedule(window):
    bands = banded(window, curve((1, 0.1), (64, 0.11)))
    assert steps(bands) == [(1, 64, 4)]
    assert schedule_of(bands) == NO_SCHEDULE


def test_a_cost_that_never_pays_ends_in_no_drafts_at_all(window):
    bands = banded(window, curve((1, 0.9), (64, 1.0)))
    assert steps(bands) == [(1, 64, 0)]
    assert bands[0].speedup == 1.0
    assert bands[0].present_speedup < 1.0


def test_a_step_that_gains_less_than_the_tolerance_is_merged(window):
    assert schedule_of(banded(window, RISING, tolerance=0.0)).tokens == (4, 3, 2, 1, 0)
    assert schedule_of(banded(window, RISING, tolerance=0.1)).tokens == (4, 1)


def test_a_boundary_is_where_both_numbers_are_about_as_fast(window):
    (below, above) = banded(window, curve((1, 0.05), (32, 0.05), (33, 0.9), (64, 1.0)))
    # The cost jumps between 32 and 33, within the cell from 32 to 47; its middle decides.
    assert (below.tokens, above.tokens, above.first) == (4, 0, 32)


def test_an_uncertain_cost_moves_the_schedule_to_the_cheaper_error(window):
    """If drafts may cost much more than guessed, fewer are drafted; if they may cost less, more are."""

    def scheduled(lower, upper):
        known = ((1, 0.02), (64, 0.8))
        points = tuple(LoadRange(load, Range(lower * cost, cost, upper * cost)) for load, cost in known)
        return banded(window, CostCurve(points, CostSource.MEASURED), tolerance=0.1)

    assert steps(scheduled(1, 1)) == [(1, 11, 4), (12, 64, 2)]
    assert steps(scheduled(1, 1.6)) == [(1, 47, 3), (48, 64, 0)]
    assert steps(scheduled(1 / 1.6, 1)) == [(1, 15, 4), (16, 64, 2)]
    assert max(band.regret for band in scheduled(1, 1.6)) > max(band.regret for band in scheduled(1, 1))


def test_a_setting_that_suffices_everywhere_stays(window):
    chosen = schedule_of(banded(window, RISING))
    moved = BatchSchedule((*chosen.firsts[:-1], chosen.firsts[-1] + 2), chosen.tokens)
    bands = banded(window, RISING, present=moved)
    assert schedule_of(bands) == moved
    assert all(band.tokens == band.present_tokens for band in bands)


def test_bands_show_what_the_schedule_in_force_loses(window):
    present = BatchSchedule((1, 8), (4, 0))
    bands = banded(window, curve((1, 0.05), (64, 0.1)), present=present)
    assert [(band.first, band.last, band.tokens, band.present_tokens) for band in bands] == [
        (1, 7, 4, 4),
        (8, 64, 4, 0),
    ]
    assert bands[1].present_speedup == 1.0
    assert bands[1].speedup == pytest.approx(3.3 / 1.31, rel=0.02)


def test_a_schedule_in_force_beyond_its_maximum_is_limited_to_it(window):
    (band,) = banded(window, curve((1, 0.05), (8, 0.05)), present=BatchSchedule((1,), (9,)), most=6)
    assert band.present_tokens == 4


def test_below_the_lowest_known_load_its_cost_counts(window):
    (band,) = banded(window, curve((8, 0.05), (32, 0.06)))
    assert (band.first, band.last) == (1, 32)


def test_without_drafts_there_are_none(make_window):
    assert banded(make_window(0, 0, 0), RISING) == ()


def test_a_method_that_searches_counts_the_steps_that_find_something(make_window):
    half = make_window(200, 800, 460, positions=[160, 130, 100, 70], decode_steps=400)
    (found,) = banded(half, curve((1, 0.05), (8, 0.05)), searches=True)
    (always,) = banded(half, curve((1, 0.05), (8, 0.05)))
    assert always.speedup > found.speedup > 1


class TestVerdict:
    """Verdict on the draft tokens in force, by the load."""

    EXPENSIVE_ABOVE_16 = ((1, 0.05), (15, 0.05), (16, 0.8), (64, 1.0))

    def test_it_is_that_of_the_load_and_not_of_the_present_one(self, evaluation_window):
        below, above = banded(evaluation_window(), curve(*self.EXPENSIVE_ABOVE_16))
        assert (below.verdict, below.is_improvable) == (Verdict.OPTIMAL, False)
        assert (above.first, above.tokens) == (16, 0)
        assert (above.verdict, above.is_improvable) == (Verdict.HARMFUL, True)

    def test_a_cost_that_may_pay_or_not_is_unclear(self, evaluation_window):
        wide = CostCurve(
            tuple(LoadRange(load, Range(0.1, 0.6, 0.9)) for load in (1, 64)), CostSource.MEASURED
        )
        assert {band.verdict for band in banded(evaluation_window(), wide)} == {Verdict.UNCLEAR}

    def test_without_drafts_at_a_load_there_is_none(self, evaluation_window):
        present = BatchSchedule((1, 8), (4, 0))
        _, paused = banded(evaluation_window(), curve((1, 0.05), (64, 0.1)), present=present)
        assert (paused.verdict, paused.is_improvable) == (None, True)

    def test_without_bounds_of_acceptance_nothing_is_harmful(self, window):
        _, above = banded(window, curve(*self.EXPENSIVE_ABOVE_16))
        assert above.verdict is Verdict.POOR

    def test_a_varying_acceptance_makes_it_less_certain(self, make_window):
        def window(*rates):
            polls = [
                {
                    "drafts": 100,
                    "draft_tokens": 400,
                    "accepted_tokens": rate,
                    "positions": [rate // 4] * 4,
                    "decode_steps": 100,
                    "generation_tokens": 102 + rate,
                    "first_tokens": 2,
                    "gauges": (4.0, 0.0, 0.0),
                }
                for rate in rates
                for _ in range(300 // len(rates))
            ]
            counters = polls[0].keys() - {"positions", "gauges"}
            whole = {name: sum(poll[name] for poll in polls) for name in counters}
            return make_window(
                whole.pop("drafts"),
                whole.pop("draft_tokens"),
                whole.pop("accepted_tokens"),
                positions=[sum(poll["positions"][0] for poll in polls)] * 4,
                length=300.0,
                seconds=300.0,
                gauges=(4.0, 0.0, 0.0),
                increments=polls,
                **whole,
            )

        costs = curve((1, 0.3), (8, 0.3))
        (steady,) = banded(window(100), costs)
        (varying,) = banded(window(180, 20, 180, 20), costs)
        assert steady.present_speedup == pytest.approx(varying.present_speedup)
        assert steady.verdict is Verdict.HARMFUL
        assert varying.verdict is Verdict.POOR

    def test_a_gain_within_the_tolerance_is_no_improvement(self, window):
        costs = curve((1, 0.12), (16, 0.12), (64, 0.9))
        first, *_ = banded(window, costs, present=BatchSchedule((1,), (3,)))
        assert (first.tokens, first.present_tokens) == (4, 3)
        assert 0.97 < first.present_speedup / first.speedup < 1
        assert not first.is_improvable


class TestSpeedupsAlone:
    def test_without_a_schedule_they_are_those_of_the_depths(self, window):
        cost = StepCost(0.1, 0.05)
        known = [depth.speedup for depth in depths(window, cost)]
        assert list(speedups_alone(window, cost, 6, searches=False))[1:] == pytest.approx(known)

    def test_a_schedule_in_force_does_not_change_them(self, make_window):
        """Half of the drafts have one token, by a schedule: position 1 is accepted in half of the others."""
        regimes = [
            {
                "drafts": 20,
                "draft_tokens": 20 * tokens,
                "accepted_tokens": sum(positions),
                "positions": positions,
            }
            for tokens, positions in ((1, (16, 0)), (2, (16, 10)))
        ]
        window = make_window(
            400, 600, 420, positions=[320, 100], decode_steps=800, increments=[*regimes] * 10
        )
        cost = StepCost(0.1, 0.0)
        assert speedups_alone(window, cost, 2, searches=False) == pytest.approx((1.0, 1.8 / 1.1, 2.3 / 1.2))

    def test_discarded_tokens_reduce_them(self, make_window):
        window = make_window(
            400,
            1600,
            920,
            positions=[320, 260, 200, 140],
            decode_steps=400,
            generation_tokens=1190,
            first_tokens=2,
        )
        assert speedups_alone(window, StepCost(0.0, 0.0), 4, searches=False)[4] == pytest.approx(1188 / 400)

    def test_there_are_no_more_than_can_be_extrapolated(self, window):
        assert len(speedups_alone(window, StepCost(0.1, 0.0), 99, searches=False)) == 7


@given(
    costs=st.lists(st.floats(0.001, 1.0), min_size=2, max_size=5),
    firsts=st.sets(st.integers(2, 80), max_size=3),
    margin=st.floats(0, 0.3),
)
def test_the_schedule_loses_at_most_the_tolerance_at_every_load(window, costs, firsts, margin):
    points = curve(*((4.0**place, cost) for place, cost in enumerate(costs)), margin=margin)
    present = BatchSchedule((1, *sorted(firsts)), (4, 0, 2, 1)[: len(firsts) + 1])
    bands = banded(window, points, present=present)
    assert (bands[0].first, bands[-1].last) == (1, 4 ** (len(costs) - 1))
    assert all(before.last + 1 == after.first for before, after in pairwise(bands))
    for band in bands:
        # A band is made of whole cells, so its mean is within the tolerance of the mean of the best.
        assert band.speedup >= (1 - TOLERANCE) * max(1.0, band.present_speedup) - 1e-9


@given(costs=st.lists(st.floats(0.001, 1.0), min_size=2, max_size=2))
def test_no_schedule_of_as_few_steps_has_less_regret(window, costs):
    """By all schedules of a few cells."""
    points = curve((1, costs[0]), (8, costs[1]), margin=0.2)
    bands = banded(window, points)
    cells = [(1, 1), (2, 2), (3, 3), (4, 5), (6, 7), (8, 8)]
    found = {}
    for first, last in cells:
        cost = cost_by_curve(points, (first + last) / 2, DENSE)
        found[first] = [
            speedups_alone(window, each, 4, searches=False) for each in (cost, cost.low, cost.high)
        ]

    def regret(first, tokens):
        return max(1 - speeds[tokens] / max(speeds) for speeds in found[first])

    def suffices(first, tokens):
        return found[first][0][tokens] >= (1 - TOLERANCE) * max(found[first][0])

    def rank(schedule):
        changes = sum(before != after for before, after in pairwise(schedule))
        return changes, sum(regret(first, tokens) for (first, _), tokens in zip(cells, schedule, strict=True))

    possible = [
        schedule
        for schedule in product(range(5), repeat=len(cells))
        if all(suffices(first, tokens) for (first, _), tokens in zip(cells, schedule, strict=True))
    ]
    own = [next(band.tokens for band in bands if band.first <= first <= band.last) for first, _ in cells]
    if own != [4] * len(cells):  # the setting in force stays if it suffices
        assert rank(own) == pytest.approx(min(map(rank, possible)))
