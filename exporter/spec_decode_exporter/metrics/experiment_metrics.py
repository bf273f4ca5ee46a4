"""The rows of the catalogue about experiments, and how they read what came of an arm."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from spec_decode_exporter.analysis.experiments.arm_speedup import ArmSpeedup
from spec_decode_exporter.analysis.experiments.experiment import ArmFindings, ArmWindow
from spec_decode_exporter.config.schema import Group
from spec_decode_exporter.config.units import format_duration
from spec_decode_exporter.metrics.metric import Metric, MetricKind, Values

ARM_LABELS: Final = ("experiment", "arm", "baseline")
"""What every metric of an arm carries."""

_row: partial[Metric[ArmFindings]] = partial(Metric, kind=MetricKind.GAUGE, group=Group.EXPERIMENTS)

_WINDOW = "Over a window that the exporter keeps from its own polls."
_TIMES = (
    "vllm:inter_token_latency_seconds, vllm:e2e_request_latency_seconds, vllm:num_requests_running and "
    "vllm:generation_tokens_total"
)

Read = Callable[[ArmFindings], Values]


def _each_window(value: Callable[[ArmWindow], float | None]) -> Read:
    return lambda arm: [((_label(window),), value(window)) for window in arm.windows]


def _speedups(value: Callable[[ArmSpeedup], float | None]) -> Read:
    """Read one number of the speed-up by every basis, for every window in which arms can be compared."""

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
        help="How many times as fast as the baseline the arm is, by the time per output token, the mean "
        "end-to-end latency, or the tokens a second of a running request. Absent where the two do not do the "
        f"same work: see spec_decode_experiment_comparable. {_WINDOW} From {_TIMES}.",
        labels=("window", "basis"),
        read=_speedups(lambda speedup: speedup.value),
    ),
    _row(
        "spec_decode_experiment_speedup_ratio_lower",
        help="The lower 95 % bound of how many times as fast as the baseline the arm is. Absent where too few "
        f"requests pass through either arm to say. {_WINDOW} From {_TIMES}.",
        labels=("window", "basis"),
        read=_speedups(lambda speedup: speedup.estimate.lower if speedup.estimate else None),
    ),
    _row(
        "spec_decode_experiment_speedup_ratio_upper",
        help="The upper 95 % bound of how many times as fast as the baseline the arm is. Absent where too few "
        f"requests pass through either arm to say. {_WINDOW} From {_TIMES}.",
        labels=("window", "basis"),
        read=_speedups(lambda speedup: speedup.estimate.upper if speedup.estimate else None),
    ),
    _row(
        "spec_decode_experiment_comparable",
        help="Whether the arm and the baseline do the same work, condition by condition; if one is 0 there is no "
        "speed-up. Absent where the server does not tell what the condition is about. "
        f"{_WINDOW} From vllm:num_requests_running, vllm:time_to_first_token_seconds_count, "
        "vllm:prompt_tokens_total and vllm:generation_tokens_total.",
        labels=("window", "check"),
        read=_conditions,
    ),
    _row(
        "spec_decode_experiment_winner",
        help="Whether the arm is the fastest beyond doubt: its lower bound is above 1 and above the upper bounds "
        "of all others; the baseline's, if all upper bounds are below 1. Over the longest window that the "
        "exporter keeps from its own polls, and for at least as long without interruption. "
        f"From {_TIMES}.",
        labels=("basis",),
        read=lambda arm: [((str(basis),), float(won)) for basis, won in arm.wins.items()],
    ),
    _row(
        "spec_decode_experiment_acceptance_length_tokens",
        help="Mean tokens that a draft gives, over all engines of the arm, the bonus token included. Absent of "
        f"an arm that drafts nothing. {_WINDOW} From vllm:spec_decode_num_accepted_tokens_total and "
        "vllm:spec_decode_num_drafts_total.",
        labels=("window",),
        read=_each_window(lambda window: window.acceptance_length),
    ),
    _row(
        "spec_decode_experiment_requests",
        help=f"Requests that began on the engines of the arm. {_WINDOW} From "
        "vllm:time_to_first_token_seconds_count.",
        labels=("window",),
        read=_each_window(lambda window: window.requests),
    ),
    _row(
        "spec_decode_experiment_engines",
        help=f"Engines of the arm that were seen in the window; 0 where nothing matches it. {_WINDOW}",
        labels=("window",),
        read=_each_window(lambda window: window.engines),
    ),
)
