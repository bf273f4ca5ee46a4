"""What a model is made of, as far as its memory and its reading go."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from spec_decode_exporter.reports.plan.dtype import Dtype


@dataclass(frozen=True, slots=True)
class Parameters:
    """Numbers of weights, by how they are kept and read."""

    layers: int
    """Read by every step: attention, dense or shared feed-forward, norms. Quantised where a model is, unless
    in ``mxfp4`` with experts."""
    experts: int = 0
    """Of all routed experts together. Quantised too."""
    expert_share: float = 1.0
    """The share of the routed experts that one token takes."""
    embedding: int = 0
    """The input's table, of which a step reads a few rows. Never quantised."""
    output: int = 0
    """The output matrix; 0 where it is the embedding (``tied``). Never quantised."""
    tied: bool = False
    borrowed: int = 0
    """The output matrix of another model, which is read and not kept again."""

    @property
    def total(self) -> int:
        """All of them."""
        return self.layers + self.experts + self.embedding + self.output

    @property
    def active(self) -> int:
        """Those that a token takes part in."""
        return self.total - self.experts + round(self.experts * self.expert_share)

    def weight_bytes(self, dtype: Dtype) -> int:
        """Return what they take, over all GPUs."""
        rest = self.embedding + self.output
        layers = self.layers * self._layer_bits(dtype)
        return ceil((layers + self.experts * dtype.bits + rest * dtype.rest_bits) / 8)

    def read_bytes(self, dtype: Dtype, tokens: int) -> float:
        """Return how many bytes a step reads of them that computes so many tokens.

        Of the experts those that any of the tokens takes, as if each took its own at random.
        """
        touched = self.experts * (1 - (1 - self.expert_share) ** tokens)
        matrix = (self.embedding if self.tied else self.output) + self.borrowed
        layers = self.layers * self._layer_bits(dtype)
        return (float(layers) + touched * float(dtype.bits) + float(matrix * dtype.rest_bits)) / 8

    def _layer_bits(self, dtype: Dtype) -> Fraction:
        """Return the bits of a weight that is in no expert."""
        return dtype.rest_bits if self.experts and dtype.of_experts_only else dtype.bits


@dataclass(frozen=True, slots=True)
class Attention:
    """Layers whose KV cache is alike."""

    layers: int
    elements: int
    """What the cache holds for a token in a layer: keys and values of all heads, or the latent vector."""
    kv_heads: int | None = None
    """None of a latent vector (MLA), of which every GPU has the whole."""
    window: int | None = None
    """As many tokens as the cache holds at most; None for all."""

    def elements_on_a_gpu(self, gpus: int) -> int:
        """Return what one of ``gpus`` holds for a token in all these layers: a head is not divided."""
        if self.kv_heads is None:
            return self.layers * self.elements
        return self.layers * (self.elements // self.kv_heads) * max(1, -(-self.kv_heads // gpus))

    def tokens(self, context: int) -> int:
        """Return how many tokens of a sequence the cache holds."""
        return context if self.window is None else min(context, self.window)


@dataclass(frozen=True, slots=True)
class Shape:
    """What a configuration says of a model."""

    parameters: Parameters
    attention: tuple[Attention, ...]
    vocab_size: int
    hidden_size: int
    attention_heads: int
