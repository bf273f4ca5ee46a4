"""A plan: what two models take of some GPUs, and what drafting has to bring."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from spec_decode_exporter.reports.plan.draft_method import VERIFY_COST_RATIO, fixed_cost_ratio
from spec_decode_exporter.reports.plan.gpu_memory import Gpus, MemoryPart, Room, room
from spec_decode_exporter.reports.plan.observed_models import ObservedModel
from spec_decode_exporter.reports.plan.payoff import Payoff
from spec_decode_exporter.reports.plan.planned_cost import CostBasis, Costs, StepReads
from spec_decode_exporter.reports.plan.planned_depths import Drafts, PlannedDepth, best, depths, geometric
from spec_decode_exporter.reports.plan.vllm_refusals import refusals

USUAL_TOKENS: Final = 4
USUAL_ACCEPTANCE: Final = 0.7


class PlanOutcome(StrEnum):
    """Whether the models fit the GPUs."""

    FITS = "fits"
    TIGHT = "tight"
    """They do, but not as many sequences as are wanted."""
    WEIGHTS_FIT = "weights_fit"
    """There is some room for the KV cache; whether one sequence fits into it is not known."""
    DOES_NOT_FIT = "does_not_fit"
    """There is no room for the KV cache, or not for one sequence: vLLM would not start."""
    REFUSED = "refused"
    """There is room, and vLLM would not start for another reason."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be planned."""

    target: MemoryPart
    draft: MemoryPart | None
    """None of a method without one."""
    method: str
    gpus: Gpus
    engines: int = 1
    """As many engines as the GPUs are enough for; the plan is of one."""
    context: int = 8192
    """The tokens of a sequence, prompt and answer."""
    batch: int = 32
    """Sequences at a time."""
    tokens: int = USUAL_TOKENS
    """K, how many tokens are drafted at a time."""
    acceptance: float = USUAL_ACCEPTANCE
    """Of a token, given that those before it were accepted."""
    element_bytes: int = 2
    """What a number of the KV cache takes."""
    throughput: float | None = None
    """Tokens a second of one engine without speculation, where somebody knows that."""
    draft_cost_ratio: float | None = None
    fixed_cost_ratio: float | None = None
    verify_cost_ratio: float | None = None
    measured: ObservedModel | None = None


@dataclass(frozen=True, slots=True)
class DeploymentPlan:
    """What comes of it."""

    wanted: Wanted
    outcome: PlanOutcome
    refusals: tuple[str, ...]
    """Why vLLM would not start, memory aside."""
    alone: Room
    """Of the target without a draft."""
    drafting: Room
    costs: Costs
    drafts: Drafts
    depths: tuple[PlannedDepth, ...]
    best_tokens: int
    """How many tokens to draft; 0 where no number of them pays."""
    payoff: Payoff | None
    """None where no throughput is known, or vLLM would not start."""

    @property
    def depth(self) -> PlannedDepth:
        """What the wanted number of tokens would give."""
        return self.depths[self.wanted.tokens - 1]

    @property
    def draft_ratio(self) -> float | None:
        """The draft's parameters over those of the target, each as a token takes part in them."""
        draft, target = self.wanted.draft, self.wanted.target
        return None if draft is None else draft.model.parameters.active / target.model.parameters.active


def plan(wanted: Wanted) -> DeploymentPlan:
    """Return what comes of what is wanted."""
    draft = [] if wanted.draft is None else [wanted.draft]
    alone, drafting = (
        room(wanted.gpus, parts, wanted.context, wanted.element_bytes)
        for parts in ([wanted.target], [wanted.target, *draft])
    )
    costs, refused = _costs(wanted, drafting), refusals(wanted.method, wanted.target, wanted.draft)
    drafts = geometric(wanted.acceptance) if wanted.measured is None else wanted.measured.drafts
    table = depths(drafts, costs.at)
    outcome = _outcome(wanted, drafting, refused)
    starts = outcome not in (PlanOutcome.DOES_NOT_FIT, PlanOutcome.REFUSED)
    payoff = _payoff(wanted, drafting, table) if starts else None
    return DeploymentPlan(
        wanted, outcome, refused, alone, drafting, costs, drafts, table, best(table), payoff
    )


def _outcome(wanted: Wanted, drafting: Room, refused: tuple[str, ...]) -> PlanOutcome:
    if not drafting.fits:
        return PlanOutcome.DOES_NOT_FIT
    if refused:
        return PlanOutcome.REFUSED
    if drafting.sequences is None:
        return PlanOutcome.WEIGHTS_FIT
    return PlanOutcome.TIGHT if drafting.sequences < wanted.batch else PlanOutcome.FITS


def _costs(wanted: Wanted, drafting: Room) -> Costs:
    """Return what drafting costs, from the surest source: said, observed, or estimated."""
    sequences = wanted.batch if drafting.sequences is None else min(wanted.batch, drafting.sequences)
    reading = StepReads(wanted.target, wanted.draft, max(sequences, 1), wanted.context, wanted.element_bytes)
    seen = None if wanted.measured is None else wanted.measured.cost
    fixed, known, basis = fixed_cost_ratio(wanted.method), wanted.draft_cost_ratio, reading.basis
    if known is not None:
        basis = CostBasis.GIVEN
    elif seen is not None:
        known, fixed, basis = seen.draft_cost_ratio, seen.fixed_cost_ratio, CostBasis.MEASURED
    return Costs(
        reading,
        basis,
        VERIFY_COST_RATIO if wanted.verify_cost_ratio is None else wanted.verify_cost_ratio,
        fixed if wanted.fixed_cost_ratio is None else wanted.fixed_cost_ratio,
        known,
    )


def _payoff(wanted: Wanted, drafting: Room, table: tuple[PlannedDepth, ...]) -> Payoff | None:
    seen = wanted.measured
    tokens = wanted.tokens if seen is None else min(seen.tokens, len(table))
    speedup = table[tokens - 1].speedup
    if seen is not None and seen.speedup is not None and wanted.draft_cost_ratio is None:
        baseline = seen.tokens_per_second / seen.speedup
        observed = _return(wanted, drafting, baseline, seen.speedup, tokens)
        return replace(observed, measured=True, tokens=seen.tokens, lower=seen.lower, upper=seen.upper)
    if seen is not None:
        return _return(wanted, drafting, seen.tokens_per_second / speedup, speedup, tokens)
    if wanted.throughput is None:
        return None
    return _return(wanted, drafting, wanted.throughput, speedup, tokens)


def _return(wanted: Wanted, drafting: Room, baseline: float, speedup: float, tokens: int) -> Payoff:
    return Payoff(
        speedup=speedup,
        tokens=tokens,
        baseline_tokens_per_second=baseline,
        weight_bytes=0 if wanted.draft is None else wanted.draft.bytes_over(wanted.gpus.number),
        cache_bytes=draft_cache_bytes(wanted, drafting),
        measured=False,
    )


def draft_cache_bytes(wanted: Wanted, drafting: Room) -> int:
    """Return which part of the KV cache holds the draft's keys and values; 0 where that is not known."""
    if wanted.draft is None or not drafting.sequence_bytes:
        return 0
    own = wanted.draft.sequence_bytes(wanted.gpus.number, wanted.context, wanted.element_bytes) or 0
    return max(drafting.cache_bytes, 0) * own // drafting.sequence_bytes
