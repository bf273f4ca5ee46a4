"""ONE table of the architectures of Hugging Face's config.json of which the weights can be counted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True, slots=True)
class ModelFamily:
    """What a config.json leaves unsaid, since the architecture's own code says it."""

    norms: int = 2
    """Norms as wide as the model, in each layer."""
    qkv_bias: bool = False
    """Whether queries, keys and values have a bias; ``attention_bias`` of the file says it otherwise."""
    head_norm: bool = False
    """Whether queries and keys of a head have a norm."""
    tied: bool = False
    """Whether the embedding is the output matrix, where the file does not say so."""
    experts_key: str = ""
    """The key with the number of routed experts; empty of a dense model."""
    expert_size_key: str = "moe_intermediate_size"
    expert_bias: bool = False
    """Whether router, experts and output projection have a bias, and each head an attention sink."""
    latent: bool = False
    """Whether the attention is a latent one (MLA)."""
    full_every: int = 1
    """Every so many layers one sees the whole context, the others a window; 1 for all."""
    windowed: bool = False
    """Whether ``sliding_window`` holds for all layers, where no pattern is said."""
    defaults: Mapping[str, int] = field(default_factory=dict)
    """What the file may leave out."""


_GEMMA3: Final = ModelFamily(
    norms=4,
    head_norm=True,
    tied=True,
    full_every=6,
    defaults={
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "vocab_size": 262_208,
        "sliding_window": 4096,
    },
)
_DEEPSEEK: Final = ModelFamily(latent=True, experts_key="n_routed_experts")

FAMILIES: Final[Mapping[str, ModelFamily]] = {
    "llama": ModelFamily(),
    "mistral": ModelFamily(windowed=True),
    "mixtral": ModelFamily(
        windowed=True, experts_key="num_local_experts", expert_size_key="intermediate_size"
    ),
    "qwen2": ModelFamily(qkv_bias=True),
    "qwen2_moe": ModelFamily(qkv_bias=True, experts_key="num_experts"),
    "qwen3": ModelFamily(head_norm=True),
    "qwen3_moe": ModelFamily(head_norm=True, experts_key="num_experts"),
    "gemma": ModelFamily(tied=True),
    "gemma2": ModelFamily(norms=4, tied=True, full_every=2),
    "gemma3": _GEMMA3,
    "gemma3_text": _GEMMA3,
    "deepseek_v2": _DEEPSEEK,
    "deepseek_v3": _DEEPSEEK,
    "gpt_oss": ModelFamily(
        qkv_bias=True,
        experts_key="num_local_experts",
        expert_size_key="intermediate_size",
        expert_bias=True,
        full_every=2,
    ),
}
"""By ``model_type``."""
