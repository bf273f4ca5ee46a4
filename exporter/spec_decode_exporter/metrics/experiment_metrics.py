"""Metrics of the arms of experiments."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from spec_decode_exporter.experiments.arm_speedup import ArmSpeedup
from spec_decode_exporter.experiments.experiment import ArmFindings, ArmWindow
from spec_decode_exporter.config.schema import Group
from spec_decode_exporter.config.units import format_duration
from spec_decode_exporter.figures import series
from spec_decode_exporter.metrics.metric import Metric, MetricKind, Read

ARM_LABELS: Final = ("experiment", "arm", "baseline")
"""Labels of every metric of an arm."""

_row: partial[Metric[ArmFindings]] = partial(Metric, kind=MetricKind.GAUGE, group=Group.EXPERIMENTS)

_TIMES: Final = (
    "vllm:inter_token_latency_seconds",
    "vllm:e2e_request_latency_seconds",
    "vllm:num_requests_running",
    series.GENERATED,
)
_WORK: Final = ("vllm:num_requests_running", series.FIRST, "vllm:prompt_tokens_total", series.GENERATED)


def _each_window(value: Callable[[ArmWindow], float | None]) -> Read[ArmFindings]:
    return lambda arm: [((_label(window),), value(window)) for window in arm.windows]


def _speedups(value: Callable[[ArmSpeedup], float | None]) -> Read[ArmFindings]:
    """Read a number of the speed-up by every basis, for every window in which the arms are comparable."""

    def read(arm: ArmFindings) -> Iterator[tuple[tuple[str, ...], float | None]]:
        for window in arm.windows:
            for basis, speedup in window.speedups.items():
                yield (_label(window), str(basis)), value(speedup)

    return read


def _conditions(arm: ArmFindings) -> Iterator[tuple[tuple[str, ...], float | None]]:
    for window in arm.windows:
        for condition, holds in window.conditions.items():
            yield (_label(window), str(condition)), float(holds)


def _label(window: ArmWindow) -> str:
    return format_duration(window.length)


EXPERIMENT_METRICS: tuple[Metric[ArmFindings], ...] = (
    _row(
        "spec_decode_experiment_speedup_ratio",
        help="Speed of the arm relative to the baseline in the window, by basis; absent if they are not comparable.",
        source=_TIMES,
        labels=("window", "basis"),
        read=_speedups(lambda speedup: speedup.value),
    ),
    _row(
        "spec_decode_experiment_speedup_ratio_lower",
        help="Lower 95 % bound of the speed of the arm relative to the baseline in the window.",
        source=_TIMES,
        labels=("window", "basis"),
        read=_speedups(lambda speedup: speedup.estimate.lower if speedup.estimate else None),
    ),
    _row(
        "spec_decode_experiment_speedup_ratio_upper",
        help="Upper 95 % bound of the speed of the arm relative to the baseline in the window.",
        source=_TIMES,
        labels=("window", "basis"),
        read=_speedups(lambda speedup: speedup.estimate.upper if speedup.estimate else None),
    ),
    _row(
        "spec_decode_experiment_comparable",
        help="Conditions of a comparison with the baseline in the window: 1 holds, 0 prevents a speed-up or a winner.",
        source=_WORK,
        labels=("window", "check"),
        read=_conditions,
    ),
    _row(
        "spec_decode_experiment_winner",
        help="Fastest arm over the longest window, statistically significant (95 %): 1 for the winner, 0 for the others.",
        source=_TIMES,
        labels=("basis",),
        read=lambda arm: [((str(basis),), float(won)) for basis, won in arm.wins.items()],
    ),
    _row(
        "spec_decode_experiment_acceptance_length_tokens",
        help="Mean tokens that a draft of the arm gives in the window, the bonus token included.",
        source=(series.ACCEPTED, series.DRAFTS),
        labels=("window",),
        read=_each_window(lambda window: window.acceptance_length),
    ),
    _row(
        "spec_decode_experiment_requests",
        help="Requests that began on the engines of the arm in the window.",
        source=(series.FIRST,),
        labels=("window",),
        read=_each_window(lambda window: window.requests),
    ),
    _row(
        "spec_decode_experiment_engines",
        help="Engines of the arm in the window; 0 if no engine matches.",
        labels=("window",),
        read=_each_window(lambda window: window.engines),
    ),
)
