"""Engine that runs step by step: continuous batching, chunked prefills, a schedule of draft lengths.

Each step takes the time of ``Server`` for its batch, contexts and prompt tokens, times noise. A request ends
once each of the batch has decoded its tokens, so a step costs microseconds whatever the batch. The draft
length depends on the batch of the step before, as in vLLM's ``num_speculative_tokens_per_batch_size``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from math import exp, fsum, inf, log
from operator import mul
from random import Random
from typing import Any, Final, NamedTuple

from benchmarks.truth.server import Server
from benchmarks.truth.sharp_server import SharpServer
from benchmarks.truth.traffic import COUNTERS, NANO, Counts, binomial

BUDGET: Final = 2048
"""Tokens of a step: vLLM's max_num_batched_tokens of a server for chat."""
GRID: Final = 50
"""Step times are computed for contexts that differ by 1/50."""
LONGEST: Final = 8000
PAUSES: Final = 0.0005
"""Share of steps in which the host pauses for 5 to 50 ms: garbage collection, neighbours. Assumed."""
NEAR: Final = 0.15
"""Standard deviation of ln(load) of the steps that are the truth at a load."""

Rows = Sequence[tuple[float, int]]
"""Draft length by batch: that of the first row whose batch is at least as large."""


@dataclass(slots=True)
class Request:
    """A request; ``end`` is in tokens that each running request has decoded since the start."""

    answer: float
    prompt: float
    uncached: float
    left: float
    """Prompt tokens to compute."""
    end: float = 0.0

    def __lt__(self, other: Request) -> bool:
        return self.end < other.end


class Requests(NamedTuple):
    """Requests of a server. Lengths are lognormal, in tokens."""

    answer: float
    cached: float
    uncached: float
    acceptance: float
    load: Callable[[float], float]
    """Requests in the system at a time."""
    spread: float = 0.7
    """Of the logarithm: above 1 a few answers have most of the tokens."""
    coverage: float = 1.0
    """Share of steps with a draft; below 1 for n-gram."""
    think: float = 0.0
    """Mean seconds until a client sends the next request; there are twice as many clients then. 0: none."""
    context: Callable[[float], float] = lambda _: 1.0
    """Factor of the cached tokens at a time."""

    def draw(self, random: Random, now: float) -> Request:
        """Return a request that arrives at ``now``."""
        cached = self.cached * self.context(now) * random.lognormvariate(-0.08, 0.4)
        answer = self.answer * random.lognormvariate(-(self.spread**2) / 2, self.spread)
        uncached = max(1.0, self.uncached * random.lognormvariate(-0.08, 0.4))
        return Request(max(2.0, min(answer, LONGEST)), cached + uncached, uncached, uncached)


