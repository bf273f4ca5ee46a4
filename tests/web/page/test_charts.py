from __future__ import annotations

import re

from spec_decode_exporter.views.history import Piece, Trace
from spec_decode_exporter.web.page.charts import ChartMark, bar, line_chart


def paths(drawing):
    return dict(re.findall(r'<path class="(\w+)" d="([^"]*)"', drawing))


def test_unknown_values_are_not_drawn():
    ratios = (0.5, 0.5, None, 0.5, 0.5, None, 0.5)
    drawing = line_chart(Trace(300, tuple(Piece(300 - 50 * n, each) for n, each in enumerate(ratios))))
    assert paths(drawing)["line"] == "M0 50L100 50M300 50L400 50M600 50h0"  # the last one alone is a dot
    assert paths(drawing)["area"].count("M") == 2
    assert "Nothing was drafted in the last 5 min." in line_chart(Trace(300, (Piece(0, None),)))


def test_events_are_marked_at_their_time():
    marks = [ChartMark(75, "drop", "it < dropped"), ChartMark(301, "reset", "too long ago")]
    drawing = line_chart(Trace(300, ()), marks)
    assert 'class="event drop"><title>it &lt; dropped</title><line x1="450" x2="450"' in drawing
    assert "reset" not in drawing


def test_a_bar_is_a_share_of_its_width():
    assert 'class="fill" width="25"' in bar(0.25, "fill")
    assert "fill" not in bar(None, "fill")
    assert 'x1="50"' in bar(0.25, "fill", mark=0.5)
