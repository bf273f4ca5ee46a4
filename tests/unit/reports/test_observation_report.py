"""The report of an observation: golden texts, its sentences, what is missing, and untrusted names."""

from __future__ import annotations

import json
import os
import re
import unicodedata
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from spec_decode_exporter.analysis.verdict import Verdict
from spec_decode_exporter.core.number_formats import ABSENT
from spec_decode_exporter.findings.finding import Finding, Severity
from spec_decode_exporter.reports import observation_report as module
from spec_decode_exporter.reports.exit_status import ExitStatus, observation_status
from spec_decode_exporter.reports.observation_report import answer, json_report, quantile, report
from spec_decode_exporter.reports.text import TextStyle, cells
from spec_decode_exporter.views.engine_view import BucketView
from tests.conftest import FakeClock
from tests.fakes.simulated import Network
from tests.paths import CHECKOUT, DATA
from tests.unit.reports.conftest import observe_scenarios

GOLDEN = DATA / "reports"
PLAIN = TextStyle()
SEEN = {
    "steady": {"scenarios": ["steady"]},
    "harmful": {"scenarios": ["harmful"], "seconds": 60},
    "too_short": {"scenarios": ["harmful"]},
    "cost_unknown": {"scenarios": ["ngram"], "cost": False},
    "idle": {"scenarios": ["idle"], "running": 90},
    "off": {"scenarios": ["off"], "running": 220},
    "fleet": {"scenarios": ["steady", None, "restart"], "seconds": 150, "running": 100},
    "down": {"scenarios": [None]},
}


def is_golden(name: str, found: str) -> None:
    """Compare with a golden file; ``UPDATE_GOLDEN=1 pytest tests/unit/reports`` writes it."""
    file = GOLDEN / name
    if os.environ.get("UPDATE_GOLDEN"):
        file.write_text(found, encoding="utf-8")
    assert found == file.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", SEEN)
async def test_the_report_is_the_golden_one(observed, name):
    view = await observed(
        *SEEN[name]["scenarios"], **{k: v for k, v in SEEN[name].items() if k != "scenarios"}
    )
    is_golden(f"{name}.txt", report(view, PLAIN))


@pytest.mark.parametrize("width", [80, 120])
async def test_on_a_terminal_every_line_fits_and_only_colors_are_added(observed, width):
    view = await observed("harmful", seconds=60)
    text = report(view, TextStyle(color=True, width=width))
    assert max(map(cells, text.splitlines())) <= width
    is_golden(f"harmful.{width}.txt", text)


async def test_json_is_the_document(observed):
    view = await observed("steady", None)
    assert json.loads(json_report(view)) == view.model_dump(mode="json")
    assert json_report(view, indented=False).count("\n") == 1


def test_the_sample_in_the_documentation_is_of_the_golden_report():
    page = (CHECKOUT / "docs" / "guide" / "observe.md").read_text(encoding="utf-8")
    sample = page.partition("```text\n")[2].partition("```")[0].splitlines()
    golden = (GOLDEN / "harmful.txt").read_text(encoding="utf-8")
    assert len(sample) > 5
    assert [line for line in sample if " ".join(line.split()) not in " ".join(golden.split())] == []


# Sentences


async def test_the_answer_after_a_restart_names_no_moment_after_the_end(observed):
    view = await observed("restart", running=100)
    assert answer(view).remedy == "Observe it again, for longer."


@pytest.mark.parametrize(
    ("value", "lower", "upper", "written"),
    [
        (0.0281, 0.025, 0.03, "28.1 ms"),
        (0.0281, 0.025, 0.05, "25 to 50 ms"),
        (0.15, 0.0, 0.3, "< 300 ms"),
        (0.9, 0.3, 1.0, "0.3 to 1 s"),
        (2560.0, 2560.0, None, "> 2,560 s"),
        (0.5, 0.5, None, "> 500 ms"),
    ],
)
def test_a_quantile_has_no_more_digits_than_its_bucket_allows(value, lower, upper, written):
    assert quantile(value, BucketView(lower=lower, upper=upper)) == written


def test_an_absent_quantile_is_a_dash():
    assert quantile(None, None) == ABSENT


def section(text, title):
    """Return a section of a report."""
    return text.partition(f"### {title}\n")[2].partition("\n#")[0]


def changed(view, **fields):
    """Return an observation whose engine has other values."""
    return view.model_copy(update={"engines": (view.engines[0].model_copy(update=fields),)})


async def test_without_times_to_first_token_the_gain_is_that_of_decoding_only(observed):
    view = await observed("steady")
    last = view.engines[0].windows[-1].model_copy(update={"end_to_end_speedup_ratio": None})
    text = section(report(changed(view, windows=(last,)), PLAIN), "Acceptance")
    assert "speed-up, decode only" in text
    assert "speed-up, request" not in text


async def test_a_pause_without_acceptance_has_what_to_measure(observed):
    view = await observed("steady")
    setting = view.engines[0].setting.model_copy(
        update={"bands": (), "paused_from": 8, "measure": "Let it draft."}
    )
    assert (
        section(report(changed(view, setting=setting), PLAIN), "Speed-up by load").strip() == "Let it draft."
    )
    drafting = setting.model_copy(update={"paused_from": None})
    assert "Speed-up by load" not in report(changed(view, setting=drafting), PLAIN)


