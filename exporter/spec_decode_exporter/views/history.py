"""Histories: the increments of each engine, summed on a grid of time, for the API and for the page's lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import floor
from operator import sub, truediv
from typing import Final, NamedTuple

from spec_decode_exporter.figures.estimate import ratio
from spec_decode_exporter.figures.window_figures import acceptance_length
from spec_decode_exporter.monitor.engine_snapshot import id_of
from spec_decode_exporter.views.document import View, at
from spec_decode_exporter.window.history import Window, columns, scaled
from spec_decode_exporter.window.poll import Counters

MAX_STEPS: Final = 720
"""Maximum steps of one engine's history, more than the pixels of a chart."""
DEFAULT_STEPS: Final = 60
TRACE_SECONDS: Final = 300.0
TRACE_PIECES: Final = 60

_COLUMNS: Final = Counters._fields[:7]  # up to the decode time
Column = Sequence[int] | None


# fmt: off
class HistoryEngineView(View):
    """Increments of one engine, summed in steps: columns of equal length, oldest first.

    Steps without a poll are absent. A column is null if the engine does not have the counter.
    """

    id: str = at("As in the snapshot, as are target, model name and engine.")
    target: str
    model_name: str
    engine: str
    time: tuple[float, ...] = at("Unix time at which each step begins, a multiple of it.")
    seconds: tuple[float, ...] = at("Time that the increments of each step cover.")
    polls: tuple[int, ...] = at("Number of increments of each step.")
    drafts: tuple[int, ...] | None
    draft_tokens: tuple[int, ...] | None
    accepted_tokens: tuple[int, ...] | None
    generation_tokens: tuple[int, ...] | None
    first_tokens: tuple[int, ...] | None
    decode_steps: tuple[int, ...] | None
    decode_nanoseconds: tuple[int, ...] | None
    running_requests: tuple[float, ...] | None = at("Means over the polls.")
    draft_acceptance_ratio: tuple[float | None, ...] = at("Null without draft tokens.")
    acceptance_length_tokens: tuple[float | None, ...] = at("The bonus token included.")
    effective_tokens_per_step: tuple[float | None, ...] = at("With a draft or without.")


class HistoryView(View):
    """Histories of engines, as long as the longest window."""

    time: float = at("Unix time of the snapshot.")
    step_seconds: float
    engines: tuple[HistoryEngineView, ...]

# fmt: on


@dataclass(frozen=True, slots=True)
class Histories:
    """The longest window of every engine, also of an engine that is gone."""

    offset: float
    """Unix time less the windows' monotonic time."""
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
    firsts: dict[int, int] = {}
    for place, begin in enumerate(window.increments.begins):
        firsts.setdefault(floor((begin + offset) / step), place)
    steps = window.increments.between([*firsts.values(), len(window.increments)])
    polls, *counts = columns(steps, "polls", *_COLUMNS)
    found: dict[str, Column] = dict(zip(_COLUMNS, counts, strict=True))
    found |= {name: None for name in _COLUMNS if getattr(window.total, name) is None}
    has_load = window.mean.running_requests is not None or not len(window.increments)
    return HistoryEngineView(
        id=id_of(labels),
        **{name: labels[name] for name in ("target", "model_name", "engine")},
        time=[number * step for number in firsts],
        seconds=scaled(steps, "covered_nanoseconds"),
        polls=polls,
        **found,
        running_requests=map(truediv, scaled(steps, "running_requests"), polls) if has_load else None,
        **_ratios(found, len(firsts)),
    )


def _ratios(found: Mapping[str, Column], steps: int) -> dict[str, list[float | None]]:
    unknown: list[int | None] = [None] * steps
    known = {name: column or unknown for name, column in found.items()}
    generated, first = found["generation_tokens"] or (), found["first_tokens"] or ()
    decoded = [tokens if tokens >= 0 else None for tokens in map(sub, generated, first)] or unknown
    return {
        "draft_acceptance_ratio": list(map(ratio, known["accepted_tokens"], known["draft_tokens"])),
        "acceptance_length_tokens": list(map(acceptance_length, known["accepted_tokens"], known["drafts"])),
        "effective_tokens_per_step": list(map(ratio, decoded, known["decode_steps"])),
    }


class Trace(NamedTuple):
    """Acceptance rate in pieces of the last ``seconds``, the oldest first, for a line on the page."""

    seconds: float
    ages: tuple[float, ...]
    """Seconds since the middle of each piece."""
    ratios: tuple[float | None, ...]
    """None without draft tokens."""


def acceptance_trace(window: Window, now: float) -> Trace:
    """Return the last five minutes of a window, or all of a shorter one; ``now`` is monotonic, in seconds.

    Pieces begin at multiples of their length, so that the line moves without jitter. An increment belongs to
    the piece in which it begins.
    """
    seconds = min(TRACE_SECONDS, window.length)
    begins, ages = _pieces(seconds, now)
    places = [*window.increments.places(begins), len(window.increments)]
    ratios = map(ratio, *columns(window.increments.between(places), "accepted_tokens", "draft_tokens"))
    return Trace(seconds, ages, tuple(ratios))


@lru_cache(maxsize=8)  # the lines of a page have the same pieces
def _pieces(seconds: float, now: float) -> tuple[list[float], tuple[float, ...]]:
    """Return begin and age of each piece of the last ``seconds``; the last ends ``now``."""
    step = seconds / TRACE_PIECES
    begins = [(now // step - TRACE_PIECES + piece) * step for piece in range(TRACE_PIECES + 1)]
    return begins, tuple(now - (begin + min(begin + step, now)) / 2 for begin in begins)
