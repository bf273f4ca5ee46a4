"""Samples and queries of docs/reference/log.md match the log.

``UPDATE_GOLDEN=1`` updates the samples.
"""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime

import pytest
import structlog

from spec_decode_exporter.core.log import configure_log
from spec_decode_exporter.monitor.events import COMMON_FIELDS, EVENTS, About
from tests.paths import CHECKOUT

DOCUMENT = CHECKOUT / "docs" / "reference" / "log.md"
SCENARIO = CHECKOUT / "exporter" / "spec_decode_exporter" / "simulator" / "scenarios" / "drop.yml"
CONFIG = """
cost: {draft_cost_ratio: 0.08}
log: {summary_interval: 1m}
"""
SHOWN = ("engine_found", "acceptance_dropped", "acceptance_recovered", "verdict_changed")


def block(language):
    text = DOCUMENT.read_text(encoding="utf-8")
    return [
        body.strip() for body in re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    ]


@pytest.fixture
async def entries(story):
    """Return the log of five minutes with a drop: the events, and the last summary."""
    times = []
    async with story(SCENARIO.read_text(encoding="utf-8"), config=CONFIG) as told:
        for _ in range(330):
            await told.clock.advance(1.0)
            times += [told.clock.wall()] * (len(told.logs) - len(times))
        entries = list(zip(told.logs, times, strict=True))
    (last,) = [entry for entry in entries if entry[0]["event"] == "engine_summary"][-1:]
    return [entry for entry in entries if entry[0]["event"] in SHOWN or entry is last], last


def written(entry, wall, form, capsys):
    """One entry as the log writes it, with the time of the clock that was moved by hand."""
    configure_log("info", form)
    try:
        fields = {key: value for key, value in entry.items() if key not in ("event", "log_level")}
        getattr(structlog.get_logger(), entry["log_level"])(entry["event"], **fields)
    finally:
        structlog.reset_defaults()
    stamp = f"{datetime.fromtimestamp(wall, UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
    return re.sub(r"\d{4}-\d\d-\d\dT[0-9:.]+Z", stamp, capsys.readouterr().err, count=1).strip()


async def test_the_samples_are_what_the_log_writes(entries, capsys):
    shown, _ = entries
    samples = {
        "logfmt": "\n".join(written(*entry, "logfmt", capsys) for entry in shown),
    }
    if os.environ.get("UPDATE_GOLDEN"):
        text = DOCUMENT.read_text(encoding="utf-8")
        for form, sample in samples.items():
            text = re.sub(
                rf"(^```{form}\n).*?(^```)",
                lambda match, sample=sample: f"{match[1]}{sample}\n{match[2]}",
                text,
                flags=re.DOTALL | re.MULTILINE,
            )
        DOCUMENT.write_text(text, encoding="utf-8")
    assert {form: block(form)[0] for form in samples} == samples
    assert [entry["event"] for entry, _ in shown].count("acceptance_dropped") == 1


async def test_the_fields_of_a_summary_are_those_documented(entries):
    _, (summary, _) = entries
    text = DOCUMENT.read_text(encoding="utf-8")
    rows = text.partition("| field | meaning |")[2].partition("\n\n")[0]
    explained = []
    for name in re.findall(r"`([a-z_…]+)`", " ".join(row.split("|")[1] for row in rows.splitlines()[2:])):
        stem = explained[-1] if name.startswith("…") else ""
        explained.append(name.replace("…", stem.removesuffix("_lower")))
    told = set(summary) - {"event", "log_level", *COMMON_FIELDS[About.ENGINE]}
    assert set(explained) == told


async def test_queries_name_events_and_fields_that_there_are(entries):
    _, (summary, _) = entries
    events = EVENTS.keys()
    fields = {"event", "level", *summary, *(field for row in EVENTS.values() for field in row.fields.split())}
    queries = "\n".join(query for language in ("logql", "kql", "esql") for query in block(language))
    assert len(block("logql")) >= 4
    asked = re.findall(r"(?:spec_decode\.|unwrap |\{\{\.)([a-z_]+)", queries)
    asked += [name for names in re.findall(r"by \(([^)]*)\)", queries) for name in names.split(", ")]
    asked += re.findall(r"\| ([a-z_]+)=~?\"", queries)
    assert len(asked) > 15
    assert set(asked) <= fields
    words = re.findall(r"event(?: ?==?~?|:) ?[\"']([a-z_|]+)[\"']", queries)
    assert len(words) >= 5
    assert {one for word in words for one in word.split("|")} <= events