async def test_speculation_that_is_enabled_is_compared_with_the_time_before(observed):
    text = report(await observed("enable", running=180, seconds=240, cost=False), PLAIN)
    assert "- baseline: 119 s without speculation on 21 September\n" in text
    assert "It is as measured against 119 s without speculation on 21 September." in text


# Missing data


async def test_the_advised_length_suffices_for_enough_requests(observed):
    found = re.search(r"--for (\d+)m\.", section(report(await observed("harmful"), PLAIN), "Missing data"))
    assert found
    view = await observed("harmful", seconds=60 * int(found[1]))
    assert "Missing data" not in report(view, PLAIN)


async def test_too_few_drafts_name_the_missing_number(observed):
    few = Finding(
        name="few_drafts", severity=Severity.INFO, values={"drafts": 40.0, "threshold": 100.0}, text=""
    )
    view = changed(await observed("steady"), findings=(few,), verdict=Verdict.INSUFFICIENT)
    assert section(report(view, PLAIN), "Missing data").strip() == (
        "- **few_drafts**: 40 drafts; a verdict takes 100, which is 60 more. At this rate that takes --for 1m30s."
    )


async def test_a_partial_observation_advises_to_repeat_it(observed):
    text = report(await observed("restart", seconds=60, running=100), PLAIN)
    assert "of 60 s. A verdict takes half of an observation, and advice 85 % of it" in text


# Internal errors


async def test_an_engine_that_cannot_be_shown_is_counted_by_its_target(observed, monkeypatch):
    view = await observed("steady", "steady")
    original, bad = module.doubts, view.engines[1].id

    def doubts(engine):
        return original(engine) if engine.id != bad else 1 / 0

    monkeypatch.setitem(module._CONTEXT, "doubts", doubts)
    text = report(view, PLAIN)
    assert "- `vllm-1:8000`: an engine is not in this report: an internal error of this program" in text
    assert "`vllm-0:8000`" in text


async def test_a_report_without_an_answer_has_its_figures(observed, monkeypatch):
    monkeypatch.setattr(module, "headline", lambda *_: 1 / 0)
    text = report(await observed("steady"), PLAIN)
    assert text.startswith("**An internal error of this program")
    assert "| acceptance rate " in text


async def test_an_engine_without_a_document_fails_the_observation(observed):
    view = await observed("steady")
    assert observation_status(view.model_copy(update={"engines": ()})) is ExitStatus.FAILED


# Untrusted names

COLOURS = re.compile(r"\x1b\[[0-9;]*m")
NAMES = st.text(min_size=1, max_size=120) | st.sampled_from(
    ["\x1b]0;owned\x07", "\x9b2J", "a|b`c``d", "<img src=x>", "\u202eevil", "名" * 60, "a\nb\rc", "e\u0301" * 50, "`", "\ud800", "# a", "- b"]
)  # fmt: skip
sometimes = settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])


@pytest.fixture(scope="module")
def seen():
    """Return an observation of two servers; one was unreachable."""
    with pytest.MonkeyPatch.context() as patch:
        network = Network()
        patch.setattr("spec_decode_exporter.monitor.target_monitor.Client", lambda *_, **__: network)
        return observe_scenarios(network, FakeClock(), "harmful", None, seconds=60)


def named(view, names):
    """Return the observation with other names."""
    target, model, engine, method, error = names
    texts = {"target": target, "model_name": model, "engine": engine, "method": method, "draft_model": error}
    labels = {"target": target, "model_name": model, "engine": engine}
    engines = tuple(
        each.model_copy(update={**texts, "labels": labels, "id": f"{each.id}{place}"})
        for each in view.engines
        for place in range(2)
    )
    targets = tuple(each.model_copy(update={"target": target, "error": error}) for each in view.targets)
    events = tuple(
        replace(each, target=f"of {model}", model_name=target, engine=engine, fields={"error": error})
        for each in view.events
    )
    return view.model_copy(update={"engines": engines, "targets": targets, "events": events})


def has_controls(text: str) -> bool:
    return any(unicodedata.category(char) in {"Cc", "Cf", "Cs", "Zl", "Zp"} for char in text if char != "\n")


@sometimes
@given(
    names=st.tuples(NAMES, NAMES, NAMES, NAMES, NAMES),
    width=st.none() | st.integers(40, 140),
    color=st.booleans(),
)
def test_no_name_controls_a_terminal_or_is_markup(seen, names, width, color):
    text = COLOURS.sub("", report(named(seen, names), TextStyle(color, width)))
    plain = COLOURS.sub("", report(named(seen, ("a",) * 5), TextStyle(color, width)))
    assert not has_controls(text)
    html, expected = (MarkdownIt("commonmark").enable("table").render(each) for each in (text, plain))
    tags = [
        re.findall(r"</?(?!code)\w+", re.sub(r"<code>.*?</code>", "", each, flags=re.DOTALL))
        for each in (html, expected)
    ]
    assert width is not None or tags[0] == tags[1]
    assert "<img" not in html


@sometimes
@given(names=st.tuples(NAMES, NAMES, NAMES, NAMES, NAMES))
def test_json_is_printable_ascii(seen, names):
    text = json_report(named(seen, names))
    assert text.isascii()
    assert not has_controls(text)
