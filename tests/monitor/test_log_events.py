"""The table of event words against every call in exporter/ that logs, and docs/reference/log.md against the table."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from docs.generate.log import main, markdown, with_tables
from spec_decode_exporter.monitor.log_events import COMMON_FIELDS, EVENT_TYPES, LOG_EVENTS, About
from spec_decode_exporter.monitor.summary_log import _NAMES

CHECKOUT = Path(__file__).parents[2]
DOCUMENT = CHECKOUT / "docs" / "reference" / "log.md"
METHODS = {"debug", "info", "warning", "error", "exception", "critical"}
TABLE = {event.word: event for event in LOG_EVENTS}


@dataclass(frozen=True)
class Logged:
    """One call that logs, as far as the code shows it."""

    place: str
    word: str
    level: str
    fields: frozenset[str] | None
    """None where the call does not say: fields that come from elsewhere."""


def parents(tree):
    return {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}


def function_of(node, above):
    while not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Module):
        node = above[node]
    return node


def words(node, function):
    """The texts that an expression can be: a constant, one of two, or a name that is given them."""
    match node:
        case ast.Constant(value=str(word)):
            return {word}
        case ast.IfExp():
            return words(node.body, function) | words(node.orelse, function)
        case ast.Name(id=name):
            return {
                word
                for given in ast.walk(function)
                if isinstance(given, ast.Assign) and ast.unparse(given.targets[0]) == name
                for word in words(given.value, function)
            }
    return set()


def keys(node, function):
    """The keys of a mapping that is written out here or in this function; None where it is not."""
    match node:
        case ast.Dict():
            return frozenset(ast.literal_eval(key) for key in node.keys)
        case ast.Name(id=name):
            for given in ast.walk(function):
                if isinstance(given, ast.Assign) and ast.unparse(given.targets[0]) == name:
                    return keys(given.value, function)
                if isinstance(given, ast.AnnAssign) and ast.unparse(given.target) == name:
                    return keys(given.value, function)
    return None


def fields_of_call(call):
    if any(keyword.arg is None for keyword in call.keywords):
        return None
    return frozenset(keyword.arg for keyword in call.keywords)


def as_written(fields, method):
    """A traceback is the field ``exception``."""
    if fields is None:
        return None
    traced = {"exc_info"} & fields or method == "exception"
    return (fields - {"exc_info"}) | ({"exception"} if traced else set())


def logged(call, place, function):
    match call.func:
        case ast.Attribute(attr=method, value=value) if method in METHODS and "log" in ast.unparse(value):
            level = "error" if method == "exception" else method
            for word in sorted(words(call.args[0], function)):
                yield Logged(place, word, level, as_written(fields_of_call(call), method))
        case ast.Name(id="Event"):
            fields = keys(call.args[1], function) if len(call.args) > 1 else frozenset()
            bad = next((key.value for key in call.keywords if key.arg == "is_bad"), ast.Constant(False))
            levels = {"info", "warning"}
            if isinstance(bad, ast.Constant):
                levels = {"warning" if bad.value else "info"}
            found = words(call.args[0], function)
            for word in sorted(found):
                # A call that makes several words, some of them bad, says too little of each.
                of_word = levels if len(found) == 1 or len(levels) == 1 else {""}
                for level in sorted(of_word):
                    yield Logged(place, word, level, as_written(fields, ""))


def all_logged():
    for path in sorted((CHECKOUT / "exporter").rglob("*.py")):
        if path.parent.name == "vllm_middleware":  # what runs in a vLLM writes to its log
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        above = parents(tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and (node.args):
                place = f"{path.relative_to(CHECKOUT)}:{node.lineno}"
                yield from logged(node, place, function_of(node, above))


LOGGED = tuple(all_logged())


@pytest.mark.parametrize("call", LOGGED, ids=lambda call: f"{call.place} {call.word}")
def test_every_event_that_is_logged_is_in_the_table_with_its_level_and_its_fields(call):
    event = TABLE[call.word]
    assert call.level in ("", *event.level.split(", "))
    if call.fields is not None:
        assert call.fields - set(COMMON_FIELDS[event.about]) == set(event.fields)


def test_every_event_in_the_table_is_logged_somewhere():
    assert set(TABLE) == {call.word for call in LOGGED}


def test_every_type_of_an_event_is_one_that_happens_and_no_other():
    made = set()
    for path in sorted((CHECKOUT / "exporter").rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        above = parents(tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Event":
                made |= words(node.args[0], function_of(node, above)) if node.args else set()
    assert made == set(EVENT_TYPES)


def test_every_level_in_the_table_is_one_that_something_is_logged_with():
    for word, event in TABLE.items():
        levels = {call.level for call in LOGGED if call.word == word} - {""}
        assert levels in (set(), set(event.level.split(", "))), word


def test_no_word_is_there_twice_and_each_is_a_word():
    assert len(TABLE) == len(LOG_EVENTS)
    assert all(word.replace("_", "").isalpha() and word.islower() for word in TABLE)


def test_the_scan_of_the_code_finds_all_calls():
    """A test that finds nothing would pass: here is a call of each kind, and what is to be read off it."""
    code = """
def one(part, is_so):
    _log.info("plain", first=1)
    self._log.exception("traced", second=2)
    fields: dict[str, object] = {"third": 3, "exc_info": part}
    name = "either"
    if is_so:
        name = "or"
    Event(name, fields, is_bad=is_so)
    Event("left" if is_so else "right", {}, is_bad=True)
    _log.info("open", **fields)
"""
    tree = ast.parse(code)
    (function,) = tree.body
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    found = {one.word: one for call in calls for one in logged(call, "", function)}
    plain = Logged("", "", "", frozenset())
    assert found == {
        "plain": replace(plain, word="plain", level="info", fields=frozenset({"first"})),
        "traced": replace(plain, word="traced", level="error", fields=frozenset({"second", "exception"})),
        "either": replace(plain, word="either", fields=frozenset({"third", "exception"})),
        "or": replace(plain, word="or", fields=frozenset({"third", "exception"})),
        "left": replace(plain, word="left", level="warning"),
        "right": replace(plain, word="right", level="warning"),
        "open": replace(plain, word="open", level="info", fields=None),
    }


def test_the_document_has_the_table_as_it_is():
    text = DOCUMENT.read_text(encoding="utf-8")
    assert text == with_tables(text), "run `make docs`"
    assert all(f"\n| `{word}` | " in text for word in TABLE)


def test_the_text_around_the_tables_stays(tmp_path):
    path = tmp_path / "log.md"
    path.write_text(DOCUMENT.read_text(encoding="utf-8").replace(markdown(), "| old |\n"), encoding="utf-8")
    main([str(path)])
    assert path.read_text(encoding="utf-8") == DOCUMENT.read_text(encoding="utf-8")


def test_a_summary_names_its_engine_as_other_events_do():
    assert COMMON_FIELDS[About.ENGINE] == ("event_id", *_NAMES)
