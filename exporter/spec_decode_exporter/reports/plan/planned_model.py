"""Model of a plan: its weights, attention layers and KV cache."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil

from spec_decode_exporter.reports.plan.model_config import Configuration
from spec_decode_exporter.reports.plan.quantization import Dtype


@dataclass(frozen=True, slots=True)
class Parameters:
    """Numbers of weights, by storage and access."""

    layers: int
    """Weights that every step reads: attention, dense or shared feed-forward, norms. Quantized in a quantized
    model, unless it is ``mxfp4`` with experts."""
    experts: int = 0
    """Weights of all routed experts. Quantized too."""
    expert_share: float = 1.0
    """Share of the routed experts that one token uses."""
    embedding: int = 0
    """Input embedding: a step reads a few rows. Never quantized."""
    output: int = 0
    """Output matrix; 0 if it is the embedding (``tied``). Never quantized."""
    tied: bool = False
    borrowed: int = 0
    """Output matrix of another model, which is read and not stored again."""

    @property
    def total(self) -> int:
        """Number of all weights."""
        return self.layers + self.experts + self.embedding + self.output

    @property
    def active(self) -> int:
        """Number of weights that a token uses."""
        return self.total - self.experts + round(self.experts * self.expert_share)

    def weight_bytes(self, dtype: Dtype) -> int:
        """Return the bytes of the weights over all GPUs."""
        rest = self.embedding + self.output
        layers = self.layers * self._layer_bits(dtype)
        return ceil((layers + self.experts * dtype.bits + rest * dtype.rest_bits) / 8)

    def read_bytes(self, dtype: Dtype, tokens: int) -> float:
        """Return the bytes of the weights that a step of ``tokens`` reads.

        The step reads the experts that any token uses; tokens choose experts at random.
        """
        used = self.experts * (1 - (1 - self.expert_share) ** tokens)
        matrix = (self.embedding if self.tied else self.output) + self.borrowed
        layers = self.layers * self._layer_bits(dtype)
        return (float(layers) + used * float(dtype.bits) + float(matrix * dtype.rest_bits)) / 8

    def _layer_bits(self, dtype: Dtype) -> Fraction:
        """Return the bits of a weight outside the experts."""
        return dtype.rest_bits if self.experts and dtype.of_experts_only else dtype.bits


@dataclass(frozen=True, slots=True)
class Attention:
    """Layers with the same KV cache."""

    layers: int
    elements: int
    """Elements of a token in a layer: keys and values of all heads, or the latent vector."""
    kv_heads: int | None = None
    """None for a latent vector (MLA), which every GPU holds as a whole."""
    window: int | None = None
    """Maximum number of tokens in the cache; None for no limit."""

    def elements_on_a_gpu(self, gpus: int) -> int:
        """Return the elements of a token on one of ``gpus`` in all these layers; heads are not divided."""
        if self.kv_heads is None:
            return self.layers * self.elements
        return self.layers * (self.elements // self.kv_heads) * max(1, -(-self.kv_heads // gpus))

    def tokens(self, context: int) -> int:
        """Return the number of tokens of a sequence in the cache."""
        return context if self.window is None else min(context, self.window)


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of a model by its config.json."""

    parameters: Parameters
    attention: tuple[Attention, ...]
    vocab_size: int
    hidden_size: int
    attention_heads: int


@dataclass(frozen=True, slots=True)
class Model:
    """A target or a draft."""

    name: str
    parameters: Parameters
    dtype: Dtype
    weight_bytes: int
    """Bytes of the weights over all GPUs without copies."""
    counted: bool = True
    """True if ``weight_bytes`` is computed; otherwise it is the size of the files."""
    guessed: bool = False
    """True if the size is only typical for such models."""
    shape: Shape | None = None
    """None if only the number of parameters is known."""
    config: Configuration | None = field(default=None, compare=False)
    kv_bytes_per_token: int | None = None
    """Given bytes of a token in the KV cache over all GPUs."""
    vocabulary: str | None = None
    """Digest of its tokens; None without a tokenizer."""

    def sequence_bytes_on_a_gpu(self, context: int, gpus: int, element_bytes: int) -> int | None:
        """Return the bytes of a sequence of ``context`` tokens in the KV cache of each of ``gpus``.

        None if unknown.
        """
        if self.kv_bytes_per_token is not None:
            return -(-self.kv_bytes_per_token * context // gpus)
        if self.shape is None:
            return None
        return element_bytes * sum(
            layers.elements_on_a_gpu(gpus) * layers.tokens(context) for layers in self.shape.attention
        )


def counted_model(name: str, parameters: float, dtype: Dtype, kv_bytes_per_token: int | None) -> Model:
    """Return a model with a given number of parameters."""
    weights = Parameters(layers=round(parameters))
    return Model(name, weights, dtype, weights.weight_bytes(dtype), kv_bytes_per_token=kv_bytes_per_token)
