"""State of an engine's speculation, independent of its benefit."""

from __future__ import annotations

from enum import StrEnum

from spec_decode_exporter.figures.latency import decoded_tokens
from spec_decode_exporter.figures.server_load import mean
from spec_decode_exporter.scrape.page.engine_table import Counter, Gauge
from spec_decode_exporter.window.ledger import Window

WHOLE_WINDOW = 0.85
"""Share of its length that a whole window covers, to allow for jitter and one or two failed polls."""

STALL_SECONDS = 120.0
"""Seconds of decode steps without a draft that are a stall, or the longest window if that is shorter.

An alert about it fires within three minutes then; the longest window would make it seven.
"""

_DRAFTS_WHAT_IT_FINDS = ("ngram", "suffix")
"""Prefixes of the methods that draft only if text repeats itself: steps without drafts are no fault."""


class State(StrEnum):
    """State of speculation; the value is the ``state`` label."""

    DISABLED = "disabled"
    """The engine does not speculate."""
    UNKNOWN = "unknown"
    """Not known yet: one poll, or a front end that always counts drafts, and has hardly decoded."""
    IDLE = "idle"
    """No drafts and no running requests."""
    ACTIVE = "active"
    """It drafts, or searches for something to draft."""
    STALLED = "stalled"
    """It drafted before and should now, but did not for ``STALL_SECONDS`` of decode steps."""
    UNREACHABLE = "unreachable"
    """Unknown: the engine is gone."""


def state(
    *,
    reachable: bool,
    speculates: bool,
    undecided: bool,
    window: Window,
    recent: Window,
    drafted_before: bool,
    method: str,
    scheduled_off: bool,
    min_drafts: int,
) -> State:
    """Return the state over the longest window.

    Args:
        reachable: Whether the engine is present; otherwise the state is unreachable.
        speculates: Whether the engine counts drafts. If a front end counts them on every engine: whether it
            has positions, or drafted since the server's process began.
        undecided: Whether such a front end has neither drafted nor decoded enough tokens without a draft.
        window: Longest window.
        recent: Window of ``STALL_SECONDS``, or the longest if that is shorter.
        drafted_before: Whether it drafted since the server's process began.
        method: Method in vLLM's spelling; empty if unknown.
        scheduled_off: Whether the schedule has no drafts for the batch size of the recent window.
        min_drafts: Number of decode steps without a draft that may be chance.
    """
    if not reachable:
        return State.UNREACHABLE
    if undecided or (speculates and not window.seconds):
        return State.UNKNOWN
    if not speculates:
        return State.DISABLED
    should_draft = drafted_before and not scheduled_off and not drafts_what_it_finds(method)
    if should_draft and _is_silent(recent) and (_decoded(recent) or 0) > min_drafts:
        return State.STALLED
    return State.ACTIVE if window[Counter.DRAFTS] or _is_busy(window) else State.IDLE


def plain_state(window: Window, *, speculates: bool, undecided: bool) -> State:
    """Return the state of a present engine by the drafts of its longest window alone; see ``state``."""
    if undecided or (speculates and not window.seconds):
        return State.UNKNOWN
    if not speculates:
        return State.DISABLED
    return State.ACTIVE if window[Counter.DRAFTS] else State.IDLE


def drafts_what_it_finds(method: str) -> bool:
    """Return whether a method drafts only if text repeats itself, as n-gram and suffix do."""
    return method.strip("[] ").lower().replace("-", "").startswith(_DRAFTS_WHAT_IT_FINDS)


def is_whole(window: Window) -> bool:
    """Return whether a window covers its length."""
    return window.seconds >= WHOLE_WINDOW * window.length


def _is_silent(window: Window) -> bool:
    return not window[Counter.DRAFTS] and is_whole(window)


def _is_busy(window: Window) -> bool:
    return bool(mean(window, Gauge.RUNNING_REQUESTS) or _decoded(window))


def _decoded(window: Window) -> int | None:
    """Return the decode steps, or their tokens: without drafts, one per step."""
    known = (window[Counter.DECODE_STEPS], decoded_tokens(window), window[Counter.GENERATION_TOKENS])
    return next((count for count in known if count is not None), None)
