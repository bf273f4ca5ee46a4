"""Times of plain, verifying and drafting passes on a GPU, with random weights of published sizes.

    python -m benchmarks.gpu_passes > tests/data/gpu_passes.jsonl      # three minutes on an H100 of 80 GB

A plain pass computes one token of each running request, a verifying one K + 1, head and sampler included. A
drafter has one layer of the target's size and runs K times. Each pass is a CUDA graph: the times are those of
the GPU alone, without the host. ``tests/unit/costs`` holds the typical costs to them. Needs PyTorch.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import product
from math import ceil
from typing import Any, Final, NamedTuple

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import linear, rms_norm, scaled_dot_product_attention, silu

from benchmarks.options import parsed, parser

TOKENS: Final = (1, 3, 5, 7)
MAX_TOKENS: Final = 1100
"""Of a pass; vLLM captures graphs up to 512 by default."""
SMALL_VOCABULARY: Final = 32_000
"""Of EAGLE-3 heads."""
SHARED_EXPERTS: Final = 0.32
"""Share of the experts that a token takes from the token before it; with those drawn by chance it is 0.38."""
CACHE_BYTES: Final = 4e8
"""Least size of all layers' KV caches, far above the GPU's own cache."""
Array = Any
"""A tensor."""


class Shape(NamedTuple):
    """Sizes of a model on one GPU."""

    layers: int
    width: int
    heads: int
    kv_heads: int
    inner: int
    """Width of a dense layer, or of an expert."""
    vocabulary: int
    measured: int
    """Layers that are computed; the time of the others is the same."""
    experts: int = 0
    used: int = 0
    """Experts of a token."""
    head_width: int = 128


SHAPES: Final = {
    "Llama-3.1-8B": Shape(32, 4096, 32, 8, 14336, 128256, 32),
    "Qwen3-1.7B": Shape(28, 2048, 16, 8, 6144, 151936, 28),
    "Qwen3-4B": Shape(36, 2560, 32, 8, 9728, 151936, 36),
    "Qwen3-32B": Shape(64, 5120, 64, 8, 25600, 151936, 16),
    "Llama-3.1-70B on 4 GPUs": Shape(80, 8192, 16, 2, 7168, 32064, 20),  # without the reductions between them
    "Qwen3-30B-A3B": Shape(48, 2048, 32, 4, 768, 151936, 16, 128, 8),
    "smoke": Shape(2, 256, 4, 2, 512, 1024, 2),
}
LOADS: Final = (1, 4, 8, 16, 32, 64, 128, 256)
BUSY: Final = LOADS[3:]
"""Loads with long contexts: PyTorch's kernel reads the cache of few requests with too few processors."""
CASES: Final = (
    ("Llama-3.1-8B", "bf16", LOADS, 500),
    ("Llama-3.1-8B", "bf16", BUSY, 4000),
    ("Llama-3.1-8B", "bf16", (8,), 50000),
    ("Qwen3-30B-A3B", "bf16", (1, 2, *LOADS[1:-1]), 500),
    ("Qwen3-30B-A3B", "bf16", BUSY[:-1], 4000),
    ("Qwen3-1.7B", "bf16", LOADS[:-1], 500),
    ("Qwen3-4B", "bf16", LOADS[:-1], 500),
    ("Qwen3-4B", "bf16", BUSY[:-1], 4000),
    ("Qwen3-32B", "bf16", LOADS[:-1], 500),
    ("Qwen3-32B", "bf16", BUSY[:-1], 4000),
    ("Llama-3.1-8B", "fp8", LOADS, 500),
    ("Llama-3.1-8B", "fp8", BUSY, 4000),
    ("Llama-3.1-70B on 4 GPUs", "bf16", LOADS[:-1], 500),
    ("Llama-3.1-70B on 4 GPUs", "bf16", BUSY[:-1], 4000),
)


def random(*sizes: int) -> Array:
    return torch.randn(*sizes, device="cuda", dtype=torch.bfloat16) * 0.02


def matrix(inputs: int, outputs: int, weights: str = "bf16") -> Callable[[Array], Array]:
    """Return a multiplication; with FP8 the activations are cast in each pass, as vLLM does."""
    if weights == "bf16":
        return partial(_multiply, random(outputs, inputs))
    weight, scale = random(outputs, inputs).to(torch.float8_e4m3fn), torch.ones((), device="cuda")
    return partial(_multiply_fp8, weight, scale)


