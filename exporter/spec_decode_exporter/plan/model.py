"""Record of a model: the one that plans, warnings and reports read."""

from __future__ import annotations

from pydantic import Field

from spec_decode_exporter.plan.model_config import DTYPES, ModelConfig, Weights, sequence_elements
from spec_decode_exporter.views.document import View, at, fact


class Model(View):
    """A target or a draft."""

    name: str
    weights: Weights = Field(exclude=True)
    dtype: str = at("Format of the weights.")
    weight_bytes: int = at("Over all GPUs, without copies.")
    weights_counted: bool = at(
        "Whether weight_bytes is computed; else it is the size of the files.", default=True
    )
    guessed: bool = at("Whether the size is only typical for such models.", default=False)
    config: ModelConfig | None = Field(default=None, exclude=True)
    """None if its config.json is unknown."""
    kv_bytes_per_token: int | None = Field(default=None, exclude=True)
    """Given bytes of a token in the KV cache over all GPUs."""
    vocabulary: str | None = Field(default=None, exclude=True)
    """Digest of its tokens; None without a tokenizer."""

    # fmt: off
    parameters = fact("All parameters.", int, lambda model: model.weights.total)
    active_parameters = fact("Parameters that one token uses: all of a dense model.", int, lambda model: model.weights.active)
    vocabulary_tokens = fact("Null if unknown.", int | None, lambda model: model.config and model.config.vocab_size)
    # fmt: on

    def sequence_bytes(self, context: int, gpus: int, element_bytes: int) -> int | None:
        """Return the bytes of a sequence in the KV cache over all of ``gpus``; None if unknown."""
        if self.kv_bytes_per_token is not None:
            return self.kv_bytes_per_token * context
        elements = None if self.config is None else sequence_elements(self.config, context, gpus)
        return None if elements is None else gpus * element_bytes * elements

    def quantized(self, dtype: str) -> Model:
        """Return the model with its weights in another dtype, if that is smaller."""
        if DTYPES[dtype] >= DTYPES[self.dtype]:
            return self
        size = min(self.weights.bytes_in(dtype), self.weight_bytes)
        return self.model_copy(update={"dtype": dtype, "weight_bytes": size})
