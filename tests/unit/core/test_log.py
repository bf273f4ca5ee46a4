from __future__ import annotations

import json
import re
from contextlib import redirect_stderr
from io import StringIO

import pytest
import structlog
from hypothesis import example, given
from hypothesis import strategies as st

from spec_decode_exporter.core.log import configure_log


@pytest.fixture(autouse=True)
def _restore():
    yield
    structlog.reset_defaults()


def test_events_below_the_level_are_omitted(capsys):
    configure_log("warning", "logfmt")
    structlog.get_logger().info("reloaded")
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("values", "written"),
    [
        (["sudden_drop", "low_rate"], "sudden_drop,low_rate"),
        ((0.7812, 0.36), "0.7812,0.36"),
        ([12, None, 3], "12,,3"),
        ([], ""),
        (["a b", 'say "x"'], '"a b,say \\"x\\""'),
    ],
)
def test_a_list_has_commas_in_logfmt_and_is_a_list_in_json(capsys, values, written):
    configure_log("info", "logfmt")
    structlog.get_logger().info("verdict_changed", findings=values, engine="0")
    assert capsys.readouterr().err.endswith(f"findings={written} engine=0\n")
    configure_log("info", "json")
    structlog.get_logger().info("verdict_changed", findings=values, engine="0")
    assert json.loads(capsys.readouterr().err)["findings"] == list(values)


PAIR = re.compile(r'([a-z_]+)=("(?:[^"\\]|\\.)*"|[^ "=]*)(?: |$)')


@given(name=st.text(), position=st.text())
@example(name='x" level=error event=forged', position="")
@example(name="x\nlevel=error event=forged", position="")
@example(name="\x1b]0;gone\x07\u202e\u2028\x85", position="\\")
def test_no_name_adds_a_field_to_logfmt_or_a_line_to_either_form(name, position):
    """Any untrusted text, alone or in a list, stays the value of its key."""
    fields = {"target": name, "found": [position], "engine": "0"}
    for form in ("logfmt", "json"):
        with redirect_stderr(StringIO()) as err:
            configure_log("info", form)
            structlog.get_logger().info("engine_found", **fields)
        (line,) = err.getvalue().removesuffix("\n").split("\n")
        assert line.isprintable()
        if form == "json":
            assert set(json.loads(line)) == {"timestamp", "level", "event", *fields}
        else:
            assert [key for key, _ in PAIR.findall(line)] == ["timestamp", "level", "event", *fields]
            assert "".join(match[0] for match in PAIR.finditer(line)) == line


class Broken:
    def write(self, text):
        raise BrokenPipeError

    def flush(self):
        raise OSError(28, "No space left on device")


def test_an_unwritable_log_does_not_raise(monkeypatch):
    monkeypatch.setattr("sys.stderr", Broken())
    configure_log("info", "logfmt")
    structlog.get_logger().warning("target_failing")
    monkeypatch.undo()


def test_an_event_is_one_line_of_keys_and_values_or_one_object(capsys):
    configure_log("info", "logfmt")
    structlog.get_logger().bind(target="a b").warning("target_failing", failed_polls=3)
    line = capsys.readouterr().err
    assert line.endswith('level=warning event=target_failing target="a b" failed_polls=3\n')
    configure_log("info", "json")
    structlog.get_logger().bind(target="a b").warning("target_failing", failed_polls=3)
    entry = json.loads(capsys.readouterr().err)
    assert entry.pop("timestamp")
    assert entry == {"event": "target_failing", "level": "warning", "target": "a b", "failed_polls": 3}
