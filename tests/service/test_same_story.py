"""The page, the API, the log and the metrics tell the same story, event for event and number for number.

A server drafts well, drops, recovers, and is restarted with another K.
"""

import re
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

from spec_decode_exporter.monitor.events import EVENTS, event_text
from tests.service.conftest import story
from tests.unit.views.test_templating import Reading

SCENARIO = """
acceptance: {mean: 0.85}
speculation: {tokens: 4}
phases:
  - {at: 2m, acceptance: {mean: 0.3}}
  - {at: 4m, acceptance: {mean: 0.85}}
  - {at: 7m, restart: {down: 10s, tokens: 6}}
"""
CONFIG = """
windows: [30s, 2m]
metrics: {profile: full}
cost: {draft_cost_ratio: 0.08}
log: {summary_interval: 10s}
"""
SECONDS = 600.0
EVENT_ID = re.compile(r'<li[^>]* data-key="([0-9a-f]+-[0-9]+)"')
TOLD = {row.name for row in EVENTS.values() if row.about in ("Engines", "Targets")} - {"engine_summary"}


@dataclass
class Told:
    """Events and numbers of all four at one moment."""

    samples: list
    engine: dict
    events: list
    listed: list
    """The ids of the events on the page."""
    text: str
    opened: str
    """The words of the page, and with the engine's details; thousands stand apart on it, and do not here."""
    logs: list

    def metric(self, name, **labels):
        """Return the value of the only sample with these labels."""
        (value,) = (
            one.value for one in self.samples if one.name == name and labels.items() <= one.labels.items()
        )
        return value

    def of_type(self, word, **fields):
        return [
            event
            for event in self.events
            if event["type"] == word and fields.items() <= event["fields"].items()
        ]


async def test_log_metrics_api_and_page_tell_the_same_story(tmp_path, clock, network):
    """One test, since one run is long enough; each part says what it compares."""
    async with story(tmp_path, clock, network, SCENARIO, config=CONFIG) as running:
        # The last summary is of this very moment: no poll comes between it and what is asked for now.
        await clock.advance(SECONDS)
        logs = list(running.logs)
        families = text_string_to_metric_families(await running.get("metrics"))
        page = await running.get("")
        (engine,) = (await running.json("api/v1/snapshot"))["engines"]
        events = (await running.json("api/v1/events?limit=1000"))["events"]
        details = await running.get(f"?engine={engine['id']}")
    text, opened = (
        re.sub(r"(?<=\d)\s(?=\d{3}\b)", "", " ".join(Reading(each).text.split())) for each in (page, details)
    )
    samples = [sample for family in families for sample in family.samples]
    told = Told(samples, engine, events, EVENT_ID.findall(page), text, opened, logs)
    events_are_those_of_the_log_and_are_counted(told)
    states_and_numbers_are_the_same(told)
    the_page_tells_the_newest_events_and_shows_the_same_numbers(told)


def events_are_those_of_the_log_and_are_counted(told):
    """Event for event, in the same order, with the same fields; each with an id of its own that grows by one."""
    # Else all that follows would be true of nothing.
    for word in ("acceptance_dropped", "acceptance_recovered", "verdict_changed"):
        assert told.of_type(word)
    assert len(told.of_type("engine_reset", cause="restart")) == 1
    changes = [event["fields"] for event in told.of_type("configured_tokens_changed")]
    assert changes == [{"configured_tokens": 6, "before": 4}]
    assert len(told.of_type("target_failing")) == len(told.of_type("target_recovered")) == 1
    own = {"event", "event_id", "log_level", "target", "model_name", "engine"}
    from_log = [
        {
            "id": entry["event_id"],
            "bad": entry["log_level"] == "warning",
            "type": entry["event"],
            "target": entry["target"],
            "model_name": entry.get("model_name"),
            "fields": {key: entry[key] for key in entry.keys() - own},
        }
        for entry in told.logs
        if entry["event"] in TOLD
    ]
    assert [{name: event[name] for name in from_log[0]} for event in told.events] == from_log
    numbers = [int(event["id"].split("-")[1]) for event in told.events]
    assert numbers == list(range(1, len(numbers) + 1))
    for metric, word, label, values, shown in (
        ("acceptance_drops", "acceptance_dropped", "kind", ("sudden",), told.engine["drops"]["total"]),
        ("engine_resets", "engine_reset", "cause", ("restart", "decrease"), told.engine["resets"]),
    ):
        for value in values:
            count = told.metric(f"spec_decode_{metric}_total", **{label: value})
            assert count == len(told.of_type(word, **{label: value})) == shown[value]
    failures = [one.value for one in told.samples if one.name == "spec_decode_exporter_poll_failures_total"]
    assert sum(failures) == sum(event["fields"]["failed_polls"] for event in told.of_type("target_recovered"))


