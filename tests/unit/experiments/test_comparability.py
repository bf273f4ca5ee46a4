"""Conditions under which an arm does the same work as its baseline."""

from __future__ import annotations

import pytest

from spec_decode_exporter.experiments.comparability import (
    Condition,
    are_comparable,
    conditions,
    same_traffic,
)
from tests.fixtures.arms import EAGLE, PLAIN, arm_with, times, window_of


class TestConditions:
    def test_arms_at_the_same_concurrency_are_comparable_though_one_serves_twice_the_requests(self):
        found = conditions(arm_with(window_of(EAGLE)), arm_with(window_of(PLAIN)))
        unknown = {Condition.PREFIX_HITS, Condition.ACCEPTANCE, Condition.REQUEST_TYPES}
        assert found == {condition: True for condition in Condition if condition not in unknown}
        assert are_comparable(found)
        assert same_traffic(found)

    def test_arms_with_the_same_arrivals_are_comparable_though_one_has_twice_the_requests_at_a_time(self):
        slow = arm_with(window_of(PLAIN, running=12.0))
        assert conditions(arm_with(window_of(PLAIN)), slow)[Condition.LOAD]

    @pytest.mark.parametrize(("running", "held"), [(9.0, True), (9.1, False), (4.0, True), (3.9, False)])
    def test_load_differs_by_half_again_at_most(self, running, held):
        arm = arm_with(window_of(times(PLAIN, 4), running=running))
        assert conditions(arm, arm_with(window_of(PLAIN)))[Condition.LOAD] is held

    def test_unknown_load_is_not_comparable(self):
        blind = arm_with(window_of(PLAIN, running=None, hidden={"first_tokens"}))
        assert not conditions(blind, blind)[Condition.LOAD]

    @pytest.mark.parametrize(("requests", "held"), [(30, True), (29, False)])
    def test_both_arms_need_requests(self, requests, held):
        few = arm_with(window_of(lambda second: PLAIN | {"first_tokens": int(second < requests)}))
        many = arm_with(window_of(PLAIN))
        assert conditions(few, many)[Condition.REQUESTS] is held
        assert conditions(many, few)[Condition.REQUESTS] is held

    def test_an_arm_that_was_seen_for_less_than_half_the_window_is_not_enough(self):
        whole, half, less = (arm_with(window_of(PLAIN, seconds=each)) for each in (300, 150, 149))
        assert conditions(half, whole)[Condition.REQUESTS]
        assert not conditions(less, whole)[Condition.REQUESTS]

    @pytest.mark.parametrize(("tokens", "held"), [(1000, True), (1001, False), (640, True), (639, False)])
    def test_prompts_differ_in_length_by_at_most_a_quarter(self, tokens, held):
        arm = arm_with(window_of(PLAIN | {"prompt_tokens": tokens}))
        assert conditions(arm, arm_with(window_of(PLAIN)))[Condition.PROMPT_TOKENS] is held

    def test_so_are_answers(self):
        arm = arm_with(window_of(PLAIN | {"generation_tokens": 303}))
        assert not conditions(arm, arm_with(window_of(PLAIN)))[Condition.GENERATION_TOKENS]

    def test_unknown_lengths_are_no_condition(self):
        silent = arm_with(window_of(PLAIN, hidden={"prompt_tokens"}))
        found = conditions(arm_with(window_of(PLAIN)), silent)
        assert Condition.PROMPT_TOKENS not in found
        assert are_comparable(found)

    @pytest.mark.parametrize(("hits", "held"), [(400, True), (480, True), (481, False), (0, False)])
    def test_a_winner_needs_similar_shares_of_cached_prompt_tokens(self, hits, held):
        queries = {"prefix_cache_queries": 800, "prefix_cache_hits": 400}
        arm = arm_with(window_of(PLAIN | queries | {"prefix_cache_hits": hits}))
        found = conditions(arm, arm_with(window_of(PLAIN | queries)))
        assert found[Condition.PREFIX_HITS] is held
        assert are_comparable(found)
        assert same_traffic(found) is held

    def drafting(self, accepted, depth=3, method="eagle"):
        """Return an arm with these accepted tokens of each position, in a second with 200 drafts."""
        return arm_with(window_of(EAGLE, positions=accepted[:depth]), method=method)

    def test_a_winner_between_arms_of_one_method_needs_a_similar_acceptance(self):
        easy, hard, harder = (150, 100, 60), (140, 85, 50), (90, 40, 20)
        found = conditions(self.drafting(hard), self.drafting(easy))
        assert found[Condition.ACCEPTANCE]
        assert same_traffic(found)
        found = conditions(self.drafting(harder), self.drafting(easy))
        assert not found[Condition.ACCEPTANCE]
        assert are_comparable(found)
        assert not same_traffic(found)

    def test_arms_of_different_depths_are_compared_at_the_smaller(self):
        deep, flat = self.drafting((150, 100, 60)), self.drafting((150,), depth=1)
        assert conditions(deep, flat)[Condition.ACCEPTANCE]

    @pytest.mark.parametrize("method", ["ngram", None])
    def test_the_acceptance_of_different_or_unknown_methods_is_no_condition(self, method):
        found = conditions(self.drafting((90, 40, 20), method=method), self.drafting((150, 100, 60)))
        assert Condition.ACCEPTANCE not in found

    def test_the_acceptance_without_drafts_is_no_condition(self):
        arm = arm_with(window_of(PLAIN), method="eagle")
        assert Condition.ACCEPTANCE not in conditions(arm, arm)
