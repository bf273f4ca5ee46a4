"""Number of weights and layers of the KV cache, by a model's config.json."""

from __future__ import annotations

from typing import Final

from spec_decode_exporter.reports.plan.model_config import Configuration, ModelError
from spec_decode_exporter.reports.plan.planned_model import Attention, Parameters, Shape

_FULL: Final = "full_attention"
_SLIDING: Final = "sliding_attention"


def heads(config: Configuration) -> tuple[int, int, int]:
    """Return the number of attention heads, of KV heads, and the width of a head."""
    own = config.positive("num_attention_heads")
    shared = config.number("num_key_value_heads", own) or own
    width = config.optional("head_dim") or config.positive("hidden_size") // own
    if not width:
        raise ModelError(
            f"hidden_size is {config.number('hidden_size')}, less than a number for each of {own} heads"
        )
    return own, shared, width


def attention_parameters(config: Configuration) -> int:
    """Return the weights of one layer's attention."""
    return _latent(config) if config.family.latent else _multi_head(config)


def cache_layers(config: Configuration, layers: int) -> tuple[Attention, ...]:
    """Return the layers of the KV cache of a model with ``layers`` layers."""
    if config.family.latent:
        width = config.positive("kv_lora_rank") + config.number("qk_rope_head_dim")
        return (Attention(layers, width),)
    _, kv_heads, width = heads(config)
    full = _full_layers(config, layers)
    kinds = ((full, None), (layers - full, config.optional("sliding_window")))
    return tuple(
        Attention(number, 2 * kv_heads * width, kv_heads, window) for number, window in kinds if number
    )


def _multi_head(config: Configuration) -> int:
    family, hidden = config.family, config.positive("hidden_size")
    own, shared, width = heads(config)
    matrices = 2 * hidden * width * (own + shared)
    biased = config.switch("attention_bias", default=family.qkv_bias)
    inner = width * (own + 2 * shared) if biased else 0
    outer = hidden if biased and not (family.qkv_bias and not family.expert_bias) else 0
    sinks = own if family.expert_bias else 0
    return matrices + inner + outer + sinks + (2 * width if family.head_norm else 0)


def _latent(config: Configuration) -> int:
    """Return the weights of a latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1)."""
    hidden, own = config.positive("hidden_size"), config.positive("num_attention_heads")
    rank, rope = config.positive("kv_lora_rank"), config.number("qk_rope_head_dim")
    plain, value = config.number("qk_nope_head_dim"), config.positive("v_head_dim")
    query_rank, query = config.optional("q_lora_rank"), own * (plain + rope)
    queries = hidden * query if query_rank is None else query_rank * (hidden + 1 + query)
    keys = hidden * (rank + rope) + rank + rank * own * (plain + value)
    return queries + keys + own * value * hidden


def _full_layers(config: Configuration, layers: int) -> int:
    """Return the number of layers with full attention."""
    family = config.family
    if config.optional("sliding_window") is None:
        return layers
    kinds = config.entries("layer_types")
    if kinds:
        return _named(kinds, layers)
    if family.full_every > 1:
        return layers // (config.optional("sliding_window_pattern") or family.full_every)
    if config.switch("use_sliding_window"):
        return min(config.number("max_window_layers", layers), layers)
    return 0 if family.windowed else layers


def _named(kinds: list[object], layers: int) -> int:
    other = next((kind for kind in kinds if kind not in (_FULL, _SLIDING)), None)
    if other is not None:
        raise ModelError(
            f"its layers of the kind {str(other)[:40]!r} are not known here; give its number of parameters"
        )
    return sum(kind == _FULL for kind in kinds[:layers])


MAX_LAYERS: Final = 10_000


def shape_of(config: Configuration) -> Shape:
    """Return the shape of a model, without parts for images or audio.

    Raises:
        ModelError: A value is missing or invalid.
    """
    layers = config.positive("num_hidden_layers")
    if layers > MAX_LAYERS:
        raise ModelError(f"num_hidden_layers is {layers}, no number that a model has")
    return Shape(
        parameters(config, layers),
        cache_layers(config, layers),
        config.positive("vocab_size"),
        config.positive("hidden_size"),
        config.positive("num_attention_heads"),
    )


def parameters(config: Configuration, layers: int) -> Parameters:
    """Return the weights of a model with ``layers`` layers."""
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
    """Return the weights of a gated feed-forward layer with ``inner`` hidden units."""
    hidden = config.positive("hidden_size")
    return 3 * hidden * inner + (2 * inner + hidden if config.switch("mlp_bias") else 0)


def _experts(config: Configuration) -> int:
    """Return the weights of all routed experts of a layer."""
    family, hidden = config.family, config.positive("hidden_size")
    inner = config.positive(family.expert_size_key)
    one = 3 * hidden * inner + (2 * inner + hidden if family.expert_bias else 0)
    return config.positive(family.experts_key) * one


def _beside_experts(config: Configuration) -> int:
    """Return the weights of the router and the shared experts of a layer."""
    family, hidden = config.family, config.positive("hidden_size")
    router = config.positive(family.experts_key) * (hidden + (1 if family.expert_bias else 0))
    shared = config.number("n_shared_experts", 0) * config.number("moe_intermediate_size", 0)
    gated = config.number("shared_expert_intermediate_size", 0)
    return router + 3 * hidden * (shared + gated) + (hidden if gated else 0)


def _expert_share(config: Configuration) -> float:
    chosen = config.positive("num_experts_per_tok")
    return min(chosen / config.positive(config.family.experts_key), 1.0)
