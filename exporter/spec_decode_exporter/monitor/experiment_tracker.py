"""An experiment that is compared again and again: what is beyond doubt at one look alone is not said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from spec_decode_exporter.analysis.experiments.arm import SpeedupBasis
from spec_decode_exporter.analysis.experiments.experiment import Experiment, Member, compare
from spec_decode_exporter.config.experiment_settings import ExperimentSettings
from spec_decode_exporter.core.persistence_filter import PersistenceFilter


class ExperimentTracker:
    """Says that an arm is faster only once that has stood for a whole longest window."""

    def __init__(self, settings: ExperimentSettings) -> None:
        """Compare the arms of ``settings``, of which nothing is known yet."""
        self.settings = settings
        self._winners: PersistenceFilter[tuple[str, SpeedupBasis]] = PersistenceFilter()
        self._faster: PersistenceFilter[tuple[str, str]] = PersistenceFilter()

    def compare(self, members: Sequence[Member], lengths: Sequence[float], newest: float) -> Experiment:
        """Compare as ``experiment.compare`` does, and leave out what has not stood for long enough yet."""
        found, longest = compare(self.settings, members, lengths, newest), lengths[-1]
        claims = [(name, basis) for name, arm in found.arms.items() for basis, won in arm.wins.items() if won]
        winners = self._winners.look(claims, newest, longest)
        arms = {
            name: replace(arm, wins={basis: (name, basis) in winners for basis in SpeedupBasis})
            for name, arm in found.arms.items()
        }
        return replace(found, arms=arms, faster=self._faster.look(found.faster, newest, longest))
