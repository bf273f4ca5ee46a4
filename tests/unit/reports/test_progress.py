import io
import json
import os

import pytest

from spec_decode_exporter.reports.progress import ObservationOutput, Streams
from tests.fakes.references import observation


class Pipe(io.StringIO):
    encoding = "utf-8"


class Terminal(Pipe):
    def isatty(self):
        return True


def streams(out=None, err=None, **environ):
    return Streams(out or Pipe(), err or Pipe(), environ)


LIVE, REPEATED, BAR, NOTHING = (True, True), (True, False), (False, True), (False, False)
"""Whether ``show`` writes to the output, and whether it redraws."""


@pytest.mark.parametrize(
    ("form", "seconds", "every", "where", "expected"),
    [
        ("text", 30, None, streams(Terminal(), Terminal()), BAR),
        ("text", 30, None, streams(Pipe(), Terminal()), BAR),
        ("text", 30, None, streams(), NOTHING),
        ("text", 30, None, streams(Terminal(), Terminal(), TERM="dumb"), NOTHING),
        ("text", 0, None, streams(Terminal(), Terminal()), LIVE),
        ("text", 30, 2.0, streams(Terminal(), Terminal()), LIVE),
        ("text", 0, None, streams(Terminal(), Terminal(), TERM="dumb"), REPEATED),
        ("json", 0, None, streams(Terminal(), Terminal()), REPEATED),
        ("text", 30, 2.0, streams(), REPEATED),
    ],
)
def test_the_output_depends_on_the_streams_and_flags(form, seconds, every, where, expected):
    output = ObservationOutput(form, seconds, every, where)
    output.show(observation("steady", seconds=12))
    written = where.out.getvalue(), where.err.getvalue()
    assert (
        bool(written[0]),
        any(each.startswith(("\x1b[?1049h", "\r\x1b[K")) for each in written),
    ) == expected


def test_each_json_report_is_one_line():
    where = streams()
    shown = ObservationOutput("json", 0, None, where)
    view = observation("steady", seconds=12)
    shown.show(view)
    shown.report(view)
    first, second = where.out.getvalue().splitlines()
    assert json.loads(first) == json.loads(second) == view.model_dump(mode="json")


def test_progress_is_one_line_that_is_erased_at_the_end():
    where = streams(err=Terminal())
    shown = ObservationOutput("text", 30, None, where)
    shown.show(observation("steady", None, seconds=12))
    line = where.err.getvalue()
    assert "12 of 30s" in line
    assert "1 of 2 unseen" in line
    assert "\n" not in line
    shown.end()
    assert where.err.getvalue().endswith("\r\x1b[K")
    assert not where.out.getvalue()


def test_a_live_report_uses_the_alternate_screen_and_its_height(monkeypatch):
    monkeypatch.setattr("shutil.get_terminal_size", lambda *_: os.terminal_size((80, 20)))
    where = streams(Terminal(), Terminal())
    shown = ObservationOutput("text", 0, None, where)
    view = observation("steady")
    shown.show(view)
    drawn = where.out.getvalue()
    assert drawn.startswith("\x1b[?1049h")
    assert drawn.count("\n") == 19
    assert "more lines; Ctrl-C shows all" in drawn
    shown.end()
    assert where.out.getvalue().endswith("\x1b[?1049l")
    shown.report(view)
    assert "more lines" not in where.out.getvalue()[len(drawn) :]
