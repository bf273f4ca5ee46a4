"""Servers of published models: dense and mixtures, in 16, 8 and 4 bits, on eight GPUs, with three drafters.

Shapes are those of the models' config.json; efficiencies, host and precision are drawn.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import exp, log, log2
from random import Random
from typing import Final, NamedTuple

from benchmarks.truth.cells import ACCEPTANCES, CONTEXTS, MEMORY_SHARE, OVERLAPPED_SHARE, SERVED_BYTES
from benchmarks.truth.hardware import A100, GIGA, H100, H200, L40S, SHARPNESSES, TERA, Efficiency, Gpu
from benchmarks.truth.server import EXPERT_OVERLAP, HOST_REQUEST_SECONDS, HOST_SECONDS, Host, Server
from benchmarks.truth.shapes import BILLION, Drafter, Experts, Method, Shape, Target
from benchmarks.truth.traffic import POSITION_DECAY

_GPUS: Final = (
    *(A100, H100, H200, L40S),
    Gpu("B200", 8.0 * TERA, 2250 * TERA, 4500 * TERA, 900 * GIGA, 180 * GIGA),
    Gpu("RTX 4090", 1.008 * TERA, 165 * TERA, 330 * TERA, 32 * GIGA, 24 * GIGA),
    Gpu("A10", 0.6 * TERA, 125 * TERA, 125 * TERA, 32 * GIGA, 24 * GIGA),
    Gpu("L4", 0.3 * TERA, 121 * TERA, 242 * TERA, 32 * GIGA, 24 * GIGA),
)
_NVLINK: Final = 100 * GIGA


class _Model(NamedTuple):
    name: str
    parameters: float
    """In billions, without routed experts and the embedding."""
    layers: int
    hidden: int
    key_values: int
    """Values of a token and layer in the key-value cache."""
    vocabulary: int
    experts: tuple[int, int, int] | None = None
    """Of a layer, of a token, and their inner width."""


_MODELS: Final = (
    _Model("meta-llama/Llama-3.2-3B-Instruct", 2.8, 28, 3072, 2048, 128_256),
    _Model("Qwen/Qwen3-4B", 3.6, 36, 2560, 2048, 151_936),
    _Model("meta-llama/Llama-3.1-8B-Instruct", 7.5, 32, 4096, 2048, 128_256),
    _Model("Qwen/Qwen3-14B", 14.0, 40, 5120, 2048, 151_936),
    _Model("Qwen/Qwen3-32B", 32.0, 64, 5120, 2048, 151_936),
    _Model("meta-llama/Llama-3.3-70B-Instruct", 69.5, 80, 8192, 2048, 128_256),
    _Model("mistralai/Mistral-Large-Instruct-2407", 122.0, 88, 12_288, 2048, 32_768),
    _Model("mistralai/Mixtral-8x7B-Instruct-v0.1", 1.5, 32, 4096, 2048, 32_000, (8, 2, 14_336)),
    _Model("Qwen/Qwen3-30B-A3B", 1.2, 48, 2048, 1024, 151_936, (128, 8, 768)),
    _Model("Qwen/Qwen3-235B-A22B", 7.7, 94, 4096, 1024, 151_936, (128, 8, 1536)),
    _Model("openai/gpt-oss-120b", 2.1, 36, 2880, 1024, 201_088, (128, 4, 2880)),
    _Model("deepseek-ai/DeepSeek-V3", 16.6, 61, 7168, 576, 129_280, (256, 8, 2048)),
)
_METHODS: Final = ("eagle", "eagle3", "mtp")
_WORDS: Final = 32_000
"""Vocabulary of an EAGLE-3 drafter."""
_PRECISIONS: Final = ((2.0, ""), (2.0, ""), (1.0, "-FP8"), (0.56, "-AWQ"))
"""Bytes of a weight with the scales of its group, and what the name says."""
_DEQUANTISING: Final = (0.4, 0.9)
"""FLOP of kernels that read weights of 4 bits, over those in 16 bits. Assumed."""
_BANDWIDTH, _COMPUTE = (0.5, 0.9), (0.35, 0.75)
"""Wider than those of ``hardware``: other engines' kernels."""
MAX_LOAD: Final = 128


