"""Acceptance length by load within a window."""

import random

import pytest

from spec_decode_exporter.analysis.window_evaluation import WindowEvaluation
from spec_decode_exporter.views.trace import lengths_by_load
from tests.fakes.evaluations import knowledge
from tests.fakes.windows import summed

DRAFTS, K = 100, 4


def poll(running, accepted):
    """A second of 100 drafts of 4 tokens; two requests begin."""
    return {
        "drafts": DRAFTS,
        "draft_tokens": DRAFTS * K,
        "accepted_tokens": accepted,
        "decode_steps": DRAFTS,
        "generation_tokens": DRAFTS + accepted + 2,
        "first_tokens": 2,
        "positions": (accepted, 0, 0, 0),
        "gauges": (float(running), 0.0, 0.2),
    }


def evaluated(polls):
    window = summed(polls, length=300.0, seconds=float(len(polls)), gauges=(8.0, 0.0, 0.2))
    return WindowEvaluation(window, knowledge())


def test_each_load_has_its_own_length_with_bounds():
    """Of minutes at 40 requests fewer tokens are accepted than of those at 6."""
    chance = random.Random(1)
    minutes = [(6, 80), (40, 40), (6, 80), (40, 40), (6, 80)]
    polls = [poll(running, mean + chance.randint(-9, 9)) for running, mean in minutes for _ in range(60)]
    low, high = lengths_by_load(evaluated(polls))
    assert (low.first, low.last, high.first, high.last) == (4, 7, 32, 63)
    assert (low.drafts, high.drafts) == pytest.approx((18_000, 12_000), rel=0.1)
    assert low.length.lower < 1.8 < low.length.upper < 1.9
    assert 1.3 < high.length.lower < 1.4 < high.length.upper


def test_one_load_or_one_of_a_few_polls_is_no_comparison():
    steady = [poll(6, 80 + place % 5) for place in range(300)]
    assert lengths_by_load(evaluated(steady)) == []
    assert lengths_by_load(evaluated([*steady[:-10], *[poll(40, 40)] * 10])) == []


def test_without_a_load_there_is_no_row():
    window = summed([poll(6, 80)] * 300, length=300.0, seconds=300.0)
    assert lengths_by_load(WindowEvaluation(window, knowledge())) == []
