"""The page, the API, the log and the metrics tell the same story, event for event and number for number.

A server drafts well, drops, recovers, and is restarted with another K.
"""

import re

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


def words_of(page):
    """Return the words of a page; thousands stand apart on it, and do not here."""
    return re.sub(r"(?<=\d)\s(?=\d{3}\b)", "", " ".join(Reading(page).text.split()))


class Told:
    """Events and numbers of all four at one moment."""

    def __init__(self, metrics, snapshot, events, page, logs):
        families = text_string_to_metric_families(metrics)
        self.samples = [sample for family in families for sample in family.samples]
        (self.engine,) = snapshot["engines"]
        self.events = events["events"]
        self.text = words_of(page)
        self.listed = EVENT_ID.findall(page)
        self.logs = [entry for entry in logs if entry["event"] in TOLD]
        self.summary = [entry for entry in logs if entry["event"] == "engine_summary"][-1]

    def metric(self, name, **labels):
        """Return the value of the only sample with these labels."""
        (value,) = (
            one.value for one in self.samples if one.name == name and labels.items() <= one.labels.items()
        )
        return value

    def in_force(self, name):
        """Return the value of a state set that is 1."""
        label = {"spec_decode_recommendation": "action"}.get(name, name.removeprefix("spec_decode_"))
        (word,) = (one.labels[label] for one in self.samples if one.name == name and one.value == 1)
        return word

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
        await running.clock.advance(SECONDS)
        logs = list(running.logs)
        metrics, page = await running.get("metrics"), await running.get("")
        snapshot, events = [
            await running.json(f"api/v1/{path}") for path in ("snapshot", "events?limit=1000")
        ]
        told = Told(metrics, snapshot, events, page, logs)
        told.opened = words_of(await running.get(f"?engine={told.engine['id']}"))
    it_happened(told)
    events_are_those_of_the_log(told)
    counters_count_the_events(told)
    states_are_those_that_the_last_events_tell(told)
    numbers_are_the_same(told)
    the_page_tells_the_newest_events(told)
    the_page_shows_the_same_numbers(told)


def it_happened(told):
    """Else all that follows would be true of nothing."""
    for word in ("acceptance_dropped", "acceptance_recovered", "verdict_changed"):
        assert told.of_type(word)
    assert len(told.of_type("engine_reset", cause="restart")) == 1
    changes = [event["fields"] for event in told.of_type("configured_tokens_changed")]
    assert changes == [{"configured_tokens": 6, "before": 4}]
    assert len(told.of_type("target_failing")) == len(told.of_type("target_recovered")) == 1


def events_are_those_of_the_log(told):
    """Event for event, in the same order, with the same fields; each with an id of its own that grows by one."""
    own = {"event", "event_id", "log_level", "target", "model_name", "engine"}
    from_log = [
        (
            entry["event_id"],
            entry["log_level"] == "warning",
            entry["event"],
            entry["target"],
            entry.get("model_name"),
            {key: entry[key] for key in entry.keys() - own},
        )
        for entry in told.logs
    ]
    names = ("id", "bad", "type", "target", "model_name", "fields")
    assert [tuple(event[name] for name in names) for event in told.events] == from_log
    numbers = [int(event["id"].split("-")[1]) for event in told.events]
    assert numbers == list(range(1, len(numbers) + 1))


def counters_count_the_events(told):
    for metric, word, label, values, shown in (
        ("acceptance_drops", "acceptance_dropped", "kind", ("sudden",), told.engine["drops"]["total"]),
        ("engine_resets", "engine_reset", "cause", ("restart", "decrease"), told.engine["resets"]),
    ):
        for value in values:
            count = told.metric(f"spec_decode_{metric}_total", **{label: value})
            assert count == len(told.of_type(word, **{label: value})) == shown[value]
    failures = [one.value for one in told.samples if one.name == "spec_decode_exporter_poll_failures_total"]
    assert sum(failures) == sum(event["fields"]["failed_polls"] for event in told.of_type("target_recovered"))


def states_are_those_that_the_last_events_tell(told):
    for name, event in (("verdict", "verdict_changed"), ("recommendation", "recommendation_changed")):
        word = told.in_force(f"spec_decode_{name}")
        assert word == told.engine[name] == told.summary[name] == told.of_type(event)[-1]["fields"][name]
    assert told.in_force("spec_decode_state") == told.engine["state"] == told.summary["state"] == "active"
    assert told.engine["configured_tokens"] == 6
    for name in ("configured_tokens", "recommended_tokens"):
        assert told.metric(f"spec_decode_{name}") == told.engine[name] == told.summary[name]


def numbers_are_the_same(told):
    """Of the long window: exact between metrics and API, to the digits that a line has in the log."""
    window = told.engine["windows"][-1]
    assert window["window"] == told.summary["window"] == "2m"
    for name in ("acceptance_length_tokens", "draft_acceptance_ratio", "estimated_speedup_ratio"):
        for side, suffix in (("value", ""), ("lower", "_lower"), ("upper", "_upper")):
            value = told.metric(f"spec_decode_{name}{suffix}", window="2m")
            assert value == window[name][side]
            assert told.summary[f"{name}{suffix}"] == round(value, 4)
    time = told.metric("spec_decode_time_per_output_token_seconds", window="2m")
    assert time == window["time_per_output_token_seconds"]
    assert told.summary["time_per_output_token_seconds"] == round(time, 4)


def the_page_tells_the_newest_events(told):
    """In the words of the table of events; alarms and their ends come first."""
    newest = [event for event in told.events[::-1] if event["id"] in told.listed]
    assert told.listed == [event["id"] for event in newest]
    assert all(event["id"] in told.listed for event in told.events if event["bad"])
    assert {"acceptance_dropped", "acceptance_recovered", "engine_reset"} <= {one["type"] for one in newest}
    for event in newest:
        assert " ".join(event_text(event["type"], event["fields"]).split()) in told.text


def the_page_shows_the_same_numbers(told):
    """Of the long window: those of the fleet, and of the engine with the counts behind them."""
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
