"""JSON models of a plan, with units in the field names. Ratios are shares, or plain decode steps."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from spec_decode_exporter.reports.plan.deployment_plan import PlanOutcome
from spec_decode_exporter.reports.plan.plan_warnings import PlanWarningName
from spec_decode_exporter.reports.plan.planned_cost import CostBasis


class PlanPart(BaseModel):
    """Base of the models."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class ModelView(PlanPart):
    """Target or draft."""

    name: str
    parameters: int
    active_parameters: int = Field(description="Parameters that one token uses: all of a dense model.")
    dtype: str
    weight_bytes: int = Field(description="Over all GPUs, copies included.")
    weights_counted: bool = Field(
        description="Whether weight_bytes is computed; otherwise it is the size of the files."
    )
    guessed: bool = Field(description="Whether the size is only typical for such models.")
    tensor_parallel: int
    kv_cache_bytes_per_token: float | None = Field(description="Over all GPUs, mean over a sequence.")
    vocabulary_tokens: int | None


class RoomView(PlanPart):
    """Memory that models leave. Unknown values are null."""

    weight_bytes: int
    left_after_weights_bytes: int = Field(description="Negative if the weights alone do not fit.")
    kv_cache_bytes: int = Field(description="The same without the overhead.")
    kv_cache_bytes_per_token: float | None
    kv_cache_tokens: int | None
    concurrent_sequences: int | None


class LostView(PlanPart):
    """Capacity lost to the draft."""

    kv_cache_bytes: int
    kv_cache_tokens: int | None
    concurrent_sequences: int | None


class PlanCostView(PlanPart):
    """Cost of drafting, in plain decode steps of the target."""

    draft_cost_ratio: float
    fixed_cost_ratio: float
    basis: CostBasis
    batch_sequences: int = Field(description="Sequences in a step.")


class PlanDepthView(PlanPart):
    """Expected speed-up of a number of draft tokens."""

    tokens: int
    speedup_ratio: float
    acceptance_ratio: float = Field(description="Acceptance rate of these draft tokens, assumed or observed.")
    draft_cost_ratio: float
    break_even_acceptance_ratio: float = Field(description="Acceptance rate; above 1: never pays.")
    break_even_token_acceptance_ratio: float | None = Field(
        description="Acceptance of a token; null: never pays."
    )
    measured: bool


class PayoffView(PlanPart):
    """Return on the memory of drafting."""

    draft_tokens: int
    speedup_ratio: float
    baseline_tokens_per_second: float
    gained_tokens_per_second: float
    draft_weight_bytes: int
    draft_kv_cache_bytes: int
    gained_tokens_per_second_per_gigabyte: float | None = Field(
        description="Null if drafting takes no memory."
    )
    lower: float | None = Field(description="95 % bounds; null if unknown.")
    upper: float | None
    measured: bool = Field(description="Whether the speed-up was observed; otherwise it is estimated.")


class PlanObservationView(PlanPart):
    """Observation behind this plan."""

    model_name: str
    method: str = Field(description="Empty if unknown.")
    engines: int
    draft_tokens: int = Field(description="Maximum in a draft.")
    draft_length_tokens: float
    draft_acceptance_ratio: float
    generation_tokens_per_second: float = Field(description="Mean of one engine.")


class PlanWarningView(PlanPart):
    """A warning."""

    name: PlanWarningName
    text: str


class PlanView(PlanPart):
    """A plan. The figures are of one engine."""

    outcome: PlanOutcome
    remedy: str | None = Field(description="Smallest change that makes the models fit; null if they fit.")
    method: str
    engines: int
    gpus: int = Field(description="Of one engine.")
    gpu_memory_bytes: int
    gpu_memory_utilisation_ratio: float
    overhead_bytes: int = Field(description="Of one GPU.")
    kv_cache_element_bytes: int = Field(description="Bytes of an element: 2, or 1 in FP8.")
    context_tokens: int
    wanted_sequences: int
    draft_tokens: int
    token_acceptance_ratio: float | None = Field(description="Assumed acceptance; null if measured.")
    target: ModelView
    draft: ModelView | None
    draft_to_target_ratio: float | None
    without_draft: RoomView
    with_draft: RoomView
    lost: LostView
    cost: PlanCostView
    speedup_ratio: float = Field(description="At this number of draft tokens and this acceptance.")
    depths: tuple[PlanDepthView, ...]
    best_tokens: int = Field(description="0 if no number of draft tokens pays.")
    return_on_memory: PayoffView | None
    observation: PlanObservationView | None
    cautions: tuple[PlanWarningView, ...]
