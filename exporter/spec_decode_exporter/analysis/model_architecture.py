"""What the name of a served model says: its architecture, its size and its weights, and how it is deployed.

A mixture of experts reads more weights for each more token of a small batch, so verifying costs more there.
``published_models.csv`` has what a name does not say, by the models' config.json and cards.
"""

from __future__ import annotations

import re
from csv import DictReader
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Final, NamedTuple

from spec_decode_exporter.config.cost_settings import Architecture

_MIXTURES: Final = re.compile(
    r"""
    (?<![a-z]) (?: \d+x\d | \d+(?:\.\d+)?b-a\d | a\d+b (?![a-z]) )    # Mixtral-8x7B, Qwen3-30B-A3B
    | moe | minimax | llama-?4 | qwen3-(?:next|coder-next) | (?<![a-z]) qwen3\.\d-.*next | arctic
    | (?<![a-z]) glm-?[45](?:\.\d)?(?!-?\d*b|v|-9b|-32b) | deepseek-? v\d | ernie-4\.5-(?:21b|300b)
    """,
    re.IGNORECASE | re.VERBOSE,
)
_DENSE: Final = re.compile(
    r"""
    llama-?[23] | codellama | vicuna | tinyllama | (?<![a-z]) opt-\d | (?<![a-z]) yi-\d
    | qwen-?2(?:\.5)?-\d | qwen3-(?:0\.6|1\.7|4|8|14|32)b | qwen3\.\d-(?:0\.8|2|4|9|27)b | qwq | -distill-
    | mistral-(?:7b|nemo|small|large) | codestral | ministral | devstral | magistral
    | gemma | (?<![a-z]) phi-?[234](?!\.5-moe) | falcon | starcoder | granite-3 | glm-?4-(?:9|32)b
    | olmo-?[23] | (?<![a-z]) gpt2 | smollm | minicpm[34]?-\d | (?<![a-z]) seed-oss
    """,
    re.IGNORECASE | re.VERBOSE,
)
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
    r"awq|gptq(?!.*(?:int8|8.?bit))|w4a(?:8|16)|int-?4|(?<![a-z0-9])4.?bit|nf4|bnb|bitsandbytes|auto-?round",
    re.IGNORECASE,
)
_FLOAT_FOUR: Final = re.compile(r"(?:nv|mx)?fp4", re.IGNORECASE)
"""Formats that large mixtures have on GPUs with such units, and other models on any."""
_EIGHT_BITS: Final = re.compile(r"fp8|w8a(?:8|16)|int-?8|(?<![a-z0-9])8.?bit|gptq|mxfp8", re.IGNORECASE)
_WEIGHT_BYTES: Final = ((_LOCAL, 0.6), (_FOUR_BITS, 0.53), (_FLOAT_FOUR, 0.56), (_EIGHT_BITS, 1.0))
"""Bytes of a parameter with its scales, the first that matches; 2 otherwise."""
_BILLION, _MILLION = 1e9, 1e6
_LIGHT, _TINY = 5e9, 2e9


@dataclass(frozen=True, slots=True)
class TargetModel:
    """A served model, as far as the cost of drafting depends on it. Unknown values are None."""

    architecture: Architecture | None = None
    experts_ratio: float | None = None
    """Experts of a mixture over the experts of a token."""
    parameters: float | None = None
    """Number of parameters."""
    active_parameters: float | None = None
    """Those that a token uses: all of a dense model."""
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


class _Published(NamedTuple):
    """A family of mixtures; None where the name says it, or it is unknown."""

    pattern: re.Pattern[str]
    experts_ratio: float | None
    parameters: float | None
    active_parameters: float | None
    weight_bytes: float | None


@cache
def _published() -> tuple[_Published, ...]:
    def number(row: dict[str, str], column: str, unit: float = 1.0) -> float | None:
        return unit * float(row[column]) if row[column] else None

    with Path(__file__).with_name("published_models.csv").open(encoding="utf-8", newline="") as file:
        return tuple(
            _Published(
                re.compile(row["pattern"], re.IGNORECASE),
                float(row["experts"]) / float(row["experts_per_token"]) if row["experts"] else None,
                number(row, "parameters", _BILLION),
                number(row, "active_parameters", _BILLION),
                number(row, "weight_bytes"),
            )
            for row in DictReader(file)
        )


@lru_cache(maxsize=64)
def target_model(name: str, architecture: Architecture | None = None) -> TargetModel:
    """Return what the name of a served model says; a configured ``architecture`` precedes it.

    A family that is not known stays unknown, but for the sizes and weights that stand in the name.
    """
    name = name[:256]
    family = next((each for each in _published() if each.pattern.search(name)), None)
    found = architecture or _architecture_of(name, family)
    total, active = _sizes(name)
    written = next((size for pattern, size in _WEIGHT_BYTES if pattern.search(name)), None)
    ratio = None
    if family is not None:
        total, active, ratio = (
            family.parameters or total,
            family.active_parameters or active,
            family.experts_ratio,
        )
        written = written or family.weight_bytes
    if found is Architecture.DENSE:
        active, ratio = total, None
    is_local = _LOCAL.search(name) is not None
    four = _FOUR_BITS.search(name) or (
        _FLOAT_FOUR.search(name) and found is not Architecture.MIXTURE_OF_EXPERTS
    )
    is_quantised = not is_local and four is not None
    return TargetModel(found, ratio, total, active, written or 2.0, is_quantised, is_local)


def _architecture_of(name: str, family: _Published | None) -> Architecture | None:
    if family is not None or _MIXTURES.search(name):
        return Architecture.MIXTURE_OF_EXPERTS
    return Architecture.DENSE if _DENSE.search(name) else None


def _sizes(name: str) -> tuple[float | None, float | None]:
    """Return the parameters in a name, of all experts and of a token: 30B-A3B, 8x7B, 0.6B, 360M."""
    sizes, active = _PARAMETERS.search(name), _ACTIVE.search(name)
    if sizes is None:
        return None, None
    models, number, unit = sizes.groups()
    total = float(number) * (_BILLION if unit in "bB" else _MILLION)
    if models:
        total *= float(models) * _SHARED
    return total, active and float(active[1]) * _BILLION
