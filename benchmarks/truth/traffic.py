"""Traffic of a server, and the counters that it shows every second.

A fixed number of requests run: when one ends, the next begins in its place. Each request has its own length,
acceptance, coverage and draft length, so drafts of one request are alike. Decode steps are drawn in groups of
one request and one second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from itertools import product
from math import exp, fsum, log, log1p, pi, sin, sqrt
from random import Random
from typing import NamedTuple

from benchmarks.truth.server import Server

POSITION_DECAY = 0.97
"""Assumed: a position is accepted this much less often than the one before it, given that that one was."""
COVERAGE_SPREAD = 0.2
"""Assumed standard deviation of the coverage over requests, for n-gram."""
NANO = 10**9
GRID = 200
"""Points for the distribution of the acceptance; a tenth of them for the coverage."""


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
    """Mean tokens of a prompt."""
    hit_ratio: float = 0.0
    """Share of them that the prefix cache holds."""

    @property
    def searches(self) -> bool:
        """Return whether drafts are searched for: then not every step has one."""
        return self.coverage < 1

    @property
    def mean_answer_tokens(self) -> float:
        """Mean tokens of an answer."""
        shortest, longest = self.answer_tokens
        return (longest - shortest) / log(longest / shortest) if longest > shortest else float(longest)

    @property
    def computed_tokens(self) -> float:
        """Mean tokens of a prompt that the server computes."""
        return self.prompt_tokens * (1 - self.hit_ratio)


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
        """Mean decode steps of a long answer: the last one may give more tokens than are left.

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
    length = random.choice(_draft_lengths(mix, positions))
    coverage = _share(random, mix.coverage, COVERAGE_SPREAD) if mix.searches else 1.0
    return Request(answer, _conditional(first, length), coverage)


def _draft_lengths(mix: Mix, positions: int) -> range:
    return range(max(1, positions - 2) if mix.searches else positions, positions + 1)


def _conditional(first: float, length: int) -> tuple[float, ...]:
    return tuple(first * POSITION_DECAY**place for place in range(length))


def _share(random: Random, mean: float, deviation: float) -> float:
    certainty = _certainty(mean, deviation)
    return random.betavariate(mean * certainty, (1 - mean) * certainty)


def _certainty(mean: float, deviation: float) -> float:
    """Return the sum of the parameters of a beta distribution; one too wide for its mean is narrowed.

    Both parameters are at least a half, so the density has at most weak peaks at 0 and 1.
    """
    return max(mean * (1 - mean) / deviation**2 - 1, 0.5 / min(mean, 1 - mean))


def _share_points(mean: float, deviation: float, number: int) -> list[tuple[float, float]]:
    """Return shares and their probabilities: the distribution of ``_share`` on a grid.

    The grid is even in the angle of x = sin²(angle), in which the density is finite.
    """
    certainty = _certainty(mean, deviation)
    first, second = mean * certainty - 0.5, (1 - mean) * certainty - 0.5
    shares = [sin(pi / 2 * (place + 0.5) / number) ** 2 for place in range(number)]
    logs = [first * log(share) + second * log1p(-share) for share in shares]
    weights = [exp(each - max(logs)) for each in logs]
    total = fsum(weights)
    return [(share, weight / total) for share, weight in zip(shares, weights, strict=True)]


@dataclass(slots=True)
class Counts:
    """Counters of a server since its start, by the exporter's names of them, and its gauges."""

    drafts: int = 0
    draft_tokens: int = 0
    accepted_tokens: int = 0
    generation_tokens: int = 0
    first_tokens: int = 0
    decode_steps: int = 0
    decode_nanoseconds: int = 0
    preemptions: int = 0
    prefix_cache_queries: int = 0
    prefix_cache_hits: int = 0
    prompt_tokens: int = 0
    finished_requests: int = 0
    end_to_end_nanoseconds: int = 0
    first_token_nanoseconds: int = 0
    positions: list[int] = field(default_factory=list)
    running_requests: int = 0
    waiting_requests: int = 0

    def copy(self) -> Counts:
        """Return a copy that later traffic does not change."""
        return replace(self, positions=list(self.positions))

    def after(self, before: Counts) -> Counts:
        """Return the counters of a process that had counted ``before`` already, with these gauges."""
        sums = {name: getattr(before, name) + getattr(self, name) for name in COUNTERS}
        pairs = zip(before.positions, self.positions, strict=True)
        return replace(self, positions=[sum(pair) for pair in pairs], **sums)


COUNTERS = tuple(
    each.name
    for each in fields(Counts)
    if each.name not in {"positions", "running_requests", "waiting_requests"}
)
"""Names of the counters among the fields of ``Counts``."""


@dataclass(slots=True)
class _Place:
    """A running request."""

    request: Request
    left: int
    """Tokens that it still has to decode."""
    free_at: float
    """End of its last step, or of its prompt."""
    arrived: float


