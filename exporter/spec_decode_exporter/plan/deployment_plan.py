"""Plan of a deployment: GPUs, expected speed-up, memory of the models, and return on the draft's memory.

The GPUs of an engine hold a part of the models each, and vLLM gives all of them the same KV cache.
Return: (speed-up - 1) · baseline throughput / draft memory, in tokens a second gained for each GB.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from enum import StrEnum
from math import ceil
from typing import Final, NamedTuple

from pydantic import ByteSize, Field, TypeAdapter, ValidationError

from spec_decode_exporter.costs.methods import DRAFT_MODEL
from spec_decode_exporter.plan.model_config import Model
from spec_decode_exporter.plan.speedup_plan import SpeedupPlan
from spec_decode_exporter.views.document import View, at, computed, fact

GIGABYTE: Final = 10**9
GPUS: Final[Mapping[str, int]] = {
    "A10G": 23_028, "L4": 23_034, "RTX-4090": 24_564, "RTX-5090": 32_607, "A100-40GB": 40_960, "L40S": 46_068,
    "H100": 81_559, "A100": 81_920, "H20": 97_871, "GH200": 97_871, "RTX-PRO-6000": 97_887, "H200": 143_771,
    "B200": 183_359, "GB200": 189_471, "MI300X": 196_592,
}  # fmt: skip
"""Memory in MiB, as nvidia-smi or rocm-smi shows it."""
DEFAULT: Final = "H100"
_SIZE: Final = TypeAdapter(ByteSize)


class Gpu(NamedTuple):
    """A kind of GPU, such as ``H100``; one of a given memory has no name."""

    name: str
    memory_bytes: int


def gpu_of(text: str) -> Gpu:
    """Return a GPU by its name or its memory.

    Raises:
        ValueError: The text is neither; the message has the nearest name.
    """
    name = re.sub("[ _]", "-", text.strip().upper())
    if name in GPUS:
        return Gpu(name, GPUS[name] * 2**20)
    if text[:1].isdigit():
        if size := memory(text):
            return Gpu("", size)
        raise ValueError(f"a GPU has more memory than {text!r}")
    near = get_close_matches(name, GPUS, n=1)
    hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(GPUS)};"
    raise ValueError(f"unknown GPU {text[:60]!r}; {hint} or give its memory, such as 81559MiB")


def memory(text: str) -> int:
    """Return the bytes in ``text``: ``80GB`` is 80 · 10^9, ``143771MiB`` is 143771 · 2^20.

    Raises:
        ValueError: The text is no amount of memory; the message has examples.
    """
    wrong = f"{text[:60]!r} is no amount of memory; write it as 80GB, 79.6GiB or 81559MiB"
    if text != "0" and not text.strip().upper().endswith("B"):
        raise ValueError(wrong)
    try:
        return int(_SIZE.validate_python(text.strip()))
    except (ValidationError, OverflowError):
        raise ValueError(wrong) from None


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
class Room(View):
    """Memory that models leave. Unknown values are null."""

    weight_bytes: int
    kv_cache_bytes: int = at("Without weights and overhead; negative if they do not fit.")
    kv_cache_bytes_per_token: float | None = at("Mean over a sequence.")
    kv_cache_tokens: int | None = at("Tokens that fit, in sequences of the plan.")
    concurrent_sequences: int | None = at("Sequences that fit.")
    fits: bool = at("Whether the KV cache holds a sequence, as far as its size is known.", exclude=True)


class MemoryReturn(View):
    """Return on the memory of drafting, for one engine."""

    baseline_tokens_per_second: float = at("Without speculation.")
    gained_tokens_per_second: float
    draft_memory_bytes: int = at("The draft's weights, and its part of the KV cache if that is known.")
    gained_tokens_per_second_per_gigabyte: float | None = at("Null if drafting takes no memory.")
    lower: float | None = at("That at the highest possible cost, and the same baseline.")
    upper: float | None = at("That at the lowest possible cost.")
# fmt: on


class DeploymentPlan(SpeedupPlan):
    """A plan of one engine: its input, and what follows from it, computed when it is read."""

    target: Model = at("The served model.")
    draft: Model | None = at("The draft model; null for a method without one.")
    gpus: int = at("Of one engine: the tensor parallel size of its models.")
    gpu_name: str = at("Kind of the GPUs; empty if only their memory was given.", default="")
    gpu_memory_bytes: int
    gpu_memory_utilisation_ratio: float = 0.9
    overhead_bytes: int = at("Of one GPU.", default=0)
    kv_cache_element_bytes: int = at("Bytes of an element: 2, or 1 in FP8.", default=2)
    engines: int = at("On all GPUs.", default=1)
    context_tokens: int = at("Of a sequence, prompt and answer.", default=8192)
    throughput: float | None = Field(default=None, exclude=True)
    """Tokens a second of one engine without speculation; None if unknown."""

    # fmt: off
    wanted_sequences = fact("Running requests, as whole sequences.", int, lambda plan: ceil(plan.running_requests))
    draft_to_target_ratio = fact("Ratio of the active parameters.", float | None, lambda plan: plan.draft and plan.draft.active_parameters / plan.target.active_parameters)
    # fmt: on

    @property
    def load(self) -> int:
        """Sequences in a step: the wanted ones, as far as they fit; all of them if none fits."""
        wanted: int = self.wanted_sequences
        return min(wanted, self.with_draft.concurrent_sequences or wanted)

    @property
    def models(self) -> list[Model]:
        """Target and draft."""
        return [self.target, *([self.draft] if self.draft else [])]

    def sequence_bytes(self, model: Model) -> int | None:
        """Return the bytes of a sequence in the KV cache over all GPUs; None if unknown."""
        return model.sequence_bytes(self.context_tokens, self.gpus, self.kv_cache_element_bytes)

    def room(self, *models: Model) -> Room:
        """Return the memory that models leave."""
        weights = sum(model.weight_bytes for model in models)
        usable = round(self.gpu_memory_bytes * self.gpu_memory_utilisation_ratio) - self.overhead_bytes
        cache = self.gpus * usable - weights
        sizes = [self.sequence_bytes(model) for model in models]
        known = sum(size or 0 for size in sizes)
        size = None if None in sizes else known
        return Room(
            weight_bytes=weights,
            kv_cache_bytes=cache,
            kv_cache_bytes_per_token=None if size is None else size / self.context_tokens,
            kv_cache_tokens=max(cache, 0) * self.context_tokens // size if size else None,
            concurrent_sequences=max(cache, 0) // size if size else None,
            fits=0 < cache >= known,
        )

    @property
    def unknown_caches(self) -> list[str]:
        """Models whose KV cache has an unknown size."""
        roles = zip(("target", "draft"), self.models, strict=False)
        return [role for role, model in roles if self.sequence_bytes(model) is None]

    @computed
    def without_draft(self) -> Room:
        """Memory beside the target alone."""
        return self.room(self.target)

    @computed
    def with_draft(self) -> Room:
        """Memory beside both models."""
        return self.room(*self.models)

    @computed
    def outcome(self) -> PlanOutcome:
        """Whether the models fit, and vLLM starts."""
        sequences = self.with_draft.concurrent_sequences
        if not self.with_draft.fits or self.refusal:
            return PlanOutcome.REFUSED if self.with_draft.fits else PlanOutcome.DOES_NOT_FIT
        if sequences is None:
            return PlanOutcome.WEIGHTS_FIT
        return PlanOutcome.TIGHT if sequences < self.wanted_sequences else PlanOutcome.FITS

    @computed
    def refusal(self) -> str:
        """Reason why vLLM would not start though the models fit, or empty."""
        configs = [model.config for model in self.models if model.config is not None]
        for heads in (config.num_attention_heads for config in configs):
            if heads % self.gpus:
                return f"{heads} attention heads cannot be divided over {self.gpus} GPUs: vLLM refuses that."
        sizes = [f"{config.vocab_size:,}" for config in configs]
        if self.method != DRAFT_MODEL or len(set(sizes)) < len(self.models):
            return ""
        return (
            f"The draft has {sizes[1]} tokens and the target {sizes[0]}: vLLM refuses a draft model with another "
            "vocab_size. Models of one family may differ in it, padded by their size."
        )

    @computed
    def return_on_memory(self) -> MemoryReturn | None:
        """Null if no throughput is known, or vLLM would not start."""
        baseline, depth, room = self.throughput, self.depth, self.with_draft
        if baseline is None or depth is None or not room.fits or self.refusal:
            return None
        size = cache = 0
        if self.draft is not None:
            share, per_token = self.sequence_bytes(self.draft), room.kv_cache_bytes_per_token
            if share and per_token:
                cache = int(room.kv_cache_bytes * share / (per_token * self.context_tokens))
            size = self.draft.weight_bytes + cache
        gains = [(ratio - 1) * baseline for ratio in depth.bounds[:3]]
        each, lower, upper = (gain * GIGABYTE / size if size else None for gain in gains)
        return MemoryReturn(
            baseline_tokens_per_second=baseline,
            gained_tokens_per_second=gains[0],
            draft_memory_bytes=size,
            gained_tokens_per_second_per_gigabyte=each,
            lower=lower,
            upper=upper,
        )
