"""Paces of two arms at one common mix of request types.

An arm with more easy requests is faster whatever its drafter. Its time per token is therefore averaged over
the types g with the same weights in both arms (direct standardisation; K. J. Rothman, *Modern Epidemiology*):

    T = Σ w_g·T_g        T_g = Σ seconds / Σ tokens of the requests of type g        S = T0 / T1

w_g is the share of type g in the tokens of both arms. With the tokens N_g of a type, a request of s seconds
and n tokens contributes w_g·(s - T_g·n)/N_g to the error of T. So the mix itself is no error. The standard
error follows from the sums of the contributions over cells of time, as that of any ratio (``estimate``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import add
from typing import Final, NamedTuple

from spec_decode_exporter.experiments.pace import Pace, pace_of

MIN_COMMON_SHARE: Final = 0.9
"""Share of the tokens of each arm that common types must have; the rest is left out."""


class TypeTimes(NamedTuple):
    """Requests of one type in one arm, by cell of time; all types and all arms have the same cells."""

    seconds: Sequence[float]
    """Time from the first token to the last."""
    tokens: Sequence[float]
    """Tokens after the first."""


ArmTypes = Mapping[str, TypeTimes]
TypeTimesOf = Callable[[float, float], ArmTypes]
"""Return the times by type of the requests that ended in an interval (begin and end, monotonic)."""


def no_times(_begin: float, _end: float) -> ArmTypes:
    """Return the times of an engine without per-request data."""
    return {}


def added_types(parts: Iterable[ArmTypes]) -> ArmTypes:
    """Return the times of several engines, which have the same cells."""
    total: dict[str, TypeTimes] = {}
    for part in parts:
        for name, times in part.items():
            sides = zip(total.get(name, ((), ())), times, strict=True)
            total[name] = TypeTimes(*(list(map(add, *side)) if side[0] else side[1] for side in sides))
    return total


def mix_distance(one: ArmTypes, other: ArmTypes) -> float | None:
    """Return the share of the tokens that belongs to other types, 0 to 1; None if a mix is unknown."""
    tokens, its_tokens = _tokens(one), _tokens(other)
    total, its_total = sum(tokens.values()), sum(its_tokens.values())
    if total <= 0 or its_total <= 0:
        return None
    names = tokens.keys() | its_tokens.keys()
    return sum(abs(tokens.get(n, 0.0) / total - its_tokens.get(n, 0.0) / its_total) for n in names) / 2


def standardised_paces(baseline: ArmTypes, arm: ArmTypes, cosines: int) -> tuple[Pace, Pace] | None:
    """Return the seconds per token of baseline and arm at the mix of both.

    None if their types have too little in common. Without enough ``cosines`` the errors are unknown.
    """
    tokens, its_tokens = _tokens(arm), _tokens(baseline)
    common = [name for name, number in tokens.items() if number > 0 and its_tokens.get(name, 0.0) > 0]
    for own in (tokens, its_tokens):
        if not common or sum(own[name] for name in common) < MIN_COMMON_SHARE * sum(own.values()):
            return None
    both = {name: tokens[name] + its_tokens[name] for name in common}
    weights = {name: number / sum(both.values()) for name, number in both.items()}
    return _pace(baseline, weights, cosines), _pace(arm, weights, cosines)


def _tokens(types: ArmTypes) -> dict[str, float]:
    return {name: sum(times.tokens) for name, times in types.items()}


def _pace(types: ArmTypes, weights: Mapping[str, float], cosines: int) -> Pace:
    means = {name: sum(types[name].seconds) / sum(types[name].tokens) for name in weights}
    value = sum(weight * means[name] for name, weight in weights.items())
    cells = range(max(len(types[name].tokens) for name in weights))
    above, below = [0.0 for _ in cells], [0.0 for _ in cells]
    for name, weight in weights.items():
        share = weight / sum(types[name].tokens)
        for cell, (seconds, tokens) in enumerate(zip(*types[name], strict=True)):
            # Residuals of ``estimate_of`` are above - value·below: that of the type alone remains.
            above[cell] += share * (seconds - means[name] * tokens + value * tokens)
            below[cell] += share * tokens
    return pace_of(value, above, below, cosines)