def _multiply(weight: Array, x: Array) -> Array:
    return linear(x, weight)


def _multiply_fp8(weight: Array, one: Array, x: Array) -> Array:
    return torch._scaled_mm(x.to(torch.float8_e4m3fn), weight.t(), one, one, out_dtype=torch.bfloat16)  # noqa: SLF001


class Batch(NamedTuple):
    """What a pass is about."""

    requests: int
    tokens: int
    """Of each request."""
    caches: Sequence[tuple[Array, Array]]
    """Keys and values of the layers, in turn."""
    routes: Sequence[tuple[Array, Array] | None]
    """Token of each row that goes to an expert, and the end of each expert's rows; in turn."""


class Layer:
    """A layer; the one of a drafter gets the target's hidden state beside its input."""

    def __init__(self, shape: Shape, weights: str, *, of_drafter: bool = False) -> None:
        its, width = shape, shape.width
        self.shape = its
        projected = (its.heads + 2 * its.kv_heads) * its.head_width
        self.project = matrix(2 * width if of_drafter else width, projected, weights)
        self.out = matrix(its.heads * its.head_width, width, weights)
        if its.experts:
            self.route = matrix(width, its.experts)
            self.experts = random(its.experts, width, 2 * its.inner), random(its.experts, its.inner, width)
        else:
            self.up, self.down = matrix(width, 2 * its.inner, weights), matrix(its.inner, width, weights)

    def __call__(self, x: Array, inputs: Array, batch: Batch, number: int) -> Array:
        """Return the hidden states after the layer; ``number`` chooses its cache and its routes."""
        x = x + self.out(self._attention(self.project(inputs), batch, number))
        normal = rms_norm(x, (self.shape.width,))
        route = batch.routes[number % len(batch.routes)]
        if route is None:
            gate, up = self.up(normal).chunk(2, -1)
            return x + self.down(silu(gate) * up)
        rows, ends = route
        raised, lowered = self.experts
        grouped = torch._grouped_mm  # noqa: SLF001
        gate, up = grouped(normal.index_select(0, rows), raised, offs=ends).chunk(2, -1)
        mixed = x.index_add(0, rows, grouped(silu(gate) * up, lowered, offs=ends))
        return mixed + 0 * self.route(normal)[:, :1]

    def _attention(self, projected: Array, batch: Batch, number: int) -> Array:
        """Attend to the whole cache: the queries of a group of heads and of all tokens are rows of one."""
        its, (requests, tokens, caches, _) = self.shape, batch
        keys, values = caches[number % len(caches)]
        sizes = [heads * its.head_width for heads in (its.heads, its.kv_heads, its.kv_heads)]
        query, *new = projected.split(sizes, -1)
        for cache, written in zip((keys, values), new, strict=True):
            rows = written.view(requests, tokens, its.kv_heads, its.head_width).transpose(1, 2)
            cache[:, :, -tokens:].copy_(rows)
        group = its.heads // its.kv_heads
        query = query.view(requests, tokens, its.kv_heads, group, its.head_width).permute(0, 2, 3, 1, 4)
        query = query.reshape(requests, its.kv_heads, group * tokens, its.head_width)
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            found = scaled_dot_product_attention(query, keys, values)
        found = found.view(requests, its.kv_heads, group, tokens, its.head_width).permute(0, 3, 1, 2, 4)
        return found.reshape(requests * tokens, its.heads * its.head_width)


