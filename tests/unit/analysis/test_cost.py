"""Sources of a cost, its interval, and the loads at which it is known."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.analysis.cost import (
    Cost,
    CostKnowledge,
    StepCost,
    cost_of,
    typical_cost,
)
from spec_decode_exporter.analysis.cost_curve import UNSTATED_LOAD
from spec_decode_exporter.analysis.cost_source import CostSource
from spec_decode_exporter.analysis.measured_cost import MeasuredCost
from spec_decode_exporter.analysis.typical_costs import fixed_tokens, verifying
from spec_decode_exporter.config.cost_settings import Architecture, CostSettings, LoadCost

METHODS = ("", "ngram", "eagle3", "mtp", "draft_model", "dflash")
ARCHITECTURES = (None, *Architecture)


def measured(*points, source=CostSource.MEASURED):
    return tuple(MeasuredCost(load, ratio, 0.9 * ratio, 1.2 * ratio, source) for load, ratio in points)


def configured(*points, **more):
    loads = tuple(LoadCost(running_requests=load, draft_cost_ratio=ratio) for load, ratio in points)
    return CostSettings(loads=loads, **more)


def cost(running=20.0, tokens=4.0, **known):
    return cost_of(CostKnowledge(**known), running, tokens)


BY_LOAD = ((8, 0.1), (32, 0.2), (128, 0.8))


class TestWhereItComesFrom:
    SETTINGS = CostSettings(draft_cost_ratio=0.15, fixed_cost_ratio=0.05, running_requests=16)

    def test_a_cost_measured_at_this_load_precedes_a_configured_one(self):
        found = cost(30.0, settings=self.SETTINGS, measured=measured((30, 0.2)))
        assert (found.source, found.draft_cost_ratio) == (CostSource.MEASURED, 0.2)

    def test_a_configured_cost_precedes_one_measured_at_another_load(self):
        found = cost(30.0, settings=self.SETTINGS, measured=measured((4, 0.2)))
        assert (found.source, found.draft_cost_ratio) == (CostSource.CONFIGURED, 0.15)

    def test_a_cost_measured_at_another_load_precedes_a_typical_one(self):
        found = cost(30.0, method="eagle3", measured=measured((4, 0.2)))
        assert (found.source, found.running_requests) == (CostSource.MEASURED, 4)

    def test_an_experiment_precedes_a_pause_and_a_pause_precedes_the_baseline(self):
        order = [CostSource.EXPERIMENT, CostSource.MEASURED, CostSource.BASELINE]
        for place, source in enumerate(order):
            costs = [each for other in order[place:] for each in measured((20, 0.1), source=other)]
            assert cost(measured=tuple(reversed(costs))).source is source

    def test_sizes_of_the_models_are_a_source_of_their_own(self):
        settings = CostSettings(draft_parameters=1e9, target_parameters=8e9, verify_cost_ratio=0.02)
        found = cost(settings=settings)
        assert (found.source, found.draft_cost_ratio) == (CostSource.SIZES, pytest.approx(0.145))

    def test_sizes_without_the_cost_of_verifying_take_the_typical_one_at_this_load(self):
        settings = CostSettings(draft_parameters=1e9, target_parameters=8e9)
        few, many = cost(1.0, settings=settings), cost(256.0, settings=settings)
        assert few.draft_cost_ratio == pytest.approx(0.125 + verifying(None, 1.0, 4.0).guess)
        assert few.high.draft_cost_ratio > few.draft_cost_ratio
        assert many.draft_cost_ratio > few.draft_cost_ratio + 0.3

    def test_without_any_other_source_it_is_the_typical_one_of_the_method(self):
        found = cost(method="eagle3")
        assert found == typical_cost(CostKnowledge(method="eagle3"), 20.0, 4.0)
        assert found.source is CostSource.TYPICAL

    @pytest.mark.parametrize("method", ["", "draft_model", "custom_class"])
    def test_unknown_stays_unknown(self, method):
        assert cost(method=method) is None

    def test_a_measured_cost_needs_a_load(self):
        assert cost(None, measured=measured(*BY_LOAD)) is None
        assert cost(None, method="eagle3", measured=measured(*BY_LOAD)).source is CostSource.TYPICAL

    def test_at_an_unknown_load_a_configured_cost_is_that_of_all_known_loads(self):
        found = cost(None, settings=configured(*BY_LOAD, fixed_cost_ratio=0.03))
        assert (found.draft_cost_ratio, found.source) == (0.1, CostSource.CONFIGURED)
        assert (found.low.draft_cost_ratio, found.high.draft_cost_ratio) == pytest.approx((0.075, 1.0))


class TestTheInterval:
    def test_a_configured_cost_is_within_a_quarter_from_half_to_twice_its_load(self):
        settings = CostSettings(draft_cost_ratio=0.2, running_requests=16, fixed_cost_ratio=0.1)
        for running in (8, 16, 32):
            found = cost(running, settings=settings, architecture=Architecture.DENSE)
            assert (found.low.draft_cost_ratio, found.high.draft_cost_ratio) == pytest.approx((0.15, 0.25))
            assert (found.low.fixed_cost_ratio, found.high.fixed_cost_ratio) == pytest.approx((0.075, 0.125))

    @pytest.mark.parametrize(
        ("running", "low", "high"),
        [(64, 0.15, 1.0), (2, 0.01875, 0.25)],
    )
    def test_beyond_it_is_widened_by_the_ratio_of_the_loads(self, running, low, high):
        settings = CostSettings(draft_cost_ratio=0.2, running_requests=16)
        found = cost(running, settings=settings, architecture=Architecture.DENSE)
        assert (found.low.draft_cost_ratio, found.high.draft_cost_ratio) == pytest.approx((low, high))
        assert found.draft_cost_ratio == 0.2

    def test_a_mixture_of_experts_may_also_become_cheaper_under_load_and_dearer_without(self):
        settings = CostSettings(draft_cost_ratio=0.1, running_requests=16)
        for architecture in (None, Architecture.MIXTURE_OF_EXPERTS):
            more, less = (cost(load, settings=settings, architecture=architecture) for load in (64, 4))
            for found in (more, less):
                assert found.low.draft_cost_ratio == pytest.approx(0.075 / 4)
                assert found.high.draft_cost_ratio == pytest.approx(0.125 * 4)

    def test_near_its_load_it_may_change_by_the_root_of_the_ratio_unless_the_model_is_dense(self):
        settings = CostSettings(draft_cost_ratio=0.2, running_requests=16)
        for architecture in (None, Architecture.MIXTURE_OF_EXPERTS):
            same, more = (cost(load, settings=settings, architecture=architecture) for load in (16, 32))
            assert (same.low.draft_cost_ratio, same.high.draft_cost_ratio) == pytest.approx((0.15, 0.25))
            assert more.low.draft_cost_ratio == pytest.approx(0.15 / 2**0.5)
            assert more.high.draft_cost_ratio == pytest.approx(0.25 * 2**0.5)

    def test_named_experts_narrow_the_typical_cost(self):
        known = {"method": "mtp", "architecture": Architecture.MIXTURE_OF_EXPERTS}
        unknown, named = cost(32.0, **known), cost(32.0, **known, experts_ratio=16.0)
        assert named.high.draft_cost_ratio < unknown.high.draft_cost_ratio
        assert named.low.draft_cost_ratio >= unknown.low.draft_cost_ratio

    def test_a_cost_without_a_load_is_as_one_at_4_running(self):
        stated = CostSettings(draft_cost_ratio=0.1, running_requests=UNSTATED_LOAD)
        for running in (1, 4, 50):
            assert cost(running, settings=CostSettings(draft_cost_ratio=0.1)) == cost(
                running, settings=stated
            )

    def test_a_measured_cost_has_its_own_bounds(self):
        found = cost(32.0, measured=measured((32, 0.2)))
        assert (found.low.draft_cost_ratio, found.high.draft_cost_ratio) == pytest.approx((0.18, 0.24))

    def test_verifying_a_token_never_costs_more_than_a_plain_step(self):
        settings = CostSettings(draft_cost_ratio=0.8, running_requests=1)
        found = cost(256.0, method="ngram", settings=settings, architecture=Architecture.DENSE)
        assert found.high.draft_cost_ratio == pytest.approx(1.01)

    @given(
        method=st.sampled_from(METHODS),
        architecture=st.sampled_from(ARCHITECTURES),
        running=st.none() | st.floats(0, 2000),
        tokens=st.floats(0, 16),
        settings=st.none()
        | st.builds(
            CostSettings,
            draft_cost_ratio=st.floats(0, 2),
            fixed_cost_ratio=st.floats(0, 1),
            running_requests=st.none() | st.floats(0.5, 300),
        ),
        points=st.lists(
            st.tuples(st.floats(1, 300), st.floats(0, 2)), max_size=4, unique_by=lambda at: at[0]
        ),
    )
    def test_it_holds_the_best_guess(self, method, architecture, running, tokens, settings, points):
        known = CostKnowledge(settings, measured(*points), method, architecture)
        for found in (cost_of(known, running, tokens), typical_cost(known, running, tokens)):
            if found is None:
                continue
            low, high = found.low, found.high
            assert 0 <= low.draft_cost_ratio <= found.draft_cost_ratio <= high.draft_cost_ratio
            assert 0 <= low.fixed_cost_ratio <= found.fixed_cost_ratio <= high.fixed_cost_ratio
            every_step = found.fixed_in_every_step
            assert low.fixed_in_every_step == high.fixed_in_every_step == every_step == (method == "ngram")

    def test_a_cost_without_an_interval_is_exact(self):
        exact = Cost(0.1, 0.2, CostSource.CONFIGURED, None)
        assert exact.low == exact.high == StepCost(0.1, 0.2)


class TestByLoad:
    @pytest.mark.parametrize(
        ("running", "expected", "known_at"),
        [
            (8, 0.1, 8),
            (20, 0.15, 20),
            (32, 0.2, 32),
            (80, 0.5, 80),
            (128, 0.8, 128),
            (2, 0.1, 8),
            (0, 0.1, 8),
            (500, 0.8, 128),
        ],
    )
    def test_straight_lines_between_and_the_nearest_end_beyond(self, running, expected, known_at):
        found = cost(running, settings=configured(*BY_LOAD, fixed_cost_ratio=0.03))
        assert found.draft_cost_ratio == pytest.approx(expected)
        assert (found.fixed_cost_ratio, found.source) == (0.03, CostSource.CONFIGURED)
        assert found.running_requests == known_at

    def test_the_interval_between_loads_contains_the_interpolation_by_doublings(self):
        # 16 is a third of the way from 8 to 32, and half of its two doublings: 0.133 and 0.150.
        found = cost(16, settings=configured((8, 0.1), (32, 0.2)), architecture=Architecture.DENSE)
        assert found.draft_cost_ratio == pytest.approx(0.4 / 3)
        assert found.low.draft_cost_ratio == pytest.approx(0.75 * 0.4 / 3)
        assert found.high.draft_cost_ratio == pytest.approx(1.25 * 0.15)

    def test_a_measured_cost_is_split_by_the_method(self):
        # eagle3: 0.10 for a step and 0.05 + 0.02 a token, so that the fixed cost is that of 1.43 tokens.
        found = cost(8, measured=measured((8, 0.14)), method="eagle3")
        assert found.fixed_cost_ratio == pytest.approx(0.2)
        assert found.low.fixed_cost_ratio == pytest.approx(0.18)
        assert fixed_tokens("eagle3") == pytest.approx(10 / 7)
        assert fixed_tokens("") == 0

    @given(
        points=st.lists(
            st.tuples(st.integers(1, 500), st.floats(0, 2)),
            min_size=2,
            max_size=6,
            unique_by=lambda at: at[0],
        ).map(sorted),
        running=st.floats(0, 1000),
    )
    def test_between_neighbours(self, points, running):
        found = cost(running, settings=configured(*points))
        below = [ratio for load, ratio in points if load <= running][-1:]
        above = [ratio for load, ratio in points if load >= running][:1]
        near = below + above
        assert min(near) - 1e-9 <= found.draft_cost_ratio <= max(near) + 1e-9
        assert found.running_requests == min(max(running, points[0][0]), points[-1][0])


class TestForWhichLoads:
    @pytest.mark.parametrize(
        ("running", "expected"),
        [(32, True), (16, True), (64, True), (15.9, False), (64.1, False), (0, False), (None, False)],
    )
    def test_from_half_to_twice_the_one_at_which_it_is_known(self, running, expected):
        assert Cost(0.1, 0.0, CostSource.CONFIGURED, 32).speaks_for(running) is expected

    @pytest.mark.parametrize("running", [0, 1000, None])
    def test_a_cost_of_the_present_load_is_known_for_it(self, running):
        assert Cost(0.1, 0.0, CostSource.TYPICAL, None).speaks_for(running)
