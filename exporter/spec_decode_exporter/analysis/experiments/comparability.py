"""Whether two arms did the same work, so that the time they took for it can be compared.

Load is alike where an engine of either arm began about as many requests a second, *or* had about as many
running at a time: at equal arrivals the slower arm has more requests at a time (Little's law), and at equal
concurrency the faster one begins more of them. One of the two is what the traffic fixes. The recording rules
for arms across exporters (config/prometheus/rules/arms.yml) go by the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Final

from spec_decode_exporter.analysis.experiments.arm import Arm
from spec_decode_exporter.figures.ratio import ratio
from spec_decode_exporter.scrape.page.engine_table import Counter

MIN_ARM_REQUESTS: Final = 30
"""With fewer requests in an arm, their lengths alone make the difference."""
LOAD_FACTOR: Final = 1.5
LENGTH_FACTOR: Final = 1.25
"""Prompts and answers must be as long but for this factor: a request takes about as much longer as it is."""


class Condition(StrEnum):
    """What must hold for arms to be compared; the value is the ``check`` label."""

    REQUESTS = "requests"
    """Enough of them in both arms."""
    LOAD = "load"
    """As many requests a second, or at a time, on an engine."""
    PROMPT_TOKENS = "prompt_tokens"
    """Prompts of the same length."""
    GENERATION_TOKENS = "generation_tokens"
    """Answers of the same length."""


Conditions = Mapping[Condition, bool]


def conditions(arm: Arm, baseline: Arm) -> Conditions:
    """Return which conditions hold; of lengths that an engine does not tell, there is none."""
    found = {condition: holds(arm, baseline) for condition, holds in _CONDITIONS.items()}
    return {condition: held for condition, held in found.items() if held is not None}


def comparable(found: Conditions) -> bool:
    """Return whether arms can be compared: no condition is broken."""
    return all(found.values())


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
