"""Traffic that changes within seconds, step by step: bursts, chunked prefills, falling acceptance.

Each step takes the time of ``Server`` for its batch and the prompt tokens that share it (chunked prefills),
times noise. Each request has its own length, acceptance and coverage, as in ``traffic``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from math import ceil, exp
from random import Random
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from benchmarks.truth.server import Server
from benchmarks.truth.traffic import NANO, Counts, Mix, draw, population, requests_of

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
BUDGET: Final = 2048
"""Tokens of a step: vLLM's max_num_batched_tokens of a server for chat."""
PROMPT_GRID: Final = 64
"""Step times are computed for prompt tokens that differ by this."""
FALL_GRID: Final = 50
"""Tokens per step are computed for accepted shares that differ by 1/50."""


class Waves(NamedTuple):
    """How requests arrive, and how their acceptance changes."""

    arrivals: Callable[[float, float, int], float]
    """Requests that arrive between two moments, with those in the system at the second one."""
    kept: Callable[[float], float] = lambda _: 1.0
    """Factor of the acceptance of a position at a moment."""


@dataclass(slots=True)
class Truth:
    """Decode seconds of all requests for the same tokens, without speculation and with it."""

    plain: float = 0.0
    drafting: float = 0.0

    def since(self, before: Truth) -> float:
        """Return the speed-up between two moments."""
        return (self.plain - before.plain) / (self.drafting - before.drafting)


@cache
def _harmonic(mix: Mix, positions: int, kept: int) -> float:
    """Return the tokens of a step over the steps of many requests of equal length."""
    share = kept / FALL_GRID
    steps = 0.0
    for request, weight in requests_of(mix, positions):
        conditional = tuple(share * each for each in request.conditional)
        steps += weight / replace(request, conditional=conditional).tokens_per_step
    return 1 / steps


