"""Read a model from a local folder: config.json, size of the weights, and vocabulary."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from spec_decode_exporter.config.types import parse_parameters
from spec_decode_exporter.core.files import open_plain, read_bounded
from spec_decode_exporter.core.numbers import TooManyValuesError, decode
from spec_decode_exporter.reports.plan.draft_head import module_bytes
from spec_decode_exporter.reports.plan.model_config import Configuration, ModelError
from spec_decode_exporter.reports.plan.parameter_count import shape_of
from spec_decode_exporter.reports.plan.planned_model import Model, counted_model
from spec_decode_exporter.reports.plan.quantization import SIXTEEN, Dtype, dtype_of_checkpoint


class Bound(NamedTuple):
    """Maximum bytes and JSON values of a file."""

    bytes: int
    values: int


CONFIG: Final = Bound(4 * 2**20, 100_000)
"""Limits of config.json."""
INDEX: Final = Bound(16 * 2**20, 500_000)
"""Limits of model.safetensors.index.json, which names every tensor."""
TOKENIZER: Final = Bound(64 * 2**20, 4_000_000)
"""Limits of tokenizer.json: that of Gemma 3 has 33 MB and two million values."""
_MIN_PARAMETERS: Final = 10**6
_MAX_PARAMETERS: Final = 10**15
_LENGTH: Final = 8
"""Bytes of the field with the header's length in a safetensors file."""


def model_of(text: str, dtype: Dtype | None, kv_bytes_per_token: int | None) -> Model:
    """Return a model by its number of parameters, or by the path of its config.json.

    Args:
        text: Such as ``70B`` or ``/models/llama``.
        dtype: Dtype of the weights; None for that of the checkpoint, or 16 bits.
        kv_bytes_per_token: Bytes of a token in the KV cache over all GPUs; None if unknown.

    Raises:
        ModelError: The text is neither, or config.json lacks a value.
    """
    try:
        parameters = parse_parameters(text)
    except ValueError:
        return _local(text, dtype, kv_bytes_per_token)
    if not _MIN_PARAMETERS <= parameters < _MAX_PARAMETERS:
        meant = f": did you mean {text}B?" if text.isdecimal() and 0 < parameters < _MIN_PARAMETERS else ""
        raise ModelError(f"{text!r} is no size of a model{meant}")
    return counted_model(text, parameters, dtype or Dtype("bfloat16", SIXTEEN), kv_bytes_per_token)


def _local(text: str, dtype: Dtype | None, kv_bytes_per_token: int | None) -> Model:
    path = Path(text)
    file = path / "config.json" if path.is_dir() else path
    if not text or not file.exists():
        raise ModelError(
            f"{text!r} is neither a number of parameters, such as 8B, nor a config.json or a folder "
            "with one; nothing is downloaded"
        )
    try:
        return _described(file, dtype, kv_bytes_per_token)
    except ModelError as error:
        raise ModelError(f"{file}: {error}") from None


def _described(file: Path, dtype: Dtype | None, kv_bytes_per_token: int | None) -> Model:
    folder = file.parent
    config = Configuration(_json(file, "it", CONFIG))
    shape, stored = shape_of(config), None if dtype else dtype_of_checkpoint(config)
    weights = dtype or stored
    assert weights is not None  # noqa: S101 - one of the two is set
    counted = shape.parameters.weight_bytes(weights)
    size = _without_modules(_size_of_files(folder), config, weights, counted) if stored else None
    return Model(
        name=folder.resolve().name or str(folder),
        parameters=shape.parameters,
        dtype=weights,
        weight_bytes=counted if size is None else size,
        counted=size is None,
        shape=shape,
        config=config,
        kv_bytes_per_token=kv_bytes_per_token,
        vocabulary=_vocabulary(folder / "tokenizer.json"),
    )


def _without_modules(size: int | None, config: Configuration, dtype: Dtype, counted: int) -> int | None:
    """Subtract the MTP modules from the size of the files, if the size shows that the files hold them."""
    if size is None:
        return None
    modules = module_bytes(config, dtype)
    return size if size < counted + modules // 2 else size - modules


def _size_of_files(folder: Path) -> int | None:
    """Return the bytes of the weights in the folder's safetensors; None without such files."""
    index = folder / "model.safetensors.index.json"
    if index.exists():
        metadata = _json(index, index.name, INDEX).get("metadata")
        size = metadata.get("total_size") if isinstance(metadata, dict) else None
        return size if type(size) is int and size > 0 else None
    single = folder / "model.safetensors"
    if not single.exists():
        return None
    with open_plain(single) as file:
        header = int.from_bytes(file.read(_LENGTH), "little")
    size = single.stat().st_size - _LENGTH - header
    return size if size > 0 else None


def _vocabulary(file: Path) -> str | None:
    """Return a digest of the tokens and their ids; other parts of a tokenizer may differ."""
    if not file.exists():
        return None
    document = _json(file, file.name, TOKENIZER)
    model = document.get("model")
    tokens = model.get("vocab") if isinstance(model, dict) else None
    listed = document.get("added_tokens")
    added = [
        (token.get("id"), token.get("content"))
        for token in (listed if isinstance(listed, list) else [])
        if isinstance(token, dict)
    ]
    return hashlib.sha256(json.dumps([tokens, added], sort_keys=True).encode()).hexdigest()


def _json(file: Path, name: str, bound: Bound) -> Mapping[str, Any]:
    """Return the JSON object of a file; errors call the file ``name``."""
    try:
        document = decode(read_bounded(file, bound.bytes), bound.values)
    except OSError as error:
        raise ModelError(f"{name} cannot be read: {error.strerror or error}") from None
    except TooManyValuesError as error:
        raise ModelError(f"{name} cannot be read: {error}") from None
    except ValueError:
        raise ModelError(f"{name} is not JSON") from None
    if not isinstance(document, dict):
        raise ModelError(f"{name} is no JSON object")
    return document
