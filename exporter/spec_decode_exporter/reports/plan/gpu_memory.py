"""Memory of GPUs: weights of the models, and the rest for the KV cache.

The GPUs of an engine hold a part of the target each. vLLM gives all of them as much KV cache as the GPU with
the least free memory has.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from spec_decode_exporter.reports.plan.planned_model import Model

GIGABYTE: Final = 10**9
GIBIBYTE: Final = 2**30

_PREFIXES: Final = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}
_MEMORY: Final = re.compile(
    r"(?P<number>[0-9]{1,12}(?:\.[0-9]{1,9})?)\s?(?P<prefix>[KMGT]?)(?P<binary>i?)B", flags=re.ASCII
)


def parse_memory(text: str) -> int:
    """Return the bytes in ``text``: ``80GB`` is 80 · 10^9, ``143771MiB`` is 143771 · 2^20.

    Raises:
        ValueError: The text is no amount of memory; the message has examples.
    """
    match = _MEMORY.fullmatch(text.strip())
    if text == "0":
        return 0
    if match is None or (match["binary"] and not match["prefix"]):
        raise ValueError(f"{text!r} is no amount of memory; write it as 80GB, 79.6GiB or 81559MiB")
    base = 1024 if match["binary"] else 1000
    return int(Fraction(match["number"]) * base ** _PREFIXES[match["prefix"]])


@dataclass(frozen=True, slots=True)
class Gpus:
    """The GPUs of one engine."""

    number: int
    """Number of GPUs: the tensor parallel size of the target."""
    memory_bytes: int
    """Memory of one GPU."""
    utilization: float = 0.9
    """Share of the memory for the engine: vLLM's ``--gpu-memory-utilization``."""
    overhead_bytes: int = 0
    """Memory of one GPU beside weights and KV cache: activations, CUDA graphs, communication."""

    @property
    def is_decimal(self) -> bool:
        """True if the memory is given in GB, as vendors do, and not in MiB, as nvidia-smi does."""
        return self.memory_bytes % (GIGABYTE // 10) == 0

    @property
    def all_bytes(self) -> int:
        """Memory of all GPUs."""
        return self.number * self.memory_bytes

    @property
    def usable_bytes(self) -> int:
        """Memory of all GPUs for the engine."""
        return self.number * round(self.memory_bytes * self.utilization)


@dataclass(frozen=True, slots=True)
class MemoryPart:
    """A model and its tensor parallel size: the number of GPUs of its engine."""

    model: Model
    tensor_parallel: int

    def sequence_bytes(self, gpus: int, context: int, element_bytes: int) -> int | None:
        """Return the bytes of a sequence in the KV cache over all GPUs; None if unknown."""
        size = self.model.sequence_bytes_on_a_gpu(context, self.tensor_parallel, element_bytes)
        return None if size is None else size * gpus


@dataclass(frozen=True, slots=True)
class Room:
    """Free memory beside some models."""

    weight_bytes: int
    left_bytes: int
    """Memory of the engine after the weights; negative if they do not fit."""
    cache_bytes: int
    """KV cache: the same without the overhead; negative if it does not fit."""
    sequence_bytes: int | None
    """Bytes of a sequence of ``context`` tokens; None if unknown."""
    min_sequence_bytes: int
    """Known part of the bytes of a sequence."""
    context: int
    """Length of a sequence, in tokens."""

    @property
    def sequences(self) -> int | None:
        """Number of sequences that fit."""
        return None if not self.sequence_bytes else max(self.cache_bytes, 0) // self.sequence_bytes

    @property
    def tokens(self) -> int | None:
        """Number of tokens that fit, in sequences of that length."""
        if not self.sequence_bytes:
            return None
        return max(self.cache_bytes, 0) * self.context // self.sequence_bytes

    @property
    def bytes_per_token(self) -> float | None:
        """Mean bytes of a token in the KV cache."""
        return None if self.sequence_bytes is None else self.sequence_bytes / self.context

    @property
    def fits(self) -> bool:
        """True if the KV cache holds at least one sequence, as far as its size is known."""
        return self.cache_bytes > 0 and self.min_sequence_bytes <= self.cache_bytes


def room(gpus: Gpus, parts: Sequence[MemoryPart], context: int, element_bytes: int) -> Room:
    """Return the memory that ``parts`` leave.

    Args:
        gpus: The GPUs of one engine.
        parts: Models on the GPUs.
        context: Tokens of a sequence.
        element_bytes: Bytes of an element of the KV cache: 2, or 1 in FP8.
    """
    weights = sum(part.model.weight_bytes for part in parts)
    left = gpus.usable_bytes - weights
    each = [part.sequence_bytes(gpus.number, context, element_bytes) for part in parts]
    known = [size for size in each if size is not None]
    return Room(
        weight_bytes=weights,
        left_bytes=left,
        cache_bytes=left - gpus.number * gpus.overhead_bytes,
        sequence_bytes=sum(known) if len(known) == len(each) else None,
        min_sequence_bytes=sum(known),
        context=context,
    )
