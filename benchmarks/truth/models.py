"""GPUs, and shapes of target models and of their drafters, as far as they decide the time of a pass.

Parameters follow from the models' published config.json. The embedding is a table of which a token reads one
row, so it is left out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

TERA = 1e12
GIGA = 1e9


@dataclass(frozen=True, slots=True)
class Gpu:
    """Data sheet of a GPU."""

    bandwidth: float
    """Bytes per second of its memory."""
    flops_16: float
    """Dense FLOP per second in BF16."""
    flops_8: float
    """Dense FLOP per second in FP8; without FP8 units as in BF16."""
    link: float
    """Bytes per second to its neighbours in one direction; PCIe if it has no NVLink."""
    memory: float
    """Bytes."""


# NVIDIA data sheets of A100 80GB SXM, H100 SXM5, H200 SXM and L40S; FLOP without sparsity.
A100 = Gpu(2.039 * TERA, 312 * TERA, 312 * TERA, 300 * GIGA, 80 * GIGA)
H100 = Gpu(3.35 * TERA, 989 * TERA, 1979 * TERA, 450 * GIGA, 80 * GIGA)
H200 = Gpu(4.8 * TERA, 989 * TERA, 1979 * TERA, 450 * GIGA, 141 * GIGA)
L40S = Gpu(0.864 * TERA, 362 * TERA, 733 * TERA, 32 * GIGA, 48 * GIGA)


@dataclass(frozen=True, slots=True)
class Efficiency:
    """Shares of the data sheet that kernels reach; each server draws its own from the ranges below."""

    bandwidth: float
    """Share of the memory bandwidth."""
    compute: float
    """Share of the FLOP per second."""
    sharpness: float
    """Exponent p of the roofline's bend, (t_memory^p + t_compute^p)^(1/p): infinite is a sharp bend."""


BANDWIDTH_SHARES = (0.65, 0.85)
"""Llama-3.1-8B alone on an H100: 133 tokens per second, 64 % of the bandwidth with all overheads (vLLM pull
request 16937); copy kernels reach about 90 %."""
COMPUTE_SHARES = (0.45, 0.70)
"""Model FLOP utilisation of large prefills in BF16 on A100 and H100; cuBLAS alone reaches 70 to 80 %."""
SHARPNESSES = (2.5, 6.0)
"""Assumed. Loads and multiplications of a tile overlap only in part near the ridge point. 2.5 is 32 % over
the sharp bend there, 6 is 12 %."""


def roofline(efficiency: Efficiency, memory_seconds: float, compute_seconds: float) -> float:
    """Return the seconds of kernels with these times by memory and by compute alone, at full efficiency."""
    p = efficiency.sharpness
    memory = memory_seconds / efficiency.bandwidth
    compute = compute_seconds / efficiency.compute
    longer, shorter = max(memory, compute), min(memory, compute)
    return longer * (1 + (shorter / longer) ** p) ** (1 / p) if longer else 0.0


BILLION = 1e9


@dataclass(frozen=True, slots=True)
class Experts:
    """Routed experts of a mixture-of-experts model."""

    layers: int
    number: int
    """In each layer."""
    active: int
    """That a token uses in each layer."""
    parameters: float
    """Of one expert in one layer."""

    def distinct(self, tokens: float) -> float:
        """Return the experts of a layer that independent tokens activate together, evenly routed."""
        missed: float = (1 - self.active / self.number) ** tokens
        return self.number * (1 - missed)


@dataclass(frozen=True, slots=True)
class Shape:
    """Weights, attention and vocabulary of a model or a drafter."""

    parameters: float
    """Read in every pass; without routed experts and without the embedding."""
    layers: int
    hidden: int
    heads_size: int
    """Query heads times their size: FLOP of attention."""
    kv_bytes: float
    """Of one token in all layers."""
    vocabulary: int
    weight_bytes: float = 2.0
    experts: Experts | None = None
    kv_is_sharded: bool = True
    """False for multi-head latent attention: each tensor-parallel rank keeps all of it."""

    @property
    def total_parameters(self) -> float:
        """Parameters as the model's card names them, without the embedding."""
        experts = self.experts
        routed = 0.0 if experts is None else experts.layers * experts.number * experts.parameters
        return self.parameters + routed


class Method(StrEnum):
    """Method of speculation, as vLLM spells it."""

    DRAFT_MODEL = "draft_model"
    EAGLE3 = "eagle3"
    MTP = "mtp"
    DFLASH = "dflash"
    NGRAM = "ngram"


@dataclass(frozen=True, slots=True)
class Drafter:
    """A drafter for one target; without a shape it searches on the host."""

    method: Method
    name: str
    shape: Shape | None = None

    @property
    def is_parallel(self) -> bool:
        """Return whether one pass drafts all tokens."""
        return self.method is Method.DFLASH

    @property
    def drafts_every_step(self) -> bool:
        """Return whether every decode step of a request has a draft."""
        return self.method is not Method.NGRAM


NGRAM = Drafter(Method.NGRAM, "n-gram")


@dataclass(frozen=True, slots=True)
class Target:
    """A served model with the GPUs that it usually runs on, and its drafters."""

    name: str
    shape: Shape
    gpus: tuple[Gpu, ...]
    tensor_parallel: int
    drafters: tuple[Drafter, ...]