class Traffic:
    """Requests on a server, one in each place at any time, and its counters."""

    def __init__(self, random: Random, server: Server, mix: Mix, places: int) -> None:
        """Start with a request in the middle of its answer in every place."""
        self._random, self._server, self._mix = random, server, mix
        self._drafts = True
        self._slow = 0.0
        self._now = 0.0
        self.counts = Counts(positions=[0] * server.tokens, running_requests=places)
        self._places = [self._middle() for _ in range(places)]

    def seconds(self, number: int, step_seconds: float, *, drafts: bool = True) -> Iterator[Counts]:
        """Run for ``number`` seconds with steps of a mean time; yield the counters after each."""
        self._drafts = drafts
        for _ in range(number):
            end = self._now + 1
            step = step_seconds * self._variation()
            self._places = [self._run(place, end, step) for place in self._places]
            self._now = end
            yield self.counts.copy()

    def _variation(self) -> float:
        """Return the time of a step now over its mean: 3 % from second to second, 1 % over a minute.

        Prompts, other requests' contexts and clocks vary it; the sizes are assumed.
        """
        self._slow = 0.98 * self._slow + 0.2 * 0.01 * self._random.gauss(0, 1)
        return exp(self._slow + 0.03 * self._random.gauss(0, 1) - 0.0005)

    def _middle(self) -> _Place:
        request = draw(self._random, self._mix, self._server.tokens)
        left = 1 + int(self._random.random() * (request.answer_tokens - 1))
        return _Place(request, left, self._now, self._now)

    def _run(self, place: _Place, end: float, step: float) -> _Place:
        """Decode the requests of one place until ``end``."""
        counts = self.counts
        while place.free_at + step <= end:
            possible = int((end - place.free_at) / step)
            steps = min(possible, self._safe_steps(place))
            given = steps + (self._draft(place.request, steps) if self._drafts else 0)
            counts.decode_steps += steps
            counts.decode_nanoseconds += round(steps * step * NANO)
            counts.generation_tokens += min(given, place.left)
            place.left -= given
            place.free_at += steps * step
            if place.left <= 0:
                counts.finished_requests += 1
                counts.end_to_end_nanoseconds += round((place.free_at - place.arrived) * NANO)
                place = self._next(place.free_at, step)
        return place

    def _safe_steps(self, place: _Place) -> int:
        """Return a number of steps that ends no request too late: steps drawn together all count."""
        if not self._drafts:
            return place.left
        needed = place.left / place.request.tokens_per_step
        return max(1, int(needed - 1.5 * sqrt(needed)))

    def _next(self, arrived: float, step: float) -> _Place:
        """Begin the next request at a place; its prompt takes until the first token."""
        request = draw(self._random, self._mix, self._server.tokens)
        # The prompt enters at the next step on average half a step later, and computes beside the others.
        begins = arrived + step / 2
        first_token = begins + max(step, self._prompt_seconds)
        counts, mix = self.counts, self._mix
        counts.first_tokens += 1
        counts.generation_tokens += 1
        counts.first_token_nanoseconds += round((first_token - arrived) * NANO)
        counts.prompt_tokens += round(mix.prompt_tokens)
        counts.prefix_cache_queries += round(mix.prompt_tokens)
        counts.prefix_cache_hits += round(mix.prompt_tokens * mix.hit_ratio)
        return _Place(request, request.answer_tokens - 1, first_token, arrived)

    @property
    def _prompt_seconds(self) -> float:
        tokens = self._mix.computed_tokens
        return self._server.prompt_seconds(tokens) if tokens else 0.0

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


class Population(NamedTuple):
    """Means of an endless run of requests: of steps, so long requests count more."""

    tokens_per_step: float
    coverage: float
    """Share of decode steps with a draft."""
    draft_length: float
    acceptance_length: float
    """Tokens that a draft gives, the bonus token included."""
    steps: float
    """Of a request."""


@lru_cache(maxsize=4096)
def population(mix: Mix, positions: int) -> Population:
    """Return the means by the distributions of the requests, without drawing any."""
    steps = drafts = drafted = accepted = 0.0
    answer = mix.mean_answer_tokens
    for request, weight in requests_of(mix, positions):
        # The steps are linear in the answer's tokens, which do not depend on the rest.
        each = weight * (request.steps + (answer - request.answer_tokens) / request.tokens_per_step)
        steps += each
        drafts += each * request.coverage
        drafted += each * request.coverage * len(request.conditional)
        accepted += each * request.coverage * request.accepted
    return Population((answer - 1) / steps, drafts / steps, drafted / drafts, 1 + accepted / drafts, steps)


def requests_of(mix: Mix, positions: int) -> Iterator[tuple[Request, float]]:
    lengths = _draft_lengths(mix, positions)
    coverages = _share_points(mix.coverage, COVERAGE_SPREAD, GRID // 10) if mix.searches else [(1.0, 1.0)]
    firsts = _share_points(mix.acceptance, mix.spread, GRID)
    for (first, one), (coverage, other), length in product(firsts, coverages, lengths):
        yield Request(100, _conditional(first, length), coverage), one * other / len(lengths)


def drafting_seconds(server: Server, mix: Mix, running: int) -> float:
    """Return the mean time of a step in an endless run while it drafts."""
    means = population(mix, server.tokens)

    def seconds(prompt_tokens: float) -> float:
        return server.covered_seconds(running, means.coverage, means.draft_length, prompt_tokens)

    return _with_prompts(seconds, mix, running / means.steps)


def plain_seconds(server: Server, mix: Mix, running: int, *, speculates: bool = False) -> float:
    """Return the mean time of a step in an endless run without drafts."""

    def seconds(prompt_tokens: float) -> float:
        return server.plain_seconds(running, prompt_tokens, speculates=speculates)

    return _with_prompts(seconds, mix, running / (mix.mean_answer_tokens - 1))


def _with_prompts(seconds: Callable[[float], float], mix: Mix, prompts_per_step: float) -> float:
    alone = seconds(0.0)
    if not mix.computed_tokens:
        return alone
    share = min(prompts_per_step, 1.0)
    prompts = mix.computed_tokens * max(prompts_per_step, 1.0)
    return alone + share * max(0.0, seconds(prompts) - alone)


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
        gap = log(1.0 - random.random()) / scale
        if place + gap >= number:
            return successes
        place += int(gap) + 1
        successes += 1
