"""Report of a history: rows and sums, what is shown of many engines, and untrusted names."""

import json
import re
from dataclasses import replace

import pytest

from spec_decode_exporter.core.event import Event
from spec_decode_exporter.costs.baseline import BaselineSummary
from spec_decode_exporter.figures.estimate import Estimate
from spec_decode_exporter.history.history_reader import EngineHistory, PrometheusHistory, Slot, SlotOutcome
from spec_decode_exporter.history.history_targets import HistoryTarget
from spec_decode_exporter.monitor.engine_monitor import EngineMonitor
from spec_decode_exporter.reports.exit_status import ExitStatus
from spec_decode_exporter.reports.history_report import (
    HISTORY_FORMATS,
    MAX_ROWS,
    changes,
    history_status,
    rows,
    sum_of,
)
from spec_decode_exporter.reports.text import TextStyle
from spec_decode_exporter.scrape.engines import ENGINES, Counter

BEGIN = 1_790_000_000.0 // 86_400 * 86_400
DROP = {"kind": "sudden", "seconds": 30.0, "baseline_length": 3.0, "length": 1.5, "since": "x"}
COUNTED = frozenset({Counter.GENERATION_TOKENS, Counter.FIRST_TOKENS, Counter.DECODE_STEPS})
NASTY = '<script>alert(1)</script>|`"&\x1b[31m'
PAID = Slot(
    begin=BEGIN,
    end=BEGIN + 900,
    seconds=900.0,
    outcome=SlotOutcome.PAID,
    tokens=2,
    era=0,
    process=0,
    drafts=400,
    draft_tokens=800,
    accepted_tokens=600,
    generated=1000,
    decode_seconds=3600.0,
    running_requests=8.0,
    speedup=Estimate(2.0, 1.5, 2.5, 0.1),
)
HURT = replace(PAID, outcome=SlotOutcome.HURT, speedup=Estimate(0.8, 0.7, 0.9, 0.1), decode_seconds=10_800.0)
PLAIN = replace(
    PAID, outcome=SlotOutcome.PLAIN, speedup=None, tokens=0, drafts=0, draft_tokens=0, accepted_tokens=0
)
UNCOUNTED = replace(PLAIN, outcome=SlotOutcome.UNCOUNTED)


def at(slot, place, **values):
    return replace(slot, begin=BEGIN + 900 * place, end=BEGIN + 900 * place + 900, **values)


def engine(*slots, target="a:8000", model="llama", events=(), **values):
    its = HistoryTarget(ENGINES[0], "vllm:", {"instance": target}, COUNTED, name=target)
    baseline = BaselineSummary(seconds=3600.0, end=BEGIN)
    labels = {"target": target, "model_name": model, "engine": "0"}
    whole = EngineHistory(its, labels, 15.0, 900.0, EngineMonitor((900.0,)), scrapes=240, baseline=baseline)
    return replace(whole, slots=slots, events=events, **values)


def history(*engines, **values):
    whole = PrometheusHistory(
        BEGIN, BEGIN + 86_400, source="http://prometheus:9090", engines=engines or (engine(PAID),)
    )
    return replace(whole, **values)


def written(form, its):
    return HISTORY_FORMATS[form](its, TextStyle())


# Sums


def test_a_mean_speed_up_is_weighted_by_decode_time():
    assert sum_of([PAID, HURT]).speedup[:3] == pytest.approx((1.1, 0.9, 1.3))
    assert sum_of([PLAIN]).speedup is None


def test_saved_time_is_that_beyond_the_time_it_took():
    assert sum_of([PAID]).saved_decode_seconds == pytest.approx((3600.0, 1800.0, 5400.0))
    assert sum_of([HURT]).saved_decode_seconds == pytest.approx((-2160.0, -3240.0, -1080.0))


@pytest.mark.parametrize(
    ("slots", "outcome"),
    [
        ([PAID, PLAIN], SlotOutcome.PAID),
        ([PAID, HURT], SlotOutcome.UNCLEAR),
        ([PAID, PAID, replace(HURT, decode_seconds=1.0)], SlotOutcome.PAID),
        ([HURT, replace(PAID, outcome=SlotOutcome.UNCLEAR, speedup=None)], SlotOutcome.HURT),
        ([PLAIN, replace(PLAIN, outcome=SlotOutcome.IDLE)], SlotOutcome.PLAIN),
        ([PLAIN, UNCOUNTED], SlotOutcome.UNCOUNTED),
    ],
)
def test_several_slots_are_judged_by_their_bounds_together(slots, outcome):
    assert sum_of(slots).outcome is outcome


def test_the_load_is_that_while_drafting():
    slots = [replace(PAID, running_requests=2.0, seconds=300.0), PAID, replace(PLAIN, running_requests=99.0)]
    assert sum_of(slots).running_requests == pytest.approx((2 * 300 + 8 * 900) / 1200)
    assert sum_of(slots[2:]).running_requests == 99.0


def test_rows_are_runs_of_one_outcome_and_process():
    slots = [at(PLAIN, 0), at(PAID, 1), at(PAID, 2), at(PAID, 3, process=1), at(HURT, 4, process=1)]
    assert [(row.begin - BEGIN, row.end - BEGIN) for row in rows(slots)] == [
        (0, 900),
        (900, 2700),
        (2700, 3600),
        (3600, 4500),
    ]
    assert rows([]) == []


