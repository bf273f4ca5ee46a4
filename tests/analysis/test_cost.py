"""Sources of a cost, and the loads at which it is valid."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.analysis.cost import Cost, cost_curve, cost_of, fixed_tokens
from spec_decode_exporter.analysis.cost_source import CostSource
from spec_decode_exporter.analysis.measured_cost import MeasuredCost
from spec_decode_exporter.config.cost_settings import CostSettings, LoadCost


def load_costs(*points):
    return tuple(LoadCost(running_requests=load, draft_cost_ratio=ratio) for load, ratio in points)


def measured(loads):
    return [
        MeasuredCost(each.running_requests, each.draft_cost_ratio, 0.0, 1.0, CostSource.MEASURED)
        for each in loads
    ]


BY_LOAD = load_costs((8, 0.1), (32, 0.2), (128, 0.8))


class TestWhereItComesFrom:
    SETTINGS = CostSettings(draft_cost_ratio=0.15, fixed_cost_ratio=0.05, running_requests=16)

    def test_a_configured_cost_precedes_a_measured_one(self):
        assert cost_of(self.SETTINGS, measured(BY_LOAD), "eagle3", 30.0) == Cost(
            0.15, 0.05, CostSource.CONFIGURED, 16
        )

    def test_parameters_of_the_models_are_a_configuration(self):
        settings = CostSettings(draft_parameters=1e9, target_parameters=8e9, verify_cost_ratio=0.02)
        assert cost_of(settings, (), "", None) == Cost(0.145, 0.0, CostSource.CONFIGURED, None)

    def test_a_configured_cost_of_0_is_one(self):
        assert (
            cost_of(CostSettings(draft_cost_ratio=0), measured(BY_LOAD), "eagle3", 30.0).draft_cost_ratio == 0
        )

    def test_a_measured_cost_precedes_a_typical_one(self):
        cost = cost_of(None, measured(BY_LOAD), "", 20.0)
        assert (cost.source, cost.draft_cost_ratio) == (CostSource.MEASURED, pytest.approx(0.15))

    def test_the_typical_cost_of_the_method_is_the_default(self):
        assert cost_of(None, (), "eagle3", 20.0) == Cost(0.07, 0.10, CostSource.TYPICAL, None)

    @pytest.mark.parametrize("method", ["", "draft_model", "custom_class"])
    def test_unknown_stays_unknown(self, method):
        assert cost_of(None, (), method, 20.0) is None

    def test_a_cost_measured_by_load_needs_a_load(self):
        assert cost_of(None, measured(BY_LOAD), "", None) is None
        assert cost_of(None, measured(BY_LOAD), "eagle3", None).source is CostSource.TYPICAL

    @pytest.mark.parametrize("method", ["", "eagle3"])
    def test_without_a_load_a_configured_cost_is_that_of_the_lowest_load(self, method):
        cost = cost_of(CostSettings(loads=BY_LOAD, fixed_cost_ratio=0.03), (), method, None)
        assert cost == Cost(0.1, 0.03, CostSource.CONFIGURED, 8)
        assert not cost.speaks_for(None)


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
        cost = cost_of(CostSettings(loads=BY_LOAD, fixed_cost_ratio=0.03), (), "", running)
        assert cost.draft_cost_ratio == pytest.approx(expected)
        assert (cost.fixed_cost_ratio, cost.source) == (0.03, CostSource.CONFIGURED)
        assert cost.running_requests == known_at

    def test_one_measured_load_is_the_nearest_everywhere(self):
        for running in (1.0, 8.0, 100.0):
            cost = cost_of(None, measured(load_costs((8, 0.1))), "", running)
            assert (cost.draft_cost_ratio, cost.running_requests) == (0.1, 8)

    def test_a_measured_cost_is_split_by_the_method(self):
        # eagle3: 0.10 + 0.07 a token, so that the fixed cost is that of 1.43 tokens.
        cost = cost_of(None, measured(load_costs((8, 0.14))), "eagle3", 8)
        assert cost.fixed_cost_ratio == pytest.approx(0.2)
        assert fixed_tokens("eagle3") == pytest.approx(10 / 7)
        assert fixed_tokens("") == 0

    def test_a_single_configured_cost_is_no_curve(self):
        assert cost_curve(CostSettings(draft_cost_ratio=0.1), measured(BY_LOAD), "eagle3") is None
        assert cost_curve(None, (), "eagle3") is None
        assert cost_curve(None, measured(BY_LOAD), "").loads == BY_LOAD

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
        cost = cost_of(None, measured(load_costs(*points)), "", running)
        below = [ratio for load, ratio in points if load <= running][-1:]
        above = [ratio for load, ratio in points if load >= running][:1]
        near = below + above
        assert min(near) - 1e-9 <= cost.draft_cost_ratio <= max(near) + 1e-9
        assert cost.running_requests == min(max(running, points[0][0]), points[-1][0])


class TestForWhichLoads:
    @pytest.mark.parametrize(
        ("running", "expected"),
        [(32, True), (16, True), (64, True), (15.9, False), (64.1, False), (0, False), (None, False)],
    )
    def test_from_half_to_twice_the_one_at_which_it_is_known(self, running, expected):
        assert Cost(0.1, 0.0, CostSource.CONFIGURED, 32).speaks_for(running) is expected

    @pytest.mark.parametrize("running", [0, 1000, None])
    def test_without_a_load_it_is_valid_for_all(self, running):
        assert Cost(0.1, 0.0, CostSource.CONFIGURED, None).speaks_for(running)
