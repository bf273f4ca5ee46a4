"""What drafting costs: c for each draft token and c0 for each step, in plain decode steps of the target.

c is what one more draft token costs, drafted and verified; c0 is what a step costs more however many
tokens it drafts. A decode step that drafts t tokens takes 1 + c0 + c·t plain steps. docs/semantics.md
says where c comes from and when not to trust it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from spec_decode_exporter.analysis.typical_costs import method_cost
from spec_decode_exporter.config.cost_settings import CostSettings, LoadCost


class CostSource(StrEnum):
    """Where a cost is known from, the surest first; the value is the ``source`` label."""

    CONFIGURED = "configured"
    """The configuration says so."""
    MEASURED = "measured"
    """This engine was seen at the same load while it drafted and while it did not, or the baseline of its
    experiment was, which never does: see ``StepTimes``."""
    DEFAULT = "default"
    """What the method usually costs, whatever the models: see ``method_costs``."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What speculation costs at one load."""

    draft_cost_ratio: float
    """c: one more draft token, drafted and verified, in plain decode steps."""
    fixed_cost_ratio: float
    """c0: a step that speculates, however many tokens it drafts, in plain decode steps."""
    source: CostSource
    running_requests: float | None
    """The load at which it is known; None where it was said without one."""

    def speaks_for(self, running_requests: float | None) -> bool:
        """Return whether it holds at a load: between half and twice the one at which it is known.

        A cost that was said without a load is taken at its word for all of them.
        """
        known = self.running_requests
        if known is None:
            return True
        return running_requests is not None and known / 2 <= running_requests <= 2 * known


@dataclass(frozen=True, slots=True)
class CostCurve:
    """What speculation costs by load: straight lines between the loads at which it is known."""

    loads: tuple[LoadCost, ...]
    """Ascending by load; at least one."""
    source: CostSource
    fixed_cost_ratio: float = 0.0
    """c0, as far as it is the same at every load."""
    fixed_tokens: float = 0.0
    """c0 in draft tokens, as far as it grows with c."""

    def at(self, running_requests: float) -> Cost:
        """Return the cost at a load; beyond the known ones it is that of the nearest, and says so."""
        load, ratio = self._between(running_requests)
        return Cost(ratio, self.fixed_cost_ratio + self.fixed_tokens * ratio, self.source, load)

    def _between(self, running_requests: float) -> tuple[float, float]:
        loads = self.loads
        above = bisect_left(loads, running_requests, key=lambda load: load.running_requests)
        if above in {0, len(loads)}:
            end = loads[0 if above == 0 else -1]
            return end.running_requests, end.draft_cost_ratio
        begin, end = loads[above - 1], loads[above]
        share = (running_requests - begin.running_requests) / (end.running_requests - begin.running_requests)
        rise = end.draft_cost_ratio - begin.draft_cost_ratio
        return running_requests, begin.draft_cost_ratio + share * rise


def cost_curve(settings: CostSettings | None, measured: Sequence[LoadCost], method: str) -> CostCurve | None:
    """Return the cost by load, configured or else measured; None where it is not known by load.

    ``measured`` is what ``StepTimes.costs`` returned for the same method.
    """
    if settings is not None:
        known = settings.loads
        return CostCurve(known, CostSource.CONFIGURED, settings.fixed_cost_ratio) if known else None
    if not measured:
        return None
    return CostCurve(tuple(measured), CostSource.MEASURED, fixed_tokens=fixed_tokens(method))


def cost_of(
    settings: CostSettings | None, measured: Sequence[LoadCost], method: str, running_requests: float | None
) -> Cost | None:
    """Return what speculation costs at a load, from the surest source that says it; None if none does.

    Where the load is unknown, what is configured by load is that of the lowest known one, and does not speak
    for the present one.
    """
    if settings is not None and settings.ratio is not None:
        return Cost(
            settings.ratio, settings.fixed_cost_ratio, CostSource.CONFIGURED, settings.running_requests
        )
    curve = cost_curve(settings, measured, method)
    if curve is not None and running_requests is not None:
        return curve.at(running_requests)
    if curve is not None and curve.source is CostSource.CONFIGURED:
        return curve.at(curve.loads[0].running_requests)
    usual = method_cost(method)
    if usual is None:
        return None
    return Cost(usual.draft_cost_ratio, usual.fixed_cost_ratio, CostSource.DEFAULT, None)


def fixed_tokens(method: str) -> float:
    """Return how a measured cost is split: the fixed cost in draft tokens, as usual for the method, or 0."""
    usual = method_cost(method)
    return 0.0 if usual is None else usual.fixed_tokens
