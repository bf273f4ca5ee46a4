from __future__ import annotations

import pytest

from spec_decode_exporter.analysis.verdict import Action, State, Verdict
from spec_decode_exporter.views import verdict_text
from spec_decode_exporter.web.page.words import STATES, VERDICTS, Advice, advice
from tests.web.page.conftest import changed


def test_every_verdict_and_state_has_words():
    assert VERDICTS.keys() == set(Verdict)
    assert STATES.keys() == set(State)


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
