"""How many weights a model has, by its config.json."""

from __future__ import annotations

from typing import Final

from spec_decode_exporter.reports.plan.attention import attention_parameters, cache_layers
from spec_decode_exporter.reports.plan.model_config import Configuration, ModelError
from spec_decode_exporter.reports.plan.model_shape import Parameters, Shape

MOST_LAYERS: Final = 10_000


def shape_of(config: Configuration) -> Shape:
    """Return what a model is made of. Parts that read pictures or sound are left out.

    Raises:
        ModelError: A number is missing.
    """
    layers = config.positive("num_hidden_layers")
    if layers > MOST_LAYERS:
        raise ModelError(f"num_hidden_layers is {layers}, no number that a model has")
    return Shape(
        parameters(config, layers),
        cache_layers(config, layers),
        config.positive("vocab_size"),
        config.positive("hidden_size"),
        config.positive("num_attention_heads"),
    )


def parameters(config: Configuration, layers: int) -> Parameters:
    """Return the weights of a model of so many layers."""
    hidden = config.positive("hidden_size")
    sparse = [layer for layer in range(layers) if _is_sparse(config, layer)]
    every = attention_parameters(config) + config.family.norms * hidden
    inner = config.positive("intermediate_size")
    dense = (layers - len(sparse)) * dense_parameters(config, inner)
    table = config.positive("vocab_size") * hidden
    tied = config.switch("tie_word_embeddings", default=config.family.tied)
    beside = len(sparse) * _beside_experts(config) if sparse else 0
    return Parameters(
        layers=layers * every + dense + beside + hidden,
        experts=len(sparse) * _experts(config) if sparse else 0,
        expert_share=_expert_share(config) if sparse else 1.0,
        embedding=table,
        output=0 if tied else table,
        tied=tied,
    )


def _is_sparse(config: Configuration, layer: int) -> bool:
    """Return whether a layer has experts."""
    if not config.family.experts_key or layer in config.entries("mlp_only_layers"):
        return False
    every = config.optional("decoder_sparse_step") or config.optional("moe_layer_freq") or 1
    first = config.number("first_k_dense_replace", 0)
    return layer >= first and (layer + 1) % every == 0


def dense_parameters(config: Configuration, inner: int) -> int:
    """Return the weights of a gated feed-forward layer, so wide inside."""
    hidden = config.positive("hidden_size")
    return 3 * hidden * inner + (2 * inner + hidden if config.switch("mlp_bias") else 0)


def _experts(config: Configuration) -> int:
    """Return the weights of all routed experts of a layer."""
    family, hidden = config.family, config.positive("hidden_size")
    inner = config.positive(family.expert_size_key)
    one = 3 * hidden * inner + (2 * inner + hidden if family.expert_bias else 0)
    return config.positive(family.experts_key) * one


def _beside_experts(config: Configuration) -> int:
    """Return the weights that every token takes in a layer with experts: the router, and shared experts."""
    family, hidden = config.family, config.positive("hidden_size")
    router = config.positive(family.experts_key) * (hidden + (1 if family.expert_bias else 0))
    shared = config.number("n_shared_experts", 0) * config.number("moe_intermediate_size", 0)
    gated = config.number("shared_expert_intermediate_size", 0)
    return router + 3 * hidden * (shared + gated) + (hidden if gated else 0)


def _expert_share(config: Configuration) -> float:
    chosen = config.positive("num_experts_per_tok")
    return min(chosen / config.positive(config.family.experts_key), 1.0)
