"""Estimate of a draft token's cost by the bytes that a step reads.

Memory bandwidth bounds decoding of small batches: a step takes as long as reading its data. The bandwidth is
the same for both models and cancels:

    c = (draft weights + its KV cache) / (target weights + its KV cache) + experts + verifying

each as read by one GPU. ``experts`` is the target's experts that a step reads to verify k tokens of each
sequence, beyond those of a plain step. Communication between GPUs and kernel launches are not included.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from spec_decode_exporter.figures.window_figures import Price
from spec_decode_exporter.reports.plan.gpu_memory import MemoryPart


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


@dataclass(frozen=True, slots=True)
class StepReads:
    """Bytes that the steps of a batch read on each GPU."""

    target: MemoryPart
    draft: MemoryPart | None
    batch: int
    """Concurrent sequences."""
    context: int
    element_bytes: int

    @property
    def basis(self) -> CostBasis:
        """Basis of the estimate: with or without the KV cache."""
        return CostBasis.ESTIMATED if self._knows_cache else CostBasis.ESTIMATED_BY_WEIGHTS

    @property
    def plain_bytes(self) -> float:
        """Bytes of a step without speculation."""
        return self._read(self.target)

    @property
    def draft_bytes(self) -> float:
        """Bytes of drafting one token for each sequence."""
        return 0.0 if self.draft is None else self._read(self.draft)

    def expert_bytes(self, tokens: int) -> float:
        """Return the extra bytes of the target in a step that verifies ``tokens`` of each sequence."""
        more = self._weights(self.target, self.batch * (tokens + 1))
        return more - self._weights(self.target, self.batch)

    def draft_cost_ratio(self, tokens: int, verify_cost_ratio: float) -> float:
        """Return c for drafts of ``tokens``, at least one."""
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
    """Cost of drafting by number of draft tokens."""

    reading: StepReads
    basis: CostBasis
    verify_cost_ratio: float
    fixed_cost_ratio: float
    known: float | None = None
    """c if it is given or measured, without c0: the same for every number of tokens."""
    every_step: bool = False
    """True if steps without a draft pay c0 too."""

    def at(self, tokens: int) -> Price:
        """Return the cost of drafts of ``tokens``."""
        ratio = self.known
        if ratio is None:
            ratio = self.reading.draft_cost_ratio(max(tokens, 1), self.verify_cost_ratio)
        return Price(ratio, self.fixed_cost_ratio, self.every_step)
