"""Plan of a deployment: memory of the models on the GPUs, expected speed-up, and return on memory."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from spec_decode_exporter.analysis.typical_costs import every_step_pays
from spec_decode_exporter.reports.plan.draft_method import VERIFY_COST_RATIO, fixed_cost_ratio
from spec_decode_exporter.reports.plan.gpu_memory import GIGABYTE, Gpus, MemoryPart, Room, room
from spec_decode_exporter.reports.plan.observed_models import ObservedModel
from spec_decode_exporter.reports.plan.planned_cost import CostBasis, Costs, StepReads
from spec_decode_exporter.reports.plan.planned_depths import Drafts, PlannedDepth, best, depths, geometric
from spec_decode_exporter.reports.plan.vllm_refusals import refusals


@dataclass(frozen=True, slots=True)
class Payoff:
    """Return on the memory of drafting, for one engine.

        (speed-up - 1) · baseline throughput / draft memory

    in tokens a second gained for each GB: of the draft's weights, copies included, and of the part of the KV
    cache that holds the draft's own keys and values.
    """

    speedup: float
    tokens: int
    """Number of draft tokens."""
    baseline_tokens_per_second: float
    """Throughput without speculation."""
    weight_bytes: int
    cache_bytes: int
    """The draft's part of the KV cache; 0 if unknown."""
    measured: bool
    """True if speed-up and throughput were measured."""
    lower: float | None = None
    """Lower 95 % bound of the speed-up; None if unknown."""
    upper: float | None = None

    @property
    def memory_bytes(self) -> int:
        """GPU memory of drafting."""
        return self.weight_bytes + self.cache_bytes

    @property
    def gained_tokens_per_second(self) -> float:
        """Gain over the baseline; negative if speculation is slower."""
        return (self.speedup - 1) * self.baseline_tokens_per_second

    @property
    def tokens_per_second_per_gigabyte(self) -> float | None:
        """Return on memory; None if drafting takes no memory."""
        return self._per_gigabyte(self.speedup)

    @property
    def bounds(self) -> tuple[float, float] | None:
        """95 % bounds of the return, by those of the speed-up at the same baseline."""
        if self.lower is None or self.upper is None:
            return None
        low, high = self._per_gigabyte(self.lower), self._per_gigabyte(self.upper)
        return None if low is None or high is None else (low, high)

    def _per_gigabyte(self, speedup: float) -> float | None:
        if not self.memory_bytes:
            return None
        return (speedup - 1) * self.baseline_tokens_per_second / (self.memory_bytes / GIGABYTE)


DEFAULT_TOKENS: Final = 4
DEFAULT_ACCEPTANCE: Final = 0.7


class PlanOutcome(StrEnum):
    """Result of a plan."""

    FITS = "fits"
    """The models fit, with the wanted number of sequences."""
    TIGHT = "tight"
    """The models fit, with fewer sequences than wanted."""
    WEIGHTS_FIT = "weights_fit"
    """The weights fit; the size of a sequence in the KV cache is unknown."""
    DOES_NOT_FIT = "does_not_fit"
    """The KV cache has no room for one sequence: vLLM would not start."""
    REFUSED = "refused"
    """The models fit, but vLLM would refuse to start."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Input of a plan."""

    target: MemoryPart
    draft: MemoryPart | None
    """None for a method without a draft model."""
    method: str
    gpus: Gpus
    engines: int = 1
    """Number of engines on the GPUs; the plan covers one."""
    context: int = 8192
    """Tokens of a sequence, prompt and answer."""
    batch: int = 32
    """Concurrent sequences."""
    tokens: int = DEFAULT_TOKENS
    """K, the number of draft tokens."""
    acceptance: float = DEFAULT_ACCEPTANCE
    """Acceptance of a token, given that those before it were accepted."""
    element_bytes: int = 2
    """Bytes of an element of the KV cache."""
    throughput: float | None = None
    """Tokens a second of one engine without speculation; None if unknown."""
    draft_cost_ratio: float | None = None
    measured: ObservedModel | None = None


@dataclass(frozen=True, slots=True)
class DeploymentPlan:
    """Result of planning."""

    wanted: Wanted
    outcome: PlanOutcome
    refusals: tuple[str, ...]
    """Reasons other than memory why vLLM would not start."""
    alone: Room
    """Memory of the target without a draft."""
    drafting: Room
    costs: Costs
    drafts: Drafts
    depths: tuple[PlannedDepth, ...]
    best_tokens: int
    """Recommended number of draft tokens; 0 if none pays."""
    payoff: Payoff | None
    """None if no throughput is known, or vLLM would not start."""

    @property
    def depth(self) -> PlannedDepth:
        """Expected speed-up at the wanted number of draft tokens."""
        return self.depths[self.wanted.tokens - 1]

    @property
    def draft_ratio(self) -> float | None:
        """Ratio of the active parameters of draft and target."""
        draft, target = self.wanted.draft, self.wanted.target
        return None if draft is None else draft.model.parameters.active / target.model.parameters.active


def plan(wanted: Wanted) -> DeploymentPlan:
    """Return the plan of ``wanted``."""
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
    """Return the cost of drafting: given, observed, or estimated."""
    sequences = wanted.batch if drafting.sequences is None else min(wanted.batch, drafting.sequences)
    reading = StepReads(wanted.target, wanted.draft, max(sequences, 1), wanted.context, wanted.element_bytes)
    observed = None if wanted.measured is None else wanted.measured.cost
    fixed, known, basis = fixed_cost_ratio(wanted.method), wanted.draft_cost_ratio, reading.basis
    if known is not None:
        basis = CostBasis.GIVEN
    elif observed is not None:
        known, fixed, basis = observed.draft_cost_ratio, observed.fixed_cost_ratio, CostBasis.MEASURED
    return Costs(reading, basis, VERIFY_COST_RATIO, fixed, known, every_step_pays(wanted.method))


def _payoff(wanted: Wanted, drafting: Room, table: tuple[PlannedDepth, ...]) -> Payoff | None:
    observed = wanted.measured
    tokens = wanted.tokens if observed is None else min(observed.tokens, len(table))
    speedup = table[tokens - 1].speedup
    if observed is not None and observed.speedup is not None and wanted.draft_cost_ratio is None:
        baseline = observed.tokens_per_second / observed.speedup
        payoff = _return(wanted, drafting, baseline, observed.speedup, tokens)
        return replace(
            payoff, measured=True, tokens=observed.tokens, lower=observed.lower, upper=observed.upper
        )
    if observed is not None:
        return _return(wanted, drafting, observed.tokens_per_second / speedup, speedup, tokens)
    if wanted.throughput is None:
        return None
    return _return(wanted, drafting, wanted.throughput, speedup, tokens)


def _return(wanted: Wanted, drafting: Room, baseline: float, speedup: float, tokens: int) -> Payoff:
    return Payoff(
        speedup=speedup,
        tokens=tokens,
        baseline_tokens_per_second=baseline,
        weight_bytes=0 if wanted.draft is None else wanted.draft.model.weight_bytes,
        cache_bytes=draft_cache_bytes(wanted, drafting),
        measured=False,
    )


def draft_cache_bytes(wanted: Wanted, drafting: Room) -> int:
    """Return the bytes of the draft's keys and values in the KV cache; 0 if unknown."""
    if wanted.draft is None or not drafting.sequence_bytes:
        return 0
    own = wanted.draft.sequence_bytes(wanted.gpus.number, wanted.context, wanted.element_bytes) or 0
    return max(drafting.cache_bytes, 0) * own // drafting.sequence_bytes
