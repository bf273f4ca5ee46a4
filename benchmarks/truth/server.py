"""Time of the steps of one server: passes of target and drafter, sampler, host.

A pass over n tokens of b requests reads the weights once, the experts that n tokens activate, and the
key-value cache of every request once; it computes 2 FLOP for each active parameter and token. Memory and
compute overlap by a smooth roofline. Kernels that are neither, collectives and the host come on top.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from math import ceil, comb, sqrt

from benchmarks.truth.models import Drafter, Efficiency, Gpu, Method, Shape, Target, roofline

MICRO = 1e-6
MILLI = 1e-3

CAPTURE_SIZES = (1, 2, 4, *range(8, 256, 8), *range(256, 513, 16))
"""Tokens of the CUDA graphs that vLLM captures by default (its compilation config: 1, 2, 4, then multiples of
8, from 256 of 16, at most 512). A batch is padded to the next one."""
LAYER_SECONDS = 15 * MICRO
"""Norms, rotary embedding, cache writes and gaps of a layer in a CUDA graph: about 6 kernels of 2.5 µs."""
EAGER_LAYER_SECONDS = 60 * MICRO
"""A layer launched by the host, beyond the largest graph: 12 kernels of 5 µs. It overlaps with the GPU."""
ROUTING_SECONDS = 40 * MICRO
"""Gating, sorting and combining of the experts of a layer: the part of fused_moe that is not multiplication.
"""
REDUCE_SECONDS = 10 * MICRO
"""Latency of an all-reduce of a few kilobytes over NVLink: 5 to 15 µs with vLLM's custom kernel."""
REDUCES_PER_LAYER = 2
TILE = 16
"""Rows of the smallest tile of a tensor core's multiplication: fewer tokens compute as many."""
SAMPLER_SECONDS = 150 * MICRO
"""Kernels of the sampler, whatever the batch."""
LOGIT_PASSES = 3
"""Times that the sampler reads or writes 32-bit logits."""
REJECTION_SECONDS = 200 * MICRO
"""Metadata of drafts, rejection sampler, preparation of the drafter: vLLM's runner without the passes."""
DRAFT_PASS_SECONDS = 200 * MICRO
"""A drafter's pass besides its kernels: metadata, launch and argmax. EAGLE on an H100 with an 8B: a draft
token takes about 1 ms, of which the weights are 0.6 ms (vLLM pull request 16937: 133, 202, 198 and 170 tokens
per second with 0, 2, 4 and 7 draft tokens)."""
OVERLAPPED_HOST_SECONDS = 100 * MICRO
"""Rest of the host's time with asynchronous scheduling."""
SEARCH_SECONDS = 10 * MICRO
"""n-gram proposer for one request on the host: copies of its tokens and the call (vLLM pull request 13365).
"""
SEARCH_TOKEN_SECONDS = 2e-9
"""And for each token of its context; it grows with batch and context (vLLM pull request 24986)."""
EXPERT_OVERLAP = (0.25, 0.45)
"""Share of a token's experts that the token before it used too. 0.38 measured by Cohere, *Why MoE models get
more from speculative decoding* (2026); independent routing would be 0.03 to 0.06."""
HOST_SECONDS = (0.5 * MILLI, 1.5 * MILLI)
"""Scheduling and preparation of a step without asynchronous scheduling: on an H100 about 1 of 8 ms for an 8B;
published 1 to 5 ms a step over engines."""
HOST_REQUEST_SECONDS = (4 * MICRO, 12 * MICRO)
"""And for each running request."""


@dataclass(frozen=True, slots=True)
class Host:
    """Host work of a step."""

    seconds: float
    request_seconds: float
    is_plain_overlapped: bool
    """Whether the server schedules asynchronously without speculation."""
    is_drafting_overlapped: bool
    """And with it: vLLM does for EAGLE, MTP and draft models (pull request 31998), not for n-gram."""

    def of_step(self, requests: float, *, overlapped: bool) -> float:
        """Return the seconds that the host adds to a step."""
        return OVERLAPPED_HOST_SECONDS if overlapped else self.seconds + self.request_seconds * requests


