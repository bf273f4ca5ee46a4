"""Sources of a cost, its range, the loads at which it is known, and the load up to which speculation pays."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.config.comparison_settings import Architecture, CostSettings, LoadCost
from spec_decode_exporter.costs.cost import (
    CostAtLoad,
    CostByLoad,
    CostSource,
    CostSources,
    fixed_tokens,
    is_near,
)
from spec_decode_exporter.costs.methods import Interval, kind_of
from spec_decode_exporter.costs.published import published_costs, split
from spec_decode_exporter.figures.window_figures import DecodeWork
from tests.fakes.costs import steps_of, tokens_of

DENSE, MIXTURE = Architecture
BY_LOAD = ((8, 0.1), (32, 0.2), (128, 0.8))


def measured(*points, method=""):
    known = tuple(CostAtLoad(load, Interval(0.9 * c, c, 1.2 * c)) for load, c in points)
    curve = CostByLoad(known, CostSource.MEASURED, step_tokens=fixed_tokens(kind_of(method), 4.0))
    return (curve,) if points else ()


def configured(*points, **more):
    loads = tuple(LoadCost(running_requests=load, draft_cost_ratio=ratio) for load, ratio in points)
    return CostSettings(loads=loads, **more)


POINTS = st.tuples(st.integers(1, 500), st.floats(0, 2))
LOADS_AND_COSTS = st.lists(POINTS, min_size=2, max_size=6, unique_by=lambda point: point[0]).map(sorted)


class TestSource:
    AT_16 = CostSettings(draft_cost_ratio=0.15, fixed_cost_ratio=0.05, running_requests=16)

    @pytest.mark.parametrize(
        ("known", "source", "token", "load"),
        [
            ({"settings": AT_16, "measured": measured((30, 0.2))}, CostSource.MEASURED, 0.2, 30),
            ({"settings": AT_16, "measured": measured((4, 0.2))}, CostSource.CONFIGURED, 0.15, 16),
            ({"method": "eagle3", "measured": measured((4, 0.2))}, CostSource.MEASURED, 0.2, 4),
            (
                {"method": "eagle3"},
                CostSource.TYPICAL,
                published_costs("layer", "eagle3", 30.0).range.guess * split("layer", 4.0)[0],
                None,
            ),
        ],
        ids=["measured here", "configured", "measured at another load", "typical"],
    )
    def test_the_most_certain_source_that_is_known_for_the_load_counts(self, known, source, token, load):
        found = CostSources(**known).at(30.0, 4.0)
        assert (found.source, found.running_requests) == (source, load)
        assert found.guess.token == pytest.approx(token)

    @pytest.mark.parametrize("method", ["", "draft_model", "ngram", "custom_class"])
    def test_unknown_stays_unknown(self, method):
        assert CostSources(method=method).at(20.0, 4.0) is None

    def test_at_an_unknown_load_a_measured_cost_is_none_and_a_configured_one_that_of_all_loads(self):
        curves = measured(*BY_LOAD)
        assert CostSources(measured=curves).at(None, 4.0) is None
        assert CostSources(measured=curves, method="eagle3").at(None, 4.0).source is CostSource.TYPICAL
        found = CostSources(settings=configured(*BY_LOAD, fixed_cost_ratio=0.03)).at(None, 4.0)
        assert (found.source, tokens_of(found)) == (CostSource.CONFIGURED, pytest.approx((0.075, 0.1, 1.0)))


class TestRange:
    SETTINGS = CostSettings(draft_cost_ratio=0.2, running_requests=16, fixed_cost_ratio=0.1)

    @pytest.mark.parametrize(
        ("running", "architecture", "low", "high"),
        [
            (8, DENSE, 0.15, 0.25),
            (32, DENSE, 0.15, 0.25),
            (64, DENSE, 0.15, 1.0),
            (2, DENSE, 0.15 / 8, 0.25),
            (64, MIXTURE, 0.15 / 4, 1.0),
            (4, MIXTURE, 0.15 / 4, 1.0),
            (4, None, 0.15 / 4, 1.0),
            (16, MIXTURE, 0.15, 0.25),
            (32, MIXTURE, 0.15 / 2**0.5, 0.25 * 2**0.5),
            (32, None, 0.15 / 2**0.5, 0.25 * 2**0.5),
        ],
    )
    def test_another_load_widens_it_by_the_ratio_of_the_loads(self, running, architecture, low, high):
        """Within a quarter at its load. A dense model costs more with more requests, a mixture also with fewer."""
        found = CostSources(settings=self.SETTINGS, architecture=architecture).at(running, 4.0)
        assert tokens_of(found) == pytest.approx((low, 0.2, high))

    @pytest.mark.parametrize(("running", "low"), [(8, 0.075), (32, 0.075), (4, 0.075 / 4), (64, 0.075 / 4)])
    def test_longer_steps_wait_less_for_the_host(self, running, low):
        found = CostSources(settings=self.SETTINGS, architecture=DENSE).at(running, 4.0)
        assert steps_of(found) == pytest.approx((low, 0.1, 0.125))

    @given(
        method=st.sampled_from(("", "ngram", "eagle3", "mtp", "draft_model", "dflash")),
        architecture=st.sampled_from((None, *Architecture)),
        running=st.none() | st.floats(0, 2000),
        tokens=st.floats(0, 16),
        settings=st.none()
        | st.builds(
            CostSettings,
            draft_cost_ratio=st.floats(0, 2),
            fixed_cost_ratio=st.floats(0, 1),
            running_requests=st.none() | st.floats(0.5, 300),
        ),
        points=st.just([]) | LOADS_AND_COSTS,
    )
    def test_the_best_guess_is_between_the_lowest_and_the_highest_cost(
        self, method, architecture, running, tokens, settings, points
    ):
        known = CostSources(settings, measured(*points, method=method), method, architecture)
        for found in filter(None, (known.at(running, tokens), known.typical(running, tokens))):
            assert 0 <= found.low.token <= found.guess.token <= found.high.token
            assert 0 <= found.low.step <= found.guess.step <= found.high.step
            for price in (found.low, found.guess, found.high):
                assert price.every_step == (method == "ngram")


class TestByLoad:
    @pytest.mark.parametrize(
        ("running", "expected", "known_at"),
        [(8, 0.1, 8), (20, 0.15, 20), (80, 0.5, 80), (128, 0.8, 128), (2, 0.1, 8), (0, 0.1, 8), (500, 0.8, 128)],
    )  # fmt: skip
    def test_straight_lines_between_and_the_nearest_end_beyond(self, running, expected, known_at):
        found = CostSources(settings=configured(*BY_LOAD, fixed_cost_ratio=0.03)).at(running, 4.0)
        assert found.guess[:2] == pytest.approx((expected, 0.03))
        assert (found.source, found.running_requests) == (CostSource.CONFIGURED, known_at)

    def test_the_range_between_loads_contains_the_interpolation_by_doublings(self):
        # 16 is a third of the way from 8 to 32, and half of its two doublings: 0.133 and 0.150.
        found = CostSources(settings=configured((8, 0.1), (32, 0.2)), architecture=DENSE).at(16, 4.0)
        assert tokens_of(found) == pytest.approx((0.75 * 0.4 / 3, 0.4 / 3, 1.25 * 0.15))
        # A falling cost is below the line by doublings, and as a power of the load: 0.167, 0.150 and 0.141.
        found = CostSources(settings=configured((8, 0.2), (32, 0.1)), architecture=DENSE).at(16, 4.0)
        assert tokens_of(found) == pytest.approx((0.75 * 0.02**0.5, 0.5 / 3, 1.25 * 0.5 / 3))
        # One that falls to nothing has no power of the load.
        found = CostSources(settings=configured((8, 0.2), (32, 0.0)), architecture=DENSE).at(16, 4.0)
        assert tokens_of(found) == pytest.approx((0.75 * 0.1, 0.4 / 3, 1.25 * 0.4 / 3))

    def test_a_measured_cost_has_its_own_bounds_and_is_split_by_the_method(self):
        # The tangent of K^0.8 at 4 tokens leaves 0.8 of the cost for each token, so c0 is that of one.
        curves = measured((8, 0.14), method="eagle3")
        found = CostSources(measured=curves, method="eagle3").at(8, 4.0)
        assert steps_of(found) == pytest.approx((0.126, 0.14, 0.168))

    @pytest.mark.parametrize(
        ("running", "expected"), [(16, True), (64, True), (15.9, False), (64.1, False), (0, False)]
    )
    def test_it_is_valid_from_half_to_twice_its_load(self, running, expected):
        assert is_near(32, running) is expected


class TestCrossover:
    """Two tokens a step for four draft tokens: it pays up to c = 0.25."""

    WORK = DecodeWork(tokens=200, steps=100, drafts=100, draft_tokens=400)

    @pytest.mark.parametrize(
        ("points", "step", "step_tokens", "expected"),
        [
            (((8, 0.1), (40, 0.4)), 0.0, 0.0, 24),  # half way between 0.1 and 0.4
            (((8, 0.1), (38, 0.4)), 0.2, 0.0, 18),  # c = 0.2 is left
            (((8, 0.1), (38, 0.4)), 0.0, 1.0, 18),  # five tokens a step to pay for: c = 0.2
            (((1, 0.2), (2, 0.3), (4, 0.2), (8, 0.3)), 0.0, 0.0, 1.5),  # the lowest of several
            # It pays at every known load, or at none.
            *((((8, low), (32, high)), 0.0, 0.0, None) for low, high in ((0.1, 0.2), (0.3, 0.4), (0.4, 0.1))),
            *((((8, low), (32, 0.25)), 0.0, 0.0, None) for low in (0.1, 0.25)),
            (((8, 0.25),), 0.0, 0.0, None),
        ],
    )
    def test_it_is_the_load_at_which_cost_and_gain_are_equal(self, points, step, step_tokens, expected):
        known = tuple(CostAtLoad(load, Interval(c, c, c)) for load, c in points)
        model = CostSources(measured=(CostByLoad(known, CostSource.MEASURED, step, step_tokens),))
        assert model.crossover(self.WORK) == pytest.approx(expected)

    def test_an_idle_engine_has_none(self):
        assert CostSources(measured=measured((8, 0.1), (32, 0.4))).crossover(None) is None

    def test_a_measured_cost_at_one_load_leaves_it_to_the_configured_ones(self):
        settings = configured((8, 0.1), (40, 0.4))
        assert CostSources(settings, measured((20, 0.9))).crossover(self.WORK) == pytest.approx(24)
