"""Trials of whole requests: the truth follows from both runs, and slower requests must not be healthy."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks import end_to_end
from benchmarks.end_to_end import SCENARIOS, Outcome, Trial, missed, row, trials


@pytest.fixture(name="trial", scope="module")
def fixture_trial():
    return next(trials(1, smoke=True))


@pytest.fixture(name="outcome")
def fixture_outcome(trial):
    return Outcome(trial, True, 0.8, "poor", 0.82, 0.7, 0.9, frozenset())


@pytest.fixture(name="short")
def fixture_short(monkeypatch):
    monkeypatch.setattr(end_to_end, "TRUE_SECONDS", 120)


def test_every_scenario_has_trials_on_every_server():
    found = list(trials(1, smoke=False))
    assert {trial.scenario for trial in found} == set(SCENARIOS)
    assert len({trial.cell.seed for trial in found}) == len(found)


@pytest.mark.usefixtures("short")
def test_a_lost_prefix_cache_makes_requests_slower_than_a_kept_one(trial):
    kept, lost = (Trial(SCENARIOS[place], trial.cell) for place in (1, 2))
    assert lost.truth < kept.truth
    assert lost.drafting[-1].prefix_cache_hits == 0 < lost.plain[-1].prefix_cache_hits


@pytest.mark.usefixtures("short")
def test_long_prompts_leave_less_of_the_gain_of_decoding(trial):
    short, long = (Trial(SCENARIOS[place], trial.cell) for place in (0, 3))
    assert 1 < long.truth < short.truth


@pytest.mark.usefixtures("short")
def test_requests_wait_in_a_queue_scenario_only(trial):
    closed, queue = (Trial(SCENARIOS[place], trial.cell) for place in (0, 4))
    assert all(counts.waiting_requests == 0 for counts in closed.plain)
    assert any(counts.waiting_requests for counts in queue.plain)


def test_no_goal_is_missed_if_figures_and_verdicts_are_right(outcome):
    assert missed([outcome]) == []


@pytest.mark.parametrize(
    ("change", "goal"),
    [
        ({"verdict": "healthy"}, "slower requests are reported healthy"),
        ({"value": 0.95, "upper": 0.99}, "mean error"),
        ({"lower": 0.81}, "truth inside"),
        ({"value": None}, "the speed-up of requests is not available"),
    ],
)
def test_a_missed_goal_is_named(outcome, change, goal):
    assert missed([replace(outcome, **change)]) == [goal]


def test_without_a_baseline_no_goal_applies(outcome):
    unknown = replace(outcome, with_baseline=False, verdict="healthy")
    assert missed([outcome, unknown]) == []


def test_the_row_of_a_scenario_counts_false_verdicts_and_findings(outcome):
    wrong = replace(outcome, verdict="optimal", findings=frozenset({"prefix_cache_lost"}))
    cells = row("lost", [outcome, wrong])
    assert cells[:3] == ["lost", "yes", "2"]
    assert "1 of 2" in cells
