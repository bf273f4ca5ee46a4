"""Traffic of an arm and its baseline, and the bounds that allow for its difference."""

from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.experiments.pace import TypeTimes
from spec_decode_exporter.experiments.traffic import Traffic, at_equal_traffic, beside_a_queue, ratios
from spec_decode_exporter.figures.estimate import Estimate
from tests.fakes.arms import EAGLE, PLAIN, arm_with, times, window_of

CACHED = {"prefix_cache_queries": 800, "prefix_cache_hits": 400}
"""Half of 400 prompt tokens are in the cache: 200 and 121 are computed of a request."""


def work(every, other=PLAIN, **more):
    """Return the work of an arm's traffic over that of another arm."""
    return arm_with(window_of(every, **more)).traffic_over(arm_with(window_of(other)))


class TestRatios:
    @pytest.mark.parametrize(
        ("every", "running", "ratio"),
        [
            (times(PLAIN, 1.5), 9.0, 1.5),
            (times(PLAIN, 0.5), 3.0, 0.5),
            (times(PLAIN, 2), 6.0, 1.0),  # as many at a time: the faster one begins more
            (PLAIN, 12.0, 1.0),  # as many arrive: the slower one has more at a time
            (times(PLAIN, 2), 9.0, 1.5),
            (times(PLAIN, 0.5), 5.4, 0.9),
        ],
    )
    def test_the_load_is_that_of_arrivals_or_running_requests_whichever_is_nearer_to_1(
        self, every, running, ratio
    ):
        assert work(every, running=running)[Traffic.LOAD] == pytest.approx(ratio)

    def test_the_load_is_by_engine_and_an_idle_one_does_not_count(self):
        three = arm_with(window_of(PLAIN), window_of(PLAIN), window_of({}, running=0.0))
        assert three.traffic_over(arm_with(window_of(PLAIN)))[Traffic.LOAD] == 1.0

    def test_the_load_is_that_of_a_token_so_idle_time_and_a_busier_engine_count(self):
        late = arm_with(window_of(lambda second: times(PLAIN, 1.5) if second >= 150 else {}, running=9.0))
        assert late.traffic_over(arm_with(window_of(PLAIN)))[Traffic.LOAD] == pytest.approx(1.5 / 2)
        uneven = arm_with(
            window_of(times(PLAIN, 0.5), running=3.0), window_of(times(PLAIN, 1.5), running=9.0)
        )
        assert uneven.traffic_over(arm_with(window_of(PLAIN)))[Traffic.LOAD] == pytest.approx(1.25)

    def test_an_unknown_load_differs_by_an_unknown_factor(self):
        blind = arm_with(window_of(PLAIN, running=None, hidden={"first_tokens"}))
        assert blind.traffic_over(blind) == {Traffic.LOAD: None}

    @pytest.mark.parametrize(
        ("every", "part", "ratio"),
        [
            (PLAIN | {"prompt_tokens": 1000}, Traffic.PROMPT_TOKENS, 1.25),
            (PLAIN | {"generation_tokens": 121}, Traffic.OUTPUT_TOKENS, 0.5),
            (PLAIN | CACHED | {"prefix_cache_hits": 800}, Traffic.PREFIX_CACHE, 121 / 321),
            (PLAIN | CACHED | {"prefix_cache_hits": 0}, Traffic.PREFIX_CACHE, 521 / 321),
            (PLAIN | CACHED | {"prefix_cache_hits": 400}, Traffic.PREFIX_CACHE, 1.0),
        ],
    )
    def test_lengths_and_computed_tokens_are_those_of_a_request(self, every, part, ratio):
        assert work(every, PLAIN | CACHED)[part] == pytest.approx(ratio)

    def test_unknown_parts_are_absent(self):
        found = work(PLAIN, hidden={"prompt_tokens"})
        assert found.keys() == {Traffic.LOAD, Traffic.OUTPUT_TOKENS}
        torn = work(PLAIN | CACHED | {"prefix_cache_hits": 5000}, PLAIN | CACHED)
        assert Traffic.PREFIX_CACHE not in torn
        assert dict(ratios({}, {})) == {}

    def drafting(self, accepted, depth=3, method="eagle", **more):
        """Return an arm with these accepted tokens of each position, in a second with 200 drafts."""
        return arm_with(window_of(EAGLE, positions=accepted[:depth]), method=method, **more)

    def test_arms_of_one_method_are_compared_by_their_acceptance_at_common_positions(self):
        easy, hard = self.drafting((150, 100, 60)), self.drafting((90, 40, 20))
        flat = self.drafting((150,), depth=1)
        assert easy.traffic_over(hard)[Traffic.ACCEPTANCE] == pytest.approx(350 / 510)
        assert hard.traffic_over(easy)[Traffic.ACCEPTANCE] == pytest.approx(510 / 350)
        assert easy.traffic_over(flat)[Traffic.ACCEPTANCE] == 1.0

    @pytest.mark.parametrize("method", ["ngram", None])
    def test_the_acceptance_of_different_or_unknown_methods_shows_nothing(self, method):
        other = self.drafting((90, 40, 20), method=method)
        assert Traffic.ACCEPTANCE not in other.traffic_over(self.drafting((150, 100, 60)))
        plain = arm_with(window_of(PLAIN), method="eagle")
        assert Traffic.ACCEPTANCE not in plain.traffic_over(plain)

    def test_known_types_take_the_place_of_the_acceptance(self):
        types = {"easy": TypeTimes(10.0, 1000.0), "hard": TypeTimes(60.0, 2000.0)}
        one, other = (self.drafting(each, types=types) for each in ((150, 100, 60), (90, 40, 20)))
        found = one.traffic_over(other)
        assert Traffic.ACCEPTANCE not in found
        assert found[Traffic.REQUEST_TYPES] == pytest.approx(1.0)
        strange = self.drafting((90, 40, 20), types={"other": TypeTimes(1.0, 9.0)})
        assert one.traffic_over(strange)[Traffic.REQUEST_TYPES] is None


