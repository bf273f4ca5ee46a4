"""How many bits a weight takes: ONE table of the names that vLLM and checkpoints use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

SIXTEEN: Final = Fraction(16)

_BITS: Final[Mapping[str, Fraction]] = {
    "float32": Fraction(32),
    "bfloat16": SIXTEEN,
    "float16": SIXTEEN,
    "fp8": Fraction(8),
    "int8": Fraction(8),
    "int4": Fraction(4),
    # A scale of 8 bits for 16 and for 32 weights; the others' scales are fewer, and are not counted.
    "nvfp4": Fraction(9, 2),
    "mxfp4": Fraction(17, 4),
}
_ALIASES: Final = {
    "float": "float32",
    "fp32": "float32",
    "bf16": "bfloat16",
    "fp16": "float16",
    "half": "float16",
}

DTYPES: Final = tuple(_BITS)


@dataclass(frozen=True, slots=True)
class Dtype:
    """What the weights of a model are kept in."""

    name: str
    bits: Fraction
    """Of one weight of a layer, its share of scales included where they matter."""

    @property
    def of_experts_only(self) -> bool:
        """Whether the attention of a mixture of experts stays in 16 bits, as that of gpt-oss does."""
        return self.name == "mxfp4"

    @property
    def rest_bits(self) -> Fraction:
        """Of one weight that quantising leaves alone: of the embedding, and of the output matrix."""
        return max(self.bits, SIXTEEN)


def dtype_of(name: str) -> Dtype:
    """Return what a name stands for.

    Raises:
        ValueError: Nobody knows; the message says which names there are.
    """
    known = _ALIASES.get(name.lower().removeprefix("torch."), name.lower().removeprefix("torch."))
    if known not in _BITS:
        raise ValueError(f"{name[:60]!r} is no dtype that is known; the dtypes are {', '.join(DTYPES)}")
    return Dtype(known, _BITS[known])
