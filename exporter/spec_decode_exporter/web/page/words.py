"""What the page calls things: ONE table for each kind of word, with the sign that is drawn beside it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from spec_decode_exporter.analysis.recommendation import Action
from spec_decode_exporter.analysis.speculation_state import State
from spec_decode_exporter.analysis.verdict import Verdict
from spec_decode_exporter.views import verdict_text
from spec_decode_exporter.web.page.markup import Markup, joined, tag

NOT_SHOWN: Final = "Cannot be shown: an internal error of the exporter. Its log has the details."
"""In the place of an engine, a target or a section that failed."""


class Word(NamedTuple):
    """What stands on the page, and what it means."""

    text: str
    meaning: str


_MADE_OF: Final = "by the speed-up or, where the cost of drafting is unknown, by the acceptance length."

VERDICTS: Final[Mapping[Verdict, Word]] = {
    Verdict.OPTIMAL: Word("Optimal", f"Speculation pays very well, {_MADE_OF}"),
    Verdict.HEALTHY: Word("Healthy", f"It pays, {_MADE_OF}"),
    Verdict.MARGINAL: Word("Marginal", f"It pays a little, {_MADE_OF}"),
    Verdict.POOR: Word("Poor", f"It hardly pays, if at all, {_MADE_OF}"),
    Verdict.HARMFUL: Word("Harmful", "Decoding is slower than without speculation, beyond doubt."),
    Verdict.INSUFFICIENT: Word("Too early", "Too little was drafted, or too unevenly, to say."),
}

_STATE_WORDS: Final[Mapping[State, str]] = {
    State.ACTIVE: "Active",
    State.IDLE: "Idle",
    State.STALLED: "Stalled",
    State.DISABLED: "Off",
    State.UNREACHABLE: "Unreachable",
}
_DRAFTS: Final = "It drafts, or will as soon as it finds something to propose."
STATES: Final[Mapping[State, Word]] = {
    state: Word(word, verdict_text.STATES.get(state, _DRAFTS)) for state, word in _STATE_WORDS.items()
}

ACTIONS: Final[Mapping[Action, str]] = {
    Action.KEEP: "keep it as it is",
    Action.INCREASE: "draft more tokens at a time",
    Action.DECREASE: "draft fewer tokens at a time",
    Action.DISABLE: "switch speculation off",
    Action.LIMIT_BATCH: "speculate only while few requests run",
    Action.SWITCH_METHOD: "draft by another engine's method",
    Action.COLLECT: "none, too little is known",
}
"""What the advice is, where no numbers are at hand."""

_BARS: Final[Mapping[Verdict, int]] = {
    Verdict.OPTIMAL: 4,
    Verdict.HEALTHY: 3,
    Verdict.MARGINAL: 2,
    Verdict.POOR: 1,
}
_CROSS: Final = "M4 4L12 12M12 4L4 12"
_QUESTION: Final = "M3.5 8.5H5M7.5 8.5H9M11.5 8.5H13"


def verdict_sign(verdict: Verdict) -> Markup:
    """Draw a verdict so that it can be told without colours: as bars, a cross, or dots."""
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
    """Return a verdict as sign and word; ``meaning`` is what it says of one engine, or of any."""
    word = tag("span", VERDICTS[verdict].text)
    return tag("span", verdict_sign(verdict), word, class_=f"verdict {verdict}", title=meaning)


def state_word(state: State) -> Markup:
    """Return a state as a word with a dot."""
    word = STATES[state]
    return tag("span", word.text, class_=f"state {state}", title=word.meaning)
