"""What the name of a model says of its architecture and its weights.

``published_models.csv`` has the architectures of families, by the models' config.json and cards.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from csv import DictReader
from functools import cache, lru_cache
from pathlib import Path
from typing import Final

from spec_decode_exporter.config.comparison_settings import Architecture

_PARAMETERS: Final = re.compile(r"(?<![a-z0-9.])(\d+(?:\.\d+)?)(b|m)(?![a-z0-9])", re.IGNORECASE)
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
_UNITS: Final = {"b": 1e9, "m": 1e6}
_MOST: Final = 1e13


def data_rows(name: str) -> Iterator[dict[str, str]]:
    """Yield the rows of a table of published data beside this module."""
    with Path(__file__).with_name(name).open(encoding="utf-8", newline="") as file:
        yield from DictReader(file)


@cache
def _families() -> tuple[tuple[re.Pattern[str], Architecture], ...]:
    rows = [(row["pattern"], row["architecture"]) for row in data_rows("published_models.csv")]
    return tuple((re.compile(pattern, re.IGNORECASE), Architecture(kind)) for pattern, kind in rows)


@lru_cache(maxsize=64)
def architecture_of(name: str) -> Architecture | None:
    """Return the architecture of a served model by its name; None of a family that is not known."""
    return next((kind for pattern, kind in _families() if pattern.search(name[:256])), None)


def weight_bytes(name: str) -> float:
    """Return about the bytes of all weights, which are of 16 bits unless the name says it; 0 if unknown."""
    size = _PARAMETERS.search(name[:256])
    parameters = float(size[1]) * _UNITS[size[2].lower()] if size else 0.0
    each = next((size for pattern, size in _WEIGHT_BYTES if pattern.search(name[:256])), 2.0)
    return each * parameters if parameters < _MOST else 0.0
