"""A plan for programs: JSON with units in its names. Ratios are shares, or plain decode steps."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from spec_decode_exporter.reports.plan.deployment_plan import DeploymentPlan, PlanOutcome
from spec_decode_exporter.reports.plan.gpu_memory import MemoryPart, Room
from spec_decode_exporter.reports.plan.observed_models import ObservedModel
from spec_decode_exporter.reports.plan.payoff import Payoff
from spec_decode_exporter.reports.plan.plan_warnings import PlanWarningName, plan_warnings
from spec_decode_exporter.reports.plan.planned_cost import CostBasis
from spec_decode_exporter.reports.plan.planned_depths import PlannedDepth
from spec_decode_exporter.reports.plan.remedy import remedy


class PlanPart(BaseModel):
    """What all models have in common."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class ModelView(PlanPart):
    """One of the two models."""

    name: str
    parameters: int
    active_parameters: int = Field(description="Those that one token takes part in: all of a dense model.")
    dtype: str
    weight_bytes: int = Field(description="Over all GPUs, copies included.")
    weights_counted: bool = Field(description="Whether that is counted; else it is the size of the files.")
    guessed: bool = Field(description="Whether it is only as large as such models usually are.")
    tensor_parallel: int
    kv_cache_bytes_per_token: float | None = Field(description="Over all GPUs, in the mean over a sequence.")
    vocabulary_tokens: int | None


class RoomView(PlanPart):
    """What some models leave of the GPUs. What is not known is null."""

    weight_bytes: int
    left_after_weights_bytes: int = Field(description="Below 0 where the weights alone do not fit.")
    kv_cache_bytes: int = Field(description="The same less the overhead.")
    kv_cache_bytes_per_token: float | None
    kv_cache_tokens: int | None
    concurrent_sequences: int | None


class LostView(PlanPart):
    """What the draft takes away."""

    kv_cache_bytes: int
    kv_cache_tokens: int | None
    concurrent_sequences: int | None


class PlanCostView(PlanPart):
    """What drafting costs, in plain decode steps of the target."""

    draft_cost_ratio: float
    fixed_cost_ratio: float
    basis: CostBasis
    batch_sequences: int = Field(description="At so many sequences a step.")


class PlanDepthView(PlanPart):
    """A number of draft tokens, and what it would give."""

    tokens: int
    speedup_ratio: float
    acceptance_ratio: float = Field(
        description="Of as many draft tokens, at the assumed or observed acceptance."
    )
    draft_cost_ratio: float
    break_even_acceptance_ratio: float = Field(description="Of the draft tokens; above 1 it never pays.")
    break_even_token_acceptance_ratio: float | None = Field(description="Of a token; null: never pays.")
    measured: bool


class PayoffView(PlanPart):
    """The return on the memory that drafting takes."""

    draft_tokens: int
    speedup_ratio: float
    baseline_tokens_per_second: float
    gained_tokens_per_second: float
    draft_weight_bytes: int
    draft_kv_cache_bytes: int
    gained_tokens_per_second_per_gigabyte: float | None = Field(description="Null where it takes no memory.")
    lower: float | None = Field(description="Its 95 % bounds; null where nobody knows.")
    upper: float | None
    measured: bool = Field(description="Whether the speed-up was observed; else it is an estimate.")


class PlanObservationView(PlanPart):
    """What an observation said that was taken for this plan."""

    model_name: str
    method: str = Field(description="Empty where it does not say.")
    engines: int
    draft_tokens: int = Field(description="At a time, at most.")
    draft_length_tokens: float
    draft_acceptance_ratio: float
    generation_tokens_per_second: float = Field(description="Of one engine, in the mean.")


class PlanWarningView(PlanPart):
    """A warning."""

    name: PlanWarningName
    text: str


class PlanView(PlanPart):
    """A plan. The figures are of one engine."""

    outcome: PlanOutcome
    remedy: str | None = Field(description="The least that would make it fit; null where it does.")
    method: str
    engines: int
    gpus: int = Field(description="Of one engine.")
    gpu_memory_bytes: int
    gpu_memory_utilisation_ratio: float
    overhead_bytes: int = Field(description="Of one GPU.")
    kv_cache_element_bytes: int = Field(description="Of one number of it: 2, or 1 in FP8.")
    context_tokens: int
    wanted_sequences: int
    draft_tokens: int
    token_acceptance_ratio: float | None = Field(description="As assumed; null where it was measured.")
    target: ModelView
    draft: ModelView | None
    draft_to_target_ratio: float | None
    without_draft: RoomView
    with_draft: RoomView
    lost: LostView
    cost: PlanCostView
    speedup_ratio: float = Field(description="At this number of draft tokens and this acceptance.")
    depths: tuple[PlanDepthView, ...]
    best_tokens: int = Field(description="0 where no number of draft tokens pays.")
    return_on_memory: PayoffView | None
    observation: PlanObservationView | None
    cautions: tuple[PlanWarningView, ...]