@dataclass(frozen=True, slots=True)
class Server:
    """A target model with a drafter on its GPUs."""

    target: Target
    drafter: Drafter
    tokens: int
    """K."""
    gpu: Gpu
    efficiency: Efficiency
    host: Host
    expert_overlap: float
    context: float
    """Mean tokens of a request in the key-value cache."""

    def plain_seconds(self, requests: int, prompt_tokens: float = 0.0, *, speculates: bool = False) -> float:
        """Return the time of a decode step without drafts.

        Args:
            requests: Running requests.
            prompt_tokens: Tokens of prompts in the same step.
            speculates: Whether the server speculates, and only pauses: it schedules as it does then.
        """
        overlapped = self.host.is_drafting_overlapped if speculates else self.host.is_plain_overlapped
        return (
            self._target_seconds(requests, requests, prompt_tokens, drafts=False)
            + self._sampler_seconds(self.target.shape, requests)
            + self.host.of_step(requests, overlapped=overlapped)
        )

    def drafting_seconds(
        self, requests: int, drafted: float, prompt_tokens: float = 0.0, *, drafting: float | None = None
    ) -> float:
        """Return the time of a decode step in which requests have ``drafted`` draft tokens in all.

        ``drafting`` is the number of requests with a draft, by default all.
        """
        drafting = requests if drafting is None else drafting
        verified = requests + drafted
        return (
            self._target_seconds(verified, requests, prompt_tokens, drafts=True)
            + self._sampler_seconds(self.target.shape, verified)
            + REJECTION_SECONDS
            + self._drafter_seconds(requests)
            + self.host.of_step(requests, overlapped=self.host.is_drafting_overlapped)
        )

    def covered_seconds(
        self, requests: int, coverage: float, draft_length: float, prompt_tokens: float = 0.0
    ) -> float:
        """Return the mean time of a step in which each request has a draft with probability ``coverage``."""
        if coverage >= 1:
            return self.drafting_seconds(requests, requests * draft_length, prompt_tokens)
        return sum(
            weight * self.drafting_seconds(requests, count * draft_length, prompt_tokens, drafting=count)
            for count, weight in _drafting_counts(requests, coverage)
        )

    def first_pass_seconds(self, requests: int) -> float:
        """Return the time of the drafter in a step without drafts, in which it keeps its KV cache in sync."""
        shape = self.drafter.shape
        if shape is None:
            return 0.0
        return self._pass_seconds(shape, padded_tokens(requests)[0], requests) + DRAFT_PASS_SECONDS

    def prompt_seconds(self, prompt_tokens: float) -> float:
        """Return the time of a step with a prompt alone."""
        return self._pass_seconds(self.target.shape, prompt_tokens, 1.0) + self._sampler_seconds(
            self.target.shape, 1
        )

    def _target_seconds(self, verified: float, requests: int, prompt_tokens: float, *, drafts: bool) -> float:
        size = self.tokens + 1 if drafts and self.drafter.drafts_every_step else 1
        padded, captured = padded_tokens(verified, size)
        if prompt_tokens:
            padded, captured = verified + prompt_tokens, False
        seconds = self._pass_seconds(self.target.shape, padded, requests)
        return seconds if captured else max(seconds, self.target.shape.layers * EAGER_LAYER_SECONDS)

    def _pass_seconds(self, shape: Shape, tokens: float, requests: float) -> float:
        """Return the time of a pass over ``tokens`` of ``requests``; all GPUs run at once."""
        gpus = self.target.tensor_parallel
        experts = shape.experts
        read, active = shape.parameters, shape.parameters
        if experts is not None:
            fresh = requests + max(0.0, tokens - requests) * (1 - self.expert_overlap)
            read += experts.layers * experts.distinct(fresh) * experts.parameters
            active += experts.layers * experts.active * experts.parameters
        cache = requests * self.context * shape.kv_bytes
        memory = read * shape.weight_bytes / gpus + cache / (gpus if shape.kv_is_sharded else 1)
        rows = ceil(tokens / TILE) * TILE
        attention = 4 * tokens * self.context * shape.heads_size * shape.layers
        flops = (2 * active * rows + attention) / gpus
        peak = self.gpu.flops_8 if shape.weight_bytes <= 1 else self.gpu.flops_16
        fixed = LAYER_SECONDS + (0.0 if experts is None else ROUTING_SECONDS)
        seconds = roofline(self.efficiency, memory / self.gpu.bandwidth, flops / peak) + shape.layers * fixed
        return seconds + (self._reduce_seconds(shape, tokens) if gpus > 1 else 0.0)

    def _reduce_seconds(self, shape: Shape, tokens: float) -> float:
        moved = tokens * shape.hidden * 2 / self.gpu.link
        return REDUCES_PER_LAYER * shape.layers * (REDUCE_SECONDS + moved)

    def _sampler_seconds(self, shape: Shape, tokens: float) -> float:
        read = LOGIT_PASSES * 4 * shape.vocabulary * tokens
        return SAMPLER_SECONDS + read / (self.gpu.bandwidth * self.efficiency.bandwidth)

    def _drafter_seconds(self, requests: int) -> float:
        if self.drafter.method is Method.NGRAM:
            return requests * (SEARCH_SECONDS + self.context * SEARCH_TOKEN_SECONDS)
        passes = 1 if self.drafter.is_parallel else self.tokens
        return self._passes_seconds(requests) + passes * DRAFT_PASS_SECONDS

    def _passes_seconds(self, requests: int) -> float:
        """Return the time of the drafter's passes: the first one also reads the tokens of the last step."""
        shape = self.drafter.shape
        if shape is None:
            return 0.0
        padded, _ = padded_tokens(requests * (self.tokens + 1), self.tokens + 1)
        first = self._pass_seconds(shape, padded, requests)
        if self.drafter.is_parallel:
            return first
        return first + (self.tokens - 1) * self._pass_seconds(shape, padded_tokens(requests)[0], requests)


def padded_tokens(tokens: float, multiple: int = 1) -> tuple[float, bool]:
    """Return the tokens of the CUDA graph for a batch, and whether there is one.

    The sizes of a server that speculates are rounded up to multiples of K + 1.
    """
    place = bisect_left(CAPTURE_SIZES, tokens)
    if place == len(CAPTURE_SIZES):
        return tokens, False
    return ceil(CAPTURE_SIZES[place] / multiple) * multiple, True


def _drafting_counts(requests: int, coverage: float) -> list[tuple[float, float]]:
    if requests <= 8:
        return [
            (count, comb(requests, count) * coverage**count * (1 - coverage) ** (requests - count))
            for count in range(requests + 1)
        ]
    mean, deviation = requests * coverage, sqrt(requests * coverage * (1 - coverage))
    points = ((-2.0, 0.06), (-1.0, 0.24), (0.0, 0.40), (1.0, 0.24), (2.0, 0.06))
    return [(min(max(mean + z * deviation, 0.0), requests), weight) for z, weight in points]
