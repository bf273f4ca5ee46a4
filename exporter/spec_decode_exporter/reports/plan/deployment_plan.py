"""Plan of a deployment: memory of the models, and expected speed-up by what a step reads of them.

*Memory.* The GPUs of an engine hold a part of the models each, and vLLM gives all of them the same KV cache.

*Cost.* Memory bandwidth bounds decoding of small batches: a step takes as long as reading its data. The
bandwidth is the same for both models and cancels, so a draft model's share of a plain step is

    (draft weights + its KV cache) / (target weights + its KV cache)

each as read by one GPU. ``costs.cost`` has its bounds, verification, and the typical cost of other methods.

*Return.* (speed-up - 1) · baseline throughput / draft memory, in tokens a second gained for each GB.
"""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from functools import cached_property
from math import ceil
from typing import Annotated, Final

from pydantic import Field, InstanceOf

from spec_decode_exporter.config.cost_settings import Architecture
from spec_decode_exporter.costs.methods import DRAFT_MODEL
from spec_decode_exporter.costs.model_architecture import TargetModel, target_model
from spec_decode_exporter.reports.plan.expected_speedup import SpeedupPlan
from spec_decode_exporter.reports.plan.model_sizes import Model
from spec_decode_exporter.views.document import View, at, computed, fact

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


class DeploymentPlan(SpeedupPlan):
    """A plan of one engine: its input, and what follows from it, computed when it is read."""

    target_model: Annotated[InstanceOf[Model], Field(exclude=True)]
    draft_model: Annotated[InstanceOf[Model] | None, Field(exclude=True)]
    """None for a method without a draft model."""
    gpus: int = at("Of one engine: the tensor parallel size of its models.")
    gpu_memory_bytes: int
    gpu_memory_utilisation_ratio: float = 0.9
    overhead_bytes: int = at("Of one GPU.", default=0)
    kv_cache_element_bytes: int = at("Bytes of an element: 2, or 1 in FP8.", default=2)
    engines: int = at("On all GPUs.", default=1)
    context_tokens: int = at("Of a sequence, prompt and answer.", default=8192)
    throughput: float | None = Field(default=None, exclude=True)
    """Tokens a second of one engine without speculation; None if unknown."""

    # fmt: off
    wanted_sequences = fact("Running requests, as whole sequences.", int, lambda its: ceil(its.running_requests))
    draft_to_target_ratio = fact("Ratio of the active parameters.", float | None, lambda its: its.draft and its.draft.active_parameters / its.target.active_parameters)
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
    def load(self) -> int:
        """Sequences in a step: the wanted ones, as far as they fit."""
        wanted: int = self.wanted_sequences
        fitting = self.with_draft.concurrent_sequences
        return max(wanted if fitting is None else min(wanted, fitting), 1)

    @cached_property
    def served_model(self) -> TargetModel:
        """The target by its name, with what its config.json says."""
        its, named = self.target_model, target_model(self.model_name)
        if its.config is None and not its.parameters.experts:
            return named
        mixture = Architecture.MIXTURE_OF_EXPERTS if its.parameters.experts else Architecture.DENSE
        return replace(named, architecture=mixture)

    # Return

    @computed
    def return_on_memory(self) -> Payoff | None:
        """Null if no throughput is known, or vLLM would not start."""
        its, bounds, room = self.observed, None, self.with_draft
        if self.outcome in {PlanOutcome.DOES_NOT_FIT, PlanOutcome.REFUSED}:
            return None
        tokens = self.draft_tokens if its is None else its.draft_tokens
        depth, is_measured = self.depth_of(tokens), False
        ratio = None if depth is None else depth.speedup_ratio
        if its is not None and its.speedup is not None and self.given_cost_ratio is None:
            tokens, ratio, bounds, is_measured = its.draft_tokens, its.speedup, its.speedup_bounds, True
        if ratio is None:
            return None
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
