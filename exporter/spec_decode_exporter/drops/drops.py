"""The drop detectors of one engine with one method and one K; a drop begins and ends in ``detector``."""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import mul
from typing import Final

from spec_decode_exporter.config.batch_schedule import MAX_POSITIONS
from spec_decode_exporter.config.policy import DropPolicy
from spec_decode_exporter.drops.detector import DRAFTING, SUDDEN, DecodeSteps, Detector, DetectorState
from spec_decode_exporter.drops.sums import FEW_STEPS, Drop, DropKind, DropStatus, Sums, Transition
from spec_decode_exporter.window.poll import Increment

RECENT_SECONDS: Final = 30.0
LUMP_SECONDS: Final = 20.0
"""Seconds of steps that are observed at once if all should have a draft: a few without one are no drop."""
LIKE_LOAD: Final = 1.5
"""Loads whose ratio is less are alike to an engine that verifies fewer drafts at a higher load."""
MIN_TRIMMED_LOAD: Final = 8.0
"""Running requests below which such an engine verifies all drafts: GPUs wait for memory then."""
_ODD: Final = range(1, 2 * MAX_POSITIONS, 2)


@dataclass(slots=True)
class DropState:
    """Persisted state of all detectors."""

    sudden: DetectorState = field(default_factory=DetectorState)
    drafting: DetectorState = field(default_factory=DetectorState)


class Drops:
    """Sudden drops of the acceptance length, and drops of drafting."""

    def __init__(self, policy: DropPolicy) -> None:
        self._sudden, self._drafting = Detector(SUDDEN, policy), Detector(DRAFTING, policy)
        self._counts = dict(DropStatus().total)
        self._lump = Sums()
        self._like, self._load = 0.0, MIN_TRIMMED_LOAD

    def use(self, policy: DropPolicy) -> None:
        """Use another policy; it takes effect within seconds."""
        self._sudden.policy = self._drafting.policy = policy

    def observe(
        self, increment: Sums, steps: DecodeSteps | None = None, load: float | None = None
    ) -> tuple[Drop, ...]:
        """Add an increment of drafts; return the drops that it begins or ends.

        ``steps`` are the decode steps of an engine whose drafting may drop; None if impossible or unknown.
        ``load`` is that of an engine that accepts fewer tokens at a higher one: only like loads are compared.
        """
        if load is not None and increment.units and not self._is_like(load, increment.seconds):
            return ()
        try:
            found = self._sudden.observe(increment), self._observe_steps(increment, steps)
        except ArithmeticError:  # numbers of the restored state contradict each other
            self.start_again()
            return ()
        drops = tuple(drop for drop in found if drop is not None)
        for drop in drops:
            self._counts[drop.kind] = self._counts.get(drop.kind, 0) + (drop.transition is Transition.BEGAN)
        return drops

    def status(self) -> DropStatus:
        """Return the present status."""
        sudden, drops = self._sudden, dict(self._counts)
        detectors = (sudden, self._drafting)
        known = {each.settings.kind: each.dropped for each in detectors}
        dropped = {kind: is_so for kind, is_so in known.items() if is_so is not None and kind in drops}
        live = {each.settings.kind: drop for each in detectors if (drop := each.live()) is not None}
        if not sudden.variances:
            return DropStatus(dropped=dropped, total=drops, live=live)
        baseline, recent = sudden.state.baseline, sudden.recent
        sigma = (baseline.length - recent.length) / sudden.error(recent.units) if recent else None
        stddev = sudden.error(RECENT_SECONDS * baseline.rate)
        return DropStatus(baseline.length, stddev, sigma, dropped, drops, live)

    @property
    def state(self) -> DropState:
        """State to persist; it changes with later increments."""
        return DropState(self._sudden.state, self._drafting.state)

    def restore(self, state: DropState) -> None:
        """Continue from a validated state; start again if its numbers contradict each other."""
        self._lump = Sums()
        try:
            self._sudden.restore(state.sudden)
            self._drafting.restore(state.drafting)
        except ArithmeticError:
            self.start_again()

    def start_again(self) -> None:
        """Reset the baselines; the counts of drops stay."""
        self.restore(DropState())

    def _is_like(self, load: float, seconds: float) -> bool:
        """Return whether a load is like that of the baselines; they start again if the mean has left it."""
        load = max(load, MIN_TRIMMED_LOAD)
        self._load += min(seconds / RECENT_SECONDS, 1.0) * (load - self._load)
        if not self._like:  # the first load, of a restored baseline too
            self._like = self._load = load
        elif not self._like / LIKE_LOAD < self._load < self._like * LIKE_LOAD:
            self._like = self._load = load
            self.start_again()
        return self._like / LIKE_LOAD < load < self._like * LIKE_LOAD

    def _observe_steps(self, increment: Sums, steps: DecodeSteps | None) -> Drop | None:
        """Add the decode steps of an increment; without them the detector of drafting is reset."""
        # Two detectors share the budget of false alarms, unless every step drafts: one has nothing to find.
        detector = self._drafting
        detector.shared_by = self._sudden.shared_by = 1 if steps is None or steps.drafts_always else 2
        if steps is None:
            if detector.state.time.elapsed:
                detector.restore(DetectorState())
            return None
        detector.steps, number, drafts = steps, steps.number, increment.units
        its = Sums(increment.seconds, number, increment.accepted, drafts, drafts, requests=steps.requests)
        if not steps.drafts_always:
            self._counts.setdefault(DropKind.DRAFTING, 0)
            return detector.observe(its)
        if its.drafted > FEW_STEPS * its.units:  # what still drafts is neither a stall nor a pause
            its.partly = its.units
        self._lump.add(its)
        if self._lump.seconds < LUMP_SECONDS:
            return None
        its, self._lump = self._lump, Sums()
        return detector.observe(its)


def drafts_of(increment: Increment) -> Sums:
    """Return the drafts of an increment.

    Σ (accepted tokens)² is Σ (2i+1) a_i over the positions i; at least A without positions.
    """
    positions, (drafts, _, accepted, *_) = increment.positions, increment.counters
    squares = sum(map(mul, _ODD, positions)) if positions else accepted
    return Sums(increment.end - increment.begin, drafts, accepted, squares)