def test_a_long_history_has_rows_of_days_and_a_longer_one_of_several():
    for days, most in ((20, 20), (10 * MAX_ROWS, MAX_ROWS)):
        slots = [at(PAID if place % 2 else HURT, place * 48) for place in range(2 * days)]
        found = rows(slots)
        assert len(found) == most
        assert sum(row.drafts for row in found) == sum(slot.drafts for slot in slots)


# Text


@pytest.mark.parametrize("form", ["text", "html"])
def test_every_format_has_the_answer(form):
    dropped = (BEGIN + 1000, Event("acceptance_dropped", DROP))
    text = written(form, history(engine(PAID, events=[dropped], baseline_of="b:8000")))
    for words in (
        "Decoding was 2.00 times as fast (1.50 to 2.50) over 400 drafts: 1.00 h (0.50 to 1.50)",
        "60 min without speculation",
        "15 s apart",
        "Acceptance dropped (sudden): 3 tokens a draft before, 1.50 at detection",
    ):
        assert words in " ".join(text.split())
    assert "b:8000" in text


def test_lost_time_is_called_so():
    assert "0.60 h (0.30 to 0.90) of decoding lost" in " ".join(
        written("text", history(engine(HURT))).split()
    )


@pytest.mark.parametrize(
    ("slot", "words"),
    [
        (PLAIN, "It decoded without drafts in this period."),
        (UNCOUNTED, "its drafts are not in this Prometheus: add `vllm:spec_decode_.*` to the allow-list"),
        (replace(PLAIN, outcome=SlotOutcome.UNKNOWN), "do not tell whether it drafted"),
        (replace(PLAIN, outcome=SlotOutcome.IDLE), "It decoded nothing"),
        (replace(PAID, outcome=SlotOutcome.UNCLEAR, speedup=None), "too few for bounds"),
        (replace(PAID, outcome=SlotOutcome.UNCLEAR), "It may have paid or not: decoding was "),
    ],
)
def test_without_a_speed_up_the_text_says_why(slot, words):
    for form in ("text", "html"):
        assert words.split("`")[0] in " ".join(written(form, history(engine(slot))).split())


def test_a_text_of_many_engines_has_an_overview_and_the_worst_five():
    engines = [engine(PAID, target=f"{place}:8000") for place in range(11)] + [engine(HURT, target="x:8000")]
    text = written("text", history(*engines))
    assert len(text.splitlines()) <= 200
    titles = [line for line in text.splitlines() if line.startswith("## ")]
    assert len(titles) == 5
    assert "x:8000" in titles[0]
    assert all(f"`{place}:8000`" in text for place in range(11))
    assert len(json.loads(written("json", history(*engines)))["history"]["engines"]) == 12


def test_an_incomplete_history_is_called_so():
    for form in ("text", "html"):
        assert "interrupted while" in written(form, history(incomplete="interrupted while reading a:8000"))


def test_json_has_the_slots_and_sums():
    document = json.loads(
        written("json", history(engine(PAID, events=[(BEGIN + 1000, Event("acceptance_dropped", DROP))])))
    )
    (found,) = document["history"]["engines"]
    assert found["target"] == "a:8000"
    assert found["slots"][0]["speedup"] == {"value": 2.0, "lower": 1.5, "upper": 2.5}
    assert found["summary"]["length"] == 2.5
    assert found["summary"]["saved_decode_seconds"]["value"] == 3600
    assert found["changes"][0]["begin"] == BEGIN + 970
    assert found["baseline"]["of"] == "a:8000"


def test_drops_begin_before_they_are_found():
    events = [(1000.0, Event("acceptance_dropped", DROP)), (1600.0, Event("acceptance_recovered", DROP))]
    assert [(each.begin, each.time) for each in changes(engine(PAID, events=events))] == [
        (970.0, 1000.0),
        (1600.0, 1600.0),
    ]


def test_a_page_is_self_contained_with_a_chart():
    text = written("html", history(engine(PAID), engine(HURT)))
    assert not re.search(r"<script|<link|<img|\b(src|href)=|url\(", text)
    assert text.count("<svg") == 2
    assert "<table>" in text


def test_names_of_servers_are_only_text():
    nasty = history(engine(PAID, target=NASTY, model=NASTY), incomplete=NASTY)
    for form in ("html", "text"):
        assert "\x1b" not in written(form, nasty)
    text = written("html", nasty)
    assert "<script" not in text
    assert "&lt;script&gt;" in text


@pytest.mark.parametrize(
    ("its", "status"),
    [
        (history(), ExitStatus.GOOD),
        (history(engine(PAID), engine(HURT)), ExitStatus.BAD),
        (history(incomplete="x"), ExitStatus.FAILED),
        (history(engine(replace(PAID, outcome=SlotOutcome.UNCLEAR, speedup=None))), ExitStatus.UNKNOWN),
        (history(engine(PLAIN)), ExitStatus.UNKNOWN),
        (history(engine()), ExitStatus.UNKNOWN),
    ],
)
def test_the_status_is_that_of_the_worst_engine(its, status):
    assert history_status(its) is status
