from __future__ import annotations

import re

import pytest

from spec_decode_exporter.analysis.recommendation import Action
from spec_decode_exporter.analysis.speculation_state import State
from spec_decode_exporter.analysis.verdict import PAYING, Verdict
from spec_decode_exporter.views import verdict_text
from spec_decode_exporter.views.models import DepthView
from spec_decode_exporter.web.page.engine_detail import detail
from spec_decode_exporter.web.page.fleet_table import row
from spec_decode_exporter.web.page.page_data import PageData
from spec_decode_exporter.web.page.page_query import PageQuery
from spec_decode_exporter.web.page.words import ACTIONS, STATES, VERDICTS, Advice, advice
from tests.web.page.conftest import changed


def test_every_verdict_state_and_action_has_words():
    assert VERDICTS.keys() == set(Verdict)
    assert STATES.keys() == set(State)
    assert ACTIONS.keys() == set(Action)


@pytest.mark.parametrize("verdict", Verdict)
def test_the_meaning_of_a_verdict_holds_for_every_policy(verdict):
    meaning = VERDICTS[verdict].meaning
    assert not re.search(r"\d|twice", meaning)
    assert ("lower bound" in meaning) == (verdict in PAYING)


def test_a_state_has_the_meaning_of_the_api():
    for state, text in verdict_text.STATES.items():
        assert STATES[state].meaning == text


@pytest.mark.parametrize(
    ("now", "best", "action", "expected"),
    [
        (4, 4, Action.KEEP, Advice.BEST),
        (4, 3, Action.KEEP, Advice.AS_GOOD),
        (4, 3, Action.DECREASE, Advice.TRY),
        (4, 0, Action.DISABLE, Advice.TRY),
        (4, 3, Action.MEASURE_COST, Advice.LIKELY),
        (4, 3, Action.LIMIT_BATCH, Advice.LIKELY),
        (4, None, Action.KEEP, None),
        (None, 3, Action.KEEP, None),
    ],
)
def test_a_recommended_number_is_best_as_good_likely_or_to_try(engines, now, best, action, expected):
    update = {"configured_tokens": now, "recommended_tokens": best, "recommendation": action}
    assert advice(changed(engines[0], **update).view) is expected


@pytest.mark.parametrize(
    ("action", "in_the_row", "in_the_chart"),
    [
        (Action.KEEP, "3 as good", "as good"),
        (Action.DECREASE, "try 3", "recommended"),
        (Action.MEASURE_COST, "3 likely best", "likely best"),
    ],
)
def test_the_row_and_the_chart_agree_about_k(engines, action, in_the_row, in_the_chart):
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
    shown = re.sub("<[^>]+>", "", row(engine, PageQuery(), page))
    assert in_the_row in shown
    remarks = re.findall('class="remark[^"]*">([^<]+)<', detail(engine, page))
    assert remarks == [in_the_chart, "now"]
