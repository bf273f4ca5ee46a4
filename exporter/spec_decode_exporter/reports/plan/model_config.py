"""Checked values of a config.json, and the table of known architectures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from spec_decode_exporter.core.user_errors import ExporterError


@dataclass(frozen=True, slots=True)
class ModelFamily:
    """Properties of an architecture that config.json lacks."""

    norms: int = 2
    """Number of norms of the model's width in each layer."""
    qkv_bias: bool = False
    """True if queries, keys and values have a bias, unless ``attention_bias`` overrides it."""
    head_norm: bool = False
    """True if queries and keys of each head have a norm."""
    tied: bool = False
    """True if the embedding is the output matrix, unless the file overrides it."""
    experts_key: str = ""
    """Key of the number of routed experts; empty for a dense model."""
    expert_size_key: str = "moe_intermediate_size"
    expert_bias: bool = False
    """True if router, experts and output projection have a bias, and each head an attention sink."""
    latent: bool = False
    """True if the attention is latent (MLA)."""
    full_every: int = 1
    """Period of the layers with full attention, the others have a window; 1 if all are full."""
    windowed: bool = False
    """True if ``sliding_window`` applies to all layers without a pattern."""
    defaults: Mapping[str, int] = field(default_factory=dict)
    """Values of keys that the file may omit."""


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


_LIMIT: Final = 10**9
"""Upper limit of every number in a config.json."""


class ModelError(ExporterError):
    """A model cannot be used in a plan; the text has the reason and the remedy."""


class Configuration:
    """A config.json of a known architecture; values in ``text_config`` come first."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        """Read the content of a file.

        Raises:
            ModelError: The architecture is not in ``FAMILIES``.
        """
        nested = document.get("text_config")
        self._values = {**document, **nested} if isinstance(nested, dict) else dict(document)
        self.model_type = str(self._values.get("model_type") or "")
        known = FAMILIES.get(self.model_type)
        if known is None:
            reason = f"the architecture {self.model_type[:60]!r} is not known here"
            raise ModelError(
                f"{reason if self.model_type else 'it has no model_type'}; give the model's number of "
                f"parameters instead, such as 8B (known: {', '.join(FAMILIES)})"
            )
        self.family: ModelFamily = known

    def number(self, key: str, default: int | None = None) -> int:
        """Return a whole number, at least 0.

        Raises:
            ModelError: The value is invalid, or missing without a default.
        """
        value = self._values.get(key)
        if value is None:
            value = self.family.defaults.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < _LIMIT:
            shown = "is missing" if value is None else f"is {str(value)[:40]!r}, no number that a model has"
            raise ModelError(f"{key} {shown}; give the model's number of parameters instead, such as 8B")
        return value

    def optional(self, key: str) -> int | None:
        """Return a whole number above 0; None if it is missing or 0."""
        return self.number(key, 0) or None

    def positive(self, key: str, default: int | None = None) -> int:
        """Return a whole number above 0.

        Raises:
            ModelError: The value is missing or invalid.
        """
        value = self.number(key, default)
        if not value:
            raise ModelError(f"{key} is 0; give the model's number of parameters instead, such as 8B")
        return value

    def switch(self, key: str, *, default: bool = False) -> bool:
        """Return a boolean."""
        value = self._values.get(key)
        return default if value is None else bool(value)

    def entries(self, key: str) -> list[Any]:
        """Return a list; empty if it is missing."""
        value = self._values.get(key)
        return value if isinstance(value, list) else []

    def section(self, key: str) -> Mapping[str, Any]:
        """Return a nested object; empty if it is missing."""
        value = self._values.get(key)
        return value if isinstance(value, dict) else {}

    def word(self, *keys: str) -> str:
        """Return the first text of some keys; empty if all are missing."""
        return next((value for key in keys if isinstance(value := self._values.get(key), str)), "")
