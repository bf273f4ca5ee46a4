"""Sentences about events."""

from __future__ import annotations

import pytest

from spec_decode_exporter.monitor.log_events import LOG_EVENTS, About
from spec_decode_exporter.reports.observe.event_text import QUIET, SENTENCES, event_note
from spec_decode_exporter.views.fleet_view import EventView

EVENTS = {event.word: event for event in LOG_EVENTS if event.about in (About.ENGINE, About.TARGET)}
EVENTS.pop("engine_summary")  # documented as no event


def reported(word, **fields):
    return event_note(
        EventView(
            id="a-1", time=3661.0, type=word, bad=False, target="a:1", model_name="m", engine="0",
            engine_id=None, fields=fields,
        )
    )  # fmt: skip


@pytest.mark.parametrize("word", sorted(EVENTS.keys() - QUIET))
def test_every_event_has_a_sentence(word):
    note = reported(word, **dict.fromkeys(EVENTS[word].fields, "7"))
    sentence, _, whose = note.text.rpartition(" (")
    assert sentence.endswith(".")
    assert word not in sentence
    assert (note.name, whose) == ("01:01:01", "a:1 m engine 0)")


def test_every_sentence_belongs_to_a_reported_event():
    assert SENTENCES.keys() == EVENTS.keys() - QUIET


def test_a_state_change_names_both_states():
    found = reported("state_changed", state="active", before="disabled")
    assert found.text.startswith("Now it drafts; just before: it does not speculate.")
