"""Words, colours and limits are those of the exporter."""

import pytest

from grafana import style
from spec_decode_exporter.config.policy import SpeedupPolicy
from spec_decode_exporter.requests.summary import Effect
from spec_decode_exporter.views.words import ACTIONS, STATES, VERDICTS


@pytest.mark.parametrize(
    ("words", "table"), [(style.VERDICTS, VERDICTS), (style.STATES, STATES), (style.ACTIONS, ACTIONS)]
)
def test_a_state_set_has_the_words_of_the_page(words, table):
    assert {word.value: word.text for word in words} == {
        value: word.label.lower() for value, word in table.items()
    }
    assert len({word.text for word in words}) == len(words)


def test_every_effect_has_its_word():
    assert {word.value for word in style.EFFECTS} == set(Effect)


def test_limits_and_colours_of_a_speed_up_are_those_of_the_verdict():
    policy = SpeedupPolicy()
    colours = {word.value: word.colour for word in style.VERDICTS}
    limits = {
        None: "harmful",
        policy.harmful: "poor",
        policy.poor: "marginal",
        policy.marginal: "healthy",
        policy.healthy: "optimal",
    }
    for limit, verdict in limits.items():
        *_, colour = (colour for least, colour in style.SPEEDUP if (least or 0) <= (limit or 0))
        assert colour == colours[verdict]
