"""An arm of an experiment: its engines added up."""

from math import inf

import pytest

from spec_decode_exporter.scrape.engines import Latency
from spec_decode_exporter.scrape.sample import Buckets
from spec_decode_exporter.window.histograms import Answers
from tests.fakes.arms import EAGLE, END, NANO, PLAIN, THROUGHPUT, TIME, arm_with, times, window_of


class TestSums:
    def test_a_pace_is_a_ratio_of_sums_and_not_a_mean_of_ratios(self):
        slow = times(PLAIN, 1) | {"decode_nanoseconds": 12 * NANO}
        measures = arm_with(window_of(PLAIN), window_of(times(slow, 3))).paces
        # (6 s + 36 s) / (240 + 720) tokens; the mean of the two would be 37.5 ms.
        assert measures[TIME].value == pytest.approx(42 * NANO / 960)

    def test_each_basis_by_hand(self):
        measures = arm_with(window_of(EAGLE)).paces
        assert measures[TIME].value == pytest.approx(6 * NANO / 480)
        assert measures[END].value == pytest.approx(1.7 * NANO)
        assert measures[THROUGHPUT].value == pytest.approx(6.0 / 484)

    def test_an_arm_without_engines_or_work_has_no_pace(self):
        assert arm_with().paces == {}
        assert arm_with(window_of({})).paces == {}
        assert arm_with().total("drafts") is None

    def test_the_acceptance_length_is_that_of_all_drafts_together(self):
        twice = times(EAGLE, 2) | {"accepted_tokens": 40}
        arm = arm_with(window_of(EAGLE), window_of(twice), window_of(PLAIN))
        assert arm.acceptance_length == pytest.approx(1 + 320 / 600)
        assert arm_with(window_of(PLAIN)).acceptance_length is None

    def test_too_few_requests_or_too_little_time_have_no_bounds(self):
        assert arm_with(window_of(EAGLE)).paces[TIME].relative_error is not None
        few = window_of(EAGLE | {"first_tokens": 0})
        assert arm_with(few).paces[TIME].relative_error is None
        short = window_of(EAGLE, seconds=149)
        assert arm_with(short).paces[TIME].relative_error is None

    def test_the_degrees_are_at_most_the_busy_cells_minus_one(self):
        # 40 cells of 7.5 s, of which four had work; requests are enough for many more cosines.
        burst = window_of(lambda second: EAGLE | {"first_tokens": 40} if second < 30 else {})
        assert arm_with(burst).paces[TIME].degrees == 3
        assert arm_with(window_of(EAGLE)).paces[TIME].degrees == 12

    def test_correlated_engines_have_wider_bounds_than_alternating_ones(self):
        slow, fast = (EAGLE | {"decode_nanoseconds": seconds * NANO} for seconds in (7, 5))
        one = window_of(lambda second: (slow, fast)[second // 75 % 2])
        other = window_of(lambda second: (fast, slow)[second // 75 % 2])
        together, in_turn = (arm_with(one, each).paces[TIME] for each in (one, other))
        assert together.value == in_turn.value
        assert together.relative_error > 0.04
        assert in_turn.relative_error == pytest.approx(0.0, abs=1e-12)

    def test_the_answers_of_all_engines_together_decide_how_many_requests_count(self):
        # 3000 chats on one engine, and 30 answers of 60 times their length on the other.
        chats, long = (
            window_of(EAGLE, answers=Answers(n, 1000 * n * tokens, n * tokens**2, n * tokens**3))
            for n, tokens in ((3000, 100), (30, 6000))
        )
        arms = (chats, chats), (long, long), (chats, long)
        assert [arm_with(*each).paces[TIME].degrees for each in arms] == [12, 12, 2]


SLOW, FAST = (
    {
        "first_tokens": requests,
        "first_token_nanoseconds": 2 * NANO,
        "prefix_cache_queries": 1000,
        "prefix_cache_hits": hits,
    }
    for requests, hits in ((2, 0), (6, 800))
)


class TestFirstToken:
    def test_the_mean_and_the_hits_are_ratios_of_the_sums_over_the_engines(self):
        arm = arm_with(window_of(SLOW), window_of(FAST))
        assert arm.first_token == {"mean": pytest.approx(0.5), "p50": None, "p95": None}
        assert arm.prefix_hit_ratio == pytest.approx(0.4)

    def test_quantiles_are_those_of_the_requests_of_all_engines_with_histograms(self):
        one, other = (
            {Latency.TIME_TO_FIRST_TOKEN: Buckets((0.1, 1.0, 10.0, inf), counts)}
            for counts in ((0, 90, 100, 100), (100, 100, 100, 100))
        )
        found = arm_with(histograms=[one, other, {}]).first_token
        assert (found["p50"], found["p95"]) == (pytest.approx(0.1), pytest.approx(1.0))
