from __future__ import annotations

from string import Formatter

import pytest

from exporter.export.models import EventView
from exporter.log_events import LOG_EVENTS, About
from exporter.web.page import events


def event(type_="acceptance_dropped", time=100.0, engine_id="e", bad=True, **fields):
    return EventView(
        id="1-1", time=time, type=type_, bad=bad, target="chat", model_name="llama", engine="0",
        engine_id=engine_id, fields=fields,
    )  # fmt: skip


KEPT = [
    each
    for each in LOG_EVENTS
    if each.about in {About.ENGINE, About.TARGET} and each.word != "engine_summary"
]


@pytest.mark.parametrize("row", KEPT, ids=lambda row: row.word)
def test_every_event_has_words_made_of_its_own_fields(row):
    wording = events._WORDINGS[row.word]
    asked = {name for _, name, _, _ in Formatter().parse(wording.text) if name}
    assert asked <= {*row.fields, "error"}


def test_no_words_are_for_events_that_are_no_more():
    assert events._WORDINGS.keys() <= {row.word for row in LOG_EVENTS}


def test_fields_are_written_for_people_and_missing_ones_are_dashes():
    told = events.event_text(event(kind="sudden", acceptance_length=1.4567))
    assert told == "Acceptance dropped (sudden): 1.46 tokens a draft; \u2013 is usual"
    assert events.event_text(event("something_else")) == "Something else"


def test_an_engine_has_its_own_events_and_those_of_its_target():
    all_ = [event(), event(engine_id="other"), event("target_failing", 200.0, None, error="<refused>")]
    marks = list(events.marks(all_, "e", "chat", 260.0))
    assert [(mark.age, mark.kind) for mark in marks] == [(160.0, "drop"), (60.0, "drop")]
    listed = events.engine_events(all_, "e", "chat", 260.0)
    assert listed.count("<li") == 2
    assert "Polls fail: &lt;refused&gt;" in listed


def test_that_nothing_happened_is_said():
    assert "Nothing happened" in events.recent_events([], 0.0)
    assert events.recent_events([event()] * 50, 200.0).count("<li") == 12
