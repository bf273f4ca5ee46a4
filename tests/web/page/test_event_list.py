from __future__ import annotations

import itertools
from string import Formatter

import pytest

from spec_decode_exporter.monitor.log_events import LOG_EVENTS, About
from spec_decode_exporter.views.fleet_view import EventView
from spec_decode_exporter.web.page import event_list
from spec_decode_exporter.web.page.page_data import PageData

_numbers = itertools.count(1)


def event(type_="acceptance_dropped", time=100.0, engine_id="e", bad=True, **fields):
    return EventView(
        id=f"1-{next(_numbers)}", time=time, type=type_, bad=bad, target="chat", model_name="llama", engine="0",
        engine_id=engine_id, fields=fields,
    )  # fmt: skip


def news(type_, time=100.0, engine_id="e", **fields):
    return event(type_, time, engine_id, bad=False, **fields)


KEPT = [
    each
    for each in LOG_EVENTS
    if each.about in {About.ENGINE, About.TARGET, About.REQUESTS} and each.word != "engine_summary"
]


@pytest.mark.parametrize("row", KEPT, ids=lambda row: row.word)
def test_every_event_has_words_made_of_its_own_fields(row):
    wording = event_list._WORDINGS[row.word]
    asked = {name for _, name, _, _ in Formatter().parse(wording.text) if name}
    assert asked <= {*row.fields, "error"}


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


def test_fields_are_rounded_and_missing_ones_are_dashes():
    listed_event = event_list.event_text(event(kind="sudden", acceptance_length=1.4567))
    assert listed_event == "Acceptance dropped (sudden): 1.46 tokens a draft; the baseline is \u2013"
    assert event_list.event_text(event("something_else")) == "Something else"


@pytest.mark.parametrize(
    ("listed_event", "words"),
    [
        (news("verdict_changed", verdict="insufficient"), "Verdict: Too early"),
        (news("state_changed", state="disabled", before="unreachable"), "State: Off; it was Unreachable"),
        (news("recommendation_changed", recommendation="keep", recommended_tokens=4), "Advice: keep it as it is"),
        (news("recommendation_changed", recommendation="decrease", recommended_tokens=1), "Advice: try 1 token"),
        (news("recommendation_changed", recommendation="increase", recommended_tokens=6), "Advice: try 6 tokens"),
        (
            news("recommendation_changed", recommendation="increase", recommended_tokens=None),
            "Advice: draft more tokens at a time",
        ),
        (
            news("recommendation_changed", recommendation="decrease", recommended_tokens=0),
            "Advice: try without speculation",
        ),
        (news("engine_reset", cause="restart"), "The server's counters were reset: it was restarted"),
        (event("check_broken", check="one_server"), "The counters contradict each other: one server"),
    ],
)  # fmt: skip
def test_codes_of_the_log_become_words(listed_event, words):
    assert event_list.event_text(listed_event) == words
