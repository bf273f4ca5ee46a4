"""The small models that draft from the target's own hidden states: EAGLE, EAGLE-3 and MTP.

Each is a layer or some, a matrix that joins hidden states with a token's embedding, and an output matrix:
the target's own, or for EAGLE-3 one for fewer tokens. The embedding is the target's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from exporter.plan.attention import cache_layers, heads
from exporter.plan.configuration import Configuration, ModelError
from exporter.plan.counting import parameters
from exporter.plan.dtype import SIXTEEN, Dtype
from exporter.plan.model import Model
from exporter.plan.shape import Attention, Parameters, Shape


@dataclass(frozen=True, slots=True)
class Head:
    """What a kind of head has beside its layers."""

    joined: int
    """How many vectors of the model's width are joined to one."""
    own_output: bool = False
    """Whether it has an output matrix, for its own vocabulary."""
    like_the_last: bool = False
    """Whether its layer is like the target's last one, experts included; else like the first one."""


HEADS: Final = {
    "eagle": Head(joined=2),
    "eagle3": Head(joined=3, own_output=True),
    "mtp": Head(joined=2, like_the_last=True),
}
_USUAL_DRAFT_VOCABULARY: Final = 32_000
"""Tokens: what published EAGLE-3 heads have."""


def head_of(target: Model, method: str, draft: Model | None, dtype: Dtype | None) -> Model:
    """Return the head of a method: of the ``draft`` that is given, else as large as heads of this target are.

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
    kept = dtype or Dtype("bfloat16", SIXTEEN)
    own = _of_target(target.config, kind)
    layers = tuple(replace(layer, layers=1, window=None) for layer in cache_layers(target.config, 1)[:1])
    model = replace(target, name=f"{method} head", dtype=kept, counted=True, kv_bytes_per_token=None)
    return _with(model, _borrowing(own, kind, target), layers)


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
    more = kind.joined * hidden * hidden
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
    """Return the weights of a head with one layer, as those of the target are."""
    hidden = config.positive("hidden_size")
    layers = config.positive("num_hidden_layers") if kind.like_the_last else 1
    with_it, without = parameters(config, layers), parameters(config, layers - 1)
    experts = with_it.experts - without.experts
    return Parameters(
        layers=with_it.layers - without.layers + kind.joined * hidden * hidden + hidden,
        experts=experts,
        expert_share=with_it.expert_share if experts else 1.0,
        output=min(_USUAL_DRAFT_VOCABULARY, config.positive("vocab_size")) * hidden if kind.own_output else 0,
    )


def _borrowing(own: Parameters, kind: Head, target: Model) -> Parameters:
    matrix = target.parameters.embedding if target.parameters.tied else target.parameters.output
    return own if kind.own_output else replace(own, borrowed=matrix)
