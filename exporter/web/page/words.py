"""What the page calls things: ONE table for each kind of word, with the sign that is drawn beside it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from exporter.analysis.state import State
from exporter.analysis.verdict import Verdict
from exporter.web.page.markup import Markup, joined, tag


class Word(NamedTuple):
    """What stands on the page, and what it means."""

    text: str
    meaning: str


VERDICTS: Final[Mapping[Verdict, Word]] = {
    Verdict.OPTIMAL: Word("Optimal", "At least twice as fast as without speculation."),
    Verdict.HEALTHY: Word("Healthy", "Clearly faster than without: by 30 % to 100 %."),
    Verdict.MARGINAL: Word("Marginal", "A little faster than without: by 10 % to 30 %."),
    Verdict.POOR: Word("Poor", "Hardly faster than without, if at all."),
    Verdict.HARMFUL: Word("Harmful", "Slower than without speculation, beyond doubt."),
    Verdict.INSUFFICIENT: Word("Too early", "Too little was drafted, or too unevenly, to say."),
}

STATES: Final[Mapping[State, Word]] = {
    State.ACTIVE: Word("Active", "It drafts, or will as soon as it finds something to propose."),
    State.IDLE: Word("Idle", "Nothing is running, so nothing is drafted."),
    State.STALLED: Word("Stalled", "It drafted before, and does not now though it should."),
    State.DISABLED: Word("Off", "The engine does not speculate."),
    State.UNREACHABLE: Word("Unreachable", "The engine was not seen for too long."),
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


def verdict_chip(verdict: Verdict) -> Markup:
    """Return a verdict as sign and word."""
    word = VERDICTS[verdict]
    return tag(
        "span", verdict_sign(verdict), tag("span", word.text), class_=f"verdict {verdict}", title=word.meaning
    )


def state_word(state: State) -> Markup:
    """Return a state as a word with a dot."""
    word = STATES[state]
    return tag("span", word.text, class_=f"state {state}", title=word.meaning)
