"""Conditions under which two arms did the same work, so that their paces can be compared.

Two arms with equal loads and lengths may still serve different requests: easy ones make a drafter fast. So a
winner also needs alike prefix-cache hits, and the same acceptance where both draft by the same method.
Between different methods the acceptance shows nothing, since a better drafter has a higher one.

The load is the same if the arms began about as many requests per second and engine, *or* had about as many
running. At equal arrivals the slower arm has more running requests (Little's law). At equal concurrency the
faster arm begins more of them. The traffic fixes one of the two. The recording rules for arms across
exporters (config/prometheus/rules/arms.yml) have this condition alone. References use the same limits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Final

from spec_decode_exporter.experiments.arm import Arm
from spec_decode_exporter.experiments.standardised import mix_distance

LOAD_FACTOR: Final = 1.5
"""Maximum ratio of two loads: latency depends on the load."""
LENGTH_FACTOR: Final = 1.25
"""Maximum ratio of the mean lengths of prompts or answers: time is about proportional to length."""
SHARE_DIFFERENCE: Final = 0.1
"""Maximum difference of two shares: of a cache, of steps with a draft, of the tokens of a type."""
ACCEPTANCE_FACTOR: Final = 1.1
"""Maximum ratio of the acceptance lengths of one method at the depth that both arms have."""
MIN_ARM_REQUESTS: Final = 30
"""Requests that an arm needs; with fewer, their lengths alone determine the result."""


class Condition(StrEnum):
    """Condition of a comparison; the value is the ``check`` label."""

    REQUESTS = "requests"
    """Enough requests in both arms."""
    LOAD = "load"
    """Similar requests per second, or running requests, per engine."""
    PROMPT_TOKENS = "prompt_tokens"
    """Prompts of similar length."""
    GENERATION_TOKENS = "generation_tokens"
    """Answers of similar length."""
    PREFIX_HITS = "prefix_hits"
    """Similar shares of prompt tokens in the prefix cache; a winner needs it."""
    ACCEPTANCE = "acceptance"
    """One method with a similar acceptance by position in both arms; a winner needs it."""
    REQUEST_TYPES = "request_types"
    """Similar mix of request types, from per-request data; a winner needs it."""


Conditions = Mapping[Condition, bool]


def conditions(arm: Arm, baseline: Arm) -> Conditions:
    """Return whether each condition holds; a condition of unknown values is absent."""
    results = {condition: holds(arm, baseline) for condition, holds in _CONDITIONS.items()}
    return {condition: holds for condition, holds in results.items() if holds is not None}


def are_comparable(results: Conditions) -> bool:
    """Return whether arms can be compared: all known conditions of their work hold."""
    return all(holds for condition, holds in results.items() if condition not in _OF_A_WINNER)


def same_traffic(results: Conditions, *, is_standardised: bool = False) -> bool:
    """Return whether a difference of the arms may name a winner: all known conditions hold.

    Paces that are standardised by request type need neither the same mix nor the same acceptance.
    """
    ignored = _OF_A_MIX if is_standardised else frozenset[Condition]()
    return all(holds for condition, holds in results.items() if condition not in ignored)


def are_within(factor: float, one: float, other: float) -> bool:
    """Return whether two values differ by at most a factor."""
    return max(one, other) <= factor * min(one, other)


def are_near(one: float, other: float) -> bool:
    """Return whether two shares differ by at most ``SHARE_DIFFERENCE``."""
    return abs(one - other) <= SHARE_DIFFERENCE


def _enough(arm: Arm, baseline: Arm) -> bool:
    return not any(each.is_partial or (each.requests or 0) < MIN_ARM_REQUESTS for each in (arm, baseline))


def _load(arm: Arm, baseline: Arm) -> bool:
    began = _within(LOAD_FACTOR, arm.requests_per_second, baseline.requests_per_second)
    ran = _within(LOAD_FACTOR, arm.running_requests, baseline.running_requests)
    return bool(began or ran)


def _lengths(counter: str) -> Callable[[Arm, Arm], bool | None]:
    """Return the condition that the mean of a counter per request is similar."""
    names = counter, "first_tokens"
    return lambda arm, baseline: _within(LENGTH_FACTOR, arm.over(*names), baseline.over(*names))


def _prefix_hits(arm: Arm, baseline: Arm) -> bool | None:
    mine, its = arm.first_token.prefix_hit_ratio, baseline.first_token.prefix_hit_ratio
    return None if mine is None or its is None else are_near(mine, its)


def _acceptance(arm: Arm, baseline: Arm) -> bool | None:
    if arm.method is None or arm.method != baseline.method:
        return None
    depth = min(arm.depth, baseline.depth)
    return _within(ACCEPTANCE_FACTOR, arm.length_at(depth), baseline.length_at(depth))


def _request_types(arm: Arm, baseline: Arm) -> bool | None:
    distance = mix_distance(arm.types, baseline.types)
    return None if distance is None else distance <= SHARE_DIFFERENCE


def _within(factor: float, mine: float | None, its: float | None) -> bool | None:
    return None if mine is None or not its else are_within(factor, mine, its)


_OF_A_MIX: Final = frozenset({Condition.ACCEPTANCE, Condition.REQUEST_TYPES})
_OF_A_WINNER: Final = _OF_A_MIX | {Condition.PREFIX_HITS}
_CONDITIONS: Final[Mapping[Condition, Callable[[Arm, Arm], bool | None]]] = {
    Condition.REQUESTS: _enough,
    Condition.LOAD: _load,
    Condition.PROMPT_TOKENS: _lengths("prompt_tokens"),
    Condition.GENERATION_TOKENS: _lengths("generation_tokens"),
    Condition.PREFIX_HITS: _prefix_hits,
    Condition.ACCEPTANCE: _acceptance,
    Condition.REQUEST_TYPES: _request_types,
}
