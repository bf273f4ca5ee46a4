"""The log: its level, both formats, and untrusted text."""

import json
import re
from contextlib import redirect_stderr
from io import StringIO

import pytest
import structlog
from hypothesis import example, given
from hypothesis import strategies as st

from spec_decode_exporter.core.log import configure_log


def written(event, form="logfmt", level="info", **fields):
    """Return what a warning writes."""
    with redirect_stderr(StringIO()) as err:
        configure_log(level, form)
        structlog.get_logger().warning(event, **fields)
    return err.getvalue()


def test_events_below_the_level_are_omitted():
    assert written("target_failing", level="error") == ""


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a b", '"a b"'),
        (3, "3"),
        (["sudden_drop", "low_first_position"], "sudden_drop,low_first_position"),
        ((0.7812, 0.36), "0.7812,0.36"),
        ([12, None, 3], "12,,3"),
        ([], ""),
        (["a b", 'say "x"'], '"a b,say \\"x\\""'),
    ],
)
def test_an_event_is_one_line_of_keys_and_values_or_one_object(value, text):
    line = written("target_failing", found=value, engine="0")
    assert line.endswith(f"level=warning event=target_failing found={text} engine=0\n")
    entry = json.loads(written("target_failing", "json", found=value, engine="0"))
    assert entry.pop("timestamp")
    shown = list(value) if isinstance(value, tuple) else value
    assert entry == {"event": "target_failing", "level": "warning", "found": shown, "engine": "0"}


PAIR = re.compile(r'([a-z_]+)=("(?:[^"\\]|\\.)*"|[^ "=]*)(?: |$)')


@given(name=st.text(), position=st.text())
@example(name='x" level=error event=forged', position="")
@example(name="x\nlevel=error event=forged", position="")
@example(name="\x1b]0;gone\x07\u202e\u2028\x85", position="\\")
def test_no_name_adds_a_field_to_logfmt_or_a_line_to_either_form(name, position):
    """Any untrusted text, alone or in a list, stays the value of its key."""
    fields = {"target": name, "found": [position], "engine": "0"}
    keys = ["timestamp", "level", "event", *fields]
    logfmt, as_json = (
        written("engine_found", form, **fields).removesuffix("\n") for form in ("logfmt", "json")
    )
    assert logfmt.isprintable()
    assert as_json.isprintable()
    assert set(json.loads(as_json)) == set(keys)
    assert [key for key, _ in PAIR.findall(logfmt)] == keys
    assert "".join(match[0] for match in PAIR.finditer(logfmt)) == logfmt