def states_and_numbers_are_the_same(told):
    """Numbers of the long window: exact between metrics and API, to the digits that a line has in the log."""
    engine, summary = told.engine, [each for each in told.logs if each["event"] == "engine_summary"][-1]
    for name, label in (("verdict", "verdict"), ("recommendation", "action"), ("state", "state")):
        metric = f"spec_decode_{name}"
        in_force = [one.labels[label] for one in told.samples if one.name == metric and one.value == 1]
        assert in_force == [engine[name]] == [summary[name]]
    for name in ("verdict", "recommendation"):
        assert engine[name] == told.of_type(f"{name}_changed")[-1]["fields"][name]
    assert engine["state"] == "active"
    assert engine["configured_tokens"] == 6
    for name in ("configured_tokens", "recommended_tokens"):
        assert told.metric(f"spec_decode_{name}") == engine[name] == summary[name]
    window = engine["windows"][-1]
    assert window["window"] == summary["window"] == "2m"
    for name in ("acceptance_length_tokens", "draft_acceptance_ratio", "estimated_speedup_ratio"):
        for side, suffix in (("value", ""), ("lower", "_lower"), ("upper", "_upper")):
            value = told.metric(f"spec_decode_{name}{suffix}", window="2m")
            assert value == window[name][side]
            assert summary[f"{name}{suffix}"] == round(value, 4)
    time = told.metric("spec_decode_time_per_output_token_seconds", window="2m")
    assert time == window["time_per_output_token_seconds"]
    assert summary["time_per_output_token_seconds"] == round(time, 4)


def the_page_tells_the_newest_events_and_shows_the_same_numbers(told):
    """Events in the words of their table, alarms and their ends first.

    Numbers of the long window: those of the fleet, and of the engine with the counts behind them.
    """
    newest = [event for event in told.events[::-1] if event["id"] in told.listed]
    assert told.listed == [event["id"] for event in newest]
    assert all(event["id"] in told.listed for event in told.events if event["bad"])
    assert {"acceptance_dropped", "acceptance_recovered", "engine_reset"} <= {one["type"] for one in newest}
    for event in newest:
        assert " ".join(event_text(event["type"], event["fields"]).split()) in told.text
    window, counts = told.engine["windows"][-1], told.engine["windows"][-1]["counts"]
    for shown in (told.engine["verdict"], f"{window['acceptance_length_tokens']['value']:.2f}"):
        assert shown in told.text.lower()
    for name in ("verdict_text", "recommendation_text"):
        assert told.engine[name] in told.opened
    for name in ("drafts", "draft_tokens", "accepted_tokens"):
        assert str(counts[name]) in told.opened
    for name in ("draft_tokens", "accepted_tokens"):
        assert counts[name] == told.metric(f"spec_decode_window_{name}", window="2m")
    for position, ratio in enumerate(window["position_acceptance_ratio"]):
        labels = {"window": "2m", "position": str(position)}
        assert ratio == told.metric("spec_decode_position_acceptance_ratio", **labels)
        assert f"{position} {100 * ratio:.1f} %" in told.opened
