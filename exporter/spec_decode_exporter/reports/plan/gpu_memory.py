"""What is left of the GPUs for the KV cache, and how many sequences that holds.

An engine's GPUs each hold a part of the target; vLLM gives all of them as much KV cache as the one with the
least room has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from spec_decode_exporter.reports.plan.memory_sizes import GIGABYTE
from spec_decode_exporter.reports.plan.planned_model import Model


@dataclass(frozen=True, slots=True)
class Gpus:
    """The GPUs of one engine."""

    number: int
    """Over which the target is divided: its tensor parallel size."""
    memory_bytes: int
    """Of one of them."""
    utilisation: float = 0.9
    """The share of it that the engine may take: vLLM's ``--gpu-memory-utilization``."""
    overhead_bytes: int = 0
    """What one of them needs beside weights and KV cache: activations, CUDA graphs, communication."""

    @property
    def is_decimal(self) -> bool:
        """Whether their memory was said in GB, as sellers do, and not in MiB, as nvidia-smi does."""
        return self.memory_bytes % (GIGABYTE // 10) == 0

    @property
    def all_bytes(self) -> int:
        """Their memory together."""
        return self.number * self.memory_bytes

    @property
    def usable_bytes(self) -> int:
        """What the engine may take of all of them."""
        return self.number * round(self.memory_bytes * self.utilisation)


@dataclass(frozen=True, slots=True)
class MemoryPart:
    """A model, and over how many of the GPUs it is divided. With fewer than all there are copies."""

    model: Model
    tensor_parallel: int

    def bytes_over(self, gpus: int) -> int:
        """Return what its weights take over all GPUs, copies included."""
        whole = self.model.weight_bytes
        return gpus * ceil(whole / self.tensor_parallel) if self._is_copied(gpus) else whole

    def sequence_bytes(self, gpus: int, context: int, element_bytes: int) -> int | None:
        """Return what a sequence takes of the KV cache over all GPUs; None where that is not known."""
        own = self.model.sequence_bytes_on_a_gpu(context, self.tensor_parallel, element_bytes)
        return None if own is None else own * gpus

    def _is_copied(self, gpus: int) -> bool:
        return self.tensor_parallel != gpus


@dataclass(frozen=True, slots=True)
class Room:
    """What some models leave of the GPUs."""

    weight_bytes: int
    left_bytes: int
    """Of what the engine may take, after the weights; below 0 where they do not fit."""
    cache_bytes: int
    """The KV cache: the same less the overhead; below 0 where it does not fit."""
    sequence_bytes: int | None
    """What a sequence of the wanted length takes of it; None where that is not known."""
    least_sequence_bytes: int
    """What it takes at least: the part of those models of which it is known."""
    context: int
    """That length, in tokens."""

    @property
    def sequences(self) -> int | None:
        """How many sequences fit at a time."""
        return None if not self.sequence_bytes else max(self.cache_bytes, 0) // self.sequence_bytes

    @property
    def tokens(self) -> int | None:
        """How many tokens of sequences of that length fit."""
        if not self.sequence_bytes:
            return None
        return max(self.cache_bytes, 0) * self.context // self.sequence_bytes

    @property
    def bytes_per_token(self) -> float | None:
        """What a token takes of the KV cache, in the mean over a sequence."""
        return None if self.sequence_bytes is None else self.sequence_bytes / self.context

    @property
    def fits(self) -> bool:
        """Whether there is a KV cache, and a whole sequence is not known to be larger."""
        return self.cache_bytes > 0 and self.least_sequence_bytes <= self.cache_bytes


def room(gpus: Gpus, parts: Sequence[MemoryPart], context: int, element_bytes: int) -> Room:
    """Return what ``parts`` leave of some GPUs.

    Args:
        gpus: The GPUs of one engine.
        parts: The models that lie on them.
        context: How long a sequence is, in tokens.
        element_bytes: What a number of the KV cache takes: 2, or 1 in FP8.
    """
    weights = sum(part.bytes_over(gpus.number) for part in parts)
    left = gpus.usable_bytes - weights
    each = [part.sequence_bytes(gpus.number, context, element_bytes) for part in parts]
    known = [size for size in each if size is not None]
    return Room(
        weight_bytes=weights,
        left_bytes=left,
        cache_bytes=left - gpus.number * gpus.overhead_bytes,
        sequence_bytes=sum(known) if len(known) == len(each) else None,
        least_sequence_bytes=sum(known),
        context=context,
    )
