"""Bits of a weight: one table of dtypes, and the dtype of a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from spec_decode_exporter.reports.plan.model_config import Configuration, ModelError

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
    """Storage format of a model's weights."""

    name: str
    bits: Fraction
    """Bits of a weight of a layer, including its share of large scales."""

    @property
    def of_experts_only(self) -> bool:
        """True if the attention of a mixture of experts stays in 16 bits, as in gpt-oss."""
        return self.name == "mxfp4"

    @property
    def rest_bits(self) -> Fraction:
        """Bits of a weight that is never quantized: embedding and output matrix."""
        return max(self.bits, SIXTEEN)


def dtype_of(name: str) -> Dtype:
    """Return the dtype of a name.

    Raises:
        ValueError: The name is unknown; the message lists the names.
    """
    known = _ALIASES.get(name.lower().removeprefix("torch."), name.lower().removeprefix("torch."))
    if known not in _BITS:
        raise ValueError(f"{name[:60]!r} is no dtype that is known; the dtypes are {', '.join(DTYPES)}")
    return Dtype(known, _BITS[known])


_NAMES: Final = {"float8": "fp8", "float4": "nvfp4"}
_PLAIN: Final = "bfloat16"


def dtype_of_checkpoint(config: Configuration) -> Dtype:
    """Return the dtype in config.json; bfloat16 if it has none.

    Raises:
        ModelError: The quantization is unknown.
    """
    quantized = config.section("quantization_config")
    name = _quantized(quantized) if quantized else config.word("dtype", "torch_dtype") or _PLAIN
    try:
        return dtype_of(name)
    except ValueError as error:
        raise ModelError(f"{error}; say it by --target.dtype or --draft.dtype") from None


def _quantized(config: Mapping[str, Any]) -> str:
    method = str(config.get("quant_method", "")).lower()
    if method in {"fp8", "mxfp4"}:
        return method
    if method == "compressed-tensors":
        return _compressed(config)
    if config.get("quant_algo"):  # ModelOpt
        return str(config["quant_algo"]).lower()
    if config.get("load_in_4bit"):
        return "int4"
    if config.get("load_in_8bit"):
        return "int8"
    return f"int{config['bits']}" if "bits" in config else method


def _compressed(config: Mapping[str, Any]) -> str:
    """Return the dtype of the first group's weights."""
    groups = config.get("config_groups")
    for group in groups.values() if isinstance(groups, dict) else ():
        weights = group.get("weights") if isinstance(group, dict) else None
        if isinstance(weights, dict):
            kind = f"{weights.get('type', 'int')}{weights.get('num_bits')}"
            return _NAMES.get(kind, kind)
    return "compressed-tensors"
