"""The small models that draft from the target's own hidden states: EAGLE, EAGLE-3 and MTP.

Each is a layer or some, a matrix that joins hidden states with a token's embedding, and an output matrix:
the target's own, or for EAGLE-3 one for fewer tokens. The embedding is the target's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from spec_decode_exporter.reports.plan.attention import attention_parameters, cache_layers, heads
from spec_decode_exporter.reports.plan.dtype import SIXTEEN, Dtype
from spec_decode_exporter.reports.plan.model_config import Configuration, ModelError
from spec_decode_exporter.reports.plan.model_shape import Attention, Parameters, Shape
from spec_decode_exporter.reports.plan.parameter_count import dense_parameters, parameters
from spec_decode_exporter.reports.plan.planned_model import Model


@dataclass(frozen=True, slots=True)
class Head:
    """What a kind of head has beside its layers."""

    joined: int
    """How many vectors of the model's width are joined to one."""
    own_output: bool = False
    """Whether it has an output matrix, for its own vocabulary."""
    of_the_target: bool = False
    """Whether it is a part of the target's checkpoint: with a layer like the last one, experts included,
    in its dtype. Else it was trained apart: a dense layer, in 16 bits."""


HEADS: Final = {
    "eagle": Head(joined=2),
    "eagle3": Head(joined=3, own_output=True),
    "mtp": Head(joined=2, of_the_target=True),
}
_USUAL_DRAFT_VOCABULARY: Final = 32_000
"""Tokens: what published EAGLE-3 heads have."""
_USUAL_INNER_WIDTH: Final = 6
"""Of the dense layer of EAGLE-3 heads for targets that have none, in the model's width: 17,280 for the 2,880
of gpt-oss, as SpecForge configures them."""


def head_of(target: Model, method: str, draft: Model | None, dtype: Dtype | None) -> Model:
    """Return the head of a method: the ``draft`` that is given, else one as is usual for this target.

    Raises:
        ModelError: Nothing is known of the head's size.
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
    kept = dtype or (target.dtype if kind.of_the_target else Dtype("bfloat16", SIXTEEN))
    own = _of_target(target.config, kind)
    layers = tuple(replace(layer, layers=1, window=None) for layer in cache_layers(target.config, 1)[:1])
    model = replace(
        target,
        name=f"{method} head",
        dtype=kept,
        counted=True,
        guessed=not kind.of_the_target,
        kv_bytes_per_token=None,
    )
    return _with(model, _borrowing(own, kind, target), layers)


def module_bytes(config: Configuration, dtype: Dtype) -> int:
    """Return what the MTP modules in the files of a checkpoint take there; 0 where it has none.

    Each has copies of the embedding and of the output matrix beside its layer (DeepSeek-V3, arXiv 2412.19437,
    section 2.2); vLLM loads them with ``mtp`` only, without these copies.
    """
    modules = config.number("num_nextn_predict_layers", 0)
    if not modules:
        return 0
    table = config.positive("vocab_size") * config.positive("hidden_size")
    own = replace(_of_target(config, HEADS["mtp"]), embedding=table, output=table)
    return modules * own.weight_bytes(dtype)


def _with(model: Model, own: Parameters, layers: tuple[Attention, ...]) -> Model:
    shape = model.shape
    assert shape is not None  # noqa: S101 - who calls looked
    return replace(
        model,
        parameters=own,
        weight_bytes=own.weight_bytes(model.dtype) if model.counted else model.weight_bytes,
        shape=Shape(own, layers, shape.vocab_size, shape.hidden_size, shape.attention_heads),
    )


def _of_config(config: Configuration, all_of_them: Parameters, kind: Head, method: str) -> Parameters:
    """Return the weights of a head with a configuration of its own."""
    hidden = config.positive("hidden_size")
    more = kind.joined * config.number("target_hidden_size", hidden) * hidden
    if method == "eagle3":  # queries, keys and values see the token beside the hidden state
        own, shared, width = heads(config)
        more += hidden * width * (own + 2 * shared)
    output = config.number("draft_vocab_size", all_of_them.embedding // hidden) * hidden
    return replace(
        all_of_them,
        layers=all_of_them.layers + more,
        embedding=0,
        output=output if kind.own_output else 0,
        tied=False,
    )


def _of_target(config: Configuration, kind: Head) -> Parameters:
    """Return the weights of a head with one layer, for this target."""
    hidden = config.positive("hidden_size")
    layer = _last_layer(config) if kind.of_the_target else _dense_layer(config)
    return replace(
        layer,
        layers=layer.layers + kind.joined * hidden * hidden + hidden,
        output=min(_USUAL_DRAFT_VOCABULARY, config.positive("vocab_size")) * hidden if kind.own_output else 0,
    )


def _last_layer(config: Configuration) -> Parameters:
    layers = config.positive("num_hidden_layers")
    with_it, without = parameters(config, layers), parameters(config, layers - 1)
    experts = with_it.experts - without.experts
    return Parameters(
        layers=with_it.layers - without.layers,
        experts=experts,
        expert_share=with_it.expert_share if experts else 1.0,
    )


def _dense_layer(config: Configuration) -> Parameters:
    """Return a layer with the target's attention and no experts."""
    hidden = config.positive("hidden_size")
    experts_only = config.family.expert_size_key == "intermediate_size"
    inner = _USUAL_INNER_WIDTH * hidden if experts_only else config.positive("intermediate_size")
    norms = config.family.norms * hidden
    return Parameters(layers=attention_parameters(config) + norms + dense_parameters(config, inner))


def _borrowing(own: Parameters, kind: Head, target: Model) -> Parameters:
    matrix = target.parameters.embedding if target.parameters.tied else target.parameters.output
    return own if kind.own_output else replace(own, borrowed=matrix)