class Engine:
    """One engine from its start at ``now``; all its steps take ``factor`` times as long."""

    def __init__(
        self,
        random: Random,
        server: Server | SharpServer,
        rows: Rows,
        requests: Requests,
        *,
        now: float,
        factor: float = 1.0,
        budget: int = BUDGET,
    ) -> None:
        self.random, self.requests, self.now, self.factor, self.budget = random, requests, now, factor, budget
        self.rows, self.reference = rows, [row for row in rows if row[1]] or [(inf, server.tokens)]
        self.servers = {tokens: replace(server, tokens=tokens or server.tokens) for _, tokens in rows}
        self.searches = not server.drafter.drafts_every_step
        self.truth: dict[int, list[float]] = {}
        """By batch of the steps that draft: requests, plain and drafting seconds without prompts and noise,
        and draft tokens."""
        self.waiting: deque[Request] = deque()
        self.running: list[Request] = []
        self.context = self.decoded = self.slow = 0.0
        self.arrival = self.slow_until = now
        self.white, self.slow_error = random.uniform(0.005, 0.03), random.uniform(0.005, 0.03)
        self.slow_seconds = random.uniform(2, 60)
        self.counts = dict.fromkeys(COUNTERS, 0.0)
        self.drafts = dict.fromkeys(self.servers, 0.0)
        self.pure: dict[tuple[int, int], tuple[float, float, float]] = {}
        self.mixed: dict[tuple[int, ...], float] = {}

    def pages(self, moments: Sequence[float]) -> Iterator[Counts]:
        """Yield the page at each moment: the steps that are complete by then."""
        before, due = 1, iter(moments)
        moment = next(due)
        while True:
            joining, prompts = self._prefill()
            batch = len(self.running)
            tokens, drafted, seconds = _tokens(self.rows, before), 0, 0.002
            if batch or prompts:
                before, coverage = max(batch, 1), self.requests.coverage
                if tokens:
                    drafted = batch if coverage >= 1 else binomial(self.random, batch, coverage)
                seconds = self._noisy(self._seconds(batch, tokens, drafted, prompts))
            while self.now + seconds > moment:
                yield self._page()
                if (following := next(due, None)) is None:
                    return
                moment = following
            self.now += seconds
            self._decode(tokens, drafted, seconds)
            for request in joining:
                self._join(request)

    def _prefill(self) -> tuple[list[Request], int]:
        """Compute prompts with what is left of the budget; return the complete ones, and the tokens."""
        self._arrive()
        batch, joining = len(self.running), list[Request]()
        left = start = float(max(self.budget - batch * (_tokens(self.rows, batch) + 1), 64))
        while self.waiting and left > 0:
            request = self.waiting[0]
            if request.left == request.uncached:
                self.counts["prefix_cache_queries"] += request.prompt
                self.counts["prefix_cache_hits"] += request.prompt - request.uncached
            taken = min(left, request.left)
            request.left, left = request.left - taken, left - taken
            if request.left <= 0:
                joining.append(self.waiting.popleft())
        return joining, round(start - left)

    def _arrive(self) -> None:
        think, load = self.requests.think, self.requests.load(self.now)
        while self.arrival <= self.now if think else len(self.running) + len(self.waiting) < round(load):
            self.waiting.append(self.requests.draw(self.random, self.now))
            if think:
                idle = max(2 * load - len(self.running) - len(self.waiting), 0.1)
                self.arrival += self.random.expovariate(idle / think)

    def _noisy(self, seconds: float) -> float:
        random = self.random
        if (
            self.now >= self.slow_until
        ):  # a tenth of the time constant: exp(-0.1), and what keeps the variance
            self.slow_until = self.now + 0.1 * self.slow_seconds
            self.slow = 0.905 * self.slow + random.gauss(0, 0.426 * self.slow_error)
        pause = random.uniform(0.005, 0.05) if random.random() < PAUSES else 0.0
        return (self.factor * seconds + pause) * exp(self.slow + random.gauss(0, self.white))

    def _seconds(self, batch: int, tokens: int, drafted: int, prompts: int) -> float:
        """Return the time of a step without noise, and add its batch to the truth."""
        if not batch:
            return next(iter(self.servers.values())).prompt_seconds(prompts)
        context = round(GRID * log(max(self.context / batch, 1)))
        if (batch, context) not in self.pure:
            self.pure[batch, context] = self._pure(batch, exp(context / GRID))
        if tokens:
            sums = self.truth.setdefault(batch, [0.0] * 4)
            for place, value in enumerate((1.0, *self.pure[batch, context])):
                sums[place] += batch * value
        prompts = prompts if prompts < 64 else 32 * round(prompts / 32)
        key = batch, context, tokens, drafted, prompts
        if key not in self.mixed:
            server = replace(self.servers[tokens], context=exp(context / GRID))
            self.mixed[key] = (
                server.drafting_seconds(batch, drafted * tokens, prompts, drafting=drafted)
                if tokens
                else server.plain_seconds(batch, prompts, speculates=len(self.servers) > 1)
                + self._paused_seconds(batch)
            )
        return self.mixed[key]

    def _paused_seconds(self, batch: int) -> float:
        """Return the time of the drafter in a step in which the schedule drafts nothing."""
        return self.servers[max(self.servers)].first_pass_seconds(batch) if len(self.servers) > 1 else 0.0

    def _pure(self, batch: int, context: float) -> tuple[float, float, float]:
        """Return the time of a plain step, that of a step that drafts, and its draft tokens of a request."""
        tokens = _tokens([*self.reference, (inf, self.reference[-1][1])], batch)
        server = replace(next(iter(self.servers.values())), context=context, tokens=tokens)
        plain = server.plain_seconds(batch, speculates=not self.searches)
        coverage = self.requests.coverage
        return plain, server.covered_seconds(batch, coverage, tokens), coverage * tokens

    def _decode(self, tokens: int, drafted: int, seconds: float) -> None:
        batch, acceptance = len(self.running), self.requests.acceptance
        gain = sum(acceptance**place for place in range(1, tokens + 1))
        rate = 1 + gain * drafted / batch if batch else 0.0
        self.counts["decode_steps"] += batch
        self.counts["decode_nanoseconds"] += batch * seconds * NANO
        self.drafts[tokens] += drafted
        self.decoded += rate
        self.context += batch * rate
        while self.running and self.running[0].end <= self.decoded:
            request = heappop(self.running)
            self.context -= request.prompt + request.answer + self.decoded - request.end

    def _join(self, request: Request) -> None:
        self.counts["first_tokens"] += 1
        self.counts["prompt_tokens"] += request.prompt
        request.end = self.decoded + request.answer - 1
        self.context += request.prompt + 1
        heappush(self.running, request)

    def _page(self) -> Counts:
        counts, drafts, acceptance = self.counts, self.drafts, self.requests.acceptance
        positions = [
            int(
                acceptance ** (place + 1) * sum(number for tokens, number in drafts.items() if tokens > place)
            )
            for place in range(max(drafts))
        ]
        counts["drafts"] = sum(number for tokens, number in drafts.items() if tokens)
        counts["draft_tokens"] = sum(tokens * number for tokens, number in drafts.items())
        counts["accepted_tokens"] = sum(positions)
        counts["generation_tokens"] = counts["first_tokens"] + counts["decode_steps"] + sum(positions)
        is_prefilling = bool(self.waiting) and self.waiting[0].left < self.waiting[0].uncached
        shown: dict[str, Any] = {name: int(value) for name, value in counts.items()}
        return Counts(**shown, positions=positions, running_requests=len(self.running) + is_prefilling)


def near(truth: Mapping[int, Sequence[float]], load: float) -> tuple[float, float]:
    """Return κ at a load, and the draft tokens of a request's step; 0 without steps."""
    weights = [exp(-0.5 * (log(each / load) / NEAR) ** 2) for each in truth]
    columns = [fsum(map(mul, weights, column)) for column in zip(*truth.values(), strict=True)]
    requests, plain, drafting, tokens = columns
    return (drafting / plain, tokens / requests) if plain else (0.0, 0.0)


def _tokens(rows: Rows, batch: int) -> int:
    return next(tokens for upper, tokens in rows if batch <= upper)
