"""The report of an observation: golden texts, its sentences, what is missing, and untrusted names."""

from __future__ import annotations

import json
import re
import unicodedata
from dataclasses import replace
from math import inf

import pytest
from markdown_it import MarkdownIt

from spec_decode_exporter.analysis.verdict import Verdict
from spec_decode_exporter.core.number_formats import ABSENT
from spec_decode_exporter.figures.quantile import Edges
from spec_decode_exporter.findings.finding import Finding, Severity
from spec_decode_exporter.reports.observation_report import json_report, report
from spec_decode_exporter.reports.text import TextStyle, cells
from spec_decode_exporter.views.latency_view import quantile_text
from tests.fakes.golden import is_golden
from tests.fakes.references import observation
from tests.paths import CHECKOUT, DATA

GOLDEN = DATA / "reports"
PLAIN = TextStyle()
SEEN = {
    "steady": (["steady"], {}),
    "harmful": (["harmful"], {"seconds": 60}),
    "too_short": (["harmful"], {}),
    "cost_unknown": (["ngram"], {"cost": False}),
    "idle": (["idle"], {"running": 90}),
    "off": (["off"], {"running": 220}),
    "fleet": (["steady", None, "restart"], {"seconds": 150, "running": 100}),
    "down": ([None], {}),
}


@pytest.mark.parametrize("name", SEEN)
def test_the_report_is_the_golden_one(name):
    scenarios, options = SEEN[name]
    is_golden(GOLDEN / f"{name}.txt", report(observation(*scenarios, **options), PLAIN))


@pytest.mark.parametrize("name", SEEN)
def test_every_row_of_a_figure_has_a_value(name):
    lines = (GOLDEN / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line.startswith("| ")]
    values = [row[1] for row in rows if row[0] and not row[0].startswith("-")]
    assert not {"", "-", "unknown"} & set(values)


@pytest.mark.parametrize("width", [80, 120])
def test_on_a_terminal_every_line_fits_and_only_colors_are_added(width):
    view = observation("harmful", seconds=60)
    text = report(view, TextStyle(color=True, width=width))
    assert max(map(cells, text.splitlines())) <= width
    is_golden(GOLDEN / f"harmful.{width}.txt", text)


def test_json_is_the_document():
    view = observation("steady", None)
    assert json.loads(json_report(view)) == view.model_dump(mode="json")


def test_the_sample_in_the_documentation_is_of_the_golden_report():
    page = (CHECKOUT / "docs" / "guide" / "observe.md").read_text(encoding="utf-8")
    sample = page.partition("```text\n")[2].partition("```")[0].splitlines()
    golden = (GOLDEN / "harmful.txt").read_text(encoding="utf-8")
    assert len(sample) > 5
    assert [line for line in sample if " ".join(line.split()) not in " ".join(golden.split())] == []


# Sentences


@pytest.mark.parametrize(
    ("value", "bucket", "written"),
    [
        (0.0281, (0.025, 0.03), "28.1 ms"),
        (0.0281, (0.025, 0.05), "25 to 50 ms"),
        (0.15, (0.0, 0.3), "< 300 ms"),
        (0.9, (0.3, 1.0), "0.3 to 1 s"),
        (2560.0, (2560.0, inf), "> 2,560 s"),
        (0.5, (0.5, inf), "> 500 ms"),
        (None, None, ABSENT),
    ],
)
def test_a_quantile_has_no_more_digits_than_its_bucket_allows(value, bucket, written):
    assert quantile_text(value, bucket and Edges(*bucket)) == written


def changed(view, **fields):
    """Return an observation whose engine has other values."""
    return view.model_copy(update={"engines": (view.engines[0].model_copy(update=fields),)})


def test_speculation_that_is_enabled_is_compared_with_the_time_before():
    text = report(observation("enable", running=180, seconds=240, cost=False), PLAIN)
    assert "- baseline: 119 s without speculation on 21 September\n" in text
    assert "- baseline: 119 s without speculation on 21 September" in text
    assert "Source of the cost: by its step times without speculation." in text
    assert re.search(
        r"time per output token *\| +13\.\d ms \| mean, by token; 2\d\.\d ms without speculation", text
    )
    ratio = r"ratio to the baseline *\| +0\.2 to 1 \| p50, below 1 is shorter; p95 0\.2 to 1, p99 needs 381 requests"
    assert re.search(ratio, text)


