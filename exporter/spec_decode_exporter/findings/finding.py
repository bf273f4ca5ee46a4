"""Findings: hints and faults beside the verdict, each one function with its text.

A finding is a rule of thumb, a fault, or a reason for an uncertain verdict. It never changes the verdict. Its
text consists of numbers and fixed words; it never contains text of a server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from spec_decode_exporter.analysis.evaluation import Evaluation
from spec_decode_exporter.analysis.knowledge import Knowledge
from spec_decode_exporter.analysis.window_evaluation import WindowEvaluation
from spec_decode_exporter.config.policy import Policy
from spec_decode_exporter.core.number_formats import fill
from spec_decode_exporter.costs.cost import CostRange
from spec_decode_exporter.drops.sums import DropStatus
from spec_decode_exporter.figures.estimate import ratio
from spec_decode_exporter.figures.quantile import quantile
from spec_decode_exporter.scrape.engines import Latency
from spec_decode_exporter.window.poll import Check

TAIL_OBSERVATIONS: Final = 100  # those that a 99th percentile needs; of fewer it is only the slowest one

Values = Mapping[str, float]  # numbers of a finding, by name; ratios between 0 and 1, times in seconds


class Severity(StrEnum):
    """Urgency of a finding."""

    INFO = "info"  # useful when reading the verdict
    WARNING = "warning"  # a fault or an obstacle: an operator should act


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding, for programs and for people."""

    name: str
    """Name, that of its function."""
    severity: Severity
    values: Values
    """Numbers of the finding; each finding has its own names."""
    text: str
    """One or two sentences with these numbers, and the remedy."""


@dataclass(frozen=True, slots=True)
class FindingContext:
    """Inputs of the findings about an engine that has windows."""

    evaluation: Evaluation
    broken: frozenset[Check]
    drops: DropStatus
    reported_length: float | None = None  # acceptance length that the engine itself reports

    @property
    def known(self) -> Knowledge:
        """Knowledge of the engine besides its windows."""
        return self.evaluation.known

    @property
    def policy(self) -> Policy:
        """Thresholds."""
        return self.known.policy

    @property
    def its(self) -> WindowEvaluation:
        """Evaluated window."""
        return self.evaluation.verdict_window

    @property
    def drafts(self) -> int:
        """D; 0 if drafts are not counted."""
        return self.its.total.drafts or 0

    @property
    def tokens(self) -> int:
        """K."""
        return len(self.its.positions)

    def acceptance(self, position: int) -> float | None:
        """Return p_i of the drafts with position i; -1 is the last. None if unknown, or of too few drafts."""
        positions = self.its.positions
        if not self.tokens or not positions.are_known or self.is_rare(position):
            return None
        return positions.acceptance[position]

    def is_rare(self, position: int) -> bool:
        """Return whether a schedule changes K, and too few drafts had a position; -1 is the last."""
        number = self.its.positions.drafts_with(position % self.tokens)
        return number is not None and number < self.policy.min_drafts


def always(_: FindingContext) -> bool:
    """Need nothing."""
    return True


def covered(context: FindingContext) -> bool:
    """Need a window that is not partial."""
    return not context.its.is_partial


def drafting(context: FindingContext) -> bool:
    """Need enough drafts."""
    return covered(context) and context.drafts >= context.policy.min_drafts


def accepting(context: FindingContext) -> bool:
    """Need an accepted draft token: otherwise ``drafter_dead`` is the only finding about acceptance."""
    return drafting(context) and context.its.total.accepted_tokens != 0


class Found(NamedTuple):
    """Text of a finding, a template of ``fill``, and its numbers."""

    text: str
    values: Values


def found(text: str, values: Values | None, **more: float) -> Found | None:
    """Return a text with its numbers; None if the first ones are None."""
    return None if values is None else Found(text, {**values, **more})


def below(name: str, value: float | None, threshold: float) -> Values | None:
    """Return a value and its threshold if the value is below it."""
    return {name: value, "threshold": threshold} if value is not None and value < threshold else None


def above(name: str, value: float | None, threshold: float) -> Values | None:
    """Return a value and its threshold if the value is above it."""
    return {name: value, "threshold": threshold} if value is not None and value > threshold else None


def cost_range(cost: CostRange) -> Values:
    """Return the possible costs of a draft token in decode steps."""
    return {"lowest_cost": cost.low.token, "highest_cost": cost.high.token}


def tail(context: FindingContext, latency: Latency, text: str) -> Found | None:
    """Return the finding that the median and the 99th percentile of a latency are far apart."""
    buckets = context.evaluation.latencies.get(latency)
    if buckets is None or not buckets.counts or buckets.counts[-1] < TAIL_OBSERVATIONS:
        return None
    median, slow = quantile(0.5, buckets), quantile(0.99, buckets)
    times = ratio(slow, median)
    if slow is None or median is None or times is None or times <= context.policy.findings.tail_ratio:
        return None
    return Found(text, {"p50": median, "p99": slow, "ratio": times})


Need = Callable[[FindingContext], bool]
Condition = Callable[[FindingContext], Found | None]


class Rules:
    """Findings of one severity by their names, in the order in which they are added."""

    def __init__(self, severity: Severity) -> None:
        self._severity = severity
        self.conditions: dict[str, tuple[Need, Condition]] = {}

    def finding(self, needs: Need) -> Callable[[Condition], Condition]:
        """Add a function as the finding of its name."""

        def add(condition: Condition) -> Condition:
            self.conditions[condition.__name__] = needs, condition
            return condition

        return add

    def of(self, context: FindingContext) -> Iterator[Finding]:
        """Yield the findings that hold."""
        for name, (needs, condition) in self.conditions.items():
            result = condition(context) if needs(context) else None
            if result is not None:
                yield Finding(name, self._severity, result.values, fill(result.text, result.values))
