"""What the ledgers hold: the increments of each engine, added up on a grid of time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import floor
from operator import sub, truediv
from typing import Final

from spec_decode_exporter.figures.ratio import ratio
from spec_decode_exporter.scrape.page.engine_table import Counter, Gauge
from spec_decode_exporter.views.engine_view import id_of
from spec_decode_exporter.views.models import HistoryEngineView
from spec_decode_exporter.window.ledger import MEAN_GAUGES, Increments, Window

MOST_STEPS: Final = 720
"""Steps of one engine's history: more than a screen has room for."""
USUAL_STEPS: Final = 60

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
    """The longest window of every engine, those included that were not seen for long."""

    offset: float
    """What makes Unix time of the ledgers' monotonic time."""
    longest: float
    """The length of the windows, in seconds."""
    engines: Sequence[tuple[Mapping[str, str], Window]]


def usual_step(longest: float) -> float:
    """Return the step in which a history of so many seconds is told if nobody names one; whole seconds."""
    return max(1.0, float(-(-longest // USUAL_STEPS)))


def least_step(longest: float) -> float:
    """Return the shortest step, in seconds, that a history of so many seconds may have."""
    return longest / MOST_STEPS


def history_view(labels: Mapping[str, str], window: Window, offset: float, step: float) -> HistoryEngineView:
    """Return an engine's increments in steps of so many seconds.

    Steps begin at multiples of their length in Unix time, so that whoever asks again gets the same ones. An
    increment belongs to the step in which it begins.
    """
    increments = window.increments
    places, times = _steps(increments.begins, offset, step)
    steps, ends = increments.between([*places, len(increments)]), [*places[1:], len(increments)]
    polls = tuple(map(sub, ends, places))
    told = {counter: tuple(steps.counter(counter)) for counter in _COLUMNS if window[counter] is not None}
    return HistoryEngineView(
        id=id_of(labels),
        target=labels["target"],
        model_name=labels["model_name"],
        engine=labels["engine"],
        time=times,
        seconds=tuple(steps.seconds()),
        polls=polls,
        **{counter.name.lower(): told.get(counter) for counter in _COLUMNS},
        running_requests=_running(window, steps, polls),
        **_derived({counter: told.get(counter, (None,) * len(times)) for counter in _COLUMNS}),
    )


def _steps(begins: Sequence[float], offset: float, step: float) -> tuple[list[int], tuple[float, ...]]:
    """Return the place of the first increment of each step that has any, and when these steps begin."""
    numbers = [floor((begin + offset) / step) for begin in begins]
    firsts = {number: place for place, number in reversed(list(enumerate(numbers)))}
    return sorted(firsts.values()), tuple(number * step for number in sorted(firsts))


def _running(window: Window, steps: Increments, polls: Sequence[int]) -> tuple[float, ...] | None:
    if window.gauges[MEAN_GAUGES.index(Gauge.RUNNING_REQUESTS)] is None and len(window.increments):
        return None
    return tuple(map(truediv, steps.gauge(Gauge.RUNNING_REQUESTS), polls))


def _derived(told: Mapping[Counter, Sequence[int | None]]) -> dict[str, tuple[float | None, ...]]:
    accepted, drafts = told[Counter.ACCEPTED_TOKENS], told[Counter.DRAFTS]
    each = zip(told[Counter.GENERATION_TOKENS], told[Counter.FIRST_TOKENS], strict=True)
    decoded = [None if generated is None or first is None else generated - first for generated, first in each]
    return {
        "draft_acceptance_ratio": tuple(map(ratio, accepted, told[Counter.DRAFT_TOKENS])),
        "acceptance_length_tokens": tuple(
            None if tokens is None else 1 + tokens for tokens in map(ratio, accepted, drafts)
        ),
        "effective_tokens_per_step": tuple(
            None if tokens is not None and tokens < 0 else ratio(tokens, steps)
            for tokens, steps in zip(decoded, told[Counter.DECODE_STEPS], strict=True)
        ),
    }
