"""Steps at each load that an engine has shown, for the limits of ``analysis.load_range``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import exp, hypot, sqrt
from typing import Final

from spec_decode_exporter.analysis.load_range import SeenSteps
from spec_decode_exporter.figures.student_t import NORMAL_975, t_quantile
from spec_decode_exporter.learned.step_cost import SLOW_DEVIATION, SLOW_SECONDS
from spec_decode_exporter.learned.steps import LOAD, PROMPT, TIME, StepSums, StepTimes

MIN_SECONDS: Final = 30.0
"""Seconds near a load that it takes to be known."""


def seen_steps(own: Iterable[StepTimes]) -> Sequence[SeenSteps]:
    """Return the steps of an engine at all loads, with and without drafts."""
    places = (sums for times in own for sums in times.places.values())
    return [_seen(its) for its in places if its.seconds >= MIN_SECONDS and its.polls > 1]


def _seen(its: StepSums) -> SeenSteps:
    steps = its.triangle[0]
    time, drafted = its.triangle[TIME] / steps, its.draft_tokens / steps
    # Requests whose prompts are computed run too; polls may miss those of a short burst.
    load = max(exp(its.triangle[LOAD] / steps), its.running if its.drafting else 0.0)
    variance = max(0.0, its.triangle[-1] / steps - time * time)
    error = t_quantile(its.polls - 1) * sqrt(variance / its.polls)
    slow = NORMAL_975 * SLOW_DEVIATION * min(1.0, 2 * SLOW_SECONDS / its.seconds) ** 0.5
    return SeenSteps(
        max(0.0, time - hypot(error, slow * time)),
        load * (1 + drafted) + its.triangle[PROMPT] / steps,
        load * (its.mean_context or 0.0),
        its.drafting / steps,
        drafted,
    )
