"""What speculation on an engine does now, whatever it is worth."""

from __future__ import annotations

from enum import StrEnum

from spec_decode_exporter.figures.latency import decoded_tokens
from spec_decode_exporter.figures.server_load import mean
from spec_decode_exporter.scrape.page.engine_table import Counter, Gauge
from spec_decode_exporter.window.ledger import Window

WHOLE_WINDOW = 0.85
"""The share of its length that a window must cover to be whole; jitter and a failed poll or two take some."""

_DRAFTS_WHAT_IT_FINDS = ("ngram", "suffix")
"""How the methods begin that draft only where the text repeats itself: silence is no fault of theirs."""


class State(StrEnum):
    """What speculation does; the value is the ``state`` label."""

    DISABLED = "disabled"
    """The engine does not speculate."""
    IDLE = "idle"
    """There is nothing to draft for: no drafts, nothing running."""
    ACTIVE = "active"
    """It drafts, or will as soon as it finds something to propose."""
    STALLED = "stalled"
    """It drafted before and should now, but has not for a whole long window of decode steps."""
    UNREACHABLE = "unreachable"
    """Nobody knows: the engine was not seen for too long."""


def state(
    *,
    reachable: bool,
    speculates: bool,
    window: Window,
    drafted_before: bool,
    method: str,
    scheduled_off: bool,
    min_drafts: int,
) -> State:
    """Return the state over the longest window.

    Args:
        reachable: The engine was seen lately; otherwise nothing else matters.
        speculates: Drafts are counted. Where a front end counts them on every engine, it shows positions
            or has drafted since the server's process began.
        window: The longest window.
        drafted_before: It drafted since the server's process began.
        method: The method as vLLM spells it; empty where it is not known.
        scheduled_off: No drafts are scheduled for batches as large as the present one.
        min_drafts: So many decode steps without a draft, and no more, may be chance.
    """
    if not reachable:
        return State.UNREACHABLE
    if not speculates:
        return State.DISABLED
    if window[Counter.DRAFTS]:
        return State.ACTIVE
    silence_is_a_fault = drafted_before and not scheduled_off and not drafts_what_it_finds(method)
    if silence_is_a_fault and is_whole(window) and (_decoded(window) or 0) > min_drafts:
        return State.STALLED
    return State.ACTIVE if _is_busy(window) else State.IDLE


def drafts_what_it_finds(method: str) -> bool:
    """Return whether a method drafts only where the text repeats itself, as n-gram and suffix do."""
    return method.strip("[] ").lower().replace("-", "").startswith(_DRAFTS_WHAT_IT_FINDS)


def is_whole(window: Window) -> bool:
    """Return whether a window covers its length."""
    return window.seconds >= WHOLE_WINDOW * window.length


def _is_busy(window: Window) -> bool:
    return bool(mean(window, Gauge.RUNNING_REQUESTS) or _decoded(window))


def _decoded(window: Window) -> int | None:
    """Return the decode steps, or the tokens that they gave: without drafts, one a step."""
    known = (window[Counter.DECODE_STEPS], decoded_tokens(window), window[Counter.GENERATION_TOKENS])
    return next((count for count in known if count is not None), None)
