"""What the name of a served model says of its size and weights, and how it is deployed.

``published_models.csv`` has what a name does not say, by the models' config.json and cards.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from csv import DictReader
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Final

from spec_decode_exporter.config.cost_settings import Architecture

_PARAMETERS: Final = re.compile(r"(?<![a-z0-9.])(?:(\d+)x)?(\d+(?:\.\d+)?)(b|m)(?![a-z0-9])", re.IGNORECASE)
_ACTIVE: Final = re.compile(r"(?<![a-z0-9])a(\d+(?:\.\d+)?)b(?![a-z0-9])", re.IGNORECASE)
_SHARED: Final = 0.83
"""Parameters of a mixture of n models over n times those of one: they share the attention (Mixtral)."""
_LOCAL: Final = re.compile(
    r"gguf|ggml|(?<![a-z])mlx|(?<![a-z])exl[23]|(?<![a-z0-9])i?q[2-8](?:[-_](?:k|0|1|x?xs|xl|s|m|l|nl))*(?![a-z0-9])",
    re.IGNORECASE,
)
"""Files of llama.cpp, MLX and ExLlama, which consumer GPUs serve."""
_FOUR_BITS: Final = re.compile(
    r"awq|gptq(?!.*(?:int8|8.?bit))|w4a(?:8|16)|(?<![a-z])int-?4(?!\d)|(?<![a-z0-9])4.?bit|nf4|bnb|bitsandbytes|auto-?round",
    re.IGNORECASE,
)
_FLOAT_FOUR: Final = re.compile(r"(?:nv|mx)?fp4", re.IGNORECASE)
"""Formats that large mixtures have on GPUs with such units, and other models on any."""
_EIGHT_BITS: Final = re.compile(
    r"fp8|w8a(?:8|16)|(?<![a-z])int-?8(?!\d)|(?<![a-z0-9])8.?bit|gptq", re.IGNORECASE
)
_WEIGHT_BYTES: Final = ((_LOCAL, 0.6), (_FOUR_BITS, 0.53), (_FLOAT_FOUR, 0.56), (_EIGHT_BITS, 1.0))
"""Bytes of a parameter with its scales, the first that matches."""
_FORMAT: Final = re.compile(
    r"(?:[-_.](?:instruct|it|fp8|nvfp4|mxfp4|fp4|awq|gptq|gguf|ud|int-?[48]|w\da\d+|bf16|fp16|i?q\d\w*+))++$"
)
"""End of a name with the tuning and the format of the weights."""
_BILLION, _MILLION, _MOST = 1e9, 1e6, 1e13
_LIGHT, _TINY = 5e9, 2e9


@dataclass(frozen=True, slots=True)
class TargetModel:
    """A served model, as far as the cost of drafting depends on it. Unknown values are None."""

    architecture: Architecture | None = None
    experts_ratio: float | None = None
    """Experts of a mixture over the experts of a token."""
    parameters: float | None = None
    active_parameters: float | None = None
    """Parameters that a token uses: all of a dense model."""
    weight_bytes: float = 2.0
    """Bytes of a parameter; 2 if the name says nothing."""
    is_quantised: bool = False
    """True if its weights have about four bits: most kernels compute in 16 bits."""
    is_local: bool = False
    """True if it is a file of an engine for consumer GPUs."""

    @property
    def is_light(self) -> bool:
        """True if a step reads so little that the rest of it counts: quantised, or below 5 billion."""
        return self.is_quantised or self.is_local or (self.parameters or _LIGHT) < _LIGHT

    @property
    def read_bytes(self) -> float:
        """Bytes of weights that a token needs; 0 if unknown."""
        return (self.active_parameters or self.parameters or 0.0) * self.weight_bytes

    @property
    def all_bytes(self) -> float:
        """Bytes of all weights; 0 if unknown."""
        return (self.parameters or 0.0) * self.weight_bytes

    @property
    def is_tiny(self) -> bool:
        """True if a step is mostly launches, below 2 billion parameters: no typical cost is known."""
        return (self.parameters or _TINY) < _TINY


@dataclass(frozen=True, slots=True)
class Deployment:
    """How an engine serves its model, as far as the cost of drafting depends on it."""

    tensor_parallel: int | None = None
    """GPUs over which each layer is divided; None if unknown."""
    expert_parallel: int | None = None
    """GPUs over which the experts of a mixture are divided; None if unknown."""
    is_datacentre: bool = True
    """False for consumer GPUs and engines on them."""
    drafts_in_parallel: bool = False
    """True if one pass of the drafter drafts all tokens: ``parallel_drafting`` of vLLM."""


UNKNOWN_TARGET: Final = TargetModel()
UNKNOWN_DEPLOYMENT: Final = Deployment()


def data_rows(name: str) -> Iterator[dict[str, str]]:
    """Yield the rows of a table of published data beside this module."""
    with Path(__file__).with_name(name).open(encoding="utf-8", newline="") as file:
        yield from DictReader(file)


@cache
def _families() -> list[tuple[re.Pattern[str], dict[str, str]]]:
    rows = data_rows("published_models.csv")
    return [(re.compile(row["pattern"], re.IGNORECASE), row) for row in rows]


def base_name(name: str) -> str:
    """Return the name of a model without its owner and the format of its weights."""
    return _FORMAT.sub("", name[:256].rpartition("/")[2].lower())


@lru_cache(maxsize=64)
def target_model(name: str, architecture: Architecture | None = None) -> TargetModel:
    """Return what the name of a served model says; a configured ``architecture`` precedes it.

    A family that is not known stays unknown, but for the sizes and weights that stand in the name.
    """
    name = name[:256]
    family = next((row for pattern, row in _families() if pattern.search(name)), {})
    total, active = _sizes(name)
    total = float(family.get("parameters") or 0) * _BILLION or total
    active = float(family.get("active_parameters") or 0) * _BILLION or active
    found = architecture or (Architecture(family["architecture"]) if family else None)
    ratio = float(family["experts"]) / float(family["experts_per_token"]) if family.get("experts") else None
    if found is Architecture.DENSE:
        active, ratio = total, None
    written = next((size for pattern, size in _WEIGHT_BYTES if pattern.search(name)), None)
    is_local, is_mixture = _LOCAL.search(name) is not None, found is Architecture.MIXTURE_OF_EXPERTS
    four = _FOUR_BITS.search(name) or (not is_mixture and _FLOAT_FOUR.search(name))
    return TargetModel(
        *(found, ratio, total, active),
        weight_bytes=written or float(family.get("weight_bytes") or 2),
        is_quantised=not is_local and bool(four),
        is_local=is_local,
    )


def _sizes(name: str) -> tuple[float | None, float | None]:
    """Return the parameters in a name, of all experts and of a token: 30B-A3B, 8x7B, 0.6B, 360M."""
    sizes, active = _PARAMETERS.search(name), _ACTIVE.search(name)
    if sizes is None:
        return None, None
    models, number, unit = sizes.groups()
    total = (
        float(number) * (_BILLION if unit in "bB" else _MILLION) * (float(models) * _SHARED if models else 1)
    )
    used = float(active[1]) * _BILLION if active else total
    return (total, used if active and used < total else None) if 0 < total < _MOST else (None, None)
