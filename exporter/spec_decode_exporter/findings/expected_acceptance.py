"""Condition of the finding ``below_expectation``: acceptance below that of the drafter's training report.

It needs no earlier measurement, so it is available on the first day: a drafter that is served with another
revision, tokenizer or chat template than it was trained with has no better past to compare with. In
speculators' issue 613 the first draft token was right in 0.87 of the cases in training, and in 0.04 to 0.07
when served.
"""

from __future__ import annotations

from spec_decode_exporter.findings.finding_context import FindingContext, Values
from spec_decode_exporter.findings.position_bounds import conditional_acceptance_estimate
from spec_decode_exporter.figures.positions import common_positions, conditional_counts, tells_positions


def below_expectation(context: FindingContext) -> Values | None:
    """Condition: the first position whose acceptance is significantly below the expected one.

    Each position is compared given that the tokens before it are accepted, so a weak first position does not
    lower the next ones. At least ``min_drafts`` drafts must reach it.
    """
    window = context.window
    if not tells_positions(window):
        return None
    number = common_positions(window)
    expected = enumerate(context.speculation.expected_positions[:number])
    return next((values for place in expected if (values := _below(context, *place))), None)


def _below(context: FindingContext, position: int, expected: float) -> Values | None:
    _, reached = conditional_counts(context.window)[position]
    estimate = conditional_acceptance_estimate(context.window, position)
    if estimate is None or (reached or 0) < context.policy.min_drafts:
        return None
    gap = context.policy.findings.below_expectation
    if estimate.value > expected - gap or estimate.upper >= expected:
        return None
    return {
        "position": position,
        "acceptance": estimate.value,
        "upper": estimate.upper,
        "expected": expected,
    }
