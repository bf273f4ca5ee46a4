"""Simulated engine: a running batch, a queue and a KV cache, advanced step by step, and what it counts."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Sequence
from random import Random
from typing import Final, NamedTuple

from spec_decode_exporter.simulator.scenario import RequestKind, Scenario, SimulatedSpeculation
from spec_decode_exporter.simulator.simulated_request import SimulatedRequest, draw_request

# vLLM's upper bounds of buckets, in seconds: of a step, of a request, and of the time to the first token.
_STEP: Final = (
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
)  # fmt: skip
_REQUEST: Final = (
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0,
    960.0, 1920.0, 7680.0,
)  # fmt: skip
_FIRST_TOKEN: Final = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0,
    80.0, 160.0, 640.0, 2560.0,
)  # fmt: skip
_REASONS: Final = ("stop", "length", "abort", "error", "repetition")


def token_bounds(maximum: int) -> tuple[float, ...]:
    """Return 1, 2, 5, 10, 20, 50 … up to ``maximum``, the length of the longest request."""
    series = (mantissa * 10.0**power for power in range(len(str(maximum))) for mantissa in (1, 2, 5))
    return tuple(bound for bound in series if bound <= maximum)


class SimulatedHistogram:
    """Observations by bucket."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.total = 0.0
        self.counts = [0] * (len(bounds) + 1)

    def observe(self, value: float) -> None:
        """Observe ``value``; on a bound it belongs to the bucket below."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    @property
    def count(self) -> int:
        """Number of observations."""
        return sum(self.counts)


class EngineCounts:
    """Counters and histograms of one engine since its start.

    A draft is counted once, by its number of accepted tokens. All acceptance counters are derived from that
    count, so they are always consistent.
    """

    def __init__(self, tokens: int, length_bounds: Sequence[float]) -> None:
        self.accepted_lengths = [0] * (tokens + 1)
        self.draft_tokens = 0
        self.generation_tokens = 0
        self.prompt_tokens = 0  # prompt tokens of requests with a first token, cached ones included
        self.cache_queries = 0
        self.cache_hits = 0
        self.preemptions = 0
        self.finished = dict.fromkeys(_REASONS, 0)
        self.first_token = SimulatedHistogram(_FIRST_TOKEN)
        self.step = SimulatedHistogram(_STEP)
        self.time_per_output_token = SimulatedHistogram(_STEP)
        self.end_to_end = SimulatedHistogram(_REQUEST)
        self.queue = SimulatedHistogram(_REQUEST)
        self.output_length = SimulatedHistogram(length_bounds)

    @property
    def drafts(self) -> int:
        """Request-steps that had a draft."""
        return sum(self.accepted_lengths)

    @property
    def accepted_tokens(self) -> int:
        """Accepted draft tokens, including those past the end of a response."""
        return sum(length * drafts for length, drafts in enumerate(self.accepted_lengths))

    @property
    def accepted_by_position(self) -> list[int]:
        """Drafts with more than ``position`` accepted tokens, by position."""
        positions = range(len(self.accepted_lengths) - 1)
        return [sum(self.accepted_lengths[position + 1 :]) for position in positions]

    def finish(self, request: SimulatedRequest) -> None:
        """Count a request that has its last token."""
        end = request.last_token_at
        self.finished["length" if request.output == request.max_tokens else "stop"] += 1
        self.end_to_end.observe(end - request.arrived)
        self.queue.observe(request.scheduled_at - request.arrived)
        self.time_per_output_token.observe((end - request.first_token_at) / max(1, request.output - 1))
        self.output_length.observe(request.output)


class _Step(NamedTuple):
    """A running step, and the chunks of prompts that it computes."""

    end: float
    chunks: Sequence[tuple[SimulatedRequest, int]]


class SimulatedEngine:
    """Engine ``index`` of a server, which starts empty at ``began``.

    ``seed`` decides all draws; the kinds of requests have their own, so that a mix changes nothing else.
    ``answered`` is called with each complete request.
    """

    def __init__(
        self,
        scenario: Scenario,
        index: int,
        *,
        speculation: SimulatedSpeculation,
        conditions: Scenario,
        seed: str,
        began: float,
        answered: Callable[[SimulatedRequest], None],
    ) -> None:
        self.counts = EngineCounts(speculation.tokens, token_bounds(scenario.machine.max_model_len))
        self.machine, self._speculation = scenario.machine, speculation
        self._index, self._engines = index, scenario.engines
        # A text as seed gives the same numbers in every process; the hash of a tuple does not.
        self._random, self._kinds = Random(seed), Random(f"{seed}/kinds")  # noqa: S311
        self._answered = answered
        self.waiting: deque[SimulatedRequest] = deque()  # requests in the queue
        self._prefilling: list[SimulatedRequest] = []
        self._decoding: list[SimulatedRequest] = []
        self.held = 0  # tokens in the KV cache
        self._now = began
        self._step: _Step | None = None
        self.change(conditions, began)

    @property
    def running(self) -> int:
        """Requests in the batch."""
        return len(self._prefilling) + len(self._decoding)

    def change(self, conditions: Scenario, moment: float) -> None:
        """Use ``conditions`` for requests that arrive from ``moment`` on."""
        self._conditions = conditions
        kinds: Sequence[RequestKind | None] = conditions.mix or [None]
        self._mix = [(kind, conditions if kind is None else conditions.after(kind)) for kind in kinds]
        self._shares = [1.0 if kind is None else kind.share for kind in kinds]
        self._rate = (conditions.load.rate or 0.0) / self._engines
        self._arrival = self._after(moment)

    def _after(self, moment: float) -> float:
        """Return the time of the next Poisson arrival; infinite without a rate."""
        return moment + self._random.expovariate(self._rate) if self._rate else math.inf

    def advance(self, until: float) -> None:
        """Complete all steps that end by ``until``; a later one continues."""
        while True:
            step = self._step or self._begin(until)
            if step is None or step.end > until:
                self._step = step
                return
            self._step = None
            self._complete(step)

    def _begin(self, until: float) -> _Step | None:
        """Plan the next step; None if there is nothing to do before ``until``."""
        self._take_arrivals()
        while not (self.running or self.waiting):
            if self._arrival > until:
                self._now = max(self._now, until)
                return None
            self._now = self._arrival
            self._take_arrivals()
        self._draft()
        self._make_room()
        return self._plan()

    def _take_arrivals(self) -> None:
        """Queue new requests. A client sends its next one as soon as its response is complete."""
        all_clients = self._conditions.load.clients(self._now)
        clients = all_clients // self._engines + (self._index < all_clients % self._engines)
        moments = [self._now] * max(0, clients - self.running - len(self.waiting))
        while self._arrival <= self._now:
            moments.append(self._arrival)
            self._arrival = self._after(self._arrival)
        for moment in moments:
            ((kind, its),) = self._kinds.choices(self._mix, self._shares)
            longest = self.machine.max_model_len
            self.waiting.append(
                draw_request(self._random, kind, its, moment, (self._speculation.tokens, longest))
            )

    def _draft(self) -> None:
        tokens = self._speculation.scheduled(self.running)
        coverage, whole = self._conditions.speculation.coverage, self._speculation.whole
        for request in self._decoding:
            request.drafted = tokens
            if not tokens or (coverage < 1 and self._random.random() >= coverage):
                request.drafted = 0
            elif whole < 1 and self._random.random() >= whole:
                request.drafted = self._random.randint(1, tokens)

    def _make_room(self) -> None:
        """Preempt the newest requests until all drafts fit into the KV cache."""
        while self.held + self._decoded_tokens() > self.machine.kv_tokens:
            request = (self._prefilling or self._decoding).pop()
            self.held -= request.length
            request.to_compute = request.length
            self.counts.preemptions += 1
            self.waiting.appendleft(request)

    def _decoded_tokens(self) -> int:
        return len(self._decoding) + sum([request.drafted for request in self._decoding])

    def _plan(self) -> _Step:
        """Fill the step with prompts; it drafts token by token, then verifies all at once."""
        budget = self.machine.max_batched_tokens - self._decoded_tokens()
        chunks: list[tuple[SimulatedRequest, int]] = []
        while budget > 0 and (request := self._next_prefill(len(chunks))):
            chunk = min(budget, request.to_compute)
            chunks.append((request, chunk))
            budget -= chunk
        longest = max((request.drafted for request in self._decoding), default=0)
        if self._decoding and self._speculation.is_paused(self.running):
            longest = 1
        drafting = self.machine.step * self._speculation.cost * longest
        seconds = self.machine.seconds(self.machine.max_batched_tokens - budget) + drafting
        return _Step(self._now + seconds * self._random.lognormvariate(0.0, self.machine.jitter), chunks)

    def _next_prefill(self, index: int) -> SimulatedRequest | None:
        """Return the prefill at ``index``: a running one, else the next of the queue if it fits."""
        if index < len(self._prefilling):
            return self._prefilling[index]
        if not self.waiting or not self._fits(self.waiting[0]):
            return None
        request = self.waiting.popleft()
        if request.scheduled_at < 0:
            request.scheduled_at = self._now
            self.counts.cache_queries += request.prompt
            self.counts.cache_hits += request.cached
        self.held += request.length
        self._prefilling.append(request)
        return request

    def _fits(self, request: SimulatedRequest) -> bool:
        running = self.running + 1
        needed = self.held + request.length + running * (self._speculation.tokens + 1)
        return running <= self.machine.max_requests and (running == 1 or needed <= self.machine.kv_tokens)

    def _complete(self, step: _Step) -> None:
        self._now = step.end
        generated = self._decode()
        for request, chunk in step.chunks:
            request.to_compute -= chunk
            if not request.to_compute:
                self._prefilling.remove(request)
                self._end_prefill(request)
                generated += 1
        self.counts.generation_tokens += generated

    def _decode(self) -> int:
        before = self.held
        decoded, self._decoding = self._decoding, []
        finished: list[SimulatedRequest] = []
        for request in decoded:
            self._emit(request, self._verify(request) + 1)
            (self._decoding if request.generated < request.output else finished).append(request)
        generated = self.held - before
        for request in finished:
            self._finish(request)
        return generated

    def _verify(self, request: SimulatedRequest) -> int:
        """Count and return the accepted tokens of the draft of ``request``."""
        drafted = request.drafted
        if not drafted:
            return 0
        accepted = 0
        luck = self._random.random()
        while accepted < drafted and luck < request.survival[accepted]:
            accepted += 1
        self.counts.accepted_lengths[accepted] += 1
        self.counts.draft_tokens += drafted
        request.accepted_lengths[accepted] += 1
        request.draft_tokens += drafted
        return accepted

    def _emit(self, request: SimulatedRequest, tokens: int) -> None:
        """Give ``request`` the tokens of one step, without those past its end."""
        emitted = min(tokens, request.output - request.generated)
        request.generated += emitted
        self.held += emitted
        self.counts.step.observe(self._now - request.last_token_at)
        request.last_token_at = self._now

    def _end_prefill(self, request: SimulatedRequest) -> None:
        """Give ``request`` the token of a complete prefill: its first, or the next after a preemption."""
        if request.generated:
            self._emit(request, 1)
        else:
            request.generated = 1
            self.held += 1
            request.first_token_at = request.last_token_at = self._now
            self.counts.first_token.observe(self._now - request.arrived)
            self.counts.prompt_tokens += request.prompt
        if request.generated < request.output:
            self._decoding.append(request)
        else:
            self._finish(request)

    def _finish(self, request: SimulatedRequest) -> None:
        self.held -= request.length
        self.counts.finish(request)
        self._answered(request)
