"""Sentences about a comparison: its verdict, and conditions that differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from spec_decode_exporter.core.number_formats import plural
from spec_decode_exporter.experiments.traffic import Traffic
from spec_decode_exporter.figures.estimate import MIN_BOUND_REQUESTS
from spec_decode_exporter.reports.reference.comparison import (
    DRAFT_TOKENS,
    Caution,
    Comparison,
    Difference,
    Outcome,
)
from spec_decode_exporter.reports.reference.pairing import Compared
from spec_decode_exporter.reports.reference_document import MeasuredEngine, MeasuredModel

_BY_CHANCE: Final = f"{MIN_BOUND_REQUESTS} requests of equal length must pass one after the other for bounds"

_OUTCOMES: Final[Mapping[Outcome, str]] = {
    Outcome.BETTER: "beyond chance",
    Outcome.LOWER: "beyond chance, but certainly by no more than {threshold}",
    Outcome.FELL: "more than {threshold}, and beyond chance",
}


def verdict(comparison: Comparison) -> str:
    """Return the change of the acceptance rate as a sentence."""
    difference = comparison.acceptance
    if difference is None:
        return "Acceptance cannot be compared: nothing was drafted then, or nothing is now."
    moved = "rose" if difference.change > 0 else "fell"
    levels = f"from {difference.before.value * 100:.1f} % to {difference.after.value * 100:.1f} %"
    threshold = f"{comparison.threshold * 100:g}"
    if comparison.outcome is Outcome.NOT_COMPARABLE:
        return (
            f"Acceptance {moved} {levels}, but the number of draft tokens differs, and the rate depends on "
            "it: it cannot be compared. Compare the positions."
        )
    if difference.lower is None or difference.upper is None:
        return f"Acceptance {moved} {levels}, but {_BY_CHANCE}: measure for longer, or under more load."
    if comparison.outcome is Outcome.SAME:
        return (
            f"Acceptance is the same within chance, {levels}: "
            f"{difference.change * 100:+.1f} points "
            f"({difference.lower * 100:+.1f} to {difference.upper * 100:+.1f}), "
            f"certainly no fall of more than {threshold}."
        )
    evaluated = _OUTCOMES.get(comparison.outcome) or _uncertain(difference)
    amount = f"by {abs(difference.change) * 100:.1f} points ({_range(difference)}), {levels}"
    return f"Acceptance {moved} {amount}: {evaluated.format(threshold=threshold)}."


def _range(difference: Difference) -> str:
    """Write the bounds as absolute values: a fall of 6.1 points has bounds of 4.9 to 7.3."""
    sign = 1 if difference.change > 0 else -1
    edges = sorted((sign * 100 * (difference.lower or 0.0), sign * 100 * (difference.upper or 0.0)))
    return " to ".join(f"{edge:.1f}" for edge in edges)


def _uncertain(difference: Difference) -> str:
    known = "beyond chance" if difference.is_beyond_chance else "within chance"
    return known + (", but whether it is a fall of more than {threshold} is not certain; measure for longer")


_OTHER_WORK: Final = "the work differs, and acceptance depends on the work."

_CAUTIONS: Final[Mapping[str, str]] = {
    DRAFT_TOKENS: (
        "{before:.0f} tokens were drafted at a time, and {after:.0f} are now: the acceptance rate falls with "
        "their number, and latency differs for that reason too. Only positions can be compared."
    ),
    Traffic.LOAD: (
        "{before:.1f} requests ran on an engine in the mean, and {after:.1f} do now: latency and throughput "
        "differ for that reason."
    ),
    Traffic.OUTPUT_TOKENS: (
        "Answers had {before:.0f} tokens in the mean, and have {after:.0f} now: " + _OTHER_WORK
    ),
    Traffic.PROMPT_TOKENS: (
        "Prompts had {before:.0f} tokens in the mean, and have {after:.0f} now: " + _OTHER_WORK
    ),
    Traffic.PREFIX_CACHE: (
        "{before:.0f} % of the prompt tokens were in the prefix cache, and {after:.0f} % are now: the time "
        "to the first token differs for that reason, and the work may differ."
    ),
    Traffic.COVERAGE: (
        "{before:.0f} % of the steps had a draft, and {after:.0f} % have one now: compare the tokens per "
        "step, which count every step."
    ),
}


_SHARES: Final = frozenset({Traffic.PREFIX_CACHE, Traffic.COVERAGE})


def caution(difference: Caution) -> str:
    """Return a condition that makes the comparison unfair, as a sentence."""
    scale = 100 if difference.reason in _SHARES else 1
    return _CAUTIONS[difference.reason].format(
        before=difference.before * scale, after=difference.after * scale
    )


def changes(
    before: MeasuredModel | MeasuredEngine, after: MeasuredModel | MeasuredEngine
) -> Iterator[tuple[str, str, str]]:
    """Yield each changed property: its name and both values, empty if unknown."""
    for name, field in _DESCRIBED.items():
        old, new = getattr(before, field), getattr(after, field)
        if old != new:
            yield name, old, new


_DESCRIBED: Final = {
    "model": "model_name",
    "method": "method",
    "draft model": "draft_model",
    "server version": "server_version",
}


def doubts(compared: Compared) -> Iterator[str]:
    """Yield counter resets and contradictions, which make the figures of an engine doubtful."""
    yield from _doubts(compared.before.engines, "while the reference was measured")
    yield from _doubts(compared.after.engines, "during this measurement")


def _doubts(engines: tuple[MeasuredEngine, ...], when: str) -> Iterator[str]:
    for engine in engines:
        name = f"{engine.model_name} on {engine.target} (engine {engine.engine})"
        if engine.restarts:
            yield f"{name}: its counters were reset {when}, {plural(engine.restarts, 'time')}."
        if engine.broken_checks:
            yield f"{name}: its counters contradicted each other {when}: {', '.join(engine.broken_checks)}."