def view(plan: DeploymentPlan) -> PlanView:
    """Return a plan as its models."""
    wanted, gpus, alone, drafting = plan.wanted, plan.wanted.gpus, plan.alone, plan.drafting
    cost = plan.costs.at(wanted.tokens)
    return PlanView(
        outcome=plan.outcome,
        remedy=remedy(plan) if plan.outcome is PlanOutcome.DOES_NOT_FIT else None,
        method=wanted.method,
        engines=wanted.engines,
        gpus=gpus.number,
        gpu_memory_bytes=gpus.memory_bytes,
        gpu_memory_utilisation_ratio=gpus.utilisation,
        overhead_bytes=gpus.overhead_bytes,
        kv_cache_element_bytes=wanted.element_bytes,
        context_tokens=wanted.context,
        wanted_sequences=wanted.batch,
        draft_tokens=wanted.tokens,
        token_acceptance_ratio=wanted.acceptance if wanted.measured is None else None,
        target=_model(plan, wanted.target),
        draft=None if wanted.draft is None else _model(plan, wanted.draft),
        draft_to_target_ratio=plan.draft_ratio,
        without_draft=_room(alone),
        with_draft=_room(drafting),
        lost=LostView(
            kv_cache_bytes=alone.cache_bytes - drafting.cache_bytes,
            kv_cache_tokens=lost(alone.tokens, drafting.tokens),
            concurrent_sequences=lost(alone.sequences, drafting.sequences),
        ),
        cost=PlanCostView(
            draft_cost_ratio=cost.draft_cost_ratio,
            fixed_cost_ratio=cost.fixed_cost_ratio,
            basis=plan.costs.basis,
            batch_sequences=plan.costs.reading.batch,
        ),
        speedup_ratio=plan.depth.speedup,
        depths=tuple(_depth(plan, depth) for depth in plan.depths),
        best_tokens=plan.best_tokens,
        return_on_memory=None if plan.payoff is None else _payoff(plan.payoff),
        observation=None if wanted.measured is None else _observation(wanted.measured),
        cautions=tuple(PlanWarningView(name=each.name, text=each.text) for each in plan_warnings(plan)),
    )


def as_json(plan: DeploymentPlan) -> str:
    """Return a plan as JSON; it ends with a line's end."""
    return view(plan).model_dump_json(indent=2, ensure_ascii=True) + "\n"


def lost(before: int | None, after: int | None) -> int | None:
    """Return how much less there is; None where one of the two is not known."""
    return None if before is None or after is None else before - after


def _model(plan: DeploymentPlan, part: MemoryPart) -> ModelView:
    gpus, wanted, model = plan.wanted.gpus.number, plan.wanted, part.model
    size = part.sequence_bytes(gpus, wanted.context, wanted.element_bytes)
    return ModelView(
        name=model.name,
        parameters=model.parameters.total,
        active_parameters=model.parameters.active,
        dtype=model.dtype.name,
        weight_bytes=part.bytes_over(gpus),
        weights_counted=model.counted,
        guessed=model.guessed,
        tensor_parallel=part.tensor_parallel,
        kv_cache_bytes_per_token=None if size is None else size / wanted.context,
        vocabulary_tokens=None if model.shape is None else model.shape.vocab_size,
    )


def _room(room: Room) -> RoomView:
    return RoomView(
        weight_bytes=room.weight_bytes,
        left_after_weights_bytes=room.left_bytes,
        kv_cache_bytes=room.cache_bytes,
        kv_cache_bytes_per_token=room.bytes_per_token,
        kv_cache_tokens=room.tokens,
        concurrent_sequences=room.sequences,
    )


def _depth(plan: DeploymentPlan, depth: PlannedDepth) -> PlanDepthView:
    return PlanDepthView(
        tokens=depth.tokens,
        speedup_ratio=depth.speedup,
        acceptance_ratio=plan.drafts.rate(depth.tokens),
        draft_cost_ratio=depth.draft_cost_ratio,
        break_even_acceptance_ratio=depth.break_even_acceptance,
        break_even_token_acceptance_ratio=depth.break_even_token_acceptance,
        measured=depth.measured,
    )


def _observation(seen: ObservedModel) -> PlanObservationView:
    return PlanObservationView(
        model_name=seen.model_name,
        method=seen.method,
        engines=seen.engines,
        draft_tokens=seen.tokens,
        draft_length_tokens=seen.draft_length,
        draft_acceptance_ratio=seen.acceptance,
        generation_tokens_per_second=seen.tokens_per_second,
    )


def _payoff(payoff: Payoff) -> PayoffView:
    lower, upper = payoff.bounds or (None, None)
    return PayoffView(
        draft_tokens=payoff.tokens,
        speedup_ratio=payoff.speedup,
        baseline_tokens_per_second=payoff.baseline_tokens_per_second,
        gained_tokens_per_second=payoff.gained_tokens_per_second,
        draft_weight_bytes=payoff.weight_bytes,
        draft_kv_cache_bytes=payoff.cache_bytes,
        gained_tokens_per_second_per_gigabyte=payoff.tokens_per_second_per_gigabyte,
        lower=lower,
        upper=upper,
        measured=payoff.measured,
    )
