"""Speculation methods that can be planned, by vLLM's names, and the draft of each."""

from __future__ import annotations

from typing import Final

from spec_decode_exporter.analysis.typical_costs import drafter_cost
from spec_decode_exporter.reports.plan.checkpoint import model_of
from spec_decode_exporter.reports.plan.draft_head import HEADS, head_of
from spec_decode_exporter.reports.plan.model_config import ModelError
from spec_decode_exporter.reports.plan.planned_model import Model
from spec_decode_exporter.reports.plan.quantization import Dtype

DRAFT_MODEL: Final = "draft_model"
SEARCHES: Final = ("ngram", "ngram_gpu", "suffix")
"""Methods that search repeated text: they take no GPU memory."""
METHODS: Final = (DRAFT_MODEL, *HEADS, *SEARCHES)

VERIFY_COST_RATIO: Final = 0.03
"""Cost of verifying a token, in plain decode steps: see ``analysis.typical_costs``."""
STARTING_COST_RATIO: Final = 0.10
"""Cost of starting a drafter for a step, in plain decode steps: see ``analysis.typical_costs``."""


def drafter_of(
    method: str, target: Model, draft: str | None, dtype: Dtype | None, kv_bytes_per_token: int | None
) -> Model | None:
    """Return the draft model of a method; None for a search.

    Raises:
        ModelError: The method needs a draft that is missing, or takes none.
    """
    if method in SEARCHES:
        if draft is not None:
            raise ModelError(f"{method} searches the text and has no draft; leave out --draft, or --method")
        return None
    model = None if draft is None else model_of(draft, dtype, kv_bytes_per_token)
    if method in HEADS:
        return head_of(target, method, model, dtype)
    if model is None:
        raise ModelError("give a draft model: --draft 8B, or --method eagle3, mtp, ngram …")
    return model


def fixed_cost_ratio(method: str) -> float:
    """Return the fixed cost of speculation in a step, in plain decode steps."""
    typical = drafter_cost(method)
    return STARTING_COST_RATIO if typical is None else typical.step.guess
