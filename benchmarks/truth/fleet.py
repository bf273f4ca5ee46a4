"""Many servers at once: continuous batching, queues and chunked prefills, in ticks of a fifth of a second.

A step takes O + (m^p + f^p)^(1/p), with m the time to read weights and contexts, f the time to compute its
tokens, and O what is neither; a drafting step computes K + 1 tokens of each request, and takes the drafter's
time besides. Prompts are computed first come, first served, in chunks that share the steps of decoding. Each
request has its own lengths and acceptance. All servers advance together, as arrays.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from types import SimpleNamespace
from typing import Any, Final

import numpy as np

from benchmarks.simulated_requests import BUCKETS, Array, Trace, first_positions, totals
from benchmarks.truth.traffic import Counts
from spec_decode_exporter.window.poll import Counters

TICK: Final = 0.2
CHUNK: Final = 2048
"""Prompt tokens of a step: vLLM's max_num_batched_tokens of a server for chat."""
NANO: Final = 10**9
DECAY: Final = 0.95
"""A position is accepted this much less often than the one before, given that that one was."""
SPREAD: Final = 0.12
"""Standard deviation of the acceptance over requests."""


@dataclass(frozen=True)
class Work:
    """Requests of a server. Lengths are lognormal, in tokens."""

    answer: float = 250.0
    prompt: float = 1000.0
    hits: float = 0.8
    """Share of the prompt in the prefix cache."""
    acceptance: float = 0.7
    """Mean over requests of the share of first positions that is accepted."""
    rate: float | None = None
    """Requests per second, at random; None: each of ``running`` clients sends the next one at once."""
    running: int = 16
    """Clients of a closed loop."""
    long_share: float = 0.0
    """Share of requests whose prompts and answers are 4 times as long, and 0.15 easier to draft."""


@dataclass(frozen=True)
class Machine:
    """Times of a step in seconds."""

    weights: float
    """Reading the weights."""
    ridge: float
    """Tokens whose computation takes as long as the weights."""
    contexts: float
    """Tokens of contexts that take as long to read as the weights."""
    other: float
    """Kernels and host beside both, as a share of the weights."""
    sharpness: float
    tokens: int = 0
    """K; 0: no speculation."""
    drafter: float = 0.1
    """Time of a drafted token, as a share of the weights."""
    factor: float = 1.0
    """All steps take this much longer."""
    places: int = 96
    """max_num_seqs: other requests wait."""

    @classmethod
    def draw(cls, random: np.random.Generator) -> Machine:
        """Draw a server: 8B on an H100 to 70B on four, with data sheets' ratios of bandwidth to FLOP."""
        even = random.uniform
        return cls(
            weights=float(np.exp(even(np.log(0.005), np.log(0.02)))),
            ridge=float(np.exp(even(np.log(80), np.log(350)))),
            contexts=float(np.exp(even(np.log(60e3), np.log(600e3)))),
            other=even(0.05, 0.3),
            sharpness=even(2, 6),
        )

    def step(self, running: float, context: float, prompt_tokens: float = 0.0) -> float:
        """Return the time of a step; ``context`` is the sum over the running requests."""
        return float(_step(self, np.asarray(running), np.asarray(context), prompt_tokens))

    def rate(self, work: Work, running: float) -> float:
        """Return the requests per second at which about that many run at a time, without speculation."""
        context = running * (work.prompt + work.answer / 2)
        plain = replace(self, tokens=0)
        decoding = (work.answer - 1) * plain.step(running, context)
        prefill = plain.step(0, 0, CHUNK) / CHUNK * work.prompt * (1 - work.hits)
        return running / (decoding + prefill * max(running, 1.0))


def _step(its: Any, running: Array, context: Array, prompt_tokens: Array | float) -> Array:
    """Return the time of a step of a ``Machine``, or of many whose fields are arrays."""
    memory = its.weights * (1 + context / its.contexts)
    compute = its.weights / its.ridge * (running * (its.tokens + 1) + prompt_tokens)
    power = its.sharpness
    passes = (memory**power + compute**power) ** (1 / power)
    drafting = its.tokens * its.drafter * its.weights * (1 + running / its.ridge)
    return np.asarray(its.factor * (passes + its.weights * its.other + drafting))


