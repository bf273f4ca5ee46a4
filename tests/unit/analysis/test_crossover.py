"""Up to which load speculation pays."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.analysis.cost_curve import CostCurve, LoadRange, around
from spec_decode_exporter.analysis.cost_source import CostSource
from spec_decode_exporter.analysis.crossover import crossover_running_requests
from spec_decode_exporter.figures.decode_work import estimated_speedup_ratio


def curve(*points, fixed=0.0, fixed_tokens=0.0):
    known = tuple(LoadRange(load, around(ratio)) for load, ratio in points)
    return CostCurve(known, CostSource.CONFIGURED, fixed, fixed_tokens)


@pytest.fixture(name="window", scope="module")
def window_fixture(make_window):
    """Two tokens a step for four draft tokens: it pays up to c = 0.25."""
    return make_window(100, 400, 100, decode_steps=100, generation_tokens=205, first_tokens=5)


def test_it_is_the_load_at_which_cost_and_gain_are_equal(window):
    # half way between 0.1 and 0.4
    assert crossover_running_requests(window, curve((8, 0.1), (40, 0.4))) == pytest.approx(24)


def test_a_fixed_cost_makes_it_lower(window):
    # c = 0.2 is left
    assert crossover_running_requests(window, curve((8, 0.1), (38, 0.4), fixed=0.2)) == pytest.approx(18)


def test_a_fixed_cost_that_grows_with_the_load_does_too(window):
    # five tokens a step to pay for, so that c = 0.2 is left
    assert crossover_running_requests(window, curve((8, 0.1), (38, 0.4), fixed_tokens=1)) == pytest.approx(18)


def test_it_is_searched_between_all_known_loads(window):
    assert crossover_running_requests(
        window, curve((1, 0.05), (8, 0.1), (16, 0.2), (32, 0.3), (64, 0.9))
    ) == pytest.approx(24)


def test_the_lowest_counts_where_the_cost_is_not_monotonic(window):
    known = curve((1, 0.2), (2, 0.3), (4, 0.2), (8, 0.3))
    assert crossover_running_requests(window, known) == pytest.approx(1.5)


@pytest.mark.parametrize("ratios", [(0.1, 0.2), (0.3, 0.4), (0.4, 0.1), (0.1, 0.25), (0.25, 0.25)])
def test_a_gain_at_every_known_load_or_at_none_has_no_crossover(window, ratios):
    assert crossover_running_requests(window, curve((8, ratios[0]), (32, ratios[1]))) is None


def test_one_load_is_no_range(window):
    assert crossover_running_requests(window, curve((8, 0.25))) is None


def test_an_idle_engine_has_none(make_window):
    assert crossover_running_requests(make_window(), curve((8, 0.1), (32, 0.4))) is None


@given(
    points=st.lists(
        st.tuples(st.integers(1, 500), st.floats(0, 1)), min_size=2, max_size=6, unique_by=lambda at: at[0]
    ).map(sorted),
    fixed=st.floats(0, 0.5),
)
def test_at_the_crossover_speculation_neither_pays_nor_costs(window, points, fixed):
    known = curve(*points, fixed=fixed)
    crossover = crossover_running_requests(window, known)
    if crossover is not None:
        assert estimated_speedup_ratio(window, known.guess(crossover)) == pytest.approx(1)
