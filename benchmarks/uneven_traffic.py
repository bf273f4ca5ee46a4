"""Traffic whose requests are not alike: heavy tails, bursts of one job, regimes, and waves of load.

Requests come at random, at 30 decode steps a second, with three tokens a draft. The truth is the ratio of a
run of some hundred windows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np

from benchmarks.simulated_requests import (
    MIXES,
    Array,
    DraftTokens,
    Requests,
    counted,
    even,
    first_positions,
    requests_of,
)

MIX: Final = next(mix for mix in MIXES if mix.name == "EAGLE")
SPREAD: Final = 0.15
"""Standard deviation of the acceptance among the requests of a kind."""
CHAT: Final = (50, 500)
AGENT: Final = (2000, 8000)
AGENTS: Final = 0.05
"""Share of agents among the requests."""
PARETO: Final = 1.5
"""Exponent of the tail: the mean is finite; without a longest answer the variance is not."""
MAX_TOKENS: Final = 8192
CHATS: Final = 100
"""Chats from one job to the next."""
JOB: Final = 20
"""Requests of a job, which begin together. They share a prompt template: they have nearly one acceptance."""
JOB_TOKENS: Final = (500, 1500)
JOB_SPREAD: Final = 0.03
REGIME: Final = 200
"""Requests of a regime; each regime has its own mean acceptance."""
WAVE_SECONDS: Final = 90.0
WAVE_DEPTH: Final = 0.9
"""The rate of arrivals rises and falls by this share."""

Draw: TypeAlias = Callable[[np.random.Generator, int], Requests]
Arrivals: TypeAlias = Callable[[np.random.Generator, int, float, float], Array]
"""Begins of a number of requests, in order, from one second to another."""


def equal(random: np.random.Generator, number: int) -> Requests:
    return _with_acceptance(random, np.full(number, 200.0), MIX.acceptance)


def alike(random: np.random.Generator, number: int) -> Requests:
    return _with_acceptance(random, even(random, CHAT, number), MIX.acceptance)


def pareto(random: np.random.Generator, number: int) -> Requests:
    tokens = np.minimum(CHAT[0] * (1 - random.random(number)) ** (-1 / PARETO), MAX_TOKENS)
    return _with_acceptance(random, tokens, MIX.acceptance)


def agents(random: np.random.Generator, number: int) -> Requests:
    agent = random.random(number) < AGENTS
    tokens = np.where(agent, even(random, AGENT, number), even(random, CHAT, number))
    return _with_acceptance(random, tokens, np.where(agent, 0.80, 0.65))


def jobs(random: np.random.Generator, number: int) -> Requests:
    """Draw chats, and after every 100 of them a job; see ``together``."""
    place = np.arange(number) % (CHATS + JOB)
    in_job = place >= CHATS
    job = np.arange(number) // (CHATS + JOB)
    own = first_positions(random, MIX.acceptance, SPREAD, job[-1] + 1)[job]
    tokens = np.where(in_job, even(random, JOB_TOKENS, number), even(random, CHAT, number))
    near = np.clip(own + random.normal(0, JOB_SPREAD, number), 0.02, 0.98)
    first = np.where(in_job, near, first_positions(random, MIX.acceptance, SPREAD, number))
    return requests_of(random, MIX, tokens, first)


def regimes(random: np.random.Generator, number: int) -> Requests:
    """Draw chats whose mean acceptance changes after every ``REGIME`` of them."""
    regime = np.arange(number) // REGIME
    means = random.uniform(0.5, 0.9, regime[-1] + 1)[regime]
    return requests_of(random, MIX, even(random, CHAT, number), first_positions(random, means, 0.08, number))


def _with_acceptance(random: np.random.Generator, tokens: Array, mean: float | Array) -> Requests:
    return requests_of(random, MIX, tokens, first_positions(random, mean, SPREAD, len(tokens)))


def at_random(random: np.random.Generator, number: int, begin: float, end: float) -> Array:
    return np.sort(random.uniform(begin, end, number))


def together(random: np.random.Generator, number: int, begin: float, end: float) -> Array:
    """Return begins at random, those of a job together."""
    begins = at_random(random, number, begin, end)
    place = np.arange(number)
    first = place - np.maximum(place % (CHATS + JOB) - CHATS, 0)
    return np.asarray(begins[first])


def in_waves(random: np.random.Generator, number: int, begin: float, end: float) -> Array:
    grid = np.linspace(begin, end, round(end - begin) + 1)
    rate = 1 + WAVE_DEPTH * np.sin(2 * np.pi * grid / WAVE_SECONDS)
    reached = np.cumsum(rate) / rate.sum()
    return np.interp(np.sort(random.random(number)), reached, grid)


@dataclass(frozen=True)
class Traffic:
    """A kind of traffic."""

    name: str
    draw: Draw
    arrivals: Arrivals = at_random
    waves: bool = False
    """True if K depends on the load: three tokens up to the mean of running requests, one above."""

    def trace(self, random: np.random.Generator, running: int, seconds: int) -> Array:
        """Return running totals of ``seconds`` with ``running`` requests in the mean."""
        lives = self.draw(random, 24_000).steps / MIX.steps_per_second
        before = float(lives.max())
        number = round(running * (before + seconds) / float(lives.mean()))
        requests = self.draw(random, number)
        begins = self.arrivals(random, number, -before, float(seconds))
        return counted(random, MIX, requests, begins, seconds=seconds, draft_tokens=self._schedule(running))

    def _schedule(self, running: int) -> DraftTokens | None:
        return (lambda now: np.where(now > running, 1, MIX.tokens)) if self.waves else None


KINDS: Final = (
    Traffic("answers of 200 tokens", equal),
    Traffic("answers of 50 to 500 tokens", alike),
    Traffic("Pareto lengths", pareto),
    Traffic("5 % agents among chats", agents),
    Traffic("chats and bursts of one job", jobs, together),
    Traffic("regimes of 200 requests", regimes),
    Traffic("waves of load, K by load", alike, in_waves, waves=True),
)
