"""Words, colours and limits are those of the exporter."""

import pytest

from grafana import style
from spec_decode_exporter.analysis.verdict import Action, State, Verdict
from spec_decode_exporter.config.policy import SpeedupPolicy
from spec_decode_exporter.requests.summary import Effect


@pytest.mark.parametrize(
    ("words", "values"),
    [(style.VERDICTS, Verdict), (style.STATES, State), (style.ACTIONS, Action), (style.EFFECTS, Effect)],
)
def test_every_value_of_a_state_set_has_its_word(words, values):
    assert {word.value for word in words} == set(values)
    assert len({word.text for word in words}) == len(words)


def test_limits_and_colours_of_a_speed_up_are_those_of_the_verdict():
    policy = SpeedupPolicy()
    limits = [None, policy.harmful, policy.poor, policy.marginal, policy.healthy]
    colours = {word.value: word.colour for word in style.VERDICTS}
    in_order = ["harmful", "poor", "marginal", "healthy", "optimal"]
    expected = zip(limits, (colours[name] for name in in_order), strict=True)
    assert [tuple(step) for step in style.SPEEDUP] == list(expected)
