"""Trials of whole requests: the truth follows from both runs, and slower requests must not be healthy."""

from dataclasses import replace

import pytest

from benchmarks import end_to_end
from benchmarks.end_to_end import SCENARIOS, Outcome, Trial, missed, trials


@pytest.fixture(name="trial", scope="module")
def fixture_trial():
    return next(trials(1, smoke=True))


@pytest.fixture(name="outcome")
def fixture_outcome(trial):
    return Outcome(trial, True, 0.8, "poor", 0.82, 0.7, 0.9, frozenset())


def test_the_scenarios_are_what_their_names_say(trial, monkeypatch):
    monkeypatch.setattr(end_to_end, "TRUE_SECONDS", 120)
    closed, kept, lost, long, queue = (Trial(each, trial.cell) for each in SCENARIOS[:5])
    assert lost.truth < kept.truth
    assert lost.drafting[-1].prefix_cache_hits == 0 < lost.plain[-1].prefix_cache_hits
    # Long prompts leave less of the gain of decoding.
    assert 1 < long.truth < closed.truth
    assert all(counts.waiting_requests == 0 for counts in closed.plain)
    assert any(counts.waiting_requests for counts in queue.plain)


@pytest.mark.parametrize(
    ("change", "goals"),
    [
        ({}, []),
        ({"verdict": "healthy"}, ["slower requests are reported healthy"]),
        ({"value": 0.95, "upper": 0.99}, ["mean error"]),
        ({"lower": 0.81}, ["truth inside"]),
        ({"value": None}, ["the speed-up of requests is not available"]),
    ],
)
def test_a_missed_goal_is_named(outcome, change, goals):
    without_baseline = replace(outcome, with_baseline=False, verdict="healthy")
    assert missed([replace(outcome, **change), without_baseline]) == goals
