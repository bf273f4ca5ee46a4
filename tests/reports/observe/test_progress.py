from __future__ import annotations

import io
import json
import os

import pytest

from spec_decode_exporter.reports.observe.progress import (
    FinalReport,
    LiveReport,
    ProgressLine,
    RepeatedReports,
    Streams,
    output_for,
)


class Terminal(io.StringIO):
    """Stream that is a terminal."""

    encoding = "utf-8"

    def isatty(self):
        return True


class Pipe(io.StringIO):
    encoding = "utf-8"


def streams(out=None, err=None, **environ):
    return Streams(out or Pipe(), err or Pipe(), environ)


@pytest.mark.parametrize(
    ("form", "seconds", "every", "where", "expected"),
    [
        ("text", 30, None, streams(Terminal(), Terminal()), ProgressLine),
        ("text", 30, None, streams(Pipe(), Terminal()), ProgressLine),
        ("text", 30, None, streams(), FinalReport),
        ("text", 30, None, streams(Terminal(), Terminal(), TERM="dumb"), FinalReport),
        ("text", 0, None, streams(Terminal(), Terminal()), LiveReport),
        ("text", 30, 2.0, streams(Terminal(), Terminal()), LiveReport),
        ("text", 0, None, streams(Terminal(), Terminal(), TERM="dumb"), RepeatedReports),
        ("json", 0, None, streams(Terminal(), Terminal()), RepeatedReports),
        ("markdown", 30, 2.0, streams(), RepeatedReports),
    ],
)
def test_the_output_depends_on_the_streams_and_flags(form, seconds, every, where, expected):
    assert type(output_for(form, seconds, every, where)) is expected


@pytest.mark.parametrize(
    ("environ", "colored"), [({}, True), ({"NO_COLOR": "1"}, False), ({"NO_COLOR": ""}, True)]
)
async def test_a_terminal_gets_colors_unless_no_color_is_set(observed, environ, colored):
    where = streams(Terminal(), Terminal(), **environ)
    output_for("text", 30, None, where).report(await observed("steady"))
    assert ("\x1b[" in where.out.getvalue()) is colored


async def test_each_json_report_is_one_line(observed):
    where = streams()
    shown = output_for("json", 0, None, where)
    view = await observed("steady", seconds=12)
    shown.show(view)
    shown.report(view)
    first, second = where.out.getvalue().splitlines()
    assert json.loads(first) == json.loads(second) == view.model_dump(mode="json")


async def test_progress_is_one_line_that_is_erased_at_the_end(observed):
    where = streams(err=Terminal())
    shown = output_for("text", 30, None, where)
    shown.show(await observed("steady", None, seconds=12))
    line = where.err.getvalue()
    assert "12 of 30s" in line
    assert "1 of 2 unseen" in line
    assert "\n" not in line
    shown.end()
    assert where.err.getvalue().endswith("\r\x1b[K")
    assert not where.out.getvalue()


async def test_a_live_report_uses_the_alternate_screen_and_its_height(observed, monkeypatch):
    monkeypatch.setattr("shutil.get_terminal_size", lambda *_: os.terminal_size((80, 20)))
    where = streams(Terminal(), Terminal())
    shown = output_for("text", 0, None, where)
    view = await observed("steady")
    shown.show(view)
    drawn = where.out.getvalue()
    assert drawn.startswith("\x1b[?1049h")
    assert drawn.count("\n") == 19
    assert "more lines; Ctrl-C shows all" in drawn
    shown.end()
    assert where.out.getvalue().endswith("\x1b[?1049l")
    shown.report(view)
    assert "more lines" not in where.out.getvalue()[len(drawn) :]
