"""What a comparison says, in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from spec_decode_exporter.analysis.comparison.comparison import Caution, Comparison, Outcome, Reason
from spec_decode_exporter.analysis.comparison.difference import Difference
from spec_decode_exporter.analysis.statistics.ratio_bounds import MIN_BOUND_REQUESTS
from spec_decode_exporter.reports.reference.reference_document import MeasuredEngine, MeasuredModel

_BY_CHANCE: Final = (
    f"{MIN_BOUND_REQUESTS} requests must pass through one after the other to say how much is chance"
)

_OUTCOMES: Final[Mapping[Outcome, str]] = {
    Outcome.BETTER: "beyond chance",
    Outcome.LOWER: "beyond chance, but certainly by no more than {threshold}",
    Outcome.FELL: "more than {threshold}, and beyond chance",
}


def verdict(comparison: Comparison) -> str:
    """Say in one sentence what became of the acceptance rate."""
    found = comparison.acceptance
    if found is None:
        return "Acceptance cannot be compared: nothing was drafted then, or nothing is now."
    moved = "rose" if found.change > 0 else "fell"
    levels = f"from {found.before.value * 100:.1f} % to {found.after.value * 100:.1f} %"
    threshold = f"{comparison.threshold * 100:g}"
    if comparison.outcome is Outcome.NOT_COMPARABLE:
        return (
            f"Acceptance {moved} {levels}, but another number of tokens is drafted, and with it the rate is "
            "another by itself: it cannot be compared. Look at the positions."
        )
    if found.lower is None or found.upper is None:
        return f"Acceptance {moved} {levels}, but {_BY_CHANCE}: measure for longer, or under more load."
    if comparison.outcome is Outcome.SAME:
        return (
            f"Acceptance is the same as far as chance lets one see, {levels}: "
            f"{found.change * 100:+.1f} points ({found.lower * 100:+.1f} to {found.upper * 100:+.1f}), "
            f"certainly no fall of more than {threshold}."
        )
    evaluated = _OUTCOMES.get(comparison.outcome) or _uncertain(found)
    amount = f"by {abs(found.change) * 100:.1f} points ({_range(found)}), {levels}"
    return f"Acceptance {moved} {amount}: {evaluated.format(threshold=threshold)}."


def _range(found: Difference) -> str:
    """Write the bounds in the direction of the change: a fall of 6.1 points is one of 4.9 to 7.3."""
    sign = 1 if found.change > 0 else -1
    edges = sorted((sign * 100 * (found.lower or 0.0), sign * 100 * (found.upper or 0.0)))
    return " to ".join(f"{edge:.1f}" for edge in edges)


def _uncertain(found: Difference) -> str:
    known = "beyond chance" if found.is_beyond_chance else "no more than chance may do"
    return known + (", but whether it is a fall of more than {threshold} is not certain; measure for longer")


_OTHER_WORK: Final = "it is other work, and acceptance depends on the work."

_CAUTIONS: Final[Mapping[Reason, str]] = {
    Reason.DRAFT_TOKENS: (
        "{before:.0f} tokens were drafted at a time, and {after:.0f} are now: the acceptance rate falls with "
        "their number, and latency differs for that alone. Only positions can be compared."
    ),
    Reason.LOAD: (
        "{before:.1f} requests ran on an engine in the mean, and {after:.1f} do now: latency and throughput "
        "differ for that alone."
    ),
    Reason.OUTPUT_TOKENS: (
        "Answers had {before:.0f} tokens in the mean, and have {after:.0f} now: " + _OTHER_WORK
    ),
    Reason.PROMPT_TOKENS: (
        "Prompts had {before:.0f} tokens in the mean, and have {after:.0f} now: " + _OTHER_WORK
    ),
    Reason.PREFIX_CACHE: (
        "{before:.0f} % of the prompt tokens were in the prefix cache, and {after:.0f} % are now: the time "
        "to the first token differs for that alone, and the work may be another."
    ),
    Reason.COVERAGE: (
        "{before:.0f} % of the steps had a draft, and {after:.0f} % have one now: compare the tokens per "
        "step, which count every step."
    ),
}


_SHARES: Final = frozenset({Reason.PREFIX_CACHE, Reason.COVERAGE})


def caution(found: Caution) -> str:
    """Say why a comparison is not quite fair."""
    scale = 100 if found.reason in _SHARES else 1
    return _CAUTIONS[found.reason].format(before=found.before * scale, after=found.after * scale)


def changes(
    before: MeasuredModel | MeasuredEngine, after: MeasuredModel | MeasuredEngine
) -> Iterator[tuple[str, str, str]]:
    """Yield what is another now: its name, and both values; unknown is empty."""
    for name, field in _DESCRIBED.items():
        then, now = getattr(before, field), getattr(after, field)
        if then != now:
            yield name, then, now


_DESCRIBED: Final = {
    "model": "model_name",
    "method": "method",
    "draft model": "draft_model",
    "server version": "server_version",
}


def troubles(engines: tuple[MeasuredEngine, ...], when: str) -> Iterator[str]:
    """Yield what makes the figures of engines doubtful in themselves."""
    for engine in engines:
        name = f"{engine.model_name} on {engine.target} (engine {engine.engine})"
        if engine.restarts:
            yield f"{name}: its counters began anew {when}, {engine.restarts} times."
        if engine.broken_checks:
            yield f"{name}: its counters contradicted each other {when}: {', '.join(engine.broken_checks)}."
