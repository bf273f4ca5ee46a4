"""Cells: a server, its load and its requests, drawn over the whole range that is served."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from math import exp, log
from random import Random

from benchmarks.truth.models import (
    BANDWIDTH_SHARES,
    COMPUTE_SHARES,
    SHARPNESSES,
    TARGETS,
    Drafter,
    Efficiency,
    Gpu,
    Method,
    Target,
)
from benchmarks.truth.server import EXPERT_OVERLAP, HOST_REQUEST_SECONDS, HOST_SECONDS, Host, Server
from benchmarks.truth.traffic import Mix, Population, Traffic, drafting_seconds, plain_seconds, population

LOADS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
DEPTHS = (1, 8)
ACCEPTANCES = (0.3, 0.9)
SPREADS = (0.05, 0.20)
"""Standard deviation of the acceptance over requests. Assumed: from one kind of request to a mix of kinds."""
COVERAGES = (0.2, 0.8)
"""Of n-gram, in steps with a draft: from chat to code editing."""
CONTEXTS = (512, 16_384)
PROMPTS = (16, 256)
"""Uncached tokens of a prompt: short, or with most of it in the prefix cache."""
ANSWERS = ((50, 500), (50, 500), (100, 1000))
MEMORY_SHARE = 0.9
"""vLLM's gpu_memory_utilization."""
MIN_CONTEXT = 256
SERVED_BYTES = 1.08
"""Memory of a model over its weights without the embedding: the embedding, and what CUDA takes."""
OVERLAPPED_SHARE = 0.7
"""Assumed share of servers with asynchronous scheduling, now vLLM's default (pull request 31998)."""


@dataclass(frozen=True)
class Cell:
    """A server under a load; its truth follows from the model alone."""

    server: Server
    mix: Mix
    running: int
    seed: int

    @property
    def method(self) -> Method:
        """Method of speculation."""
        return self.server.drafter.method

    @property
    def means(self) -> Population:
        """Means of its steps while it drafts."""
        return population(self.mix, self.server.tokens)

    @cached_property
    def step_seconds(self) -> float:
        """Mean time of a step while it drafts."""
        return drafting_seconds(self.server, self.mix, self.running)

    @cached_property
    def truth(self) -> float:
        """Decode time per token without speculation over that with it, at the same running requests."""
        return self.means.tokens_per_step * self.plain_at(self.running) / self.step_seconds

    def plain_at(self, running: int, *, speculates: bool = False) -> float:
        """Return the mean time of a step without drafts at another load."""
        return plain_seconds(self.server, self.mix, running, speculates=speculates)

    def cost_at(self, running: int) -> float:
        """Return the cost of a draft token in plain steps at a load, all that speculation costs included."""
        ratio = drafting_seconds(self.server, self.mix, running) / self.plain_at(running)
        return (ratio - 1) / (self.means.coverage * self.means.draft_length)

    def traffic(self, salt: int) -> Traffic:
        """Return new traffic; another ``salt`` draws other requests."""
        return Traffic(Random(self.seed * 1009 + salt), self.server, self.mix, self.running)


def cells(seed: int, number: int) -> Iterator[Cell]:
    """Draw cells; targets and loads take turns, so that each has its share."""
    random = Random(seed)
    for index in range(number):
        target = TARGETS[index % len(TARGETS)]
        running = LOADS[index // len(TARGETS) % len(LOADS)]
        yield _cell(random, target, running, seed * 100_003 + index)


def _cell(random: Random, target: Target, running: int, seed: int) -> Cell:
    drafter = random.choice(target.drafters)
    gpu = random.choice(target.gpus)
    wanted = exp(random.uniform(*map(log, CONTEXTS)))
    running, context = fitting(target, drafter, gpu, running, wanted)
    server = Server(
        target,
        drafter,
        random.randint(*DEPTHS),
        gpu,
        Efficiency(
            random.uniform(*BANDWIDTH_SHARES),
            random.uniform(*COMPUTE_SHARES),
            random.uniform(*SHARPNESSES),
        ),
        _host(random, drafter),
        random.uniform(*EXPERT_OVERLAP),
        context,
    )
    mix = Mix(
        random.uniform(*ACCEPTANCES),
        random.uniform(*SPREADS),
        1.0 if drafter.drafts_every_step else random.uniform(*COVERAGES),
        random.choice(ANSWERS),
    )
    uncached = exp(random.uniform(*map(log, PROMPTS)))
    prompt = max(context - mix.mean_answer_tokens / 2, uncached)
    mix = replace(mix, prompt_tokens=prompt, hit_ratio=1 - uncached / prompt)
    return Cell(server, mix, running, seed)


def _host(random: Random, drafter: Drafter) -> Host:
    overlapped = random.random() < OVERLAPPED_SHARE
    return Host(
        random.uniform(*HOST_SECONDS),
        random.uniform(*HOST_REQUEST_SECONDS),
        is_plain_overlapped=overlapped,
        is_drafting_overlapped=overlapped and drafter.method is not Method.NGRAM,
    )


def fitting(target: Target, drafter: Drafter, gpu: Gpu, running: int, context: float) -> tuple[int, float]:
    """Return how many of the requests fit into the GPUs' memory, and their tokens in it."""
    shape = target.shape
    gpus = target.tensor_parallel
    weights = shape.total_parameters * shape.weight_bytes * SERVED_BYTES
    kv_bytes = shape.kv_bytes * (1 if shape.kv_is_sharded else gpus)
    if drafter.shape is not None:
        weights += drafter.shape.total_parameters * drafter.shape.weight_bytes
        kv_bytes += drafter.shape.kv_bytes
    free = gpus * gpu.memory * MEMORY_SHARE - weights
    fits = free / (running * kv_bytes)
    while fits < MIN_CONTEXT and running > 1:
        running //= 2
        fits *= 2
    return running, max(min(context, fits), MIN_CONTEXT / 2)
