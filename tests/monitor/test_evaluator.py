"""Evaluator of one engine: debounced advice, the last drafts of a schedule that pauses, and the setting."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.analysis.evaluation import Evaluation
from spec_decode_exporter.analysis.verdict import NOT_PAYING, Action, Advice, Verdict
from spec_decode_exporter.config.batch_schedule import BatchSchedule
from spec_decode_exporter.config.cost_settings import CostSettings, LoadCost
from spec_decode_exporter.monitor.evaluator import SETTING_SECONDS, Evaluator
from tests.fixtures.evaluations import GOOD, POOR, busy_window, knowledge
from tests.fixtures.windows import increments

PERFECT, SHORT = (1.0, 1.0, 1.0, 1.0), (0.9, 0.05, 0.02, 0.01)
LOADS = ((1, 0.1), (8, 0.11), (16, 0.12), (32, 0.14))


class Evaluated:
    """Evaluator with windows of 30 and 300 s, at a given cost of a draft token."""

    def __init__(self, cost, **known):
        self.evaluator = Evaluator(300.0)
        self.known = knowledge(
            method="eagle3", cost=CostSettings(draft_cost_ratio=cost, running_requests=4), **known
        )

    def at(self, now, survival=GOOD, *, seconds=300, **more):
        windows = [
            busy_window(survival, length=length, seconds=min(length, seconds), **more) for length in (30, 300)
        ]
        known = replace(self.known, wall=now, last_drafts=self.evaluator.last_drafts)
        return self.evaluator.evaluate(windows, known, {}, now)


class TestAdvice:
    def test_to_disable_ends_with_its_bad_verdict(self):
        its = Evaluated(0.7)
        assert its.at(1000.0, POOR).action is Action.DISABLE
        later = its.at(1005.0, PERFECT)
        assert (later.verdict, later.action) == (Verdict.MARGINAL, Action.KEEP)

    def test_changes_after_a_whole_window(self):
        its = Evaluated(0.1)
        assert its.at(0.0).shown_advice == Advice(Action.KEEP, 4)
        for now in range(5, 305, 5):
            later = its.at(float(now), SHORT)
            assert (later.own_advice.action, later.action) == (Action.DECREASE, Action.KEEP)
        assert its.at(305.0, SHORT).action is Action.DECREASE

    def test_returns_after_a_gap_that_is_shorter_than_a_window(self):
        its = Evaluated(0.1)
        its.at(0.0)
        for gap, expected in ((299.0, Action.KEEP), (300.0, Action.DECREASE)):
            its = Evaluated(0.1)
            its.at(0.0)
            assert its.at(gap, seconds=60).action is Action.COLLECT
            assert its.at(gap + 1, SHORT).action is expected

    def test_of_the_time_before_a_change_ends_with_it(self):
        its = Evaluated(0.1)
        its.at(0.0)
        its.known = replace(its.known, changes=1)
        assert its.at(5.0, SHORT).action is Action.DECREASE
        assert its.at(10.0).action is Action.DECREASE

    def test_changes_after_all_of_the_time_since_a_change(self):
        its = Evaluated(0.1, since_change=busy_window(length=60.0))
        its.at(0.0)
        its.known = replace(its.known, since_change=busy_window(SHORT, length=60.0))
        for now in range(5, 65, 5):
            assert its.at(float(now), SHORT).action is Action.KEEP
        assert its.at(65.0, SHORT).action is Action.DECREASE

    @given(
        st.lists(
            st.tuples(
                st.sampled_from([GOOD, POOR, PERFECT, SHORT]),
                st.sampled_from([5, 30, 200, 400]),
                st.sampled_from([60, 280, 300]),
            ),
            max_size=6,
        )
    )
    def test_never_contradicts_the_verdict_beside_it(self, steps):
        its, now = Evaluated(0.4), 0.0
        for survival, later, seconds in steps:
            now += later
            found = its.at(now, survival, seconds=seconds)
            assert (found.action is Action.COLLECT) == (not found.is_advisable)
            if found.action in (Action.DISABLE, Action.LIMIT_BATCH):
                assert found.verdict in NOT_PAYING


class TestLastDrafts:
    """Drafts whose acceptance counts while a schedule drafts nothing."""

    SCHEDULE = BatchSchedule((1, 8), (4, 0))

    def test_are_those_of_the_last_verdict(self):
        its = Evaluated(0.1, schedule=self.SCHEDULE)
        drafting = its.at(500.0)
        paused = its.at(900.0, drafts=0, running=20.0)
        last = its.evaluator.last_drafts
        assert (last.wall, last.window) == (500.0, drafting.longest.window)
        assert (paused.setting.pause.first, paused.setting.pause.drafted) == (8, 500.0)

    def test_need_a_whole_window_with_a_verdict(self):
        its = Evaluated(0.1, schedule=self.SCHEDULE)
        its.at(1000.0, seconds=60)
        assert its.evaluator.last_drafts is None

    def test_are_of_a_poll_that_drafted(self):
        its = Evaluated(0.1, schedule=self.SCHEDULE)
        whole = busy_window()
        silent = replace(whole, increments=increments({"drafts": 100}, {}))
        its.evaluator.evaluate([silent], its.known, {}, 500.0)
        assert its.evaluator.last_drafts is None
        its.evaluator.evaluate(
            [replace(whole, increments=increments({}, {"drafts": 100}))], its.known, {}, 501.0
        )
        assert its.evaluator.last_drafts is not None

    def test_are_kept_for_a_schedule_that_pauses_alone(self):
        its = Evaluated(0.1, schedule=self.SCHEDULE)
        its.at(500.0)
        assert its.evaluator.last_drafts is not None
        its.known = replace(its.known, speculation=Evaluated(0.1).known.speculation)
        its.at(505.0)
        assert its.evaluator.last_drafts is None


class TestSetting:
    @pytest.fixture(name="its")
    def its_fixture(self):
        its = Evaluated(0.1)
        loads = [LoadCost(running_requests=load, draft_cost_ratio=cost) for load, cost in LOADS]
        its.known = knowledge(method="eagle3", cost=CostSettings(loads=loads))
        return its

    def test_of_another_cost_is_another_one_at_once(self, its):
        by_load, its.known = its.known, Evaluated(0.1).known
        assert not its.at(1000.0).setting.bands
        its.known = by_load
        assert its.at(1001.0).setting.bands

    def test_stays_for_half_a_minute_and_is_compared_once(self, its, monkeypatch):
        calls, own = [], Evaluation.own_setting
        monkeypatch.setattr(
            Evaluation, "own_setting", property(lambda self: calls.append(1) or own.fget(self))
        )
        first = its.at(1000.0).setting
        assert its.at(1000.0 + SETTING_SECONDS - 1, (0.79, 0.65, 0.5, 0.35)).setting is first
        assert len(calls) == 1
        its.at(1000.0 + SETTING_SECONDS)
        assert len(calls) == 1, "no reader asked for the setting of that evaluation"
        assert its.at(1001.0 + SETTING_SECONDS, (0.79, 0.65, 0.5, 0.35)).setting != first
