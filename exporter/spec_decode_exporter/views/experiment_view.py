"""Build the JSON models of experiments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

from spec_decode_exporter.experiments.arm_speedup import ArmSpeedup
from spec_decode_exporter.experiments.experiment import ArmFindings, ArmWindow
from spec_decode_exporter.config.units import format_duration
from spec_decode_exporter.views.experiment_models import (
    ArmFirstTokenView,
    ArmView,
    ArmWindowView,
    ExperimentView,
)
from spec_decode_exporter.views.window_models import Estimated

Arms = Sequence[tuple[Mapping[str, str], ArmFindings]]


def experiments_of(arms: Arms) -> list[tuple[str, str, Arms]]:
    """Return name, baseline and arms of every experiment; ``arms`` are those of a ``Snapshot``."""
    experiments = groupby(arms, lambda arm: (arm[0]["experiment"], arm[0]["baseline"]))
    return [(name, baseline, list(its)) for (name, baseline), its in experiments]


def experiment_view(name: str, baseline: str, arms: Arms) -> ExperimentView:
    """Return the JSON model of an experiment."""
    return ExperimentView(
        experiment=name,
        baseline=baseline,
        arms=tuple(_arm(labels["arm"], findings) for labels, findings in arms),
    )


def _arm(name: str, findings: ArmFindings) -> ArmView:
    return ArmView(arm=name, winner=dict(findings.wins), windows=tuple(map(_window, findings.windows)))


def _window(window: ArmWindow) -> ArmWindowView:
    return ArmWindowView(
        window=format_duration(window.length),
        engines=window.engines,
        requests=window.requests,
        acceptance_length_tokens=window.acceptance_length,
        time_to_first_token_seconds=ArmFirstTokenView(
            mean=window.first_token.mean, p50=window.first_token.p50, p95=window.first_token.p95
        ),
        prefix_cache_hit_ratio=window.first_token.prefix_hit_ratio,
        comparable=dict(window.conditions),
        speedup_ratio={basis: _speedup(each) for basis, each in window.speedups.items()},
    )


def _speedup(speedup: ArmSpeedup) -> Estimated:
    sure = speedup.estimate
    return Estimated(
        value=speedup.value, lower=sure.lower if sure else None, upper=sure.upper if sure else None
    )
