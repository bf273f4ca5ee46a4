"""The ways of drafting that can be planned, as vLLM calls them, and what each needs to be told."""

from __future__ import annotations

from typing import Final

from spec_decode_exporter.analysis.typical_costs import method_cost
from spec_decode_exporter.reports.plan.checkpoint import model_of
from spec_decode_exporter.reports.plan.draft_head import HEADS, head_of
from spec_decode_exporter.reports.plan.dtype import Dtype
from spec_decode_exporter.reports.plan.model_config import ModelError
from spec_decode_exporter.reports.plan.planned_model import Model

DRAFT_MODEL: Final = "draft_model"
SEARCHES: Final = ("ngram", "ngram_gpu", "suffix")
"""They look for repeated text: nothing of them lies on a GPU."""
METHODS: Final = (DRAFT_MODEL, *HEADS, *SEARCHES)

VERIFY_COST_RATIO: Final = 0.03
"""What verifying a token costs, in plain decode steps: see ``method_costs``."""
STARTING_COST_RATIO: Final = 0.10
"""What starting a drafter costs a step, in plain decode steps: see ``method_costs``."""


def drafter_of(
    method: str, target: Model, draft: str | None, dtype: Dtype | None, kv_bytes_per_token: int | None
) -> Model | None:
    """Return what drafts; None of a search.

    Raises:
        ModelError: The method takes a draft and there is none, or the other way round.
    """
    if method in SEARCHES:
        if draft is not None:
            raise ModelError(f"{method} searches the text and has no draft; leave out --draft, or --method")
        return None
    given = None if draft is None else model_of(draft, dtype, kv_bytes_per_token)
    if method in HEADS:
        return head_of(target, method, given, dtype)
    if given is None:
        raise ModelError("say what drafts: --draft 8B, or --method eagle3, mtp, ngram …")
    return given


def fixed_cost_ratio(method: str) -> float:
    """Return what speculation costs a step however many tokens it drafts, in plain decode steps."""
    usual = method_cost(method)
    return STARTING_COST_RATIO if usual is None else usual.fixed_cost_ratio