# Missing data


def test_the_ways_to_know_of_several_engines_stand_once():
    view = observation("unknown-cost", "unknown-cost", seconds=60, cost=False)
    assert sum(bool(engine.ways_to_know) for engine in view.engines) == 2
    text = report(view, PLAIN)
    assert text.count("### How to find out") == 1
    assert text.count("Point the exporter at a Prometheus") == 1
    assert text.count("To know it") <= 1


def test_too_few_drafts_name_the_missing_number():
    text = "Not enough drafts: 40 so far, 100 needed for a verdict. Wait for more requests."
    few = Finding(
        name="few_drafts", severity=Severity.INFO, values={"drafts": 40.0, "threshold": 100.0}, text=text
    )
    view = changed(observation("steady"), findings=(few,), verdict=Verdict.INSUFFICIENT)
    missing = report(view, PLAIN).partition("### Missing data\n")[2].partition("\n#")[0]
    assert missing.strip() == (
        "- **few_drafts**: Not enough drafts: 40 so far, 100 needed for a verdict. Observe longer, or while there is more traffic."
    )


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("decodes_nothing", "It decodes nothing. Watch the decode servers."),
        ("counts_no_drafts", "This SGLang counts no drafts. Update it. Its length fell."),
        ("broken_one_server", "Several servers answer. Name each server."),
    ],
)
def test_an_engine_that_never_has_a_verdict_is_not_to_be_observed_for_longer(name, text):
    finding = Finding(name=name, severity=Severity.INFO, values={}, text=text)
    its = {"verdict": Verdict.INSUFFICIENT, "verdict_text": text, "findings": (finding,)}
    written = report(changed(observation("harmful"), **its), PLAIN)
    matter, _, remedy = text.partition(". ")
    assert written.startswith(f"**{matter}.** {remedy}\n")
    assert "Missing data" not in written
    assert "bserve" not in written
    assert written.count(remedy) == 1


def test_an_engine_that_drafted_nothing_is_to_be_observed_while_it_drafts():
    view = observation("harmful", seconds=20)
    window = view.engines[0].longest
    silent = window.model_copy(update={"counts": window.counts.model_copy(update={"drafts": 0})})
    its = {"verdict": Verdict.INSUFFICIENT, "findings": (), "windows": (silent,)}
    assert "Observe it while it drafts." in report(changed(view, **its), PLAIN)


def test_the_trailing_positions_without_an_accepted_token_share_a_row():
    view = observation("harmful")
    rates = (0.5, 0.2, *[None] * 6)
    window = view.engines[0].longest.model_copy(
        update={"position_acceptance_ratio": rates, "position_conditional_acceptance_ratio": rates}
    )
    _, _, positions = report(changed(view, windows=(window,)), PLAIN).partition("### Positions\n")
    rows = [row for row in positions.partition("\n#")[0].splitlines() if row.startswith("| ")]
    assert [row.split("|")[1].strip() for row in rows][2:] == ["0", "1", "2 to 7"]


# Untrusted names

COLOURS = re.compile(r"\x1b\[[0-9;]*m")


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


def tags(text):
    """Return the tags of a report that are not in code."""
    html = MarkdownIt("commonmark").enable("table").render(text)
    assert "<img" not in html
    return re.findall(r"</?(?!code)\w+", re.sub(r"<code>.*?</code>", "", html, flags=re.DOTALL))


@pytest.mark.parametrize(
    "text",
    ["\x1b]0;owned\x07", "\x9b2J", "a|b`c``d", "<img src=x>", "\u202eevil", "名" * 60, "a\nb\rc", "e\u0301" * 50, "`", "\ud800", "# a", "- b"],
    ids=ascii,
)  # fmt: skip
def test_no_name_controls_a_terminal_or_is_markup(text):
    view = observation("harmful", None, seconds=60)
    hostile = named(view, (text,) * 5)
    for style in (PLAIN, TextStyle(color=True, width=40)):
        written = COLOURS.sub("", report(hostile, style))
        assert not [
            each
            for each in written
            if unicodedata.category(each) in {"Cc", "Cf", "Cs", "Zl", "Zp"} and each != "\n"
        ]
    assert tags(report(hostile, PLAIN)) == tags(report(named(view, ("a",) * 5), PLAIN))
