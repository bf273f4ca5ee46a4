"""Samples and queries of docs/reference/log.md match the log.

``UPDATE_GOLDEN=1`` updates the samples.
"""

import os
import re
from datetime import UTC, datetime

import structlog

from spec_decode_exporter.core.log import configure_log
from spec_decode_exporter.monitor.events import EVENTS
from tests.paths import CHECKOUT
from tests.service.conftest import story

DOCUMENT = CHECKOUT / "docs" / "reference" / "log.md"
SCENARIO = CHECKOUT / "exporter" / "spec_decode_exporter" / "simulator" / "scenarios" / "drop.yml"
CONFIG = """
cost: {draft_cost_ratio: 0.08}
log: {summary_interval: 1m}
"""
"""Fields that need a time without speculation, which the scenario has not."""
SHOWN = ("acceptance_dropped",)


def block(language):
    text = DOCUMENT.read_text(encoding="utf-8")
    return [
        body.strip() for body in re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    ]


def written(entry, wall, capsys):
    """One entry as the log writes it, with the time of the clock that was moved by hand."""
    configure_log("info", "logfmt")
    try:
        fields = {key: value for key, value in entry.items() if key not in ("event", "log_level")}
        getattr(structlog.get_logger(), entry["log_level"])(entry["event"], **fields)
    finally:
        structlog.reset_defaults()
    stamp = f"{datetime.fromtimestamp(wall, UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
    return re.sub(r"\d{4}-\d\d-\d\dT[0-9:.]+Z", stamp, capsys.readouterr().err, count=1).strip()


async def test_samples_fields_and_queries_of_the_document_are_those_of_the_log(
    tmp_path, clock, network, capsys
):
    """The samples are of five minutes with a drop: the events shown, and the last summary."""
    scenario, times = SCENARIO.read_text(encoding="utf-8"), []
    async with story(tmp_path, clock, network, scenario, config=CONFIG) as told:
        for _ in range(330):
            await clock.advance(1.0)
            times += [clock.wall()] * (len(told.logs) - len(times))
        entries = list(zip(told.logs, times, strict=True))
    last = [entry for entry in entries if entry[0]["event"] == "engine_summary"][-1]
    shown, summary = [entry for entry in entries if entry[0]["event"] in SHOWN or entry is last], last[0]
    assert [entry["event"] for entry, _ in shown].count("acceptance_dropped") == 1
    sample = "\n".join(written(*entry, capsys) for entry in shown)
    if os.environ.get("UPDATE_GOLDEN"):
        text = DOCUMENT.read_text(encoding="utf-8")
        text = re.sub(
            r"(^```logfmt\n).*?(^```)",
            lambda match: f"{match[1]}{sample}\n{match[2]}",
            text,
            flags=re.DOTALL | re.MULTILINE,
        )
        DOCUMENT.write_text(text, encoding="utf-8")
    assert block("logfmt")[0] == sample
    fields_and_queries_are_those_of(summary)


def fields_and_queries_are_those_of(summary):
    """Of the fields in the document's table, a name may begin with an ellipsis."""
    rows = DOCUMENT.read_text(encoding="utf-8").partition("| field | meaning |")[2].partition("\n\n")[0]
    explained = []
    for name in re.findall(r"`([a-z_…]+)`", " ".join(row.split("|")[1] for row in rows.splitlines()[2:])):
        stem = explained[-1] if name.startswith("…") else ""
        explained.append(name.replace("…", stem.removesuffix("_lower")))
    assert set(explained) == set(summary) - {
        *("event", "log_level", "event_id"),
        *("target", "model_name", "engine"),
    }
    fields = {"event", "level", *summary, *(field for row in EVENTS.values() for field in row.fields.split())}
    queries = "\n".join(query for language in ("logql", "kql", "esql") for query in block(language))
    assert len(block("logql")) >= 3
    asked = re.findall(r"(?:spec_decode\.|unwrap |\{\{\.)([a-z_]+)", queries)
    asked += [name for names in re.findall(r"by \(([^)]*)\)", queries) for name in names.split(", ")]
    asked += re.findall(r"\| ([a-z_]+)=~?\"", queries)
    assert len(asked) > 8
    assert set(asked) <= fields
    words = re.findall(r"event(?: ?==?~?|:) ?[\"']([a-z_|]+)[\"']", queries)
    assert len(words) >= 3
    assert {one for word in words for one in word.split("|")} <= EVENTS.keys()
