"""All findings about one engine."""

from __future__ import annotations

from typing import Final

from spec_decode_exporter.analysis.evaluation import Evaluation
from spec_decode_exporter.drops.sums import DropStatus
from spec_decode_exporter.findings.faults import FAULTS
from spec_decode_exporter.findings.finding import Finding, FindingContext
from spec_decode_exporter.findings.hints import HINTS
from spec_decode_exporter.window.poll import Check

NAMES: Final = (*FAULTS.conditions, *HINTS.conditions)
"""Names of all findings, in their order."""


def findings(evaluation: Evaluation, broken: frozenset[Check], drops: DropStatus) -> tuple[Finding, ...]:
    """Return all findings: faults first, reasons for an uncertain verdict last.

    Args:
        evaluation: Evaluation of the engine; one without windows has no findings.
        broken: Identities of the counters that two successive polls broke.
        drops: Drops of the acceptance length.
    """
    if not evaluation.windows:
        return ()
    context = FindingContext(evaluation, broken, drops)
    return (*FAULTS.of(context), *HINTS.of(context))
