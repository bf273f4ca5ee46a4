"""Draft heads that read the target's hidden states: EAGLE, EAGLE-3 and MTP.

A head has one or more layers, a matrix that joins hidden states with a token's embedding, and an output
matrix: the target's own, or for EAGLE-3 one for fewer tokens. The embedding is the target's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from spec_decode_exporter.reports.plan.model_config import Configuration, ModelError
from spec_decode_exporter.reports.plan.parameter_count import (
    attention_parameters,
    cache_layers,
    dense_parameters,
    heads,
    parameters,
)
from spec_decode_exporter.reports.plan.planned_model import Attention, Model, Parameters, Shape
from spec_decode_exporter.reports.plan.quantization import SIXTEEN, Dtype


@dataclass(frozen=True, slots=True)
class Head:
    """Matrices of a kind of head, beside its layers."""

    joined: int
    """Number of vectors of the model's width that are joined to one."""
    own_output: bool = False
    """True if the head has an output matrix, for its own vocabulary."""
    of_the_target: bool = False
    """True if the head is a part of the target's checkpoint: a layer like the last one, experts included,
    in its dtype. Otherwise it is a separately trained dense layer in 16 bits."""


HEADS: Final = {
    "eagle": Head(joined=2),
    "eagle3": Head(joined=3, own_output=True),
    "mtp": Head(joined=2, of_the_target=True),
}
_TYPICAL_DRAFT_VOCABULARY: Final = 32_000
"""Vocabulary of published EAGLE-3 heads."""
_TYPICAL_INNER_WIDTH: Final = 6
"""Width of the dense layer of EAGLE-3 heads in multiples of the model's width, for targets without dense
layers: 17,280 for the 2,880 of gpt-oss, as SpecForge configures it."""


def head_of(target: Model, method: str, draft: Model | None, dtype: Dtype | None) -> Model:
    """Return the head of a method: ``draft``, or a typical one for this target.

    Raises:
        ModelError: The size of the head is unknown.
    """
    kind = HEADS[method]
    if draft is not None and draft.config is None:
        return draft
    if draft is not None and draft.config is not None and draft.shape is not None:
        own = _of_config(draft.config, draft.shape.parameters, kind, method)
        return _with(draft, _borrowing(own, kind, target), draft.shape.attention)
    if target.config is None or target.shape is None:
        raise ModelError(
            f"a head for {method} has no size: give --draft, as its number of parameters or its config.json, "
            "or --target as a config.json"
        )
    weights = dtype or (target.dtype if kind.of_the_target else Dtype("bfloat16", SIXTEEN))
    own = _of_target(target.config, kind)
    layers = tuple(replace(layer, layers=1, window=None) for layer in cache_layers(target.config, 1)[:1])
    model = replace(
        target,
        name=f"{method} head",
        dtype=weights,
        counted=True,
        guessed=not kind.of_the_target,
        kv_bytes_per_token=None,
    )
    return _with(model, _borrowing(own, kind, target), layers)


def module_bytes(config: Configuration, dtype: Dtype) -> int:
    """Return the bytes of the MTP modules in the files of a checkpoint; 0 without modules.

    Beside its layer, each has copies of the embedding and of the output matrix (DeepSeek-V3, arXiv
    2412.19437, section 2.2). vLLM loads the modules with ``mtp`` only, without these copies.
    """
    modules = config.number("num_nextn_predict_layers", 0)
    if not modules:
        return 0
    table = config.positive("vocab_size") * config.positive("hidden_size")
    own = replace(_of_target(config, HEADS["mtp"]), embedding=table, output=table)
    return modules * own.weight_bytes(dtype)


def _with(model: Model, own: Parameters, layers: tuple[Attention, ...]) -> Model:
    shape = model.shape
    assert shape is not None  # noqa: S101 - callers checked
    return replace(
        model,
        parameters=own,
        weight_bytes=own.weight_bytes(model.dtype) if model.counted else model.weight_bytes,
        shape=Shape(own, layers, shape.vocab_size, shape.hidden_size, shape.attention_heads),
    )


def _of_config(config: Configuration, whole: Parameters, kind: Head, method: str) -> Parameters:
    """Return the weights of a head with its own config.json."""
    hidden = config.positive("hidden_size")
    more = kind.joined * config.number("target_hidden_size", hidden) * hidden
    if method == "eagle3":  # queries, keys and values read the token beside the hidden state
        own, shared, width = heads(config)
        more += hidden * width * (own + 2 * shared)
    output = config.number("draft_vocab_size", whole.embedding // hidden) * hidden
    return replace(
        whole,
        layers=whole.layers + more,
        embedding=0,
        output=output if kind.own_output else 0,
        tied=False,
    )


def _of_target(config: Configuration, kind: Head) -> Parameters:
    """Return the weights of a typical head with one layer for this target."""
    hidden = config.positive("hidden_size")
    layer = _last_layer(config) if kind.of_the_target else _dense_layer(config)
    return replace(
        layer,
        layers=layer.layers + kind.joined * hidden * hidden + hidden,
        output=min(_TYPICAL_DRAFT_VOCABULARY, config.positive("vocab_size")) * hidden
        if kind.own_output
        else 0,
    )


def _last_layer(config: Configuration) -> Parameters:
    layers = config.positive("num_hidden_layers")
    complete, shortened = parameters(config, layers), parameters(config, layers - 1)
    experts = complete.experts - shortened.experts
    return Parameters(
        layers=complete.layers - shortened.layers,
        experts=experts,
        expert_share=complete.expert_share if experts else 1.0,
    )


def _dense_layer(config: Configuration) -> Parameters:
    """Return a layer with the target's attention and no experts."""
    hidden = config.positive("hidden_size")
    experts_only = config.family.expert_size_key == "intermediate_size"
    inner = _TYPICAL_INNER_WIDTH * hidden if experts_only else config.positive("intermediate_size")
    norms = config.family.norms * hidden
    return Parameters(layers=attention_parameters(config) + norms + dense_parameters(config, inner))


def _borrowing(own: Parameters, kind: Head, target: Model) -> Parameters:
    matrix = target.parameters.embedding if target.parameters.tied else target.parameters.output
    return own if kind.own_output else replace(own, borrowed=matrix)
