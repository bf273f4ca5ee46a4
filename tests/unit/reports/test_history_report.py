"""Formats of a history: text, JSON and HTML say the same, and untrusted names do no harm."""

import json
import re
from dataclasses import replace

import pytest

from spec_decode_exporter.analysis.load_bands import LoadBand, schedule_of
from spec_decode_exporter.analysis.recommended_setting import SpeculationSetting
from spec_decode_exporter.analysis.speculation import Speculation
from spec_decode_exporter.analysis.verdict import Verdict
from spec_decode_exporter.core.event import Event
from spec_decode_exporter.costs.baseline import BaselineSummary
from spec_decode_exporter.costs.cost import CostSource
from spec_decode_exporter.history.history_result import EngineHistoryResult, HistoryResult, HistorySetting
from spec_decode_exporter.history.history_slots import SlotOutcome
from spec_decode_exporter.reports.exit_status import ExitStatus
from spec_decode_exporter.reports.history_report import HISTORY_FORMATS, history_status
from spec_decode_exporter.reports.text import TextStyle
from tests.unit.history.test_history_result import SLOT, hurt

BEGIN = 1_790_000_000.0
DROP = {"kind": "sudden", "seconds": 30.0, "baseline_length": 3.0, "length": 1.5}
NASTY = '<script>alert(1)</script>|`"&\x1b[31m'


def at(slot, begin, **values):
    return replace(slot, begin=BEGIN + begin, end=BEGIN + begin + 900, **values)


def engine(*slots, target="a:8000", model="llama"):
    return EngineHistoryResult(
        target,
        {"instance": target},
        model,
        "0",
        15.0,
        240,
        slots,
        ((BEGIN + 1000, Event("acceptance_dropped", DROP)),),
        (BaselineSummary(seconds=3600.0, end=BEGIN),),
    )


PAID = engine(at(SLOT, 0), at(SLOT, 900, process=1, tokens=4, speedups={0: 1.0, 2: 1.5, 4: 2.0}))
HURT = engine(at(hurt(), 0), target="b:8000")


def band(first, last, tokens):
    return LoadBand(first, last, tokens, 1.5, 0.0, 4, 1.2, Verdict.MARGINAL, is_improvable=True)


BANDS = (band(1, 31, 4), band(32, 64, 2))
SETTING = SpeculationSetting(4, schedule_of(BANDS), True, BANDS, CostSource.BASELINE, (4.0, 64.0))


def result(*engines, **values):
    whole = HistoryResult("http://prometheus:9090", BEGIN - 3600, BEGIN + 3600, 900.0, engines or (PAID,))
    return replace(whole, **values)


def written(form, history):
    return HISTORY_FORMATS[form](history, TextStyle())


def flat(form, history):
    """Return a report with single spaces."""
    return " ".join(written(form, history).split())


@pytest.mark.parametrize("form", ["text", "html"])
def test_every_format_has_the_answer(form):
    text = flat(form, result())
    for words in (
        "2.00 times as fast (1.50 to 2.50)",
        "It paid for 100.0 % of the 0.50 h with drafts",
        "4 draft tokens instead of 2",
        "3.00 to 1.50 tokens (-50.0 %)",
        "Samples are 15s apart: a drop of less than 30s",
        "1 h without speculation",
    ):
        assert words.replace("1 h", "60 min") in text


def test_json_has_the_slots_and_sums():
    document = json.loads(written("json", result(PAID, HURT)))
    assert [each["target"] for each in document["engines"]] == ["a:8000", "b:8000"]
    assert document["fleet"]["summary"]["shares"]["hurt"]["tokens"] == 1000
    first = document["engines"][0]
    speedup = {"value": 2.0, "lower": 1.5, "upper": 2.5, "standard_error": 0.1, "degrees": 0}
    assert first["slots"][0]["speedup"] == speedup
    assert first["drops"][0]["depth"] == 0.5
    assert first["changes"][0]["name"] == "4 draft tokens instead of 2"


def test_a_page_is_self_contained():
    text = written("html", result(PAID, HURT))
    assert not re.search(r"<script|<link|<img|\b(src|href)=|url\(", text)
    assert all(f"<{tag}" in text for tag in ("svg", "table", "style"))


def test_names_of_servers_are_only_text():
    text = written("html", result(engine(at(SLOT, 0), target=NASTY, model=NASTY), incomplete=NASTY))
    assert "<script" not in text
    assert "&lt;script&gt;" in text
    assert "\x1b" not in text
    assert "\x1b" not in written("text", result(engine(at(SLOT, 0), model=NASTY)))


@pytest.mark.parametrize(
    ("history", "status"),
    [
        (result(PAID), ExitStatus.GOOD),
        (result(PAID, HURT), ExitStatus.BAD),
        (result(PAID, incomplete="x"), ExitStatus.FAILED),
        (result(engine(at(SLOT, 0, speedup=None))), ExitStatus.UNKNOWN),
        (result(engine()), ExitStatus.UNKNOWN),
    ],
)
def test_the_status_is_that_of_the_worst_engine(history, status):
    assert history_status(history) is status


@pytest.mark.parametrize(
    ("speedups", "advice"),
    [
        ({0: 1.0, 2: 1.6, 4: 1.5}, "2 draft tokens would have been best: +7 % to 4."),
        ({0: 1.0, 2: 1.96, 4: 2.0}, "2 draft tokens would have been enough: 2.0 % slower than 4."),
        ({0: 1.0, 2: 1.5, 4: 2.0}, "4 draft tokens, as it ran, would have been best."),
        ({0: 1.0, 2: 0.8, 4: 0.9}, "No speculation would have been faster."),
    ],
)
def test_the_advice_is_the_fewest_tokens_that_lose_little(speedups, advice):
    assert advice in written("text", result(engine(at(SLOT, 0, tokens=4, speedups=speedups))))


def test_the_best_tokens_by_load_are_in_every_format():
    history = result(replace(PAID, setting=HistorySetting(SETTING, Speculation("mtp"), (4.0, 64.0))))
    for form in ("text", "html"):
        assert "Draft 4 tokens up to 31 running requests and 2 from 32." in flat(form, history)
    found = json.loads(written("json", history))["engines"][0]["setting"]
    assert found["schedule"] == [[1, 31, 4], [32, 64, 2]]
    assert json.loads(found["speculative_config"])["method"] == "mtp"
    assert found["measure"] == ""


def test_saved_time_missing_drafts_and_an_incomplete_history_are_said():
    long = engine(at(SLOT, 0, decode_seconds=36_000.0))
    assert "10.0 (5.0 to 15.0) decode-hours" in written("text", result(long))
    for form in ("text", "html"):
        assert "interrupted while" in written(form, result(incomplete="interrupted while reading a:8000"))
    plain = at(SLOT, 0, outcome=SlotOutcome.PLAIN, speedup=None, drafts=0, positions=(), tokens=0)
    for form in HISTORY_FORMATS:
        assert written(form, result(engine(plain)))
    assert "It drafted nothing" in written("text", result(engine(plain)))
