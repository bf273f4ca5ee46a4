"""What the recommended number of draft tokens is to the one that is drafted now: said in ONE way."""

from __future__ import annotations

from enum import StrEnum

from spec_decode_exporter.analysis.recommendation import Action
from spec_decode_exporter.views.models import EngineView


class Advice(StrEnum):
    """What to do about K; the value is what stands beside the recommended number."""

    BEST = "is best"
    """It is drafted now."""
    AS_GOOD = "as good"
    """It is another, and no better by enough to change anything."""
    TRY = "try"


def advice(view: EngineView) -> Advice | None:
    """Return what the recommended number of tokens is; None where none is recommended."""
    if view.recommended_tokens is None or view.configured_tokens is None:
        return None
    if view.recommended_tokens == view.configured_tokens:
        return Advice.BEST
    return Advice.AS_GOOD if view.recommendation is Action.KEEP else Advice.TRY
