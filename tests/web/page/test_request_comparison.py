"""Speed-up of requests on the page, and the table of requests with and without speculation."""

from __future__ import annotations

import re

import pytest

from spec_decode_exporter.views.models import BaselineView
from spec_decode_exporter.web.page.engine_detail import _more_charts
from spec_decode_exporter.web.page.figure_table import figures

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
