"""Which dtype the weights of a checkpoint have, by its config.json."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from spec_decode_exporter.reports.plan.dtype import Dtype, dtype_of
from spec_decode_exporter.reports.plan.model_config import Configuration, ModelError

_NAMES: Final = {"float8": "fp8", "float4": "nvfp4"}
_PLAIN: Final = "bfloat16"


def dtype_of_checkpoint(config: Configuration) -> Dtype:
    """Return what the file says; bfloat16 where it says nothing.

    Raises:
        ModelError: It is quantised in a way that is not known here.
    """
    quantised = config.section("quantization_config")
    name = _quantised(quantised) if quantised else config.word("dtype", "torch_dtype") or _PLAIN
    try:
        return dtype_of(name)
    except ValueError as error:
        raise ModelError(f"{error}; say it by --target.dtype or --draft.dtype") from None


def _quantised(config: Mapping[str, Any]) -> str:
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
