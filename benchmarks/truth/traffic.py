"""Traffic of a server, and the counters that it shows every second.

A fixed number of requests run: when one ends, the next begins in its place. Each request has its own length,
acceptance, coverage and draft length, so drafts of one request are alike. Decode steps are drawn in groups of one
request and one second.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import exp, log, log1p, sqrt
from random import Random

from benchmarks.truth.server import Server

POSITION_DECAY = 0.97
"""Assumed: a position is accepted this much less often than the one before it, given that that one was."""
NANO = 10**9


@dataclass(frozen=True, slots=True)
class Mix:
    """Requests of a server."""

    acceptance: float
    """Mean over requests of the acceptance of the first position."""
    spread: float
    """Standard deviation of that acceptance over requests."""
    coverage: float = 1.0
    """Mean share of steps with a draft; below 1 it differs between requests."""
    answer_tokens: tuple[int, int] = (50, 500)
    """Shortest and longest answer; the logarithm is uniform."""
    prompt_tokens: float = 0.0
    """Uncached tokens of a prompt."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request."""

    answer_tokens: int
    conditional: tuple[float, ...]
    """Probability that a position is accepted if the one before it was."""
    coverage: float

    @property
    def accepted(self) -> float:
        """Mean accepted tokens of a draft."""
        return sum(self.survival)

    @property
    def survival(self) -> list[float]:
        """Probability of each position to be accepted."""
        survival, product = [], 1.0
        for probability in self.conditional:
            product *= probability
            survival.append(product)
        return survival

    @property
    def tokens_per_step(self) -> float:
        """Mean tokens that a decode step gives."""
        return 1 + self.coverage * self.accepted

    @property
    def steps(self) -> float:
        """Mean decode steps: the last one may give more tokens than are left.

        The mean excess of a renewal process over its end is (E[X²]/E[X] - 1) / 2 for tokens X of a step.
        """
        squares = sum((2 * place + 1) * each for place, each in enumerate(self.survival))
        mean = self.tokens_per_step
        second = 1 + self.coverage * (2 * self.accepted + squares)
        return (self.answer_tokens - 1 + (second / mean - 1) / 2) / mean


def draw(random: Random, mix: Mix, positions: int) -> Request:
    """Draw a request whose drafts have up to ``positions`` tokens; n-gram finds fewer for some requests."""
    shortest, longest = mix.answer_tokens
    answer = round(exp(random.uniform(log(shortest), log(longest))))
    first = _share(random, mix.acceptance, mix.spread)
    searches = mix.coverage < 1
    length = random.randint(max(1, positions - 2), positions) if searches else positions
    coverage = _share(random, mix.coverage, 0.2) if searches else 1.0
    return Request(answer, tuple(first * POSITION_DECAY**place for place in range(length)), coverage)


def _share(random: Random, mean: float, deviation: float) -> float:
    """Draw a share from a beta distribution; one that is too wide for its mean is narrowed."""
    variance = min(deviation**2, 0.6 * mean * (1 - mean))
    certainty = mean * (1 - mean) / variance - 1
    return random.betavariate(mean * certainty, (1 - mean) * certainty)


@dataclass(slots=True)
class Counts:
    """Counters of a server since its start, and its gauges, under the names that vLLM gives them."""

    drafts: int = 0
    draft_tokens: int = 0
    accepted_tokens: int = 0
    positions: list[int] = field(default_factory=list)
    generation_tokens: int = 0
    first_tokens: int = 0
    decode_steps: int = 0
    decode_nanoseconds: int = 0
    prompt_tokens: int = 0
    prefix_queries: int = 0
    prefix_hits: int = 0
    finished_requests: int = 0
    end_to_end_nanoseconds: int = 0
    first_token_nanoseconds: int = 0
    running: int = 0
    waiting: int = 0

    def copy(self) -> Counts:
        """Return a copy that later traffic does not change."""
        names = self.__slots__
        values = {name: getattr(self, name) for name in names}
        return Counts(**{**values, "positions": list(self.positions)})


@dataclass(slots=True)
class _Place:
    """A running request."""

    request: Request
    left: int
    """Tokens that it still has to decode."""
    free_at: float
    """End of its last step, or of its prompt."""
    began: float


@dataclass(frozen=True, slots=True)
class Pace:
    """Mean state of a server under a mix of requests."""

    tokens_per_step: float
    coverage: float
    """Share of decode steps with a draft."""
    draft_length: float
    step_seconds: float