def _layer(name: str, method: Method, parameters: float, of: Shape, layers: int = 1, **own: Any) -> Drafter:
    """Return a drafter of layers as those of a target; ``own`` is what else differs."""
    kv_bytes, experts = of.kv_bytes / of.layers * layers, own.pop("experts", None)
    shape = replace(of, parameters=parameters, layers=layers, kv_bytes=kv_bytes, experts=experts, **own)
    return Drafter(method, name, shape)


# Llama-3.1-8B: 32 layers of 218 M, an output matrix of 128,256 x 4096; 8 KV heads of 128 in 16 bits.
_8B = Shape(7.50 * BILLION, 32, 4096, 4096, 131_072, 128_256)
# Llama-3.2-1B: 16 layers, tied output matrix of 128,256 x 2048.
_1B = Shape(1.24 * BILLION, 16, 2048, 2048, 32_768, 128_256)
DENSE_8B = Target(
    "dense 8B",
    _8B,
    (A100, H100, L40S),
    1,
    (
        Drafter(Method.DRAFT_MODEL, "1B", _1B),
        # yuhuili/EAGLE3-LLaMA3.1-Instruct-8B: a layer on 2 x 4096, 3 x 4096 x 4096 before it, 32,000 words.
        _layer("EAGLE-3", Method.EAGLE3, 0.43 * BILLION, _8B, vocabulary=32_000),
        # As MiMo-7B: a layer of the target, a projection of 2 x 4096, and the target's output matrix.
        _layer("MTP", Method.MTP, 0.78 * BILLION, _8B),
        # DFlash (arXiv 2602.06036): 5 layers, the target's output matrix for every position.
        _layer("DFlash", Method.DFLASH, 1.62 * BILLION, _8B, layers=5),
        NGRAM,
    ),
)

# Llama-3.1-70B: 80 layers of 856 M, an output matrix of 128,256 x 8192; 8 KV heads of 128.
_70B = Shape(69.5 * BILLION, 80, 8192, 8192, 327_680, 128_256)
DENSE_70B = Target(
    "dense 70B, TP 4",
    _70B,
    (A100, H100, H200),
    4,
    (
        Drafter(Method.DRAFT_MODEL, "1B", _1B),
        Drafter(Method.DRAFT_MODEL, "8B", _8B),
        # A layer on 2 x 8192, 3 x 8192 x 8192 before it, 32,000 words.
        _layer("EAGLE-3", Method.EAGLE3, 1.45 * BILLION, _70B, vocabulary=32_000),
        _layer("MTP", Method.MTP, 2.04 * BILLION, _70B),
        _layer("DFlash", Method.DFLASH, 5.3 * BILLION, _70B, layers=5),
        NGRAM,
    ),
)

# Qwen3-30B-A3B: 48 layers, 128 experts of 3 x 2048 x 768, 8 active; 4 KV heads of 128; 151,936 words.
_30B_EXPERTS = Experts(48, 128, 8, 3 * 2048 * 768)
_30B = Shape(1.22 * BILLION, 48, 2048, 4096, 98_304, 151_936, experts=_30B_EXPERTS)
# Qwen3-0.6B: 28 layers, tied output matrix of 151,936 x 1024; 8 KV heads of 128.
_06B = Shape(0.60 * BILLION, 28, 1024, 2048, 114_688, 151_936)
MOE_30B = Target(
    "MoE 30B-A3B",
    _30B,
    (A100, H100, H200),
    1,
    (
        Drafter(Method.DRAFT_MODEL, "0.6B", _06B),
        # A dense layer of 2048 with an inner width of 12,288, 32,000 words.
        _layer("EAGLE-3", Method.EAGLE3, 0.20 * BILLION, _30B, vocabulary=32_000),
        # As Qwen3-Next: one layer of the target with its experts.
        _layer("MTP", Method.MTP, 0.36 * BILLION, _30B, experts=replace(_30B_EXPERTS, layers=1)),
        _layer("DFlash", Method.DFLASH, 0.80 * BILLION, _30B, layers=8),
        NGRAM,
    ),
)

# DeepSeek-V3 (arXiv 2412.19437): 61 layers of which 58 have 256 experts of 3 x 7168 x 2048, 8 active; 37 B
# active in all, so 16.6 B besides; latent attention of 576 values a token and layer; weights in FP8.
_EXPERTS = Experts(58, 256, 8, 3 * 7168 * 2048)
_DEEPSEEK = Shape(16.6 * BILLION, 61, 7168, 16_384, 70_272, 129_280, 1.0, _EXPERTS, kv_is_sharded=False)
# Its MTP module: one such layer, a projection of 2 x 7168 x 7168, the target's output matrix.
_MTP = _layer("MTP", Method.MTP, 1.27 * BILLION, _DEEPSEEK, experts=replace(_EXPERTS, layers=1))
MOE_DEEPSEEK = Target("MoE DeepSeek, TP 8", _DEEPSEEK, (H200,), 8, (_MTP, NGRAM))

TARGETS = (DENSE_8B, DENSE_70B, MOE_30B, MOE_DEEPSEEK)
