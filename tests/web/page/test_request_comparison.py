"""Speed-up of requests on the page, and the table of requests with and without speculation."""

from __future__ import annotations

import re

import pytest

from spec_decode_exporter.views.models import BaselineView
from spec_decode_exporter.web.page.engine_detail import _more_charts
from spec_decode_exporter.web.page.figure_table import figures
from spec_decode_exporter.web.page.fleet_table import _verdict
from spec_decode_exporter.web.page.request_comparison import request_comparison

BASELINE = BaselineView(
    time_to_first_token_seconds=0.051,
    prefix_cache_hit_ratio=0.85,
    queue_seconds=None,
    seconds=10_800.0,
    end=1_790_000_000.0,
    age_seconds=60.0,
    name="3 h without speculation on <12> November",
)


@pytest.fixture(scope="module", name="view")
def view_fixture(engines):
    return engines[0].view


def rows(html):
    """Return the texts of the cells of each row."""
    found = re.findall(r"<tr.*?>(.*?)</tr>", html)
    return [
        [re.sub(r"<.*?>", "", cell) for cell in re.findall(r"<t[hd].*?>(.*?)</t[hd]>", row)] for row in found
    ]


def test_the_table_has_both_times_and_both_shares(view):
    last = view.windows[-1].model_copy(
        update={"time_to_first_token_seconds": 0.537, "prefix_cache_hit_ratio": 0.0}
    )
    html = request_comparison(view.model_copy(update={"latency_seconds": {}}), last, BASELINE)
    heads, first_token, hits, queue = rows(html)
    assert heads == ["Mean request", "With", "Without"]
    assert [first_token[0], *(cell.split("\u202f")[0] for cell in first_token[1:])] == [
        "Time to first token",
        "537.0",
        "51.0",
    ]
    assert [cell.split("\u202f")[0] for cell in hits[1:]] == ["0.0", "85.0"]
    assert queue[1:] == ["\u2013", "\u2013"]
    assert "3 h without speculation on &lt;12&gt; November" in html


def test_the_details_have_the_table_only_with_a_baseline(view):
    title = "Requests with and without speculation"
    compared = view.model_copy(update={"baseline": BASELINE})
    assert title in "".join(_more_charts(compared))
    assert title not in "".join(_more_charts(view))


def test_the_figures_have_a_row_of_the_speed_up_of_requests(view):
    html = figures(view)
    (row,) = re.findall(r'<tr data-key="end_to_end_speedup_ratio">.*?</tr>', html)
    assert "with the same first token" in row
    assert repr(view.windows[-1].end_to_end_speedup_ratio.value) in row
    without = [window.model_copy(update={"end_to_end_speedup_ratio": None}) for window in view.windows]
    assert "end_to_end_speedup_ratio" not in figures(view.model_copy(update={"windows": tuple(without)}))


def test_the_fleet_shows_the_speed_up_of_requests_or_says_decode_only(view):
    evaluated = view.evaluated
    assert repr(evaluated.end_to_end_speedup_ratio.value) in _verdict(view)
    assert "decode only" not in _verdict(view)
    unknown = evaluated.model_copy(update={"end_to_end_speedup_ratio": None})
    decoding = _verdict(view.model_copy(update={"evaluated": unknown}))
    assert repr(evaluated.estimated_speedup_ratio.value) in decoding
    assert "as fast, decode only" in decoding
