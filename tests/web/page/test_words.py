from __future__ import annotations

import re

import pytest

from spec_decode_exporter.analysis.recommendation import Action
from spec_decode_exporter.analysis.speculation_state import State
from spec_decode_exporter.analysis.verdict import Verdict
from spec_decode_exporter.views import verdict_text
from spec_decode_exporter.web.page.words import ACTIONS, STATES, VERDICTS


def test_every_verdict_state_and_action_has_words():
    assert VERDICTS.keys() == set(Verdict)
    assert STATES.keys() == set(State)
    assert ACTIONS.keys() == set(Action)


@pytest.mark.parametrize("verdict", Verdict)
def test_what_a_verdict_means_is_true_under_every_policy_and_without_a_cost(verdict):
    meaning = VERDICTS[verdict].meaning
    assert not re.search(r"\d|twice", meaning)
    if verdict not in {Verdict.HARMFUL, Verdict.INSUFFICIENT}:  # which are never said without a cost
        assert "where the cost of drafting is unknown, by the acceptance length" in meaning


def test_a_state_is_explained_as_the_api_does():
    for state, text in verdict_text.STATES.items():
        assert STATES[state].meaning == text
