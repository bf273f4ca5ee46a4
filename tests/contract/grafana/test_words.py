"""A state set becomes the number of its word, by promtool."""

from __future__ import annotations

import pytest

from grafana import style
from grafana.promql import FLEET, number_of_word
from tests.contract.rules.shipped import needs

from .shipped import interpolated

pytestmark = needs("promtool")

STATE_SETS = {
    "verdict": style.VERDICTS,
    "state": style.STATES,
    "action": style.ACTIONS,
    "effect": style.EFFECTS,
}


def state_set(label, words, word, engine="0"):
    """Return the series of one engine: 1 for the word that holds, 0 for all others."""
    return {
        f'm{{job="j", instance="i", model_name="a", engine="{engine}", {label}="{each.value}"}}': int(
            each == word
        )
        for each in words
    }


def number(label, words, key):
    return interpolated(number_of_word(FLEET, "m", label, words, key)).replace('=~"any"', '=~".*"')


@pytest.mark.parametrize(
    ("label", "place"), [(label, place) for label, words in STATE_SETS.items() for place in range(len(words))]
)
def test_the_number_of_a_word_is_its_place(against, label, place):
    words = STATE_SETS[label]
    series = state_set(label, words, words[place])
    assert not against(number(label, words, ()), series, {"labels": "{}", "value": place})


def test_of_several_engines_the_most_urgent_word_is_shown(against):
    """5 is both of 1 and 4: were the engines added up, two harmless words would be an urgent one."""
    words = style.VERDICTS
    series = state_set("verdict", words, words[1], "0") | state_set("verdict", words, words[4], "1")
    assert not against(number("verdict", words, ()), series, {"labels": "{}", "value": 4})


def test_each_engine_has_its_own_word(against):
    words = style.ACTIONS
    series = state_set("action", words, words[7], "0") | state_set("action", words, words[2], "1")
    expr = f'{number("action", words, ("engine",))} and on (engine) m{{engine="1"}}'
    assert not against(expr, series, {"labels": '{engine="1"}', "value": 2})