@dataclass(frozen=True)
class Deployed:
    """A server that drafts, its load and its acceptance."""

    name: str
    method: str
    server: Server
    running: int
    acceptance: float

    @property
    def tokens_per_step(self) -> float:
        """Mean tokens of a step."""
        reached, tokens = 1.0, 1.0
        for place in range(self.server.tokens):
            reached *= self.acceptance * POSITION_DECAY**place
            tokens += reached
        return tokens

    def step_seconds(self, running: int) -> float:
        """Return the time of a step that drafts at a load."""
        return self.server.drafting_seconds(running, running * self.server.tokens)

    @property
    def truth(self) -> float:
        """Speed-up of decoding."""
        plain = self.server.plain_seconds(self.running)
        return self.tokens_per_step * plain / self.step_seconds(self.running)


def deployed(random: Random) -> Deployed:
    """Draw a server that has the memory for its load."""
    while True:
        found = _drawn(random)
        if found is not None:
            return found


def _drawn(random: Random) -> Deployed | None:
    model, gpu = random.choice(_MODELS), random.choice(_GPUS)
    weight_bytes, suffix = random.choice(_PRECISIONS)
    shape = _shape(model, weight_bytes)
    if weight_bytes < 1:
        gpu = replace(gpu, flops_8=gpu.flops_16 * random.uniform(*_DEQUANTISING))
    weights, gpus = shape.total_parameters * weight_bytes * SERVED_BYTES, 1
    while weights * 1.1 > gpus * gpu.memory * MEMORY_SHARE:
        gpus *= 2
    gpus *= 2 if random.random() < 0.25 else 1
    running, context = (
        round(2 ** random.uniform(0, log2(MAX_LOAD))),
        exp(random.uniform(*map(log, CONTEXTS))),
    )
    cache = running * context * shape.kv_bytes
    if gpus > (8 if gpu.link > _NVLINK else 2) or weights + cache > gpus * gpu.memory * MEMORY_SHARE:
        return None
    method, overlapped = random.choice(_METHODS), random.random() < OVERLAPPED_SHARE
    drafter = Drafter(Method.MTP, method, _layer(model, shape, method))
    efficiency = Efficiency(*(random.uniform(*each) for each in (_BANDWIDTH, _COMPUTE, SHARPNESSES)))
    host = Host(random.uniform(*HOST_SECONDS), random.uniform(*HOST_REQUEST_SECONDS), overlapped, overlapped)
    target = Target(model.name, model.name + suffix, shape, (gpu,), gpus, (drafter,))
    overlap = random.uniform(*EXPERT_OVERLAP)
    server = Server(target, drafter, random.randint(1, 7), gpu, efficiency, host, overlap, context)
    return Deployed(model.name + suffix, method, server, running, random.uniform(*ACCEPTANCES))


def _shape(its: _Model, weight_bytes: float) -> Shape:
    experts = None
    if its.experts is not None:
        number, active, width = its.experts
        experts = Experts(its.layers, number, active, 3 * its.hidden * width)
    return Shape(
        its.parameters * BILLION,
        its.layers,
        its.hidden,
        max(its.hidden, 4096),
        2.0 * its.key_values * its.layers,
        its.vocabulary,
        weight_bytes,
        experts,
    )


def _layer(its: _Model, target: Shape, method: str) -> Shape:
    """Return a layer of 16 bits, what joins it to the target, and its output matrix."""
    words = _WORDS if method == "eagle3" else its.vocabulary
    joined = 5 if method == "eagle3" else 2
    wide = 8 if its.experts is None else 6
    parameters = (wide + 4 + joined) * its.hidden**2 + words * its.hidden
    return Shape(
        parameters, 1, its.hidden, target.heads_size, target.kv_bytes / target.layers, words, weight_bytes=2.0
    )
