"""Trials of whole requests: the truth follows from both runs, and slower requests must not be healthy."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks import end_to_end
from benchmarks.end_to_end import SCENARIOS, Outcome, missed, trials
from benchmarks.truth.fleet import Fleet, Machine, Work, counts_of

MACHINE = Machine(weights=0.01, ridge=200.0, contexts=200e3, other=0.1, sharpness=4.0, places=8)
LOST = next(each for each in SCENARIOS if each.name == "lost prefix cache")


def served(machine=MACHINE, **work):
    """Sums of two minutes of one server."""
    fleet = Fleet(np.random.default_rng(1))
    fleet.add(machine, Work(**work))
    return fleet.traces(120)[0].window(0, 120)


def test_the_time_of_a_request_is_that_to_its_first_token_and_of_decoding():
    total = served(running=6).total
    whole = total.first_token_nanoseconds + total.decode_nanoseconds
    assert total.end_to_end_nanoseconds == pytest.approx(whole, rel=0.05)
    assert total.generation_tokens == pytest.approx(250 * total.first_tokens, rel=0.1)


def test_drafts_give_tokens_and_prompts_in_the_cache_save_time():
    plain, drafting = served(running=6), served(replace(MACHINE, tokens=3), running=6)
    assert plain.positions == ()
    assert drafting.total.accepted_tokens == pytest.approx(sum(drafting.positions), abs=3)
    assert drafting.total.generation_tokens > 1.3 * plain.total.generation_tokens
    lost = served(running=6, prompt=4000, hits=0.0)
    assert lost.total.first_token_nanoseconds > 2 * plain.total.first_token_nanoseconds


def test_arrivals_beyond_the_places_wait():
    assert served(running=6).mean.waiting_requests == 0
    assert served(rate=2 * MACHINE.rate(Work(), 8)).mean.waiting_requests > 8


@pytest.fixture(name="trial", scope="module")
def fixture_trial():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(end_to_end, "TRUE_SECONDS", 330)
        yield next(trials(np.random.default_rng(1), [LOST], 1))


def test_a_lost_prefix_cache_is_reported_from_the_pages_of_the_server(trial):
    pages = list(counts_of(trial.drafting, 60))
    assert pages[-1].prefix_cache_hits == 0 < next(counts_of(trial.plain, 1)).prefix_cache_hits
    found = end_to_end.outcome(trial, with_baseline=False)
    assert "prefix_cache_lost" in found.findings
    assert found.lower is None, "a finding, and no bounds without a baseline"
    assert end_to_end.outcome(trial, with_baseline=True).is_inside


@pytest.mark.parametrize(
    ("change", "goals"),
    [
        ({}, []),
        ({"verdict": "healthy"}, ["slower requests are reported healthy"]),
        ({"lower": 0.81}, ["truth inside"]),
        ({"lower": None, "upper": None}, ["the speed-up of requests is not available"]),
    ],
)
def test_a_missed_goal_is_named(trial, change, goals):
    outcome = Outcome(trial, True, 0.8, "poor", 0.82, 0.7, 0.9, frozenset())
    assert missed([replace(outcome, **change)]) == goals
