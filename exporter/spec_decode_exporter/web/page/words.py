"""Words of the page: one table for verdicts, states, actions and advice, and their signs."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from spec_decode_exporter.analysis.verdict import Action, State, Verdict
from spec_decode_exporter.views import verdict_text
from spec_decode_exporter.views.engine_view import EngineView
from spec_decode_exporter.web.page.markup import Markup, joined, tag

NOT_SHOWN: Final = "Cannot be shown: an internal error of the exporter. Its log has the details."
"""Shown in place of an engine, a target or a section that failed."""


class Word(NamedTuple):
    """Word on the page, and its meaning."""

    text: str
    meaning: str


_BASIS: Final = "by the lower bound of the speed-up, which allows for an uncertain cost of drafting."

VERDICTS: Final[Mapping[Verdict, Word]] = {
    Verdict.OPTIMAL: Word("Optimal", f"Speculation pays very well, {_BASIS}"),
    Verdict.HEALTHY: Word("Healthy", f"It pays, {_BASIS}"),
    Verdict.MARGINAL: Word("Marginal", f"It pays a little, {_BASIS}"),
    Verdict.POOR: Word("Poor", "It hardly pays, if at all, by the bounds of the speed-up."),
    Verdict.HARMFUL: Word(
        "Harmful", "Decoding is slower than without speculation, at every possible cost of drafting."
    ),
    Verdict.UNCLEAR: Word(
        "Unclear", "Whether it pays depends on a cost of drafting that is not known well enough."
    ),
    Verdict.INSUFFICIENT: Word("Too early", "Too few drafts, or too uneven ones, for a verdict."),
}

_STATE_WORDS: Final[Mapping[State, str]] = {
    State.ACTIVE: "Active",
    State.IDLE: "Idle",
    State.STALLED: "Stalled",
    State.DISABLED: "Off",
    State.UNKNOWN: "Not known yet",
    State.UNREACHABLE: "Unreachable",
}
_DRAFTS: Final = "It drafts, or will as soon as it finds something to propose."
STATES: Final[Mapping[State, Word]] = {
    state: Word(word, verdict_text.STATES.get(state, _DRAFTS)) for state, word in _STATE_WORDS.items()
}

_BARS: Final[Mapping[Verdict, int]] = {
    Verdict.OPTIMAL: 4,
    Verdict.HEALTHY: 3,
    Verdict.MARGINAL: 2,
    Verdict.POOR: 1,
}
_CROSS: Final = "M4 4L12 12M12 4L4 12"
_QUESTION: Final = "M3.5 8.5H5M7.5 8.5H9M11.5 8.5H13"


def verdict_sign(verdict: Verdict) -> Markup:
    """Draw a verdict as bars, a cross or dots: it is readable without colors."""
    bars = _BARS.get(verdict)
    if bars is None:
        stroke = _CROSS if verdict is Verdict.HARMFUL else _QUESTION
        return _sign(tag("path", class_="stroke", d=stroke), verdict)
    return _sign(joined(_bar(place, full=place < bars) for place in range(len(_BARS))), verdict)


def _bar(place: int, *, full: bool) -> Markup:
    height = 4 + 3 * place
    x, y = 1 + 4 * place, 15 - height
    return tag("rect", class_="full" if full else "empty", x=x, y=y, width=3, height=height, rx=1)


def _sign(drawing: Markup, verdict: Verdict) -> Markup:
    return tag("svg", drawing, class_=f"sign {verdict}", viewbox="0 0 17 16", aria_hidden="true")


def verdict_chip(verdict: Verdict, meaning: str) -> Markup:
    """Return a verdict as sign and word; ``meaning`` is the tooltip."""
    word = tag("span", VERDICTS[verdict].text)
    return tag("span", verdict_sign(verdict), word, class_=f"verdict {verdict}", title=meaning)


def state_word(state: State) -> Markup:
    """Return a state as a word with a dot."""
    word = STATES[state]
    return tag("span", word.text, class_=f"state {state}", title=word.meaning)


class Advice(StrEnum):
    """Relation of the recommended number of draft tokens to the current one; the value is the text."""

    BEST = "is best"
    """The current number is recommended."""
    AS_GOOD = "as good"
    """Another number is recommended, without a gain that justifies a change."""
    TRY = "try"
    """Another number is recommended."""
    LIKELY = "likely best"
    """Another number is the best at the best guess of the cost; the advice is something else."""


_CHANGES: Final = {Action.INCREASE, Action.DECREASE, Action.DISABLE}
"""Advice to draft the recommended number of tokens."""


def advice(view: EngineView) -> Advice | None:
    """Return the advice about K; None without a recommended number."""
    if view.recommended_tokens is None or view.configured_tokens is None:
        return None
    if view.recommended_tokens == view.configured_tokens:
        return Advice.BEST
    if view.recommendation is Action.KEEP:
        return Advice.AS_GOOD
    return Advice.TRY if view.recommendation in _CHANGES else Advice.LIKELY
