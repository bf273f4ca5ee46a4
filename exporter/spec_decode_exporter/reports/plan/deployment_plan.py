"""Plan of a deployment: memory, cost of drafting, expected speed-up, and return on memory.

*Memory.* The GPUs of an engine hold a part of the models each, and vLLM gives all of them the same KV cache.

*Cost.* Memory bandwidth bounds decoding of small batches: a step takes as long as reading its data. The
bandwidth is the same for both models and cancels:

    c = (draft weights + its KV cache) / (target weights + its KV cache) + experts + verifying

each as read by one GPU. ``experts`` is the target's experts that a step reads to verify k tokens of each
sequence, beyond those of a plain step. Communication between GPUs and kernel launches are not included.

*Speed-up.* S(k) of ``analysis.depth``, with p_i the share of drafts whose first i+1 tokens are accepted.
Without a measurement p_i = a^(i+1), with the same acceptance a of every token (Leviathan, Kalman and Matias
2023, arXiv 2211.17192, section 3). Its bounds are those of the cost, by ``analysis.cost``.

*Return.* (speed-up - 1) · baseline throughput / draft memory, in tokens a second gained for each GB.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from functools import cached_property
from typing import Annotated, Final

from pydantic import Field, InstanceOf

from spec_decode_exporter.analysis.cost import CostModel
from spec_decode_exporter.analysis.depth import speedup
from spec_decode_exporter.analysis.model_architecture import TargetModel
from spec_decode_exporter.analysis.typical_costs import drafter_cost, every_step_pays
from spec_decode_exporter.analysis.verdict import SpeedupRange, Verdict, speedup_verdict
from spec_decode_exporter.config.cost_settings import Architecture, CostSettings
from spec_decode_exporter.config.policy import DepthPolicy, SpeedupPolicy
from spec_decode_exporter.figures.estimate import Estimate
from spec_decode_exporter.figures.window_figures import Price
from spec_decode_exporter.reports.plan.checkpoint import DRAFT_MODEL
from spec_decode_exporter.reports.plan.model_sizes import Model
from spec_decode_exporter.reports.plan.observed_model import ObservedModel
from spec_decode_exporter.views.document import View, at, computed, fact

MAX_TOKENS: Final = 8
"""Largest number of draft tokens in the table."""
_VERIFY_COST_RATIO: Final = 0.03
"""Cost of verifying a token, in plain decode steps: see ``analysis.typical_costs``."""
_STARTING_COST_RATIO: Final = 0.10
"""Cost of starting a drafter for a step, in plain decode steps: see ``analysis.typical_costs``."""
_HALVINGS: Final = 60
_SPEEDUPS, _TOLERANCE = SpeedupPolicy(), DepthPolicy().tolerance
"""Thresholds of the exporter by default."""
GIGABYTE: Final = 10**9
CAPACITY: Final = ("kv_cache_bytes", "kv_cache_tokens", "concurrent_sequences")
"""Fields of ``Room`` that say what fits."""


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


class CostBasis(StrEnum):
    """Origin of a cost."""

    GIVEN = "given"
    """Given by flags."""
    MEASURED = "measured"
    """Taken from the observation, measured or configured there."""
    ESTIMATED = "estimated"
    """Estimated by the bytes read, KV cache included."""
    ESTIMATED_BY_WEIGHTS = "estimated_by_weights"
    """Estimated by the weights alone: the KV cache of a model is unknown."""


# fmt: off
class PlannedModel(View):
    """Target or draft."""

    name: str
    parameters: int = at("All parameters.", "parameters.total")
    active_parameters: int = at("Parameters that one token uses: all of a dense model.", "parameters.active")
    dtype: str = at("Format of the weights.", "dtype.name")
    weight_bytes: int = at("Over all GPUs, copies included.")
    weights_counted: bool = at("Whether weight_bytes is computed; otherwise it is the size of the files.", "counted")
    guessed: bool = at("Whether the size is only typical for such models.")
    tensor_parallel: int
    kv_cache_bytes_per_token: float | None = at("Over all GPUs, mean over a sequence.")
    vocabulary_tokens: int | None


class Room(View):
    """Memory that models leave. Unknown values are null."""

    weight_bytes: int
    left_after_weights_bytes: int = at("Negative if the weights alone do not fit.")
    kv_cache_bytes: int = at("The same without the overhead.")
    kv_cache_bytes_per_token: float | None = at("Mean over a sequence.")
    kv_cache_tokens: int | None = at("Tokens that fit, in sequences of the plan.")
    concurrent_sequences: int | None = at("Sequences that fit.")
    sequence_bytes: int | None = Field(exclude=True)
    fits: bool = at("Whether the KV cache holds a sequence, as far as its size is known.", exclude=True)


class PlannedCost(View):
    """Cost of drafting, in plain decode steps of the target."""

    draft_cost_ratio: float
    fixed_cost_ratio: float
    basis: CostBasis
    batch_sequences: int = at("Sequences in a step.")


class PlannedDepth(View):
    """Expected speed-up of a number of draft tokens."""

    tokens: int
    speedup_ratio: float
    speedup_lower_ratio: float = at("At the highest possible cost.")
    speedup_upper_ratio: float = at("At the lowest possible cost.")
    acceptance_ratio: float = at("Acceptance rate of these draft tokens, assumed or observed.")
    draft_cost_ratio: float
    break_even_acceptance_ratio: float = at("Acceptance rate; above 1: never pays.")
    break_even_token_acceptance_ratio: float | None = at("Acceptance of a token; null: never pays.")
    measured: bool = at("Whether all its positions were measured.")


class Payoff(View):
    """Return on the memory of drafting, for one engine."""

    draft_tokens: int
    speedup_ratio: float
    baseline_tokens_per_second: float
    gained_tokens_per_second: float
    draft_weight_bytes: int
    draft_kv_cache_bytes: int = at("The draft's part of the KV cache; 0 if unknown.")
    gained_tokens_per_second_per_gigabyte: float | None = at("Null if drafting takes no memory.")
    lower: float | None = at("95 % bounds of that, at the same baseline; null if unknown.")
    upper: float | None
    measured: bool = at("Whether the speed-up was observed; otherwise it is estimated.")
    speedup_bounds: tuple[float, float] | None = Field(exclude=True)
# fmt: on


class DeploymentPlan(View):
    """A plan of one engine: its input, and what follows from it, computed when it is read."""

    target_model: Annotated[InstanceOf[Model], Field(exclude=True)]
    draft_model: Annotated[InstanceOf[Model] | None, Field(exclude=True)]
    """None for a method without a draft model."""
    method: str
    gpus: int = at("Of one engine: the tensor parallel size of its models.")
    gpu_memory_bytes: int
    gpu_memory_utilisation_ratio: float = 0.9
    overhead_bytes: int = at("Of one GPU.", default=0)
    kv_cache_element_bytes: int = at("Bytes of an element: 2, or 1 in FP8.", default=2)
    engines: int = at("On all GPUs.", default=1)
    context_tokens: int = at("Of a sequence, prompt and answer.", default=8192)
    wanted_sequences: int = 32
    draft_tokens: int = 4
    acceptance: float = Field(default=0.7, exclude=True)
    throughput: float | None = Field(default=None, exclude=True)
    """Tokens a second of one engine without speculation; None if unknown."""
    given_cost_ratio: float | None = Field(default=None, exclude=True)
    observed: Annotated[InstanceOf[ObservedModel] | None, Field(exclude=True)] = None

    # fmt: off
    draft_to_target_ratio = fact("Ratio of the active parameters.", float | None, lambda its: its.draft and its.draft.active_parameters / its.target.active_parameters)
    token_acceptance_ratio = fact("Assumed acceptance; null if measured.", float | None, lambda its: None if its.observed else its.acceptance)
    speedup_ratio = fact("At this number of draft tokens and this acceptance.", float, lambda its: its.depth.speedup_ratio)
    observation = fact("Observation behind this plan; null without one.", ObservedModel | None, lambda its: its.observed)
    # fmt: on

    def changed(self, **values: object) -> DeploymentPlan:
        """Return the plan of another input."""
        return DeploymentPlan(**{name: getattr(self, name) for name in type(self).model_fields} | values)

    # Memory

    @property
    def is_decimal(self) -> bool:
        """True if the memory is given in GB, as vendors do, and not in MiB, as nvidia-smi does."""
        return self.gpu_memory_bytes % (GIGABYTE // 10) == 0

    @property
    def all_bytes(self) -> int:
        """Memory of all GPUs."""
        return self.gpus * self.gpu_memory_bytes

    def room(self, *models: Model, element_bytes: int | None = None) -> Room:
        """Return the memory that models leave; ``element_bytes`` is that of the plan by default."""
        weights, context = sum(model.weight_bytes for model in models), self.context_tokens
        left = self.gpus * round(self.gpu_memory_bytes * self.gpu_memory_utilisation_ratio) - weights
        cache = left - self.gpus * self.overhead_bytes
        each = [self.sequence_bytes(model, element_bytes) for model in models]
        known = sum(size or 0 for size in each)
        size = None if None in each else known
        return Room(
            weight_bytes=weights,
            left_after_weights_bytes=left,
            kv_cache_bytes=cache,
            kv_cache_bytes_per_token=None if size is None else size / context,
            kv_cache_tokens=max(cache, 0) * context // size if size else None,
            concurrent_sequences=max(cache, 0) // size if size else None,
            sequence_bytes=size,
            fits=0 < cache >= known,
        )

    def sequence_bytes(self, model: Model, element_bytes: int | None = None) -> int | None:
        """Return the bytes of a sequence in the KV cache over all GPUs; None if unknown."""
        on_each = model.sequence_bytes(
            self.context_tokens, self.gpus, element_bytes or self.kv_cache_element_bytes
        )
        return None if on_each is None else self.gpus * on_each

    @property
    def models(self) -> list[Model]:
        """Target and draft."""
        return [self.target_model, *([self.draft_model] if self.draft_model else [])]

    @computed
    def target(self) -> PlannedModel:
        """The served model."""
        return self._described(self.target_model)

    @computed
    def draft(self) -> PlannedModel | None:
        """The draft model; null for a method without one."""
        return None if self.draft_model is None else self._described(self.draft_model)

    @computed
    def without_draft(self) -> Room:
        """Memory beside the target alone."""
        return self.room(self.target_model)

    @computed
    def with_draft(self) -> Room:
        """Memory beside both models."""
        return self.room(*self.models)

    @computed
    def lost(self) -> dict[str, int | None]:
        """Capacity lost to the draft."""
        pairs = {key: (getattr(self.without_draft, key), getattr(self.with_draft, key)) for key in CAPACITY}
        return {key: None if None in pair else pair[0] - pair[1] for key, pair in pairs.items()}

    @computed
    def outcome(self) -> PlanOutcome:
        """Whether the models fit, and vLLM starts."""
        sequences = self.with_draft.concurrent_sequences
        if not self.with_draft.fits:
            return PlanOutcome.DOES_NOT_FIT
        if self.odd_heads or self.other_vocabulary:
            return PlanOutcome.REFUSED
        if sequences is None:
            return PlanOutcome.WEIGHTS_FIT
        return PlanOutcome.TIGHT if sequences < self.wanted_sequences else PlanOutcome.FITS

    # Cost

    @property
    def batch(self) -> int:
        """Sequences in a step: the wanted ones, as far as they fit."""
        fitting = self.with_draft.concurrent_sequences
        return max(self.wanted_sequences if fitting is None else min(self.wanted_sequences, fitting), 1)

    @computed
    def cost(self) -> PlannedCost:
        """Cost at this number of draft tokens."""
        token, step, _ = self.price(self.draft_tokens)
        basis = CostBasis.ESTIMATED if self._knows_cache else CostBasis.ESTIMATED_BY_WEIGHTS
        if self.given_cost_ratio is not None:
            basis = CostBasis.GIVEN
        elif self.observed is not None and self.observed.cost is not None:
            basis = CostBasis.MEASURED
        return PlannedCost(
            draft_cost_ratio=token, fixed_cost_ratio=step, basis=basis, batch_sequences=self.batch
        )

    def price(self, tokens: int) -> Price:
        """Return the cost of drafts of ``tokens``."""
        observed, typical = self.observed.cost if self.observed else None, drafter_cost(self.method)
        step = _STARTING_COST_RATIO if typical is None else typical.step.guess
        token = self.given_cost_ratio
        if token is None and observed is not None:
            token, step = observed.draft_cost_ratio, observed.fixed_cost_ratio
        if token is None:
            drafted = 0.0 if self.draft_model is None else self._read(self.draft_model)
            token = (drafted + self.expert_bytes(tokens) / tokens) / self.plain_bytes + _VERIFY_COST_RATIO
        return Price(token, step, every_step_pays(self.method))

    def possible_prices(self, tokens: int) -> tuple[Price, Price]:
        """Return the lowest and the highest possible cost, by the exporter's rules; both contain the estimate."""
        price, observed = self.price(tokens), self.observed.cost if self.observed else None
        if observed is not None and self.given_cost_ratio is None:
            low, high = max(observed.draft_cost_ratio_lower, 0.0), observed.draft_cost_ratio_upper
            return price._replace(token=min(price.token, low)), price._replace(token=max(price.token, high))
        settings, its = None, self.target_model
        if self.given_cost_ratio is not None:
            settings = CostSettings(
                draft_cost_ratio=price.token, fixed_cost_ratio=price.step, running_requests=self.batch
            )
        elif self.draft is not None and drafter_cost(self.method) is None:
            sizes = self.draft.active_parameters, self.target.active_parameters
            settings = CostSettings(draft_parameters=min(sizes), target_parameters=sizes[1])
        architecture, ratio = Architecture.DENSE if its.config else None, None
        if its.parameters.experts:
            architecture, ratio = Architecture.MIXTURE_OF_EXPERTS, 1 / its.parameters.expert_share
        model = CostModel(settings, (), self.method, TargetModel(architecture, ratio))
        cost = model.at(self.batch, tokens) or model.typical(self.batch, tokens)
        ends = zip((min, max), (cost.low, cost.high), strict=True)
        least, most = (
            Price(pick(price.token, end.token), pick(price.step, end.step), price.every_step)
            for pick, end in ends
        )
        return least, most

    @property
    def plain_bytes(self) -> float:
        """Bytes that a step without speculation reads on each GPU."""
        return self._read(self.target_model)

    def expert_bytes(self, tokens: int) -> float:
        """Return the extra bytes of the target in a step that verifies ``tokens`` of each sequence."""
        more, plain = (self._weights(self.target_model, self.batch * (number + 1)) for number in (tokens, 0))
        return more - plain

    # Speed-up

    @property
    def reached(self) -> Sequence[float]:
        """p_i, one for each of ``MAX_TOKENS`` positions."""
        if self.observed is not None:
            return self.observed.reached(MAX_TOKENS)
        return [self.acceptance ** (position + 1) for position in range(MAX_TOKENS)]

    @computed
    def depths(self) -> tuple[PlannedDepth, ...]:
        """Each number of draft tokens."""
        return tuple(map(self._depth, range(1, MAX_TOKENS + 1)))

    @property
    def depth(self) -> PlannedDepth:
        """The wanted number of draft tokens."""
        return self.depths[self.draft_tokens - 1]

    @computed
    def verdict(self) -> Verdict:
        """Verdict by the speed-up at this acceptance and every possible cost."""
        its = self.depth
        ends = its.speedup_lower_ratio, its.speedup_upper_ratio
        return speedup_verdict(SpeedupRange(Estimate(its.speedup_ratio, *ends, 0.0), *ends), _SPEEDUPS)

    @computed
    def best_tokens(self) -> int:
        """Fewest draft tokens that are as good as the best; 0 if none is above 1."""
        largest = max(depth.speedup_ratio for depth in self.depths)
        enough = max((1 - _TOLERANCE) * largest, 1.0)
        return next(
            (depth.tokens for depth in self.depths if largest > 1 and depth.speedup_ratio >= enough), 0
        )

    def _depth(self, tokens: int) -> PlannedDepth:
        price, (low, high) = self.price(tokens), self.possible_prices(tokens)
        coverage = 1.0 if self.observed is None else self.observed.coverage
        of_draft = price._replace(step=price.step / (coverage if price.every_step else 1.0))
        accepted = sum(self.reached[:tokens])
        value, lower, upper = (speedup(each, coverage, accepted, tokens) for each in (price, high, low))
        return PlannedDepth(
            tokens=tokens,
            speedup_ratio=value,
            speedup_lower_ratio=lower,
            speedup_upper_ratio=upper,
            acceptance_ratio=accepted / tokens,
            draft_cost_ratio=price.token,
            break_even_acceptance_ratio=price.token + of_draft.step / tokens,
            break_even_token_acceptance_ratio=break_even_token_acceptance(tokens, of_draft),
            measured=self.observed is not None and tokens <= self.observed.draft_tokens,
        )

    # Return

    @computed
    def return_on_memory(self) -> Payoff | None:
        """Null if no throughput is known, or vLLM would not start."""
        its, bounds, room = self.observed, None, self.with_draft
        if self.outcome in {PlanOutcome.DOES_NOT_FIT, PlanOutcome.REFUSED}:
            return None
        tokens = self.draft_tokens if its is None else min(its.draft_tokens, MAX_TOKENS)
        ratio, is_measured = self.depths[tokens - 1].speedup_ratio, False
        if its is not None and its.speedup is not None and self.given_cost_ratio is None:
            tokens, ratio, bounds, is_measured = its.draft_tokens, its.speedup, its.speedup_bounds, True
        baseline = self.throughput if its is None else its.generation_tokens_per_second / ratio
        if baseline is None:
            return None
        weights = 0 if self.draft_model is None else self.draft_model.weight_bytes
        own = None if self.draft_model is None else self.sequence_bytes(self.draft_model)
        cache = max(room.kv_cache_bytes, 0) * own // room.sequence_bytes if own and room.sequence_bytes else 0
        gigabytes = (weights + cache) / GIGABYTE
        gains = [(each - 1) * baseline for each in (ratio, *(bounds or ()))]
        each, *ends = [gain / gigabytes for gain in gains] if gigabytes else [None]
        lower, upper = ends or (None, None)
        return Payoff(
            draft_tokens=tokens,
            speedup_ratio=ratio,
            baseline_tokens_per_second=baseline,
            gained_tokens_per_second=gains[0],
            draft_weight_bytes=weights,
            draft_kv_cache_bytes=cache,
            gained_tokens_per_second_per_gigabyte=each,
            lower=lower,
            upper=upper,
            measured=is_measured,
            speedup_bounds=bounds,
        )

    # Parts

    @property
    def odd_heads(self) -> str:
        """Reason why vLLM would not start if attention heads do not divide evenly over the GPUs, or empty."""
        heads = [model.config.num_attention_heads for model in self.models if model.config is not None]
        odd = next((str(number) for number in heads if number % self.gpus), "")
        return odd and f"{odd} attention heads cannot be divided over {self.gpus} GPUs: vLLM refuses that."

    @property
    def other_vocabulary(self) -> str:
        """Reason why vLLM would not start if a draft model has another vocabulary size, or empty."""
        draft, target = (its and its.vocabulary_tokens for its in (self.draft, self.target))
        if self.method != DRAFT_MODEL or draft is None or target is None or draft == target:
            return ""
        return f"The draft has {draft:,} tokens and the target {target:,}: vLLM refuses a draft model with another vocab_size. Models of one family may differ in it, padded by their size."

    def _described(self, model: Model) -> PlannedModel:
        size, vocabulary = self.sequence_bytes(model), model.config and model.config.vocab_size
        each = None if size is None else size / self.context_tokens
        known = {"kv_cache_bytes_per_token": each, "vocabulary_tokens": vocabulary}
        return PlannedModel.of(model, tensor_parallel=self.gpus, **known)

    @cached_property
    def _knows_cache(self) -> bool:
        return None not in [self.sequence_bytes(model) for model in self.models]

    def _read(self, model: Model) -> float:
        """Return the bytes that a step of a model reads on each GPU."""
        size = (self.sequence_bytes(model) or 0) // self.gpus if self._knows_cache else 0
        return self._weights(model, self.batch) + self.batch * size

    def _weights(self, model: Model, tokens: int) -> float:
        return model.parameters.read_bytes(model.dtype, tokens) / self.gpus


def break_even_token_acceptance(tokens: int, price: Price) -> float | None:
    """Return the acceptance a of a token at break-even; None if even 1 is too low.

    It solves 1 + a + … + a^k = 1 + c0 + c·k; c0 is that of a draft.
    """
    wanted = 1 + price.step + price.token * tokens
    if wanted > tokens + 1:
        return None
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        is_low = sum(middle**position for position in range(tokens + 1)) < wanted
        low, high = (middle, high) if is_low else (low, middle)
    return high
