"""Models of a plan: by their size, from a local folder (config.json and safetensors), and heads that draft.

A head (EAGLE, EAGLE-3, MTP) is that of its own config.json, or typical for the target. It has one layer or
more, and a matrix that joins hidden states with a token's embedding, which is the target's. EAGLE-3 has an
output matrix of its own, and its attention reads the token beside the hidden state. An MTP module is a part
of the target's checkpoint: a layer like the last one, with experts, in its dtype.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from spec_decode_exporter.config.types import parse_parameters
from spec_decode_exporter.core.files import read_bounded
from spec_decode_exporter.core.numbers import TooManyValuesError, decode
from spec_decode_exporter.costs.methods import DRAFT_MODEL
from spec_decode_exporter.plan.model_config import (
    Model,
    ModelConfig,
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
MTP, EAGLE3 = "mtp", "eagle3"
HEADS: Final = {"eagle": 2, EAGLE3: 3, MTP: 2}
"""Number of vectors of the model's width that a head joins to one."""
SEARCHES: Final = ("ngram", "ngram_gpu", "suffix")
"""Methods that search repeated text: they take no GPU memory."""
METHODS: Final = (DRAFT_MODEL, *HEADS, *SEARCHES)
"""Methods whose memory is known."""
NO_DRAFT: Final = "give a draft model, such as --draft 0.6B, or another method: --method eagle3, mtp or ngram"
_VOCABULARY: Final = 32_000
"""Vocabulary of published EAGLE-3 heads."""


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


def drafter_of(method: str, target: Model, draft: Model | None, dtype: str | None) -> Model | None:
    """Return the model that drafts by a method; None for a search.

    Raises:
        ModelError: The method needs a draft that is missing, or takes none.
    """
    if method in SEARCHES:
        if draft is not None:
            raise ModelError(f"{method} searches the text and has no draft; leave out --draft, or --method")
        return None
    if draft is None:
        if method not in HEADS:
            raise ModelError(NO_DRAFT)
        return _typical(target, method, dtype)
    if method not in HEADS or draft.config is None:
        return draft
    weights = _head_weights(draft.config, method)
    size = weights.bytes_in(draft.dtype) if draft.weights_counted else draft.weight_bytes
    return draft.model_copy(update={"weights": weights, "weight_bytes": size})


def module_bytes(config: ModelConfig, dtype: str) -> int:
    """Return the bytes of the MTP modules in the files of a checkpoint; 0 without modules.

    Beside its layer, each has copies of the embedding and of the output matrix (DeepSeek-V3, arXiv
    2412.19437, section 2.2), which vLLM does not load.
    """
    weights = _module(config)._replace(tables=2 * config.table)
    return config.num_nextn_predict_layers * weights.bytes_in(dtype)


def _typical(target: Model, method: str, dtype: str | None) -> Model:
    """Return a head with one layer for this target, which is dense and in 16 bits unless it is MTP."""
    config = target.config
    if config is None:
        raise ModelError(
            f"a head for {method} has no size: give --draft, as its number of parameters or its config.json, "
            "or --target as a config.json"
        )
    one = {"num_hidden_layers": 1, "layer_types": (), "sliding_window": 0, "max_position_embeddings": 0}
    layer = config.model_copy(update=one)
    if method == MTP:
        weights, stored = _module(config), dtype or target.dtype
    else:
        dense = {"experts": 0, "draft_vocab_size": min(_VOCABULARY, config.vocab_size)}
        weights, stored = _head_weights(layer.model_copy(update=dense), method), dtype or "bfloat16"
    size, name = weights.bytes_in(stored), f"{method} head"
    return Model(
        name=name, weights=weights, dtype=stored, weight_bytes=size, guessed=method != MTP, config=layer
    )


def _head_weights(config: ModelConfig, method: str) -> Weights:
    hidden, weights = config.hidden_size, weights_of(config, config.num_hidden_layers)
    layers = weights.layers + HEADS[method] * (config.target_hidden_size or hidden) * hidden
    if method != EAGLE3:
        return weights._replace(layers=layers, tables=0)
    token_inputs = hidden * config.head_width * (config.num_attention_heads + 2 * config.kv_heads)
    output = (config.draft_vocab_size or config.vocab_size) * hidden
    return weights._replace(layers=layers + token_inputs, tables=output)


def _module(config: ModelConfig) -> Weights:
    whole, rest = (weights_of(config, config.num_hidden_layers - less) for less in (0, 1))
    experts = whole.experts - rest.experts
    layer = whole.layers - rest.layers + HEADS[MTP] * config.hidden_size**2
    return Weights(layer, experts, whole.expert_share if experts else 1.0)
