"""The table of events against the calls in exporter/ that log, its sentences, and docs/reference/log.md."""

from __future__ import annotations

import re

import pytest

from docs.generate.log import markdown, with_lists
from spec_decode_exporter.analysis.verdict import Action, State, Verdict
from spec_decode_exporter.drops.sums import Transition
from spec_decode_exporter.monitor.events import EVENT_TYPES, EVENTS, event_text, fields_of
from spec_decode_exporter.window.poll import Check, Reset
from tests.paths import CHECKOUT

DOCUMENT = CHECKOUT / "docs" / "reference" / "log.md"
ROWS = EVENTS.values()


@pytest.mark.parametrize("name", EVENT_TYPES)
def test_a_sentence_names_only_fields_of_its_event_and_no_codes(name):
    row = EVENTS[name]
    assert fields_of(row.text.replace("|", "")) <= set(row.fields.split())
    text = event_text(name, dict.fromkeys(row.fields.split(), "7"))
    assert not text[0].islower()
    assert not text.endswith(".")
    assert not {"_", "{", "|"} & set(text)


@pytest.mark.parametrize(
    ("name", "fields", "text"),
    [
        ("acceptance_dropped", {"kind": "sudden", "length": 1.4567, "baseline_length": 3.0}, "Acceptance dropped (sudden): 3 tokens a draft before, 1.46 at detection"),
        ("verdict_changed", {"verdict": "poor", "before": "healthy"}, "Verdict: poor; it was healthy"),
        ("state_changed", {"state": "disabled", "before": "unknown"}, "State: off; it was not known yet"),
        ("recommendation_changed", {"recommendation": "decrease", "recommended_tokens": 1}, "Advice: draft fewer tokens at a time: 1"),
        ("engine_reset", {"cause": "{part} of a new cause"}, "The server's counters were reset: {part} of a new cause"),
        ("check_broken", {"check": "one_server"}, "The counters contradict each other (one server): do not trust the figures"),
        ("target_failing", {"error": ""}, "Polls fail"),
    ],
)  # fmt: skip
def test_codes_become_words_and_parts_without_a_value_are_omitted(name, fields, text):
    assert event_text(name, fields) == text


@pytest.mark.parametrize(
    ("name", "field", "codes"),
    [
        ("recommendation_changed", "recommendation", set(Action) - {Action.COLLECT}),
        ("state_changed", "state", set(State)),
        ("verdict_changed", "verdict", set(Verdict)),
        ("engine_reset", "cause", set(Reset)),
        ("target_polled_less_often", "cause", {"answers", "processing"}),
        ("check_broken", "check", set(Check)),
    ],
)
def test_every_code_has_words_of_its_own(name, field, codes):
    texts = {event_text(name, {field: code, "interval": 2.0}) for code in codes}
    assert len(texts) == len(codes)
    assert not any("_" in text for text in texts)


CALL = re.compile(
    r"""(?:_log|log|structlog\.get_logger\(\))\.(?:debug|info|warning|error|exception)\(\s*"(\w+)"|Event\(\s*"(\w+)\""""
)
COMPOSED = {f"{subject}_{transition}" for subject in ("acceptance", "drafting") for transition in Transition}


def test_every_call_that_logs_a_constant_has_a_row_and_every_row_is_in_the_code():
    files = [path for path in (CHECKOUT / "exporter").rglob("*.py") if path.parent.name != "vllm_middleware"]
    code = "".join(path.read_text(encoding="utf-8") for path in files if path.name != "events.py")
    called = {log or event for log, event in CALL.findall(code)}
    assert len(called) > 30
    assert called <= EVENTS.keys()
    assert {name for name in EVENTS if f'"{name}"' not in code} <= COMPOSED


def test_the_lists_of_the_document_are_replaced():
    text = DOCUMENT.read_text(encoding="utf-8")
    assert with_lists(text.replace(markdown(), "- old\n")) == text
    assert all(f"\n- `{row.name}` (" in text for row in ROWS)
