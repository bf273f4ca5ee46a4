"""Figures of one window that depend on its sums alone, with their bounds; each is computed once, if read.

D drafts, T draft tokens, A accepted tokens, G generation tokens, F first tokens, S decode steps.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate, pairwise
from math import fsum, inf, sqrt
from operator import add, mul, sub
from typing import Final, NamedTuple

from propcache.api import cached_property

from spec_decode_exporter.config.types import format_duration
from spec_decode_exporter.figures.estimate import Column, Estimate, cosines_of, estimate_of, projected, ratio
from spec_decode_exporter.figures.positions import MIN_DRAFTS, Positions
from spec_decode_exporter.figures.prefill_share import MAX_WAITING, highest_share
from spec_decode_exporter.window.engine_windows import NANO, Window, columns, position_columns, scaled, sum_of
from spec_decode_exporter.window.histograms import Answers
from spec_decode_exporter.window.ring import Increments

MIN_ANSWERS: Final = 10
"""Finished requests that the variation of answer lengths needs; a few always look alike."""
_ASSUMED_EQUAL_SHARE, _ASSUMED_LIFE_SHARE = 1 / 1.4, 0.66
"""Shares of unknown answer lengths: those of 50 to 500 tokens, evenly over the logarithm."""
MAX_INCREMENTS: Final = 40  # increments for bounds: twelve slow cosines do not resolve a fortieth of a window
MAX_PREFILL_INCREMENTS: Final = 300
"""Increments for the share of prefills, which a mean over several seconds does not show."""
LIKE_LOADS: Final = 1.25  # ratio up to which two loads are the same for a cost
SEEN_SHARE: Final = 2.0
"""Load over what polls see of it at most, if requests last a poll: one of almost two polls is seen once."""
PREFILL_TOKENS: Final = 2048  # tokens of a step: vLLM's smallest default of ``max_num_batched_tokens``
MIN_SCHEDULE_POLLS: Final = 20  # polls that the share of polls with a change of K needs
DRAFTED_SHARE: Final = 0.95
"""Share of the steps that have a draft if all of them draft: a page is rendered while the engine counts."""


class DecodeWork(NamedTuple):
    """Decode steps of a window or of an increment, as far as they decide whether speculation pays."""

    tokens: int
    steps: int
    drafts: int
    draft_tokens: int


class WindowFigures:
    """Figures of one window."""

    def __init__(
        self, window: Window, *, is_partial: bool | None = None, counts_verified: bool = True
    ) -> None:
        """Take a window; ``is_partial`` replaces its own: a partial one has no bounds.

        ``counts_verified`` is False if T has drafts that the engine did not verify: then no ratio to T and no
        figure by position is known.
        """
        self.window = window
        self.total = window.total
        self.is_partial = window.is_partial if is_partial is None else is_partial
        self.counts_verified = counts_verified
        self.positions = Positions(window, are_verified=counts_verified)

    @cached_property
    def label(self) -> str:
        """Value of the ``window`` label."""
        return format_duration(self.window.length)

    # Requests

    @cached_property
    def drafting_requests(self) -> float | None:
        """Mean running requests, weighted by draft tokens; without drafts, over the polls.

        Most tokens are drafted while most requests run. A cost linear in the load is exact at this load.
        """
        running = self.window.mean.running_requests
        if running is None or self.total.draft_tokens == 0:
            return running
        loads = sum_of(self.window.increments, "load_by_draft_tokens")
        drafted = sum_of(self.window.increments, "draft_tokens")
        return loads / (NANO * drafted) if drafted else running

    @cached_property
    def other_requests(self) -> tuple[float, ...]:
        """Loads that the steps may have had instead of ``drafting_requests``, which polls see at their ends.

        One is L, by Little's law itl / seconds: in bursts fewer decode than a poll sees. Where it sees fewer
        than L, short requests come and go between polls: another load is all that began in a poll, F. All are
        weighted by steps. Requests that last a poll are each seen by one.
        """
        total, increments, load = self.total, self.window.increments, self.drafting_requests
        spent, steps, seconds = total.decode_nanoseconds, total.decode_steps, self.window.seconds
        if not spent or not steps or not seconds or load is None:
            return ()
        covered = sum_of(increments, "covered_nanoseconds")
        decoding = covered / (NANO * seconds) * (sum_of(increments, "decoding_by_steps") / (NANO * steps))
        if load > LIKE_LOADS * decoding:
            return (decoding,)
        if decoding <= LIKE_LOADS * load:
            return ()
        if spent * len(increments) >= covered * (total.first_tokens or 0):
            return (decoding,) if decoding <= SEEN_SHARE * load else ()  # else the server's clock is faster
        by_steps = map(mul, *columns(increments, "decode_steps", "first_tokens"))
        return decoding, max(decoding, sum(by_steps) / steps)

    @cached_property
    def busy_requests(self) -> float | None:
        """Mean running requests while the server is busy, at least 1; None if unknown.

        Idle time between bursts of requests does not count. A request counts as one, however short it is.
        """
        running = self.window.mean.running_requests
        name = "drafts" if self.total.generation_tokens is None else "generation_tokens"
        if self.window.counts_at_end:  # most polls have no tokens, though requests run
            name = "running_requests"
        busy = sum(map(bool, columns(self.increments, name)[0]))
        return None if running is None or not busy else max(running * len(self.increments) / busy, 1.0)

    @cached_property
    def context_tokens(self) -> float | None:
        """Mean tokens of a request in the middle of its answer; None if unknown."""
        prompt, generated = self.total.prompt_tokens, self.total.generation_tokens
        tokens = None if prompt is None or generated is None else prompt + generated / 2
        return ratio(tokens, self.total.first_tokens) or None

    @cached_property
    def least_requests(self) -> int | None:
        """F; without it, of an engine that counts ended requests, the polls in which at least one ended."""
        if self.total.first_tokens is not None or not self.window.counts_at_end:
            return self.total.first_tokens
        return sum(map(bool, columns(self.window.increments, "generation_tokens")[0]))

    @cached_property
    def passing_requests(self) -> float | None:
        """Requests that pass through the window one after the other, F/R; R is ``busy_requests``."""
        return ratio(self.least_requests, self.busy_requests)

    @cached_property
    def effective_requests(self) -> float | None:
        """n_eff = (F/R)/(1 + cv²), with the coefficient of variation cv of answer lengths.

        A request counts by its length, so n requests are worth (Σl)²/Σl² (Kish, *Survey Sampling*, 1965,
        section 11.7).
        """
        if self.passing_requests is None:
            return None
        return self.passing_requests * answer_shares(self.window.answers)[0]

    @cached_property
    def request_cosines(self) -> int:
        """B, the number of cosines for bounds of any figure; 0 if the window has none."""
        passing = self.passing_requests
        if self.is_partial or passing is None:
            return 0
        equal, life = answer_shares(self.window.answers)
        return cosines_of(self.window.seconds, passing * equal, passing * life)

    @property
    def cosines(self) -> int:
        """B for bounds of figures of drafts; 0 without drafts."""
        return self.request_cosines if self.total.drafts or self.total.draft_tokens else 0

    # Acceptance

    @cached_property
    def acceptance_length_tokens(self) -> float | None:
        """Mean tokens of a draft, bonus token included: 1 + A / D."""
        return acceptance_length(self.total.accepted_tokens, self.total.drafts)

    @cached_property
    def draft_acceptance_ratio(self) -> float | None:
        """Share of the draft tokens that is accepted, A / T."""
        return ratio(self.total.accepted_tokens, self.total.draft_tokens) if self.counts_verified else None

    @cached_property
    def draft_length_tokens(self) -> float | None:
        """Mean tokens of a draft, T / D; below K for n-gram, suffix and adaptive methods."""
        return ratio(self.total.draft_tokens, self.total.drafts)

    @cached_property
    def coverage_ratio(self) -> float | None:
        """Share of decode steps that had a draft, D / S."""
        return ratio(self.total.drafts, self.total.decode_steps)

    @cached_property
    def effective_tokens_per_step(self) -> float | None:
        """Tokens of a decode step, with a draft or without, (G - F) / S; None on a torn page."""
        decoded = self.total.decoded_tokens
        return None if decoded is None or decoded < 0 else ratio(decoded, self.total.decode_steps)

    @cached_property
    def draft_variance(self) -> float | None:
        """Variance of the accepted tokens of one draft, Σ (2i+1)·p_i - (Σ p_i)²: exact, and the minimum."""
        drafts, positions = self.total.drafts, self.window.positions
        if not drafts or not positions:
            return None
        squares = sum((2 * place + 1) * accepted for place, accepted in enumerate(positions))
        return max(0, drafts * squares - sum(positions) ** 2) / drafts**2

    @cached_property
    def acceptance_length_bounds(self) -> Estimate | None:
        """Bounds of the acceptance length, between 1 and 1 + K."""
        length, drafts = self.acceptance_length_tokens, self.total.drafts
        if length is None or not drafts or not self.cosines:
            return None
        error = 0.0 if self.draft_variance is None else sqrt(self.draft_variance / drafts)
        (_, _, begun, _, accepted), cosines = self.terms
        found = estimate_of(accepted, begun, cosines, (0.0, len(self.positions) or inf), error)
        return found and found._replace(value=length, lower=1 + found.lower, upper=1 + found.upper)

    @cached_property
    def draft_acceptance_bounds(self) -> Estimate | None:
        """Bounds of the acceptance rate A/T."""
        drafts, drafted, rate = self.total.drafts, self.total.draft_tokens, self.draft_acceptance_ratio
        if rate is None or not drafted or not self.cosines:
            return None
        if not drafts:
            return self.share_bounds(rate, self.works[4], self.works[3])
        (*_, tokens, accepted), cosines = self.terms
        error = self.least_deviation(rate) * sqrt(drafts) / drafted
        return estimate_of(accepted, tokens, cosines, (0.0, 1.0), error)

    def least_deviation(self, weight: float) -> float:
        """Return the least standard deviation of a - ``weight``·t over independent drafts; 0 if unknown.

        A draft has t tokens, of which a are accepted. The counters give the variance of a. That of t is at
        most t̄·(K - t̄), and the correlation is unknown: only √v less ``weight`` times it is certain.
        """
        drafts, drafted = self.total.drafts, self.total.draft_tokens
        if self.draft_variance is None or not drafts or drafted is None:
            return 0.0
        length = drafted / drafts
        spread = sqrt(length * max(0.0, len(self.positions) - length))
        return max(0.0, sqrt(self.draft_variance) - weight * spread)

    def conditional_bounds(self, position: int) -> Estimate | None:
        """Return bounds of q_i; they are valid if every draft has the position."""
        *before, accepted = position_columns(self.increments, position + 1)
        reached = before[-1] if before else self.works[2]
        share = ratio(sum(accepted), sum(reached))
        if share is None or share > 1 or not self.cosines:
            return None
        return self.share_bounds(share, accepted, reached)

    def share_bounds(self, share: float, accepted: Sequence[int], drafts: Sequence[int]) -> Estimate | None:
        """Return bounds of a share of drafts, at least as wide as those of independent drafts."""
        total = sum(drafts)
        independent = sqrt(max(0.0, share * (1 - share)) / total) if total > 0 else 0.0
        return estimate_of(accepted, drafts, self.request_cosines, (0.0, 1.0), independent)

    @cached_property
    def tokens_per_step_bounds(self) -> Estimate | None:
        """Bounds of the tokens per decode step; None if steps are unknown."""
        if not self.cosines or self.total.decoded_tokens is None or self.total.decode_steps is None:
            return None
        (tokens, steps, *_), cosines = self.terms
        return estimate_of(tokens, steps, cosines, (0.0, 1.0 + (len(self.positions) or inf)))

    # Work

    @cached_property
    def work(self) -> DecodeWork | None:
        """Work of the window's steps; None without steps, without drafts counted, or on a torn page.

        If S is unknown, a step gave one token and the accepted ones of its draft. If G or F is unknown too,
        every step counts as one that drafts.
        """
        total = self.total
        drafts, drafted, accepted = total.drafts, total.draft_tokens, total.accepted_tokens
        if drafts is None or drafted is None or accepted is None:
            return None
        tokens, steps = total.decoded_tokens, total.decode_steps
        if tokens is None:
            tokens, steps = drafts + accepted, drafts
        elif steps is None:
            steps = max(tokens - accepted, drafts)
        # A page is rendered while the engine counts on: a short window may have more drafts than steps.
        return DecodeWork(tokens, steps, min(drafts, steps), drafted) if steps and tokens >= 0 else None

    @cached_property
    def works(self) -> tuple[list[int], list[int], list[int], list[int], list[int]]:
        """Columns of ``DecodeWork`` for bounds, with steps as ``work`` takes them, and accepted tokens."""
        increments, total = self.increments, self.total
        drafts, drafted, accepted = columns(increments, "drafts", "draft_tokens", "accepted_tokens")
        if total.decoded_tokens is None:
            return list(map(add, drafts, accepted)), drafts, drafts, drafted, accepted
        generated, first, steps = columns(increments, "generation_tokens", "first_tokens", "decode_steps")
        is_counted = None not in {total.generation_tokens, total.first_tokens}
        tokens = list(map(sub, generated, first) if is_counted else map(add, steps, accepted))
        if total.decode_steps is None:
            steps = list(map(sub, tokens, accepted))
        return tokens, steps, drafts, drafted, accepted

    @cached_property
    def terms(self) -> tuple[Sequence[Column], int | None]:
        """``works``, B; or ``projected`` for all ratios, None, if each increment has steps and drafts."""
        found = projected(self.works, self.cosines) if all(map(all, self.works[1:4])) else None
        return (found, None) if found else (self.works, self.cosines)

    @cached_property
    def speedup_ceiling_ratio(self) -> float | None:
        """Speed-up if drafting cost nothing: tokens per decode step. None without drafts."""
        return ratio(self.work.tokens, self.work.steps) if self.work and self.total.drafts else None

    # Time

    @cached_property
    def time_per_output_token_seconds(self) -> float | None:
        """Mean time per output token after the first, Σ itl / (G - F), weighted by tokens."""
        spent, tokens = self.total.decode_nanoseconds, self.total.decoded_tokens
        return spent / NANO / tokens if spent is not None and tokens and tokens > 0 else None

    @cached_property
    def request_seconds(self) -> tuple[float, float] | None:
        """Time to the first token and decode time, over all requests; None if none began."""
        waited, decoding = self.total.first_token_nanoseconds, self.total.decode_nanoseconds
        if waited is None or decoding is None or not self.least_requests or waited + decoding <= 0:
            return None
        return waited / NANO, decoding / NANO

    @cached_property
    def uncached_tokens(self) -> int:
        """Prompt tokens that the prefix cache did not have; 0 if unknown."""
        return max(0, (self.total.prefix_cache_queries or 0) - (self.total.prefix_cache_hits or 0))

    @cached_property
    def prefill_share_ratio(self) -> float:
        """Highest share of the decode time by which prefills lengthen steps that they share; 0 if unknown.

        A prompt token takes no longer than one of a decode step: the share is at most that of the tokens.
        """
        work, uncached, requests = self.work, self.uncached_tokens, self.request_seconds
        if not uncached or work is None or requests is None or not self.total.decode_steps:
            return 0.0
        most = uncached / (uncached + work.steps + work.draft_tokens)
        if requests[0] >= MAX_WAITING * self.window.seconds:
            return most
        increments = self.window.increments.merged(MAX_PREFILL_INCREMENTS)
        names = ("decode_steps", "decode_nanoseconds", "prefix_cache_queries", "prefix_cache_hits")
        steps, spent, queries, hits = columns(increments, *names)
        lengths = scaled(increments, "covered_nanoseconds")
        found = highest_share(steps, spent, list(map(sub, queries, hits)), lengths)
        return most if found is None else min(most, found)

    @cached_property
    def prefill_steps_ratio(self) -> float:
        """Highest share of the steps that have a prefill, ``PREFILL_TOKENS`` of it or less; 0 if unknown."""
        spent, steps, seconds = self.total.decode_nanoseconds, self.total.decode_steps, self.window.seconds
        if not spent or not steps or not seconds:
            return 0.0
        prefills = (self.total.first_tokens or 0) + self.uncached_tokens / PREFILL_TOKENS
        return min(1.0, prefills * spent / (steps * seconds * NANO))

    @cached_property
    def draft_length_changes(self) -> tuple[int, int] | None:
        """Polls in which the number of draft tokens changed, and all polls; None with too few."""
        found = columns(self.window.increments, "decode_steps", "drafts", "draft_tokens")
        chosen = [_chosen_tokens(*row) for row in zip(*found, strict=True) if row[0] >= MIN_DRAFTS]
        if len(chosen) < MIN_SCHEDULE_POLLS:
            return None
        return sum(new is None or new != old for old, new in pairwise(chosen)), len(chosen)

    # Polls

    @cached_property
    def poll_rates(self) -> list[tuple[float, int]]:
        """Acceptance rate of each poll with its draft tokens as weight, ascending by rate.

        Each poll is a mean over the requests that run at the time: requests themselves spread wider.
        """
        pairs = zip(*columns(self.window.increments, "draft_tokens", "accepted_tokens"), strict=True)
        return sorted((accepted / drafted, drafted) for drafted, accepted in pairs if drafted > 0)

    def poll_rate_quantiles(self, shares: Sequence[float]) -> list[float | None]:
        """Return the lowest rate of a poll that each of ``shares`` of the draft tokens does not exceed."""
        if not self.poll_rates:
            return [None] * len(shares)
        weights = list(accumulate([drafted for _, drafted in self.poll_rates]))
        return [self.poll_rates[bisect_left(weights, share * weights[-1])][0] for share in shares]

    @cached_property
    def poll_rate_deviation(self) -> float | None:
        """Standard deviation of the rates of polls, with the same digits in every version of Python."""
        if not self.poll_rates:
            return None
        total = sum(drafted for _, drafted in self.poll_rates)
        mean = fsum(rate * drafted for rate, drafted in self.poll_rates) / total
        return sqrt(fsum(drafted * (rate - mean) ** 2 for rate, drafted in self.poll_rates) / total)

    @cached_property
    def increments(self) -> Increments:
        """Increments for bounds: sums of neighbours."""
        return self.window.increments.merged(MAX_INCREMENTS)


def _chosen_tokens(steps: int, drafts: int, drafted: int) -> int | None:
    """Return K of a poll whose steps all draft alike: T = K·D, and D = S unless K is 0; else None."""
    if not drafts:
        return 0
    return None if drafted % drafts or drafts < DRAFTED_SHARE * steps else drafted // drafts


def acceptance_length(accepted: float | None, drafts: float | None) -> float | None:
    """Return the mean tokens of a draft, bonus token included: 1 + A / D."""
    accepted_per_draft = ratio(accepted, drafts)
    return None if accepted_per_draft is None else 1 + accepted_per_draft


def answer_shares(answers: Answers) -> tuple[float, float]:
    """Return the shares of requests that count for a variance, and for how fast it varies."""
    equal, life = answers.equal_share, answers.life_share
    if answers.requests < MIN_ANSWERS or equal is None or life is None:
        return _ASSUMED_EQUAL_SHARE, _ASSUMED_LIFE_SHARE
    return equal, life
