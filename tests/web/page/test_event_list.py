from __future__ import annotations

import itertools
from html import escape

import pytest

from spec_decode_exporter.monitor.event_log import RecordedEvent
from spec_decode_exporter.monitor.events import EVENT_TYPES, EVENTS, event_text
from spec_decode_exporter.web.page import event_list
from spec_decode_exporter.web.page.page_data import PageData

_numbers = itertools.count(1)


def event(type_="acceptance_dropped", time=100.0, engine_id="e", bad=True, **fields):
    return RecordedEvent(
        id=f"1-{next(_numbers)}", time=time, type=type_, bad=bad, target="chat", model_name="llama", engine="0",
        engine_id=engine_id, fields=fields,
    )  # fmt: skip


def news(type_, time=100.0, engine_id="e", **fields):
    return event(type_, time, engine_id, bad=False, **fields)


def test_an_engine_has_its_own_events_and_those_of_its_target():
    all_ = [event(), event(engine_id="other"), event("target_failing", 200.0, None, error="<refused>")]
    page = PageData(260.0, iter(()), (), all_)
    own = page.events_of("e", "chat")
    assert own == [all_[0], all_[2]]
    assert [(mark.age, mark.kind) for mark in event_list.marks(own, 260.0)] == [
        (160.0, "drop"),
        (60.0, "drop"),
    ]
    listed = event_list.engine_events(own, "e", 260.0)
    assert listed.count("<li") == 2
    assert "Polls fail: &lt;refused&gt;" in listed
    assert 'href="./api/v1/events?engine_id=e"' in listed


def test_the_list_is_limited_and_links_all_events():
    listed = event_list.recent_events([event() for _ in range(50)], 200.0)
    assert listed.count("<li") == 12
    assert 'href="./api/v1/events"' in listed


def test_equal_events_of_many_engines_share_one_row():
    listed = event_list.recent_events([news("engine_found", engine_id=f"e{n}") for n in range(50)], 200.0)
    assert listed.count("<li") == 1
    assert "Seen for the first time" in listed
    assert "50 engines" in listed


@pytest.mark.parametrize("type_", EVENT_TYPES)
def test_every_event_has_a_row_with_its_sentence(type_):
    fields = dict.fromkeys(EVENTS[type_].fields.split(), "<7>")
    sentence = escape(event_text(type_, fields))
    listed = event_list.recent_events([event(type_, **fields)], 200.0)
    assert f'<span class="text">{sentence}</span>' in listed
    assert f'<li class="{EVENTS[type_].tone} bad"' in listed