def bounds(lower, upper, **traffic):
    """Return lower and upper bound at equal traffic, and the part that decides."""
    estimate = Estimate((lower + upper) / 2, lower, upper, 0.1)
    found, part = at_equal_traffic(estimate, {Traffic(name): value for name, value in traffic.items()})
    return found and (pytest.approx(found.lower), pytest.approx(found.upper)), part


class TestBounds:
    def test_lighter_traffic_lowers_one_bound_and_heavier_traffic_raises_the_other(self):
        # What is more than 5 % counts twice: 0.96 once, 0.8 and 1.26 with their part beyond it again.
        assert bounds(1.6, 1.8, prompt_tokens=0.96, load=0.8) == ((1.6 * 0.96 * 0.8 * 0.84, 1.8), None)
        assert bounds(1.5, 1.8, load=1.26) == ((1.5, 1.8 * 1.26 * 1.2), None)

    def test_answers_of_another_length_widen_both_bounds(self):
        # Shorter ones take less time, and leave more prompt tokens to compute for each token.
        assert bounds(1.5, 1.8, output_tokens=0.96) == ((1.5 * 0.96, 1.8 / 0.96), None)

    @pytest.mark.parametrize(
        ("lower", "upper", "load", "part"),
        [
            (1.25, 1.5, 0.88, None),
            (1.25, 1.5, 0.87, Traffic.LOAD),
            (0.6, 0.8, 1.14, None),
            (0.6, 0.8, 1.15, Traffic.LOAD),
            (0.9, 1.5, 0.5, None),  # not significant whatever the traffic
        ],
    )
    def test_the_part_that_differs_most_decides_if_it_may_explain_the_speed_up(
        self, lower, upper, load, part
    ):
        assert bounds(lower, upper, prompt_tokens=1.0, load=load)[1] == part

    @given(st.floats(0.1, 10), st.floats(1, 3), st.dictionaries(st.sampled_from(Traffic), st.floats(0.1, 10)))
    def test_a_difference_that_is_proportional_to_all_parts_is_inside(self, truth, width, traffic):
        """An arm of the true speed-up looks faster by the inverse of each ratio."""
        seen = truth / prod(traffic.values())
        found, _ = at_equal_traffic(Estimate(seen, seen / width, seen * width, 0.1), traffic)
        assert found.lower <= truth * (1 + 1e-9)
        assert found.upper >= truth * (1 - 1e-9)

    @pytest.mark.parametrize(
        ("side", "other", "load"),
        [
            ((8.0, 0.16), (12.0, 0.0), 0.7),  # it waits for the next step alone
            ((8.0, 4.0), (12.0, 0.1), 12 / 12.1),
            ((8.0, 4.0), (8.0, 0.0), None),
        ],
    )
    def test_beside_a_queue_all_requests_of_an_engine_are_the_load(self, side, other, load):
        assert beside_a_queue({Traffic.LOAD: 0.7}, side, other) == {Traffic.LOAD: pytest.approx(load)}

    def test_beside_a_queue_a_difference_is_an_unknown_factor(self):
        traffic = {Traffic.PROMPT_TOKENS: 1.04, Traffic.ACCEPTANCE: 0.95, Traffic.REQUEST_TYPES: None}
        found = {Traffic.PROMPT_TOKENS: 1.04, Traffic.ACCEPTANCE: None, Traffic.REQUEST_TYPES: None}
        assert beside_a_queue(traffic, (8.0, 1.0), (8.0, 1.0)) == found | {Traffic.LOAD: 1.0}

    def test_an_unknown_factor_leaves_no_bounds(self):
        assert bounds(1.5, 1.8, load=1.0, request_types=None) == (None, Traffic.REQUEST_TYPES)
