"""Traffic of two sides, and how much of a difference in speed it can explain.

The sides are an arm and its baseline, or a server now and in a reference. A side is faster if it serves
fewer, shorter or easier requests. Each such difference is the ratio r of its work over that of the other
side. The time of a token is at most proportional to each, while as many requests run; if arrivals are fixed,
what a difference exceeds ``CHANCE`` by counts twice (docs/explanation/comparisons.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from math import log, prod
from typing import Final, NamedTuple

from spec_decode_exporter.figures.estimate import Estimate, ratio


class Traffic(StrEnum):
    """Part of the traffic; the value is the ``kind`` label."""

    LOAD = "load"  # requests per second, or running requests, of an engine
    PROMPT_TOKENS = "prompt_tokens"
    OUTPUT_TOKENS = "output_tokens"
    PREFIX_CACHE = "prefix_cache"
    """Tokens of a request that are computed, by the share of its prompt in the prefix cache."""
    COVERAGE = "coverage"
    """Share of the steps with a draft; for references alone, since arms may draft by different methods."""
    ACCEPTANCE = "acceptance"
    """Inverse acceptance length at the draft positions that two arms of one method have in common."""
    REQUEST_TYPES = "request_types"  # time per token, as far as the mix of request types explains it


CHANCE: Final = 1.05
"""Factor by which the traffic of balanced arms differs by chance within minutes: sampling errors have it."""
MAX_WAITING: Final = 0.02  # waiting requests over running ones, up to which they wait for the next step alone
Figures = Mapping[str, float]
"""Figures of one side, of one engine in the mean, by their keys in the table of figures."""
Ratios = Mapping[Traffic, float | None]
"""Work of a side over that of the other, above 0; None: it differs by an unknown factor."""
_HITS, _PROMPT, _OUTPUT = "prefix_cache_hit_ratio", "prompt_tokens_per_request", "output_tokens_per_request"


class Row(NamedTuple):
    """Part of the traffic that figures show."""

    key: str  # figure that a caution shows
    ratio: Callable[[Figures, Figures], float | None]
    """Work of the first side over that of the second; None if unknown."""
    limit: float  # factor above which a comparison with a reference has a caution


def _of(*keys: str) -> Callable[[Figures, Figures], float | None]:
    """Return the reader of the ratio of a figure; of several figures, the ratio nearest to 1."""

    def read(side: Figures, other: Figures) -> float | None:
        known = (ratio(side.get(key), other.get(key)) for key in keys)
        return min((each for each in known if each), key=_distance, default=None)

    return read


def _computed_tokens(side: Figures, other: Figures) -> float | None:
    """Return the ratio of the computed tokens of a request, both with the lengths of ``other``.

    A computed prompt token takes at most as long as a generated one: a decode step computes fewer at a time.
    """
    if _HITS not in side or not {_HITS, _PROMPT, _OUTPUT} <= other.keys():
        return None
    mine, its = ((1 - each[_HITS]) * other[_PROMPT] + other[_OUTPUT] for each in (side, other))
    return ratio(mine, its)


def _distance(value: float) -> float:
    return abs(log(value))


LOADS: Final = ("running_requests", "requests_per_second")  # figures of the load, each per engine
TRAFFIC: Final[Mapping[Traffic, Row]] = {
    # Equal arrivals give the slower side more running requests (Little's law); with equal concurrency the
    # faster side begins more of them. The clients fix one of the two.
    Traffic.LOAD: Row(LOADS[0], _of(*LOADS), 1.5),
    Traffic.PROMPT_TOKENS: Row(_PROMPT, _of(_PROMPT), 1.25),
    Traffic.OUTPUT_TOKENS: Row(_OUTPUT, _of(_OUTPUT), 1.25),
    Traffic.PREFIX_CACHE: Row(_HITS, _computed_tokens, 1.1),
    Traffic.COVERAGE: Row("coverage_ratio", _of("coverage_ratio"), 1.25),
}


def ratios(side: Figures, other: Figures) -> Iterator[tuple[Traffic, float]]:
    """Yield each known part of the traffic with the work of a side over that of the other."""
    for traffic, row in TRAFFIC.items():
        value = row.ratio(side, other)
        if value is not None and value > 0:  # a torn page may have more hits than look-ups
            yield traffic, value


def beside_a_queue(traffic: Ratios, side: tuple[float, float], other: tuple[float, float]) -> Ratios:
    """Return the traffic for times that include a queue: more than chance differs by an unknown factor.

    Then the load is that of all requests of an engine. ``side`` and ``other`` are those that run and wait.
    """
    if all(waiting <= MAX_WAITING * running for running, waiting in (side, other)):
        return traffic
    found = {**traffic, Traffic.LOAD: ratio(sum(side), sum(other))}
    return {
        part: value if value and _distance(value) <= log(CHANCE) else None for part, value in found.items()
    }


def at_equal_traffic(estimate: Estimate, traffic: Ratios) -> tuple[Estimate | None, Traffic | None]:
    """Return the bounds of a speed-up at equal traffic, and the part of the traffic that decides.

    There are no bounds if a part differs by an unknown factor: it decides. Otherwise the part that differs
    most decides if the difference may explain the whole speed-up; None if it does not.
    """
    known = {part: value for part, value in traffic.items() if value is not None}
    if len(known) < len(traffic):
        return None, next(part for part in traffic if part not in known)
    factors = list(map(_explained, known.values()))
    if Traffic.OUTPUT_TOKENS in known:
        # Shorter answers leave more prompt tokens to compute for each of their own.
        factors.append(1 / known[Traffic.OUTPUT_TOKENS])
    lower, upper = (prod(bound(1.0, factor) for factor in factors) for bound in (min, max))
    wide = estimate._replace(lower=estimate.lower * lower, upper=estimate.upper * upper)
    decides = not _contains_1(estimate) and _contains_1(wide)
    return wide, max(known, key=lambda part: _distance(known[part])) if decides else None


def _explained(value: float) -> float:
    """Return the factor in the time of a token that a ratio of work explains at most."""
    return value * max(1.0, value / CHANCE) * min(1.0, value * CHANCE)


def _contains_1(estimate: Estimate) -> bool:
    return estimate.lower <= 1 <= estimate.upper
