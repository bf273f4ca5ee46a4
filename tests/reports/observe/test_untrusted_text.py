"""Untrusted names: every report is written, and does not control the terminal."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spec_decode_exporter.reports.escape import cells
from spec_decode_exporter.reports.markdown import markdown_report
from spec_decode_exporter.reports.observe.observe_report import json_report, report
from spec_decode_exporter.reports.terminal import ASCII, UNICODE, TerminalStyle
from spec_decode_exporter.reports.terminal_report import text_report
from tests.conftest import FakeClock
from tests.fixtures.simulated import Network
from tests.reports.observe.conftest import observe_scenarios

COLOURS = re.compile(r"\x1b\[[0-9;]*m")
NAMES = st.text(min_size=1, max_size=120) | st.sampled_from(
    [
        "\x1b]0;owned\x07",
        "\x9b2J",
        "a|b`c``d",
        "<img src=x>",
        "\u202eevil",
        "名" * 60,
        "a\nb\rc",
        "e\u0301" * 50,
        "`",
        "\ud800",
    ]
)


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
    engines = tuple(
        each.model_copy(
            update={
                "target": target,
                "model_name": model,
                "engine": engine,
                "method": method,
                "draft_model": error,
                "labels": {"target": target, "model_name": model, "engine": engine},
            }
        )
        for each in view.engines
    )
    targets = tuple(each.model_copy(update={"target": target, "error": error}) for each in view.targets)
    events = tuple(
        each.model_copy(update={"target": f"of {model}", "model_name": target, "fields": {"error": error}})
        for each in view.events
    )
    return view.model_copy(update={"engines": engines * 2, "targets": targets, "events": events})


def has_controls(text: str) -> bool:
    return any(unicodedata.category(char) in {"Cc", "Cf", "Cs", "Zl", "Zp"} for char in text if char != "\n")


sometimes = settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])


@sometimes
@given(
    names=st.tuples(NAMES, NAMES, NAMES, NAMES, NAMES),
    width=st.integers(40, 140),
    glyphs=st.sampled_from([ASCII, UNICODE]),
    color=st.booleans(),
)
def test_no_name_controls_a_terminal_or_breaks_its_lines(seen, names, width, glyphs, color):
    text = COLOURS.sub("", text_report(report(named(seen, names)), TerminalStyle(glyphs, color, width)))
    assert not has_controls(text)
    assert max(map(cells, text.splitlines())) <= width
    assert text.endswith("\n")


@sometimes
@given(names=st.tuples(NAMES, NAMES, NAMES, NAMES, NAMES))
def test_no_name_is_markup(seen, names):
    text = markdown_report(report(named(seen, names)), TerminalStyle())
    plain = markdown_report(report(named(seen, ("a",) * 5)), TerminalStyle())
    assert not has_controls(text)
    assert text.count("\n") == plain.count("\n")
    outside = re.sub(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", "", text)
    assert "<" not in outside
    assert [line.replace("\\|", "").count("|") for line in text.splitlines()] == [
        line.count("|") for line in plain.splitlines()
    ]


@sometimes
@given(names=st.tuples(NAMES, NAMES, NAMES, NAMES, NAMES))
def test_json_is_printable_ascii(seen, names):
    text = json_report(named(seen, names))
    assert text.isascii()
    assert not has_controls(text)
