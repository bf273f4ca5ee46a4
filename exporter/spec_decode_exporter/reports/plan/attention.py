"""The attention of a model by its config.json: what a layer's weights and its KV cache are."""

from __future__ import annotations

from typing import Final

from spec_decode_exporter.reports.plan.model_config import Configuration, ModelError
from spec_decode_exporter.reports.plan.model_shape import Attention

_FULL: Final = "full_attention"
_SLIDING: Final = "sliding_attention"


def heads(config: Configuration) -> tuple[int, int, int]:
    """Return the numbers of attention heads and of KV heads, and how wide a head is."""
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
    return _latent(config) if config.family.latent else _usual(config)


def cache_layers(config: Configuration, layers: int) -> tuple[Attention, ...]:
    """Return what so many layers keep in the KV cache."""
    if config.family.latent:
        width = config.positive("kv_lora_rank") + config.number("qk_rope_head_dim")
        return (Attention(layers, width),)
    _, kv_heads, width = heads(config)
    full = _full_layers(config, layers)
    found = ((full, None), (layers - full, config.optional("sliding_window")))
    return tuple(
        Attention(number, 2 * kv_heads * width, kv_heads, window) for number, window in found if number
    )


def _usual(config: Configuration) -> int:
    family, hidden = config.family, config.positive("hidden_size")
    own, shared, width = heads(config)
    matrices = 2 * hidden * width * (own + shared)
    biased = config.switch("attention_bias", default=family.qkv_bias)
    inner = width * (own + 2 * shared) if biased else 0
    outer = hidden if biased and not (family.qkv_bias and not family.expert_bias) else 0
    sinks = own if family.expert_bias else 0
    return matrices + inner + outer + sinks + (2 * width if family.head_norm else 0)


def _latent(config: Configuration) -> int:
    """Return those of a latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1)."""
    hidden, own = config.positive("hidden_size"), config.positive("num_attention_heads")
    rank, rope = config.positive("kv_lora_rank"), config.number("qk_rope_head_dim")
    plain, value = config.number("qk_nope_head_dim"), config.positive("v_head_dim")
    query_rank, query = config.optional("q_lora_rank"), own * (plain + rope)
    queries = hidden * query if query_rank is None else query_rank * (hidden + 1 + query)
    keys = hidden * (rank + rope) + rank + rank * own * (plain + value)
    return queries + keys + own * value * hidden


def _full_layers(config: Configuration, layers: int) -> int:
    """Return how many layers see the whole context."""
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
