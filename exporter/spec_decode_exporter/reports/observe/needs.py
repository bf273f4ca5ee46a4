"""Data missing for a verdict, bounds or advice, and the remedy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import ceil
from typing import Final

from spec_decode_exporter.analysis.verdict import WHOLE_WINDOW, State
from spec_decode_exporter.config.types import format_duration
from spec_decode_exporter.reports.parts import Note
from spec_decode_exporter.views.engine_view import EngineView
from spec_decode_exporter.views.window_view import WindowView

_ROUND: Final = 10
"""Estimated times are rounded up to a multiple, in seconds."""
_SPARE: Final = 1.1
"""Margin of an estimated time: the present rate varies."""
_MAX_SECONDS: Final = 86_400.0
"""Longest estimated time; beyond it the advice is more traffic."""

_STATES: Final[Mapping[State, str]] = {
    State.DISABLED: "The server was started without speculation (vLLM's --speculative-config), or does not "
    "count it: there is nothing to evaluate.",
    State.UNKNOWN: "One poll says nothing, and vLLM's Rust front end shows speculation with its first draft: "
    "observe longer, and send a few requests.",
    State.IDLE: "No request ran. Observe while there is traffic, or send some.",
    State.UNREACHABLE: "The server went away. The figures are of the time until then.",
}

Values = Mapping[str, float]


def needs(engine: EngineView, seconds: float) -> Iterator[Note]:
    """Yield the missing data and the remedy; ``seconds`` is the length of the observation."""
    if engine.state in _STATES:
        yield Note(_STATES[engine.state])
    if engine.windows and engine.state not in (State.DISABLED, State.UNKNOWN, State.IDLE):
        yield from _in_the_window(engine, engine.windows[-1], seconds)


def _in_the_window(engine: EngineView, window: WindowView, seconds: float) -> Iterator[Note]:
    values = {finding.name: finding.values for finding in engine.findings}
    doubts = [
        Note(sentence(values[name], window), name) for name, sentence in DOUBTS.items() if name in values
    ]
    yield from doubts
    if window.counts.drafts is None:
        yield Note("The server does not count its drafts, or not in a usable way: nothing is evaluated.")
    elif not window.counts.drafts:
        yield Note("Nothing was drafted, so there is nothing to evaluate.")
    elif window.partial or window.seconds < WHOLE_WINDOW * seconds:
        yield Note(
            f"It was observed for {window.seconds:.0f} of {seconds:.0f} s. A verdict takes half of an "
            f"observation, and advice {100 * WHOLE_WINDOW:.0f} % of it: observe it again, or for longer."
        )


def _few_drafts(values: Values, window: WindowView) -> str:
    drafts, threshold = values["drafts"], values["threshold"]
    return (
        f"{drafts:.0f} drafts; a verdict takes {threshold:.0f}, which is {threshold - drafts:.0f} more. "
        f"{_longer(drafts, threshold, window)}"
    )


def _few_requests(values: Values, window: WindowView) -> str:
    counted, enough = values["counted"], values["threshold"]
    return (
        f"{values['requests']:.1f} requests passed one after the other. They count as {counted:.1f}, because "
        f"the lengths of answers differ. It takes {values['least']:g} for a verdict, and {enough:g} for "
        f"bounds, for the verdict harmful and for advice. {_longer(counted, enough, window)}"
    )


def _wide_bounds(values: Values, _: WindowView) -> str:
    return (
        f"The acceptance length of {values['length']:.2f} lies between {values['lower']:.2f} and "
        f"{values['upper']:.2f}, too wide for a verdict: the requests differ much. Four times as long halves "
        "the distance."
    )


def _longer(present: float, enough: float, window: WindowView) -> str:
    """Advise a length of the observation, extrapolated at the present rate."""
    seconds = window.seconds * enough / present * _SPARE if present else _MAX_SECONDS
    if seconds >= _MAX_SECONDS:
        return "Observe while there is more traffic."
    return f"At this rate that takes --for {format_duration(ceil(seconds / _ROUND) * _ROUND)}."


DOUBTS: Final[Mapping[str, Callable[[Values, WindowView], str]]] = {
    "few_drafts": _few_drafts,
    "few_requests": _few_requests,
    "wide_bounds": _wide_bounds,
}
"""Findings that explain why there is no verdict or advice, with the sentence of each."""
