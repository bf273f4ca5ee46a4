"""Another model of the time of a step than ``server``: sums and a sharp maximum, from five numbers.

A pass takes the longer of the time to read the weights and that to compute its tokens, which comes in whole
waves; the cache, the drafter's passes and the host come on top. Prompts share a step with the batch, or take
steps of their own that the batch waits for. Light targets, quantised or small, have a low ridge and a drafter
that is dear beside them.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, exp, log
from random import Random

from benchmarks.truth.models import NGRAM, Drafter, Method

WAVE = 32
"""Tokens that are computed together."""
WEIGHTS = (0.004, 0.04)
"""Seconds to read the weights: 8 B in FP8 on an H100 to 70 B on four A100."""
RIDGES, LIGHT_RIDGES = (100, 400), (25, 100)
"""Tokens whose computation takes as long as the weights; less with 4-bit weights."""
CACHE_TOKENS = (30_000, 400_000)
"""Tokens of the cache that are read in the time of the weights."""
PASSES, LIGHT_PASSES = (0.02, 0.08), (0.06, 0.2)
"""Time of a drafter's pass, in that of the weights."""
HOSTS = (0.0002, 0.002)
"""Seconds of the host in a step; a drafting step has half of it again."""
REQUEST_SECONDS = (0.0, 25e-6)
"""And for each request."""
LIGHT_SHARE = 0.3


@dataclass(frozen=True, slots=True)
class SharpServer:
    """A server with a drafter of K ``tokens``; times in seconds."""

    drafter: Drafter
    tokens: int
    weights: float
    ridge: float
    cache_tokens: float
    drafter_pass: float
    host: float
    request: float
    are_prompts_alone: bool
    context: float = 1000.0

    @classmethod
    def drawn(cls, random: Random, *, searches: bool) -> SharpServer:
        """Draw a server."""

        def within(low: float, high: float) -> float:
            return exp(random.uniform(log(low), log(high)))

        is_light = random.random() < LIGHT_SHARE
        weights = within(*WEIGHTS)
        return cls(
            NGRAM if searches else Drafter(random.choice((Method.EAGLE3, Method.MTP)), "layer"),
            random.randint(1, 6),
            weights,
            within(*(LIGHT_RIDGES if is_light else RIDGES)),
            within(*CACHE_TOKENS),
            weights * within(*(LIGHT_PASSES if is_light else PASSES)),
            within(*HOSTS),
            random.uniform(*REQUEST_SECONDS),
            random.random() < 1 / 3,
        )

    def plain_seconds(self, requests: float, prompt_tokens: float = 0.0, **_: bool) -> float:
        """Return the time of a decode step without drafts."""
        return self._step(requests, requests, prompt_tokens) + self.host + requests * self.request

    def drafting_seconds(
        self, requests: float, drafted: float, prompt_tokens: float = 0.0, **_: float
    ) -> float:
        """Return the time of a decode step in which requests have ``drafted`` draft tokens in all."""
        passes = self.tokens * self.drafter_pass if self.drafter.drafts_every_step else 0.0
        step = self._step(requests, requests + drafted, prompt_tokens)
        return step + passes + 1.5 * self.host + 2 * requests * self.request

    def covered_seconds(
        self, requests: float, coverage: float, draft_length: float, prompt_tokens: float = 0.0
    ) -> float:
        """Return the time of a step in which each request has a draft with probability ``coverage``."""
        return self.drafting_seconds(requests, requests * coverage * draft_length, prompt_tokens)

    def first_pass_seconds(self, _requests: float) -> float:
        """Return the time of the drafter in a step without drafts."""
        return self.drafter_pass if self.drafter.drafts_every_step else 0.0

    def prompt_seconds(self, prompt_tokens: float) -> float:
        """Return the time of a step with a prompt alone."""
        return self._step(1.0, prompt_tokens, 0.0) + self.host

    def _step(self, requests: float, tokens: float, prompt_tokens: float) -> float:
        cache = requests * self.context / self.cache_tokens * self.weights
        if prompt_tokens and self.are_prompts_alone:
            return self._computed(tokens) + cache + self._computed(prompt_tokens)
        return self._computed(tokens + prompt_tokens) + cache

    def _computed(self, tokens: float) -> float:
        return self.weights * max(1.0, ceil(tokens / WAVE) * WAVE / self.ridge)
