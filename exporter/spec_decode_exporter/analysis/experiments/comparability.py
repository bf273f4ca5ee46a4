"""Conditions under which two arms did the same work, so that their times can be compared.

The load is the same if the arms began about as many requests per second and engine, *or* had about as many
running. At equal arrivals the slower arm has more running requests (Little's law). At equal concurrency the
faster arm begins more of them. The traffic fixes one of the two. The recording rules for arms across
exporters (config/prometheus/rules/arms.yml) use the same conditions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Final

from spec_decode_exporter.analysis.comparability_limits import LENGTH_FACTOR, LOAD_FACTOR
from spec_decode_exporter.analysis.experiments.arm import Arm
from spec_decode_exporter.figures.ratio import ratio
from spec_decode_exporter.scrape.page.engine_table import Counter

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


Conditions = Mapping[Condition, bool]


def conditions(arm: Arm, baseline: Arm) -> Conditions:
    """Return whether each condition holds; a condition of unknown lengths is absent."""
    results = {condition: holds(arm, baseline) for condition, holds in _CONDITIONS.items()}
    return {condition: holds for condition, holds in results.items() if holds is not None}


def comparable(results: Conditions) -> bool:
    """Return whether arms can be compared: all known conditions hold."""
    return all(results.values())


def _enough(arm: Arm, baseline: Arm) -> bool:
    return not any(
        each.partial or (each.total(Counter.FIRST_TOKENS) or 0) < MIN_ARM_REQUESTS for each in (arm, baseline)
    )


def _load(arm: Arm, baseline: Arm) -> bool:
    began = _within(arm.requests_per_second, baseline.requests_per_second, LOAD_FACTOR)
    ran = _within(arm.running_requests, baseline.running_requests, LOAD_FACTOR)
    return bool(began or ran)


def _lengths(counter: Counter) -> Callable[[Arm, Arm], bool | None]:
    def alike(arm: Arm, baseline: Arm) -> bool | None:
        mine, its = (ratio(each.total(counter), each.total(Counter.FIRST_TOKENS)) for each in (arm, baseline))
        return _within(mine, its, LENGTH_FACTOR)

    return alike


def _within(mine: float | None, its: float | None, factor: float) -> bool | None:
    times = ratio(mine, its)
    return None if times is None else 1 / factor <= times <= factor


_CONDITIONS: Final[Mapping[Condition, Callable[[Arm, Arm], bool | None]]] = {
    Condition.REQUESTS: _enough,
    Condition.LOAD: _load,
    Condition.PROMPT_TOKENS: _lengths(Counter.PROMPT_TOKENS),
    Condition.GENERATION_TOKENS: _lengths(Counter.GENERATION_TOKENS),
}
