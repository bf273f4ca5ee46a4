"""Histories: the increments of each engine in the ledgers, summed on a time grid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import floor
from operator import sub, truediv
from typing import Final

from spec_decode_exporter.figures.acceptance import mean_acceptance_length, tokens_per_step
from spec_decode_exporter.figures.ratio import ratio
from spec_decode_exporter.scrape.page.engine_table import Counter, Gauge
from spec_decode_exporter.views.engine_view import id_of
from spec_decode_exporter.views.models import HistoryEngineView
from spec_decode_exporter.window.ledger import MEAN_GAUGES, Increments, Window

MAX_STEPS: Final = 720
"""Maximum steps of one engine's history, more than the pixels of a chart."""
DEFAULT_STEPS: Final = 60

_COLUMNS: Final = (
    Counter.DRAFTS,
    Counter.DRAFT_TOKENS,
    Counter.ACCEPTED_TOKENS,
    Counter.GENERATION_TOKENS,
    Counter.FIRST_TOKENS,
    Counter.DECODE_STEPS,
    Counter.DECODE_NANOSECONDS,
)


@dataclass(frozen=True, slots=True)
class Histories:
    """The longest window of every engine, also of an engine that is gone."""

    offset: float
    """Unix time less the ledgers' monotonic time."""
    longest: float
    """The length of the windows, in seconds."""
    engines: Sequence[tuple[Mapping[str, str], Window]]


def default_step(longest: float) -> float:
    """Return the default step of a history of ``longest`` seconds, in whole seconds."""
    return max(1.0, float(-(-longest // DEFAULT_STEPS)))


def min_step(longest: float) -> float:
    """Return the minimum step, in seconds, of a history of ``longest`` seconds."""
    return longest / MAX_STEPS


def history_view(labels: Mapping[str, str], window: Window, offset: float, step: float) -> HistoryEngineView:
    """Return an engine's increments in steps of ``step`` seconds.

    Steps begin at multiples of their length in Unix time, so that repeated requests get the same steps. An
    increment belongs to the step in which it begins.
    """
    increments = window.increments
    places, times = _steps(increments.begins, offset, step)
    steps, ends = increments.between([*places, len(increments)]), [*places[1:], len(increments)]
    polls = tuple(map(sub, ends, places))
    counts = {counter: tuple(steps.counter(counter)) for counter in _COLUMNS if window[counter] is not None}
    return HistoryEngineView(
        id=id_of(labels),
        target=labels["target"],
        model_name=labels["model_name"],
        engine=labels["engine"],
        time=times,
        seconds=tuple(steps.seconds()),
        polls=polls,
        **{counter.name.lower(): counts.get(counter) for counter in _COLUMNS},
        running_requests=_running(window, steps, polls),
        **_derived({counter: counts.get(counter, (None,) * len(times)) for counter in _COLUMNS}),
    )


def _steps(begins: Sequence[float], offset: float, step: float) -> tuple[list[int], tuple[float, ...]]:
    """Return the place of the first increment of each non-empty step, and the begin of these steps."""
    numbers = [floor((begin + offset) / step) for begin in begins]
    firsts = {number: place for place, number in reversed(list(enumerate(numbers)))}
    return sorted(firsts.values()), tuple(number * step for number in sorted(firsts))


def _running(window: Window, steps: Increments, polls: Sequence[int]) -> tuple[float, ...] | None:
    if window.gauges[MEAN_GAUGES.index(Gauge.RUNNING_REQUESTS)] is None and len(window.increments):
        return None
    return tuple(map(truediv, steps.gauge(Gauge.RUNNING_REQUESTS), polls))


def _derived(counts: Mapping[Counter, Sequence[int | None]]) -> dict[str, tuple[float | None, ...]]:
    accepted, drafts = counts[Counter.ACCEPTED_TOKENS], counts[Counter.DRAFTS]
    each = zip(counts[Counter.GENERATION_TOKENS], counts[Counter.FIRST_TOKENS], strict=True)
    decoded = [None if generated is None or first is None else generated - first for generated, first in each]
    return {
        "draft_acceptance_ratio": tuple(map(ratio, accepted, counts[Counter.DRAFT_TOKENS])),
        "acceptance_length_tokens": tuple(map(mean_acceptance_length, accepted, drafts)),
        "effective_tokens_per_step": tuple(map(tokens_per_step, decoded, counts[Counter.DECODE_STEPS])),
    }
