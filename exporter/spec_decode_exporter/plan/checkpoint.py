"""Read a model by its size, or from a local folder: config.json and safetensors."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from spec_decode_exporter.config.types import parse_parameters
from spec_decode_exporter.core.files import read_bounded
from spec_decode_exporter.core.numbers import TooManyValuesError, decode
from spec_decode_exporter.plan.draft_head import module_bytes
from spec_decode_exporter.plan.model_config import (
    Model,
    ModelError,
    Weights,
    config_of,
    dtype_of_config,
    flat,
    weights_of,
)

MAX_BYTES, MAX_VALUES = 16 * 2**20, 500_000
"""Limits of a JSON file: an index of 100,000 weights has 10 MB."""
_MIN_PARAMETERS, _MAX_PARAMETERS = 10**6, 10**15


def model_of(text: str, dtype: str | None) -> Model:
    """Return a model by its number of parameters, or by the path of its config.json.

    ``dtype`` None is that of the checkpoint, or 16 bits.

    Raises:
        ModelError: The text is neither, or config.json lacks a value.
    """
    try:
        number = parse_parameters(text)
    except ValueError:
        return _of_folder(text, dtype)
    if not _MIN_PARAMETERS <= number < _MAX_PARAMETERS:
        meant = f": did you mean {text}B?" if text.isdecimal() and 0 < number < _MIN_PARAMETERS else ""
        raise ModelError(f"{text!r} is no size of a model{meant}")
    weights, stored = Weights(round(number)), dtype or "bfloat16"
    return Model(name=text, weights=weights, dtype=stored, weight_bytes=weights.bytes_in(stored))


def _of_folder(text: str, dtype: str | None) -> Model:
    path = Path(text)
    file = path / "config.json" if path.is_dir() else path
    if not text or not file.exists():
        choices = "a number of parameters, such as 8B, nor a config.json or a folder with one"
        raise ModelError(f"{text!r} is neither {choices}; nothing is downloaded")
    folder = file.parent
    try:
        values = flat(_json(file, "it"))
        config, stored = config_of(values), dtype or dtype_of_config(values)
        files = None if dtype else _size_of_files(folder)
    except ModelError as error:
        raise ModelError(f"{file}: {error}") from None
    weights, modules = weights_of(config, config.num_hidden_layers), module_bytes(config, stored)
    counted = weights.bytes_in(stored)
    if files is not None and files >= counted + modules // 2:
        files -= modules  # vLLM loads the MTP modules for the method mtp only
    return Model(
        name=folder.resolve().name or str(folder),
        weights=weights,
        dtype=stored,
        weight_bytes=files or counted,
        weights_counted=files is None,
        config=config,
    )


def _size_of_files(folder: Path) -> int | None:
    """Return the bytes of the weights by the index of the safetensors, or by these files; None without."""
    index = folder / "model.safetensors.index.json"
    metadata = _json(index, index.name).get("metadata") if index.exists() else None
    size = metadata.get("total_size") if isinstance(metadata, dict) else None
    if type(size) is int and size > 0:
        return size
    return sum(file.stat().st_size for file in folder.glob("model*.safetensors")) or None


def _json(file: Path, name: str) -> Mapping[str, Any]:
    """Return the JSON object of a file; errors call the file ``name``."""
    try:
        document = decode(read_bounded(file, MAX_BYTES), MAX_VALUES)
    except (OSError, TooManyValuesError) as error:
        raise ModelError(f"{name} cannot be read: {getattr(error, 'strerror', '') or error}") from None
    except ValueError:
        raise ModelError(f"{name} is not JSON") from None
    if not isinstance(document, dict):
        raise ModelError(f"{name} is no JSON object")
    return document
