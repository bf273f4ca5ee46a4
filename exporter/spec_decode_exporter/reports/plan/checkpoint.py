"""Read a model by its size, from a local config.json, or from the headers of its safetensors."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from spec_decode_exporter.config.types import parse_parameters
from spec_decode_exporter.core.files import open_plain, read_bounded
from spec_decode_exporter.core.numbers import TooManyValuesError, decode
from spec_decode_exporter.costs.methods import DRAFT_MODEL
from spec_decode_exporter.reports.plan.model_sizes import (
    FAMILIES,
    HEADS,
    Dtype,
    Model,
    ModelError,
    Parameters,
    cache_layers,
    config_of,
    dtype_of_config,
    flat,
    head_of,
    module_bytes,
    parameters,
)


class Bound(NamedTuple):
    """Maximum bytes and JSON values of a file."""

    bytes: int
    values: int


CONFIG: Final = Bound(4 * 2**20, 100_000)
"""Limits of config.json."""
INDEX: Final = Bound(16 * 2**20, 500_000)
"""Limits of model.safetensors.index.json and of the header of a safetensors file: they name every tensor."""
TOKENIZER: Final = Bound(64 * 2**20, 4_000_000)
"""Limits of tokenizer.json: that of Gemma 3 has 33 MB and two million values."""
MAX_FILES: Final = 1000
"""Maximum number of safetensors files of a model."""
_MIN_PARAMETERS: Final = 10**6
_MAX_PARAMETERS: Final = 10**15
_LENGTH: Final = 8
"""Bytes of the field with the header's length in a safetensors file."""
SEARCHES: Final = ("ngram", "ngram_gpu", "suffix")
"""Methods that search repeated text: they take no GPU memory."""
METHODS: Final = (DRAFT_MODEL, *HEADS, *SEARCHES)
_PLACES: Final = (
    ("experts", (".experts.",)),
    ("embedding", ("embed_tokens", "wte.", "word_embeddings")),
    ("output", ("lm_head", "embed_out")),
)
"""Field of ``Parameters``, and parts of the names of its tensors; all others are in ``layers``."""


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
        number = parse_parameters(text)
    except ValueError:
        return _local(text, dtype, kv_bytes_per_token)
    if not _MIN_PARAMETERS <= number < _MAX_PARAMETERS:
        meant = f": did you mean {text}B?" if text.isdecimal() and 0 < number < _MIN_PARAMETERS else ""
        raise ModelError(f"{text!r} is no size of a model{meant}")
    weights, dtype = Parameters(round(number)), dtype or Dtype()
    return Model(text, weights, dtype, weights.weight_bytes(dtype), kv_bytes_per_token=kv_bytes_per_token)


def drafter_of(
    method: str, target: Model, draft: str | None, dtype: Dtype | None, kv_bytes_per_token: int | None
) -> Model | None:
    """Return the draft model of a method; None for a search.

    Raises:
        ModelError: The method needs a draft that is missing, or takes none.
    """
    if method in SEARCHES:
        if draft is not None:
            raise ModelError(f"{method} searches the text and has no draft; leave out --draft, or --method")
        return None
    model = None if draft is None else model_of(draft, dtype, kv_bytes_per_token)
    if method in HEADS:
        return head_of(target, method, model, dtype)
    if model is None:
        raise ModelError("give a draft model: --draft 8B, or --method eagle3, mtp, ngram …")
    return model


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
    folder, values = file.parent, flat(_json(read_bounded, file, "it", CONFIG))
    name, vocabulary = folder.resolve().name or str(folder), _vocabulary(folder / "tokenizer.json")
    tensors = Counter[str]() if str(values.get("model_type") or "") in FAMILIES else _tensors(folder)
    if tensors:
        stored = _stored(values, dtype)
        own = _by_tensors(values, tensors, stored)
        size = own.weight_bytes(dtype) if dtype else sum(tensors.values())
        return Model(
            name,
            own,
            dtype or stored,
            size,
            dtype is not None,
            kv_bytes_per_token=kv_bytes_per_token,
            vocabulary=vocabulary,
        )
    config = config_of(values)
    own, weights = parameters(config, config.num_hidden_layers), dtype or dtype_of_config(values)
    counted, files = own.weight_bytes(weights), None if dtype else _size_of_files(folder)
    modules = module_bytes(config, weights)
    if files is not None and files >= counted + modules // 2:  # the files hold the MTP modules
        files -= modules
    return Model(
        name,
        own,
        weights,
        counted if files is None else files,
        files is None,
        config=config,
        attention=cache_layers(config, config.num_hidden_layers),
        kv_bytes_per_token=kv_bytes_per_token,
        vocabulary=vocabulary,
    )


