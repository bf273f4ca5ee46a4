from __future__ import annotations

import re

import pytest

from spec_decode_exporter.analysis.recommendation import Action
from spec_decode_exporter.views.models import DepthView
from spec_decode_exporter.web.page.advice import Advice, advice
from spec_decode_exporter.web.page.engine_detail import detail
from spec_decode_exporter.web.page.fleet_table import row
from spec_decode_exporter.web.page.page_data import PageData
from spec_decode_exporter.web.page.page_query import PageQuery
from tests.web.page.conftest import changed


@pytest.mark.parametrize(
    ("now", "best", "action", "expected"),
    [
        (4, 4, Action.KEEP, Advice.BEST),
        (4, 3, Action.KEEP, Advice.AS_GOOD),
        (4, 3, Action.DECREASE, Advice.TRY),
        (4, None, Action.KEEP, None),
        (None, 3, Action.KEEP, None),
    ],
)
def test_a_recommended_number_is_the_best_as_good_or_to_be_tried(engines, now, best, action, expected):
    update = {"configured_tokens": now, "recommended_tokens": best, "recommendation": action}
    assert advice(changed(engines[0], **update).view) is expected


@pytest.mark.parametrize(
    ("action", "in_the_row", "in_the_chart"),
    [(Action.KEEP, "3 as good", "as good"), (Action.DECREASE, "try 3", "recommended")],
)
def test_the_row_and_the_chart_say_the_same_of_k(engines, action, in_the_row, in_the_chart):
    depths = tuple(
        DepthView(
            tokens=tokens, speedup_ratio=1.5 + tokens / 10, extrapolated=False, recommended=tokens == 3,
            position_marginal_benefit_ratio=None,
        )
        for tokens in (3, 4)
    )  # fmt: skip
    engine = changed(
        engines[0], configured_tokens=4, recommended_tokens=3, recommendation=action, depths=depths
    )
    page = PageData(100.0, iter(()), (), ())
    said = re.sub("<[^>]+>", "", row(engine, PageQuery(), page))
    assert in_the_row in said
    remarks = re.findall('class="remark[^"]*">([^<]+)<', detail(engine, page))
    assert remarks == [in_the_chart, "now"]