class Traffic:
    """Closed loop of requests on a server."""

    def __init__(self, random: Random, server: Server, mix: Mix, running: int) -> None:
        """Start ``running`` requests, each in the middle of its answer."""
        self._random, self._server, self._mix = random, server, mix
        self._running = running
        self._drafts = True
        self._slow = 0.0
        self.counts = Counts(positions=[0] * server.tokens, running=running)
        self._places = [self._begin(0.0) for _ in range(running)]
        for place in self._places:
            place.left = 1 + int(random.random() * place.left)
        self._now = 0.0

    def seconds(self, number: int, *, drafts: bool = True, seconds_per_step: float) -> Iterator[Counts]:
        """Run for ``number`` seconds; yield the counters after each.

        Args:
            number: Of seconds.
            drafts: Whether steps draft.
            seconds_per_step: Mean time of a step: see ``pace``.
        """
        self._drafts = drafts
        for _ in range(number):
            end = self._now + 1
            step = seconds_per_step * self._variation()
            for index, place in enumerate(self._places):
                self._places[index] = self._run(place, end, step)
            self._now = end
            yield self.counts.copy()

    def _variation(self) -> float:
        """Return the time of a step now over its mean: 3 % from second to second, 2 % over a minute.

        Prompts, other requests' contexts and clocks vary it; the sizes are assumed.
        """
        self._slow = 0.98 * self._slow + 0.2 * 0.02 * self._random.gauss(0, 1)
        return exp(self._slow + 0.03 * self._random.gauss(0, 1) - 0.00065)

    def _begin(self, moment: float) -> _Place:
        request = draw(self._random, self._mix, self._server.tokens)
        return _Place(request, request.answer_tokens - 1, moment, moment)

    def _run(self, place: _Place, end: float, step: float) -> _Place:
        """Decode the requests of one place until ``end``."""
        counts = self.counts
        while place.free_at + step <= end:
            possible = int((end - place.free_at) / step)
            mean = place.request.tokens_per_step if self._drafts else 1.0
            steps = max(1, min(possible, int(0.9 * place.left / mean)))
            if possible < 1:
                break
            given = steps + (self._draft(place.request, steps) if self._drafts else 0)
            counts.decode_steps += steps
            counts.decode_nanoseconds += round(steps * step * NANO)
            counts.generation_tokens += min(given, place.left)
            place.left -= given
            place.free_at += steps * step
            if place.left <= 0:
                place = self._follow(place, step)
        return place

    def _follow(self, place: _Place, step: float) -> _Place:
        """Finish a request and begin the next one, whose first token comes with the next step."""
        counts, mix = self.counts, self._mix
        counts.finished_requests += 1
        counts.end_to_end_nanoseconds += round((place.free_at - place.began) * NANO)
        following = self._begin(place.free_at)
        following.free_at += step
        counts.first_tokens += 1
        counts.generation_tokens += 1
        counts.first_token_nanoseconds += round(step * NANO)
        counts.prompt_tokens += round(mix.prompt_tokens)
        return following

    def _draft(self, request: Request, steps: int) -> int:
        """Draw the drafts of some steps; return the accepted tokens."""
        counts, random = self.counts, self._random
        drafts = binomial(random, steps, request.coverage)
        left, accepted = drafts, 0
        for position, probability in enumerate(request.conditional):
            left = binomial(random, left, probability)
            counts.positions[position] += left
            accepted += left
            if not left:
                break
        counts.drafts += drafts
        counts.draft_tokens += drafts * len(request.conditional)
        counts.accepted_tokens += accepted
        return accepted


def pace(random: Random, server: Server, mix: Mix, running: int, *, requests: int = 4000) -> Pace:
    """Return the mean state of an endless run while it drafts: by steps, so long requests count more."""
    steps = tokens = drafts = drafted = 0.0
    for _ in range(requests):
        request = draw(random, mix, server.tokens)
        steps += request.steps
        tokens += request.answer_tokens - 1
        drafts += request.steps * request.coverage
        drafted += request.steps * request.coverage * len(request.conditional)
    coverage, length = drafts / steps, drafted / drafts

    def seconds(prompt_tokens: float) -> float:
        return server.covered_seconds(running, coverage, length, prompt_tokens)

    return Pace(tokens / steps, coverage, length, _with_prompts(seconds, mix, running * requests / steps))


def plain_seconds(
    random: Random, server: Server, mix: Mix, running: int, *, speculates: bool = False, requests: int = 4000
) -> float:
    """Return the mean time of a step in an endless run without drafts."""
    tokens = sum(draw(random, mix, server.tokens).answer_tokens - 1 for _ in range(requests))

    def seconds(prompt_tokens: float) -> float:
        return server.plain_seconds(running, prompt_tokens, speculates=speculates)

    return _with_prompts(seconds, mix, running * requests / tokens)


def _with_prompts(seconds: object, mix: Mix, prompts_per_step: float) -> float:
    """Return the mean time of a step if prompts share steps: some have one, or all have several."""
    assert callable(seconds)
    alone = float(seconds(0.0))
    if not mix.prompt_tokens:
        return alone
    share = min(prompts_per_step, 1.0)
    prompts = mix.prompt_tokens * max(prompts_per_step, 1.0)
    return alone + share * max(0.0, float(seconds(prompts)) - alone)


def binomial(random: Random, number: int, probability: float) -> int:
    """Draw from a binomial distribution: a normal approximation where it is close, exact where it is not."""
    if number <= 0 or probability <= 0:
        return 0
    if probability >= 1:
        return number
    if probability > 0.5:
        return number - binomial(random, number, 1 - probability)
    mean = number * probability
    if mean > 12:
        drawn = round(random.gauss(mean, sqrt(mean * (1 - probability))))
        return min(max(drawn, 0), number)
    # Gaps between successes are geometric.
    successes, place, scale = 0, 0, log1p(-probability)
    while True:
        place += int(log(1.0 - random.random()) / scale) + 1
        if place > number:
            return successes
        successes += 1
