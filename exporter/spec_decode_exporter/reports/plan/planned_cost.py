"""What a draft token costs before anything was measured: an estimate by the bytes that are read.

Decoding is bound by memory while the batch is small: a step takes as long as reading what it needs does. The
bandwidth is the same for both models, so that it falls out of their ratio:

    c = (draft weights + its KV cache) / (target weights + its KV cache) + experts + verifying

each by what one GPU reads of it. ``experts`` is what verifying k tokens of each sequence makes a step read of
a target's experts beyond a plain one. Communication between GPUs and starting kernels is in none of these.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from spec_decode_exporter.analysis.cost import Cost, CostSource
from spec_decode_exporter.reports.plan.gpu_memory import MemoryPart


class CostBasis(StrEnum):
    """What a cost rests on."""

    GIVEN = "given"
    """Somebody said it."""
    MEASURED = "measured"
    """It is what the observation says, as measured or configured there."""
    ESTIMATED = "estimated"
    """By the bytes that are read, the KV cache included."""
    ESTIMATED_BY_WEIGHTS = "estimated_by_weights"
    """By the weights alone, since the KV cache of one of the two is not known."""


@dataclass(frozen=True, slots=True)
class StepReads:
    """What the steps of a batch read of each GPU."""

    target: MemoryPart
    draft: MemoryPart | None
    batch: int
    """Sequences that are decoded at a time."""
    context: int
    element_bytes: int

    @property
    def basis(self) -> CostBasis:
        """Whether the KV cache is in it."""
        return CostBasis.ESTIMATED if self._knows_cache else CostBasis.ESTIMATED_BY_WEIGHTS

    @property
    def plain_bytes(self) -> float:
        """What a step without speculation reads."""
        return self._read(self.target)

    @property
    def draft_bytes(self) -> float:
        """What drafting one token for each sequence reads."""
        return 0.0 if self.draft is None else self._read(self.draft)

    def expert_bytes(self, tokens: int) -> float:
        """Return what a step that verifies so many tokens of each sequence reads more of the target."""
        more = self._weights(self.target, self.batch * (tokens + 1))
        return more - self._weights(self.target, self.batch)

    def draft_cost_ratio(self, tokens: int, verify_cost_ratio: float) -> float:
        """Return c where so many tokens are drafted at a time, at least one."""
        read = self.draft_bytes + self.expert_bytes(tokens) / tokens
        return read / self.plain_bytes + verify_cost_ratio

    @property
    def _knows_cache(self) -> bool:
        parts = [self.target, *([] if self.draft is None else [self.draft])]
        return None not in [self._cache(part) for part in parts]

    def _read(self, part: MemoryPart) -> float:
        cache = self._cache(part) if self._knows_cache else 0
        return self._weights(part, self.batch) + self.batch * (cache or 0)

    def _cache(self, part: MemoryPart) -> int | None:
        return part.model.sequence_bytes_on_a_gpu(self.context, part.tensor_parallel, self.element_bytes)

    @staticmethod
    def _weights(part: MemoryPart, tokens: int) -> float:
        return part.model.parameters.read_bytes(part.model.dtype, tokens) / part.tensor_parallel


@dataclass(frozen=True, slots=True)
class Costs:
    """What drafting so many tokens costs."""

    reading: StepReads
    basis: CostBasis
    verify_cost_ratio: float
    fixed_cost_ratio: float
    known: float | None = None
    """c where it is given or measured: the same for every number of tokens."""

    def at(self, tokens: int) -> Cost:
        """Return the cost of drafts of so many tokens."""
        ratio = self.known
        if ratio is None:
            ratio = self.reading.draft_cost_ratio(max(tokens, 1), self.verify_cost_ratio)
        return Cost(ratio, self.fixed_cost_ratio, CostSource.CONFIGURED, None)