def _stored(values: Mapping[str, Any], dtype: Dtype | None) -> Dtype:
    """Return the dtype of the files; of an unknown quantization, the given one."""
    try:
        return dtype_of_config(values)
    except ModelError:
        if dtype is None:
            raise
        return dtype


def _by_tensors(values: Mapping[str, Any], tensors: Mapping[str, int], dtype: Dtype) -> Parameters:
    """Return the weights of tensors of an unknown architecture, by their bytes in the files."""
    layers, experts = (round(8 * tensors[place] / dtype.bits) for place in ("layers", "experts"))
    embedding, output = (round(8 * tensors[place] / dtype.rest_bits) for place in ("embedding", "output"))
    keys = ("num_experts_per_tok", "num_experts", "num_local_experts", "n_routed_experts")
    chosen, *numbers = (value if type(value := values.get(key)) is int else 0 for key in keys)
    share = min(max(chosen, 1) / max(*numbers, 1), 1.0)
    return Parameters(layers, experts, share, embedding, output, tied=not output)


def _tensors(folder: Path) -> Counter[str]:
    """Return the bytes of the tensors in the folder's safetensors, by the field of ``Parameters``."""
    sizes = Counter[str]()
    files = {file.name for file in folder.glob("model*.safetensors")}
    index = folder / "model.safetensors.index.json"
    named = _json(read_bounded, index, index.name, INDEX).get("weight_map") if index.exists() else None
    lacking = {str(name) for name in named.values()} - files if isinstance(named, dict) else set()
    if files and lacking:
        raise ModelError(f"{len(lacking)} of its safetensors are missing, such as {min(lacking)[:60]!r}")
    for name in sorted(files)[:MAX_FILES]:
        for tensor, its in _json(_header, folder / name, name, INDEX).items():
            place = next(
                (place for place, parts in _PLACES if any(part in tensor for part in parts)), "layers"
            )
            ends = its.get("data_offsets") if isinstance(its, dict) else None
            match ends:
                case [int(begin), int(end)] if 0 <= begin <= end:
                    sizes[place] += end - begin
    return sizes


def _header(file: Path, max_bytes: int) -> bytes:
    """Return the header of a safetensors file, or raise OSError."""
    with open_plain(file) as opened:
        length = int.from_bytes(opened.read(_LENGTH), "little")
        return opened.read(length) if length <= max_bytes else b""


def _size_of_files(folder: Path) -> int | None:
    """Return the bytes of the weights in the folder's safetensors; None without such files."""
    index = folder / "model.safetensors.index.json"
    if index.exists():
        metadata = _json(read_bounded, index, index.name, INDEX).get("metadata")
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
    document = _json(read_bounded, file, file.name, TOKENIZER)
    model, listed = document.get("model"), document.get("added_tokens")
    tokens = model.get("vocab") if isinstance(model, dict) else None
    added = [
        (token.get("id"), token.get("content"))
        for token in (listed if isinstance(listed, list) else [])
        if isinstance(token, dict)
    ]
    return hashlib.sha256(json.dumps([tokens, added], sort_keys=True).encode()).hexdigest()


def _json(read: Callable[[Path, int], bytes], file: Path, name: str, bound: Bound) -> Mapping[str, Any]:
    """Return the JSON object of a file; errors call the file ``name``."""
    try:
        document = decode(read(file, bound.bytes), bound.values)
    except OSError as error:
        raise ModelError(f"{name} cannot be read: {error.strerror or error}") from None
    except TooManyValuesError as error:
        raise ModelError(f"{name} cannot be read: {error}") from None
    except ValueError:
        raise ModelError(f"{name} is not JSON") from None
    if not isinstance(document, dict):
        raise ModelError(f"{name} is no JSON object")
    return document