@dataclass
class Fleet:
    """Servers that are run together; ``traces`` gives the counters of each."""

    random: np.random.Generator
    servers: list[tuple[Machine, Work, float]] = field(default_factory=list)

    def add(self, machine: Machine, work: Work, begin: float = 0.0) -> int:
        """Add a server whose requests begin to arrive at ``begin``; return its number."""
        self.servers.append((machine, work, begin))
        return len(self.servers) - 1

    def traces(self, seconds: int, settling: int = 60) -> list[Trace]:
        """Serve, and return the counters of every second after the first ``settling`` ones."""
        run = _Run(self.random, self.servers, seconds + settling)
        return run.traces(settling)


class _Run:
    def __init__(
        self, random: np.random.Generator, servers: Sequence[tuple[Machine, Work, float]], seconds: int
    ) -> None:
        self.random, self.seconds = random, seconds
        machines, works, begins = zip(*servers, strict=True)
        columns = {
            each.name: np.array([getattr(its, each.name) for its in machines], float)
            for each in fields(Machine)
        }
        self.its: Any = SimpleNamespace(**columns)
        self.depth = max(1, *(each.tokens for each in machines))
        self.number = len(servers)
        places = [
            each.places if work.rate else work.running for each, work in zip(machines, works, strict=True)
        ]
        busiest = max(places)
        self.free_places = np.arange(busiest) < np.array(places)[:, None]
        self._draw(works, begins)
        shape = self.number, busiest
        self.request = np.full(shape, -1)
        self.since, self.mark = np.zeros(shape), np.zeros(shape)
        self.left, self.is_decoding = np.zeros(shape), np.zeros(shape, bool)
        self.next = np.zeros(self.number, int)
        self.asked, self.computed = np.zeros(self.number), np.zeros(self.number)
        self.slow = np.zeros(self.number)
        self.counts = {name: np.zeros((seconds, self.number)) for name in Counters._fields}
        self.positions = np.zeros((seconds, self.number, self.depth))
        self.gauges = np.zeros((2, seconds, self.number))
        self.answers = np.zeros((seconds, self.number, len(BUCKETS)))

    def _draw(self, works: Sequence[Work], begins: Sequence[float]) -> None:
        random, most = self.random, 0
        drawn = []
        for work, begin in zip(works, begins, strict=True):
            if work.rate:
                number = random.poisson(work.rate * (self.seconds - begin))
                arrivals = np.sort(random.uniform(begin, self.seconds, number))
            else:
                number = int(work.running * (2 + self.seconds / 0.4))
                arrivals = np.full(number, begin)
            is_long = random.random(number) < work.long_share
            longer = np.where(is_long, 4.0, 1.0)
            answers = np.clip(work.answer * longer * random.lognormal(-0.18, 0.6, number), 8, 8000).round()
            prompts = (work.prompt * longer * random.lognormal(-0.08, 0.4, number)).round()
            mean = np.clip(work.acceptance + np.where(is_long, 0.15, 0.0), 0.1, 0.93)
            first = first_positions(random, mean, SPREAD, number)
            uncached = np.maximum((prompts * (1 - work.hits)).round(), 1)
            drawn.append((arrivals, answers, prompts, uncached, first))
            most = max(most, number)
        fill = np.inf, 1.0, 0.0, 0.0, 0.5
        self.arrival, self.answer, self.prompt, self.uncached, self.first = (
            np.stack(
                [
                    np.pad(each[place], (0, most + 1 - len(each[place])), constant_values=value)
                    for each in drawn
                ]
            )
            for place, value in enumerate(fill)
        )
        self.closed = np.array([not work.rate for work in works])

    def traces(self, settling: int) -> list[Trace]:
        per_second = round(1 / TICK)
        for second in range(self.seconds):
            for tick in range(per_second):
                self._tick(second, second + tick * TICK)
            waiting = (self.arrival <= second + 1).sum(axis=1) - self.next
            self.gauges[:, second] = (self.request >= 0).sum(axis=1), np.where(self.closed, 0, waiting)
        return [self._trace(each, settling) for each in range(self.number)]

    def _tick(self, second: int, now: float) -> None:
        end = now + TICK
        self._begin(now, second)
        decoding = self.is_decoding
        running = decoding.sum(axis=1)
        rows = np.arange(self.number)[:, None]
        context = np.where(decoding, self.prompt[rows, self.request] + self.answer[rows, self.request] / 2, 0)
        context = context.sum(axis=1)
        self.slow = 0.99 * self.slow + 0.14 * 0.01 * self.random.normal(size=self.number)
        noise = np.exp(self.slow + 0.02 * self.random.normal(size=self.number))
        alone = _step(self.its, running, context, 0.0) * noise
        full = _step(self.its, running, context, float(CHUNK)) * noise
        backlog = self.asked - self.computed
        # Chunks that fit in the tick, of a whole budget or, for the rest, of what the step has.
        chunks = np.minimum(backlog / CHUNK, TICK / full)
        steps = chunks + (TICK - chunks * full) / alone
        done = self.computed + chunks * CHUNK
        self._decode(second, end, steps / TICK)
        self._first_tokens(second, now, done, full, alone)
        self.computed = done

    def _begin(self, now: float, second: int) -> None:
        """Give free places to requests that have arrived."""
        free = (self.request < 0) & self.free_places
        arrived = np.array([np.searchsorted(row, now + TICK) for row in self.arrival])
        rank = free.cumsum(axis=1) - 1
        taken = free & (rank < (arrived - self.next)[:, None])
        if not taken.any():
            return
        which, _ = np.nonzero(taken)
        chosen = (self.next[:, None] + rank)[taken]
        self.request[taken] = chosen
        self.next += taken.sum(axis=1)
        closed = self.closed[which]
        self.arrival[which[closed], chosen[closed]] = np.maximum(
            self.arrival[which[closed], chosen[closed]], now
        )
        uncached = np.zeros(taken.shape)
        uncached[taken] = self.uncached[which, chosen]
        self.mark[taken] = (self.asked[:, None] + uncached.cumsum(axis=1))[taken]
        self.asked += uncached.sum(axis=1)
        prompts = np.bincount(which, self.prompt[which, chosen], self.number)
        self.counts["prefix_cache_queries"][second] += prompts
        self.counts["prefix_cache_hits"][second] += prompts - np.minimum(uncached.sum(axis=1), prompts)

    def _first_tokens(self, second: int, now: float, done: Array, full: Array, alone: Array) -> None:
        ready = (self.request >= 0) & ~self.is_decoding & (self.mark <= done[:, None] + 1e-6)
        if not ready.any():
            return
        which, _ = np.nonzero(ready)
        chosen = self.request[ready]
        begins = np.maximum(self.arrival[which, chosen] + alone[which] / 2, now)
        before = (self.mark[ready] - self.computed[which] - self.uncached[which, chosen]) / CHUNK
        own = self.uncached[which, chosen] / CHUNK * (full - alone)[which]
        moment = np.maximum(begins, now + np.maximum(before, 0) * full[which]) + own + alone[which]
        self.since[ready], self.is_decoding[ready] = moment, True
        self.left[ready] = self.answer[which, chosen] - 1
        waited = np.bincount(which, moment - self.arrival[which, chosen], self.number)
        self.counts["first_token_nanoseconds"][second] += waited * NANO
        ones = np.bincount(which, minlength=self.number)
        self.counts["first_tokens"][second] += ones
        self.counts["generation_tokens"][second] += ones
        self.counts["prompt_tokens"][second] += np.bincount(which, self.prompt[which, chosen], self.number)

    def _decode(self, second: int, end: float, speed: Array) -> None:
        """Decode until ``end``; ``speed`` is in steps per second."""
        if not self.is_decoding.any():
            return
        which, _ = np.nonzero(self.is_decoding)
        chosen = self.request[self.is_decoding]
        lasting = np.maximum(end - self.since[self.is_decoding], 0)
        steps = lasting * speed[which]
        depth = np.arange(self.depth)
        places = np.cumprod(self.first[which, chosen][:, None] * DECAY**depth, axis=1)
        places *= depth < self.its.tokens[which][:, None]
        mean = places.sum(axis=1)
        deviation = np.sqrt(((2 * depth + 1) * places).sum(axis=1) - mean**2)
        luck = 1 + self.random.normal(size=len(which)) * deviation / np.maximum(mean * np.sqrt(steps), 1e-6)
        places *= np.clip(luck, 0, 2)[:, None]
        given = steps * (1 + places.sum(axis=1))
        left = self.left[self.is_decoding]
        share = np.where(given >= left, left / np.maximum(given, 1e-9), 1.0)
        ends = given >= left
        steps, given, lasting = steps * share, np.minimum(given, left), lasting * share

        def add(name: str, values: Array, chosen: Array | slice = slice(None)) -> None:
            self.counts[name][second] += np.bincount(which[chosen], values[chosen], self.number)

        drafts = steps * (self.its.tokens[which] > 0)
        add("decode_steps", steps)
        add("drafts", drafts)
        add("draft_tokens", drafts * self.its.tokens[which])
        add("decode_nanoseconds", lasting * NANO)
        add("generation_tokens", given)
        for place in range(self.depth):
            accepted = np.bincount(which, steps * places[:, place], self.number)
            self.positions[second, :, place] += accepted
            self.counts["accepted_tokens"][second] += accepted
        finished = self.since[self.is_decoding] + lasting
        add("finished_requests", np.ones(len(which)), ends)
        add("end_to_end_nanoseconds", (finished - self.arrival[which, chosen]) * NANO, ends)
        lengths = self.answer[which, chosen]
        for place, (low, high) in enumerate(BUCKETS):
            here = ends & (low < lengths) & (lengths <= high)
            if here.any():
                self.answers[second, :, place] += np.bincount(which[here], minlength=self.number)
        self.since[self.is_decoding] = end
        self.left[self.is_decoding] = left - given
        over = np.zeros_like(self.is_decoding)
        over[self.is_decoding] = ends
        self.request[over], self.is_decoding[over] = -1, False

    def _trace(self, number: int, settling: int) -> Trace:
        kept = slice(settling, None)
        depth = int(self.its.tokens[number])
        second = np.ones(self.seconds - settling)
        running, waiting = self.gauges[:, kept, number] * NANO
        whole = [
            np.diff(np.floor(self.counts[name][kept, number].cumsum()), prepend=0)
            for name in Counters._fields
        ]
        columns = [
            *(second * NANO, second, np.maximum(running, np.roll(running, 1)), running, waiting, 0 * second),
            *whole,
            *(
                np.diff(np.floor(self.positions[kept, number, place].cumsum()), prepend=0)
                for place in range(depth)
            ),
        ]
        return Trace(totals(columns), totals(np.cumsum(self.answers[kept, number], axis=1).T))


def counts_of(trace: Trace, seconds: int) -> Iterator[Counts]:
    """Yield the pages of the last ``seconds`` of a server."""
    totals, gauges = trace.totals, np.diff(trace.totals[:, 3:5], axis=0) // NANO
    for place in range(len(totals) - seconds, len(totals)):
        values = totals[place].tolist()
        counters = dict(zip(Counters._fields, values[6:], strict=False))
        running, waiting = gauges[place - 1].tolist()
        positions = values[6 + len(counters) :]
        yield Counts(**counters, positions=positions, running_requests=running, waiting_requests=waiting)
