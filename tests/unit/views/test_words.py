"""Words of verdicts, states and actions."""

import pytest

from spec_decode_exporter.analysis.verdict import Action, State, Verdict
from spec_decode_exporter.monitor.events import event_text
from spec_decode_exporter.views.words import ACTIONS, STATES, VERDICTS


@pytest.mark.parametrize(("table", "values"), [(VERDICTS, Verdict), (STATES, State), (ACTIONS, Action)])
def test_every_value_has_a_word_of_its_own_and_a_tone(table, values):
    assert set(table) == set(values)
    assert len({word.label for word in table.values()}) == len(table)
    assert {word.tone for word in table.values()} <= {"good", "bad", "unsure", "waiting", "off"}


@pytest.mark.parametrize("state", State)
def test_events_write_a_state_as_the_page_does(state):
    text = event_text("state_changed", {"state": str(state), "before": ""})
    assert STATES[state].label.lower() in text
