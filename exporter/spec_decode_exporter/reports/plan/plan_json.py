"""Write a plan as JSON, for programs."""

from __future__ import annotations

from spec_decode_exporter.reports.plan.deployment_plan import DeploymentPlan, Payoff, PlanOutcome
from spec_decode_exporter.reports.plan.gpu_memory import MemoryPart, Room
from spec_decode_exporter.reports.plan.headline import remedy
from spec_decode_exporter.reports.plan.observed_models import ObservedModel
from spec_decode_exporter.reports.plan.plan_models import (
    LostView,
    ModelView,
    PayoffView,
    PlanCostView,
    PlanDepthView,
    PlanObservationView,
    PlanView,
    PlanWarningView,
    RoomView,
)
from spec_decode_exporter.reports.plan.plan_warnings import plan_warnings
from spec_decode_exporter.reports.plan.planned_depths import PlannedDepth


def view(plan: DeploymentPlan) -> PlanView:
    """Return a plan as JSON models."""
    wanted, gpus, alone, drafting = plan.wanted, plan.wanted.gpus, plan.alone, plan.drafting
    cost = plan.costs.at(wanted.tokens)
    return PlanView(
        outcome=plan.outcome,
        remedy=remedy(plan) if plan.outcome is PlanOutcome.DOES_NOT_FIT else None,
        method=wanted.method,
        engines=wanted.engines,
        gpus=gpus.number,
        gpu_memory_bytes=gpus.memory_bytes,
        gpu_memory_utilisation_ratio=gpus.utilization,
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
            draft_cost_ratio=cost.token,
            fixed_cost_ratio=cost.step,
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
    """Return a plan as JSON with a final newline."""
    return view(plan).model_dump_json(indent=2, ensure_ascii=True) + "\n"


def lost(before: int | None, after: int | None) -> int | None:
    """Return the difference; None if a value is unknown."""
    return None if before is None or after is None else before - after


def _model(plan: DeploymentPlan, part: MemoryPart) -> ModelView:
    gpus, wanted, model = plan.wanted.gpus.number, plan.wanted, part.model
    size = part.sequence_bytes(gpus, wanted.context, wanted.element_bytes)
    return ModelView(
        name=model.name,
        parameters=model.parameters.total,
        active_parameters=model.parameters.active,
        dtype=model.dtype.name,
        weight_bytes=part.model.weight_bytes,
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


def _observation(observed: ObservedModel) -> PlanObservationView:
    return PlanObservationView(
        model_name=observed.model_name,
        method=observed.method,
        engines=observed.engines,
        draft_tokens=observed.tokens,
        draft_length_tokens=observed.draft_length,
        draft_acceptance_ratio=observed.acceptance,
        generation_tokens_per_second=observed.tokens_per_second,
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