class Model:
    """A target, and its drafter."""

    def __init__(self, shape: Shape, weights: str) -> None:
        self.shape, width = shape, shape.width
        self.layers = [Layer(shape, weights) for _ in range(shape.measured)]
        self.head = matrix(width, shape.vocabulary)
        dense = shape._replace(experts=0, used=0, inner=3 * width) if shape.experts else shape
        self.drafter, self.fuse = Layer(dense, "bf16", of_drafter=True), matrix(3 * width, width)
        self.small_head = matrix(width, min(SMALL_VOCABULARY, shape.vocabulary))

    def target_seconds(self, batch: Batch) -> float:
        """Return the time of a pass with head and sampler."""
        x = random(batch.requests * batch.tokens, self.shape.width)
        body = seconds(lambda: self._body(x, batch))
        return body * self.shape.layers / self.shape.measured + seconds(lambda: self._sample(x))

    def drafter_seconds(self, batch: Batch, head: Callable[[Array], Array]) -> float:
        """Return the time of the passes that draft: the first takes all tokens of the step before."""
        accepted = random(batch.requests * batch.tokens, 3 * self.shape.width)

        def draft() -> Array:
            x, now = self.fuse(accepted), batch
            for _ in range(batch.tokens - 1):
                x = self.drafter(x, torch.cat((x, x), -1), now, 0)
                x = x.view(now.requests, now.tokens, -1)[:, -1]
                x = x + 0 * head(rms_norm(x, (self.shape.width,))).argmax(-1, keepdim=True)
                now = now._replace(tokens=1)
            return x

        return seconds(draft)

    def _body(self, x: Array, batch: Batch) -> Array:
        for number, layer in enumerate(self.layers):
            x = layer(x, rms_norm(x, (self.shape.width,)), batch, number)
        return x

    def _sample(self, x: Array) -> Array:
        probable = torch.softmax(self.head(x).float(), -1)
        return (probable / torch.empty_like(probable).exponential_(1)).argmax(-1)


def seconds(work: Callable[[], object]) -> float:
    """Return the median time of a pass, as a CUDA graph."""
    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        work()
        work()
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    graph.replay()
    marks = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(9)]
    for begin, end in marks:
        begin.record()
        graph.replay()
        end.record()
    torch.cuda.synchronize()
    return float(sorted(begin.elapsed_time(end) for begin, end in marks)[4]) / 1000


def routes(shape: Shape, requests: int, tokens: int, number: int) -> list[tuple[Array, Array] | None]:
    """Draw the experts of each token, more popular ones more often; each layer routes differently."""
    return [_route(shape, requests, tokens) if shape.experts else None for _ in range(number)]


def _route(shape: Shape, requests: int, tokens: int) -> tuple[Array, Array]:
    popular = torch.randn(shape.experts) * 0.5
    chosen: list[Array] = []
    for _, token in product(range(requests), range(tokens)):
        score = popular - torch.rand(shape.experts).log().neg().log()
        if token:
            score[chosen[-1][torch.rand(shape.used) < SHARED_EXPERTS]] += 100
        chosen.append(score.topk(shape.used).indices)
    experts = torch.stack(chosen).flatten()
    ends = torch.bincount(experts, minlength=shape.experts).cumsum(0).to(torch.int32)
    return (experts.argsort(stable=True) // shape.used).cuda(), ends.cuda()


def row(model: Model, requests: int, context: int) -> dict[str, Any]:
    """Return the times of the passes at a load, in seconds."""
    shape = model.shape
    sizes = requests, shape.kv_heads, context, shape.head_width
    size = 4 * requests * shape.kv_heads * context * shape.head_width
    caches = [(random(*sizes), random(*sizes)) for _ in range(min(shape.measured, ceil(CACHE_BYTES / size)))]

    def batch(tokens: int) -> Batch:
        return Batch(requests, tokens, caches, routes(shape, requests, tokens, min(shape.measured, 4)))

    found: dict[str, Any] = {"running": requests, "context": context}
    found["plain"] = _rounded(model.target_seconds(batch(1)))
    for name in ("verify", "eagle", "eagle3"):
        found[name] = {}
    for tokens in (each for each in TOKENS if requests * (each + 1) <= MAX_TOKENS):
        now = batch(tokens + 1)
        found["verify"][tokens] = _rounded(model.target_seconds(now))
        alone = now._replace(routes=(None,))
        found["eagle"][tokens] = _rounded(model.drafter_seconds(alone, model.head))
        found["eagle3"][tokens] = _rounded(model.drafter_seconds(alone, model.small_head))
    return found


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")


def _print(line: dict[str, Any]) -> None:
    print(json.dumps(line), flush=True)


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--models", default="", help="begin of the names of the models that are measured")
    arguments = parsed(options, models="smoke")
    if not torch.cuda.is_available():
        sys.exit("not installed: a GPU")
    torch.manual_seed(1)
    cases: Iterable[Any] = CASES
    if arguments.smoke:
        cases = [("smoke", "bf16", (1, 4), 64)]
    _print({"gpu": torch.cuda.get_device_name(), "torch": torch.__version__})
    with torch.inference_mode():
        for name, weights, loads, context in cases:
            if not name.startswith(arguments.models):
                continue
            model = Model(SHAPES[name], weights)
            for requests in loads:
                _print({"model": name, "weights": weights, **row(model, requests, context)})
            del model
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
