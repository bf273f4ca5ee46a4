"""Simulated engine: a running batch, a queue and a KV cache, advanced step by step."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spec_decode_exporter.simulator.arrivals import Arrivals
from spec_decode_exporter.simulator.engine_counts import EngineCounts
from spec_decode_exporter.simulator.request_mix import RequestMix
from spec_decode_exporter.simulator.simulated_request import SimulatedRequest, draw_request

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from random import Random

    from spec_decode_exporter.simulator.scenario import Machine, SimulatedSpeculation
    from spec_decode_exporter.simulator.timeline import Conditions


@dataclass(frozen=True, slots=True)
class EngineSetup:
    """Constant settings of an engine from its start to its restart."""

    index: int
    engines: int
    machine: Machine
    speculation: SimulatedSpeculation
    tokens: int
    """K; 0 without speculation."""
    token_bounds: Sequence[float]
    answered: Callable[[SimulatedRequest, float], None]
    """Called with each complete request and its time."""


@dataclass(frozen=True, slots=True)
class _Step:
    """A running step, and the chunks of prompts that it computes."""

    end: float
    chunks: Sequence[tuple[SimulatedRequest, int]]


class SimulatedEngine:
    """A simulated engine that starts empty at ``began``."""

    def __init__(
        self, setup: EngineSetup, conditions: Conditions, random: Random, mix: RequestMix, began: float
    ) -> None:
        self.counts = EngineCounts(setup.tokens, setup.token_bounds)
        self._setup = setup
        self._random = random
        self._mix = mix
        self._waiting: deque[SimulatedRequest] = deque()
        self._prefilling: list[SimulatedRequest] = []
        self._decoding: list[SimulatedRequest] = []
        self._held = 0
        self._now = began
        self._step: _Step | None = None
        self._arrivals = Arrivals(random, setup.index, setup.engines)
        self._conditions = conditions
        self.change(conditions, began)

    @property
    def running(self) -> int:
        """Requests in the batch."""
        return len(self._prefilling) + len(self._decoding)

    @property
    def waiting(self) -> int:
        """Requests in the queue."""
        return len(self._waiting)

    @property
    def kv_usage(self) -> float:
        """Share of the KV cache in use, 0 to 1."""
        return self._held / self._setup.machine.kv_tokens

    def change(self, conditions: Conditions, moment: float) -> None:
        """Use ``conditions`` for requests that arrive from ``moment`` on."""
        self._conditions = conditions
        self._mix.change(conditions)
        self._arrivals.change(conditions.load, moment)

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
        while not (self.running or self._waiting):
            if self._arrivals.next_at > until:
                self._now = max(self._now, until)
                return None
            self._now = self._arrivals.next_at
            self._take_arrivals()
        self._draft()
        self._make_room()
        return self._plan()

    def _take_arrivals(self) -> None:
        for moment in self._arrivals.due(self._now, self.running + len(self._waiting)):
            kind, conditions = self._mix.draw()
            longest = self._setup.machine.max_model_len
            request = draw_request(self._random, conditions, moment, self._setup.tokens, longest)
            request.kind = kind
            self._waiting.append(request)

    def _draft(self) -> None:
        """Choose the draft length of each decoding request."""
        tokens = self._setup.speculation.scheduled(self._setup.tokens, self.running)
        for request in self._decoding:
            request.drafted = self._draft_length(tokens)

    def _draft_length(self, tokens: int) -> int:
        coverage, whole = self._conditions.coverage, self._setup.speculation.whole
        if not tokens or (coverage < 1 and self._random.random() >= coverage):
            return 0
        if whole < 1 and self._random.random() >= whole:
            return self._random.randint(1, tokens)
        return tokens

    def _make_room(self) -> None:
        """Preempt the newest requests until all drafts fit into the KV cache."""
        while self._held + self._decoded_tokens() > self._setup.machine.kv_tokens:
            request = (self._prefilling or self._decoding).pop()
            self._held -= request.length
            request.to_compute = request.length
            request.preemptions += 1
            self.counts.preemptions += 1
            self._waiting.appendleft(request)

    def _decoded_tokens(self) -> int:
        return len(self._decoding) + sum([request.drafted for request in self._decoding])

    def _plan(self) -> _Step:
        decoded = self._decoded_tokens()
        budget = self._setup.machine.max_batched_tokens - decoded
        chunks: list[tuple[SimulatedRequest, int]] = []
        while budget > 0 and (request := self._next_prefill(len(chunks))):
            chunk = min(budget, request.to_compute)
            chunks.append((request, chunk))
            budget -= chunk
        longest = max((request.drafted for request in self._decoding), default=0)
        return _Step(
            self._now + self._duration(self._setup.machine.max_batched_tokens - budget, longest), chunks
        )

    def _next_prefill(self, index: int) -> SimulatedRequest | None:
        """Return the prefill at ``index``: a running one, else the next of the queue if it fits."""
        if index < len(self._prefilling):
            return self._prefilling[index]
        if not self._waiting or not self._fits(self._waiting[0]):
            return None
        request = self._waiting.popleft()
        if request.scheduled_at < 0:
            request.scheduled_at = self._now
            self.counts.cache_queries += request.prompt
            self.counts.cache_hits += request.cached
        self._held += request.length
        self._prefilling.append(request)
        return request

    def _fits(self, request: SimulatedRequest) -> bool:
        """Return whether the batch and the KV cache have space for ``request`` and one more step."""
        machine = self._setup.machine
        running = self.running + 1
        needed = self._held + request.length + running * (self._setup.tokens + 1)
        return running <= machine.max_requests and (running == 1 or needed <= machine.kv_tokens)

    def _duration(self, tokens: int, longest_draft: int) -> float:
        """Return the seconds of a step: draft token by token, then verify all at once."""
        machine = self._setup.machine
        drafting = machine.step * self._setup.speculation.cost * longest_draft
        return (machine.seconds(tokens) + drafting) * self._random.lognormvariate(0.0, machine.jitter)

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
        self.counts.iteration_tokens.observe(generated + sum(chunk for _, chunk in step.chunks))

    def _decode(self) -> int:
        """Verify all drafts; return the number of generated tokens."""
        before = self._held
        continuing: list[SimulatedRequest] = []
        finished: list[SimulatedRequest] = []
        for request in self._decoding:
            self._emit(request, self._verify(request) + 1)
            (continuing if request.generated < request.output else finished).append(request)
        self._decoding = continuing
        generated = self._held - before
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
        self._held += emitted
        self.counts.step.observe(self._now - request.last_token_at)
        request.last_token_at = self._now

    def _end_prefill(self, request: SimulatedRequest) -> None:
        """Give ``request`` the token of a complete prefill: its first, or the next after a preemption."""
        if request.generated:
            self._emit(request, 1)
        else:
            request.generated = 1
            self._held += 1
            request.first_token_at = request.last_token_at = self._now
            self.counts.begin(request, self._now)
        if request.generated < request.output:
            self._decoding.append(request)
        else:
            self._finish(request)

    def _finish(self, request: SimulatedRequest) -> None:
        self._held -= request.length
        self.counts.finish(request, self._now)
        self._setup.answered(request, self._now)