class StepTraffic:
    """Requests on a server that run step by step, and its counters."""

    def __init__(
        self,
        random: Random,
        server: Server,
        mix: Mix,
        waves: Waves,
        *,
        drafts: bool = True,
        speculates: bool = True,
    ) -> None:
        """Start empty; ``speculates`` is false for a server that never drafts, which schedules otherwise."""
        self._random, self._server, self._mix, self._waves = random, server, mix, waves
        self._numbers = np.random.default_rng(random.getrandbits(32))
        self._drafts, self._speculates = drafts, speculates
        self._slow = 0.0
        self._waiting: deque[list[float]] = deque()
        """Uncached tokens to compute, and the arrival, of each request that has no first token."""
        width = server.tokens
        self._survival, self._lengths = np.zeros((0, width)), np.zeros(0)
        self._coverage, self._left = np.zeros(0), np.zeros(0)
        self._decoded = self._arrived = 0.0
        self.counts = Counts(positions=[0] * width)
        self.truth = Truth()
        self._plain = cache(self._plain_seconds)
        self._drafting = cache(self._drafting_seconds)
        self._unspeculating = cache(server.plain_seconds)
        self._rate = cache(self._mean_rate)

    def seconds(self, number: int) -> Iterator[tuple[Counts, Truth]]:
        """Run for ``number`` seconds; yield the counters after each, and the truth so far."""
        now, variation, end = 0.0, 1.0, 1.0
        while True:
            self._arrive(now)
            joining, prompts = self._prefill()
            batch = len(self._left)
            covered = self._covered(batch)
            seconds = 0.002
            if batch or prompts:
                seconds = self._step_seconds(batch, covered, prompts) * variation
            while now + seconds > end:
                self.counts.running_requests = batch + len(joining) + self._is_prefilling
                self.counts.waiting_requests = len(self._waiting) - self._is_prefilling
                yield self.counts.copy(), replace(self.truth)
                if end == number:
                    return
                end += 1
                variation = self._variation()
            now += seconds
            self._decode(covered, seconds, prompts, self._waves.kept(now))
            for arrived in joining:
                self._join(arrived, now)

    def _arrive(self, now: float) -> None:
        number = len(self._left) + len(self._waiting)
        self._decoded += self._waves.arrivals(self._arrived, now, number)
        self._arrived = now
        while self._decoded >= 1:
            self._decoded -= 1
            tokens = self._mix.computed_tokens
            self._waiting.append([max(1.0, tokens * self._random.lognormvariate(-0.08, 0.4)), now])

    @property
    def _is_prefilling(self) -> bool:
        return bool(self._waiting) and self._waiting[0][0] < 0

    def _prefill(self) -> tuple[list[float], int]:
        """Compute prompts with what is left of the budget; return the arrivals of the complete ones."""
        joining = list[float]()
        left = start = float(max(BUDGET - len(self._left) * (self._server.tokens + 1), 64))
        while self._waiting and left > 0:
            request = self._waiting[0]
            tokens = abs(request[0])
            if request[0] > 0:
                self._admit(tokens)
            taken = min(left, tokens)
            left -= taken
            request[0] = taken - tokens  # negative: it has begun
            if taken == tokens:
                joining.append(self._waiting.popleft()[1])
        return joining, ceil(start - left)

    def _admit(self, uncached: float) -> None:
        counts = self.counts
        counts.prefix_cache_queries += round(uncached / (1 - self._mix.hit_ratio))
        counts.prefix_cache_hits += round(uncached * self._mix.hit_ratio / (1 - self._mix.hit_ratio))

    def _covered(self, batch: int) -> Array | None:
        if not self._drafts:
            return None
        if not self._mix.searches:
            return np.ones(batch, bool)
        return self._numbers.random(batch) < self._coverage

    def _step_seconds(self, batch: int, covered: Array | None, prompts: int) -> float:
        if not batch:
            return self._server.prompt_seconds(prompts)
        rounded = PROMPT_GRID * ceil(prompts / PROMPT_GRID)
        if covered is None:
            return self._plain(batch, rounded)
        return self._drafting(batch, int(covered.sum()), int((covered * self._lengths).sum()), rounded)

    def _plain_seconds(self, batch: int, prompts: int) -> float:
        return self._server.plain_seconds(batch, prompts, speculates=self._speculates)

    def _drafting_seconds(self, batch: int, drafting: int, drafted: int, prompts: int) -> float:
        return self._server.drafting_seconds(batch, drafted, prompts, drafting=drafting)

    def _decode(self, covered: Array | None, seconds: float, prompts: int, kept: float) -> None:
        batch, counts = len(self._left), self.counts
        if not batch:
            return
        counts.decode_steps += batch
        counts.decode_nanoseconds += round(batch * seconds * NANO)
        given = np.ones(batch)
        if covered is not None:
            self._add_truth(batch, covered, prompts, kept)
            survival = (
                self._survival
                if kept == 1
                else self._survival * kept ** np.arange(1, self._server.tokens + 1)
            )
            accepted = (self._numbers.random(batch)[:, None] < survival) & covered[:, None]
            given += accepted.sum(1)
            for place, number in enumerate(accepted.sum(0)):
                counts.positions[place] += int(number)
            counts.drafts += int(covered.sum())
            counts.draft_tokens += int((covered * self._lengths).sum())
            counts.accepted_tokens += int(accepted.sum())
        counts.generation_tokens += int(np.minimum(given, self._left).sum())
        self._left = self._left - given
        if self._left.min() <= 0:
            stays = self._left > 0
            counts.finished_requests += int((~stays).sum())
            self._left, self._survival = self._left[stays], self._survival[stays]
            self._coverage, self._lengths = self._coverage[stays], self._lengths[stays]

    def _add_truth(self, batch: int, covered: Array, prompts: int, kept: float) -> None:
        """Add a step: the same tokens and prompts without speculation, at the same running requests."""
        rounded = PROMPT_GRID * ceil(prompts / PROMPT_GRID)
        alone = self._unspeculating(batch, 0)
        rate = self._rate(round(FALL_GRID * kept))
        self.truth.plain += batch * ((rate - 1) * alone + self._unspeculating(batch, rounded))
        self.truth.drafting += batch * self._step_seconds(batch, covered, prompts)

    def _mean_rate(self, kept: int) -> float:
        """Return the mean tokens of a step while that many fiftieths of the acceptance are kept."""
        whole = population(self._mix, self._server.tokens).tokens_per_step
        return (
            whole
            * _harmonic(self._mix, self._server.tokens, kept)
            / _harmonic(self._mix, self._server.tokens, FALL_GRID)
        )

    def _join(self, arrived: float, now: float) -> None:
        counts, mix = self.counts, self._mix
        request = draw(self._random, mix, self._server.tokens)
        survival = [*request.survival, *[0.0] * (self._server.tokens - len(request.conditional))]
        counts.first_tokens += 1
        counts.generation_tokens += 1
        counts.first_token_nanoseconds += round((now - arrived) * NANO)
        counts.prompt_tokens += round(mix.prompt_tokens)
        self._survival = np.vstack([self._survival, survival])
        self._left = np.append(self._left, max(1, request.answer_tokens - 1))
        self._coverage = np.append(self._coverage, request.coverage)
        self._lengths = np.append(self._lengths, len(request.conditional))

    def _variation(self) -> float:
        """Return the time of a step now over its mean, as ``Traffic`` does."""
        self._slow = 0.98 * self._slow + 0.2 * 0.01 * self._random.gauss(0, 1)
        return exp(self._slow + 0.03 * self._random.gauss(0, 1) - 0.0005)
