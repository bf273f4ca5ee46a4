"""Words, colours and limits are those of the exporter."""

from __future__ import annotations

import pytest

from grafana import style
from grafana.panels import reference
from spec_decode_exporter.analysis.verdict import Action, State, Verdict
from spec_decode_exporter.config.policy import SpeedupPolicy
from spec_decode_exporter.requests.cells import Effect


@pytest.mark.parametrize(
    ("words", "values"),
    [(style.VERDICTS, Verdict), (style.STATES, State), (style.ACTIONS, Action), (style.EFFECTS, Effect)],
)
def test_every_value_of_a_state_set_has_its_word(words, values):
    assert {word.value for word in words} == set(values)
    assert len({word.text for word in words}) == len(words)


def test_the_limits_of_a_speed_up_are_those_of_the_verdict():
    policy = SpeedupPolicy()
    limits = [policy.harmful, policy.poor, policy.marginal, policy.healthy]
    assert [limit for limit, _ in style.SPEEDUP] == [None, *limits]


def test_a_colour_of_a_speed_up_is_that_of_its_verdict():
    verdicts = {word.value: word.colour for word in style.VERDICTS}
    in_order = ["harmful", "poor", "marginal", "healthy", "optimal"]
    assert [colour for _, colour in style.SPEEDUP] == [verdicts[name] for name in in_order]


@pytest.mark.parametrize(
    "steps", [value for name, value in vars(style).items() if name.isupper() and isinstance(value, tuple)]
)
def test_limits_ascend(steps):
    if isinstance(steps[0], tuple):
        (first, *values) = [value for value, _ in steps]
        assert first is None
        assert values == sorted(values)


def test_a_word_is_shown_for_its_number():
    (mapping,) = style.mappings(style.VERDICTS)
    assert mapping["options"]["6"]["text"] == "harmful"
    assert mapping["options"]["6"]["color"] == style.Colour.HARM


@pytest.mark.parametrize(("number", "name"), [(0, "A"), (25, "Z"), (26, "AA"), (27, "AB"), (52, "BA")])
def test_queries_are_named_by_letters(number, name):
    assert reference(number) == name
