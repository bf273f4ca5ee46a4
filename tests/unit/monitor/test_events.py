"""The table of events against every call in exporter/ that logs, its sentences, and docs/reference/log.md."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

import pytest

from docs.generate.log import markdown, with_lists
from spec_decode_exporter.analysis.verdict import Action, State, Verdict
from spec_decode_exporter.drops.sums import Transition
from spec_decode_exporter.monitor.events import COMMON_FIELDS, EVENT_TYPES, EVENTS, event_text, fields_of
from spec_decode_exporter.window.poll import Check, Reset
from tests.paths import CHECKOUT

DOCUMENT = CHECKOUT / "docs" / "reference" / "log.md"
METHODS = {"debug", "info", "warning", "error", "exception", "critical"}
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
        ("acceptance_dropped", {"kind": "sudden", "length": 1.4567, "baseline_length": 3.0}, "Acceptance dropped (sudden): 3 tokens a draft before, 1.46 when it was found"),
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


@dataclass(frozen=True)
class Logged:
    """One call that logs, as far as the code shows it."""

    place: str
    word: str
    level: str
    """Empty if its row decides."""
    fields: frozenset[str] | None
    """None if they come from elsewhere."""


def function_of(node, above):
    while not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Module):
        node = above[node]
    return node


def assigned(name, function):
    for node in ast.walk(function):
        match node:
            case ast.Assign(targets=[ast.Name(id=other)], value=value) if other == name:
                yield value
            case ast.AnnAssign(target=ast.Name(id=other), value=value) if other == name:
                yield value


def words(node, function):
    """The texts that an expression can be: a constant, one of two, or a name that is given them."""
    match node:
        case ast.Constant(value=str(word)):
            return {word}
        case ast.IfExp():
            return words(node.body, function) | words(node.orelse, function)
        case ast.Name(id=name):
            return {word for value in assigned(name, function) for word in words(value, function)}
        case ast.JoinedStr(values=parts):  # a family of events, such as those of drops
            shape = "".join(f"({'|'.join(words(part, function))})" for part in parts)
            return {name for name in EVENTS if re.fullmatch(shape, name)}
        case ast.FormattedValue(value=value):
            return words(value, function)
        case ast.Attribute(attr="transition"):
            return set(Transition)
    return set()


def keys(node, function):
    """The keys of a mapping that is written out here or in this function; None if it is not."""
    match node:
        case ast.Dict():
            return frozenset(ast.literal_eval(key) for key in node.keys)
        case ast.Name(id=name):
            values = [value for value in assigned(name, function) if value.lineno < node.lineno]
            return keys(values[-1], function) if values else None
    return None


def logged(call, place, function):
    match call.func:
        case ast.Attribute(attr=method, value=value) if method in METHODS and "log" in ast.unparse(value):
            level = "error" if method == "exception" else method
            names = {keyword.arg for keyword in call.keywords}
            fields = None if None in names else frozenset(names - {"exc_info"})
            if fields is not None and ("exc_info" in names or method == "exception"):
                fields |= {"exception"}
            for word in sorted(words(call.args[0], function)):  # workers collect in one order
                yield Logged(place, word, level, fields)
        case ast.Name(id="Event"):
            fields = keys(call.args[1], function) if len(call.args) > 1 else frozenset()
            for word in sorted(words(call.args[0], function)):  # workers collect in one order
                yield Logged(place, word, "", fields)


def all_logged():
    for path in sorted((CHECKOUT / "exporter").rglob("*.py")):
        if path.parent.name == "vllm_middleware":  # it writes to vLLM's log
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        above = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and node.args:
                place = f"{path.relative_to(CHECKOUT)}:{node.lineno}"
                yield from logged(node, place, function_of(node, above))


def test_every_call_that_logs_has_a_row_with_its_level_and_its_fields_and_every_row_a_call():
    calls = list(all_logged())
    assert set(EVENTS) == {call.word for call in calls}
    assert set(EVENT_TYPES) == {call.word for call in calls if not call.level}
    for call in calls:
        row = EVENTS[call.word]
        assert call.level in ("", *row.level.split(", ")), call
        assert call.level or row.text, f"an event without a sentence: {call}"
        if call.fields is not None:
            assert call.fields - set(COMMON_FIELDS.get(row.about, ())) <= {*row.fields.split()}, call
            assert "…" in row.fields or call.fields >= {*row.fields.split()}, call


def test_the_lists_of_the_document_are_replaced():
    text = DOCUMENT.read_text(encoding="utf-8")
    assert with_lists(text.replace(markdown(), "- old\n")) == text
    assert all(f"\n- `{row.name}` (" in text for row in ROWS)
