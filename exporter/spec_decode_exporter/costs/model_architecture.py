"""What the name of a model says of its architecture, its size and its weights.

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
_SHARED: Final = 0.83
"""Parameters of a mixture of n models over n times those of one: they share the attention (Mixtral)."""
_FOUR_BITS: Final = re.compile(
    r"gguf|ggml|(?<![a-z])mlx|(?<![a-z])exl[23]|(?<![a-z0-9])i?q[2-6](?![a-z0-9])|awq|gptq(?!.*(?:int8|8.?bit))|w4a(?:8|16)"
    r"|(?<![a-z])int-?4(?!\d)|(?<![a-z0-9])4.?bit|nf4|bnb|bitsandbytes|auto-?round|fp4",
    re.IGNORECASE,
)
_EIGHT_BITS: Final = re.compile(
    r"fp8|(?<![a-z0-9])q8(?![a-z0-9])|w8a(?:8|16)|(?<![a-z])int-?8(?!\d)|(?<![a-z0-9])8.?bit|gptq",
    re.IGNORECASE,
)
_WEIGHT_BYTES: Final = ((_FOUR_BITS, 0.56), (_EIGHT_BITS, 1.0))
"""Bytes of a parameter with its scales, the first that matches; formats of 4 bits have 0.53 to 0.6."""
_FORMAT: Final = re.compile(
    r"(?:[-_.](?:instruct|it|fp8|nvfp4|mxfp4|fp4|awq|gptq|gguf|ud|int-?[48]|w\da\d+|bf16|fp16|i?q\d\w*+))++$"
)
"""End of a name with the tuning and the format of the weights."""
_BILLION, _MILLION, _MOST = 1e9, 1e6, 1e13
_CACHE, _CACHE_EXPONENT, _REFERENCE_BYTES = 9e-6, 0.6, 16e9


@dataclass(frozen=True, slots=True)
class TargetModel:
    """A served model, as far as its name says it. Unknown values are None."""

    architecture: Architecture | None = None
    parameters: float | None = None


def data_rows(name: str) -> Iterator[dict[str, str]]:
    """Yield the rows of a table of published data beside this module."""
    with Path(__file__).with_name(name).open(encoding="utf-8", newline="") as file:
        yield from DictReader(file)


@cache
def _families() -> list[tuple[re.Pattern[str], dict[str, str]]]:
    return [(re.compile(row["pattern"], re.IGNORECASE), row) for row in data_rows("published_models.csv")]


def base_name(name: str) -> str:
    """Return the name of a model without its owner and the format of its weights."""
    return _FORMAT.sub("", name[:256].rpartition("/")[2].lower())


@lru_cache(maxsize=64)
def target_model(name: str, architecture: Architecture | None = None) -> TargetModel:
    """Return what the name of a served model says; a configured ``architecture`` precedes it.

    A family that is not known stays unknown, but for the size that stands in the name.
    """
    name = name[:256]
    family = next((row for pattern, row in _families() if pattern.search(name)), {})
    found = architecture or (Architecture(family["architecture"]) if family else None)
    parameters = float(family.get("parameters") or 0) * _BILLION or _parameters(name)
    return TargetModel(found, parameters)


def _parameters(name: str) -> float | None:
    """Return the parameters in a name, of all experts: 30B-A3B, 8x7B, 0.6B, 360M."""
    sizes = _PARAMETERS.search(name)
    if sizes is None:
        return None
    models, number, unit = sizes.groups()
    total = float(number) * (_BILLION if unit in "bB" else _MILLION)
    total *= float(models) * _SHARED if models else 1
    return total if 0 < total < _MOST else None


def weight_bytes(name: str) -> float:
    """Return about the bytes of all weights, which are of 16 bits unless the name says it; 0 if unknown."""
    each = next((size for pattern, size in _WEIGHT_BYTES if pattern.search(name[:256])), 2.0)
    return each * (target_model(name).parameters or 0.0)


def cache_bytes(target: TargetModel) -> float | None:
    """Return about the bytes of a token in a KV cache of 16 bits, with grouped queries; None if unknown."""
    if target.parameters is None:
        return None
    growth: float = (2 * target.parameters / _REFERENCE_BYTES) ** (1 - _CACHE_EXPONENT)
    return _CACHE * _REFERENCE_BYTES * growth
