"""Recognition of servers whose decode steps are unknown, because they count their tokens instead."""

from __future__ import annotations

from spec_decode_exporter.analysis.speculation_state import is_whole
from spec_decode_exporter.figures.latency import counts_tokens_as_steps
from spec_decode_exporter.window.engine_history import EngineHistory


def recognise_steps(history: EngineHistory, seconds: float) -> None:
    """Detect whether this process counts decode steps by tokens, once a window contains no earlier one.

    A server that publishes its steps late is excluded: late steps look the same.

    Args:
        history: History of the engine, which the result is noted in.
        seconds: Length of the window that decides.
    """
    if history.counts_tokens_as_steps or history.late_steps or history.process_seconds < seconds:
        return
    window = history.window(seconds)
    if is_whole(window):
        history.counts_tokens_as_steps = counts_tokens_as_steps(window)
