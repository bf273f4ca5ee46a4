"""What the words on the page mean, for whoever sees it for the first time."""

from __future__ import annotations

from functools import cache
from typing import Final

from spec_decode_exporter.web.page.markup import Markup, joined, tag
from spec_decode_exporter.web.page.words import STATES, VERDICTS, state_word, verdict_chip

_FIGURES: Final = (
    ("Acceptance", "Of the tokens that were drafted, the share that the model accepted. It falls with K."),
    ("Length", "Tokens that one draft gives, the one that the model always adds included."),
    ("K", "Tokens drafted at a time (num_speculative_tokens)."),
    (
        "Tokens/step",
        "What a decode step really gives, with a draft or without: go by this, not by the length.",
    ),
    ("Time/token", "Mean time per output token after the first, weighted by tokens."),
    (
        "Requests",
        "Which of them gain and which lose, by type and temperature: shown where requests.ingest is on.",
    ),
    ("Small figures", "95 % bounds, where enough requests pass through the window to say."),
)


@cache
def glossary() -> Markup:
    """Return the verdicts, the states and the figures, each with its meaning."""
    figures = [(tag("b", title), text) for title, text in _FIGURES]
    verdicts = [(verdict_chip(verdict, word.meaning), word.meaning) for verdict, word in VERDICTS.items()]
    states = [(state_word(state), word.meaning) for state, word in STATES.items()]
    lists = (_list("Figures", figures), _list("Verdicts", verdicts), _list("States", states))
    inside = tag("div", *lists, class_="glossary")
    summary = tag("summary", tag("h2", "What the words mean"))
    note = tag(
        "p", "Verdicts and advice are of the longest window. Thresholds are configuration.", class_="note"
    )
    return tag("details", summary, inside, note, id="words", class_="other")


def _list(title: str, pairs: list[tuple[Markup, str]]) -> Markup:
    items = (joined((tag("dt", term), tag("dd", meaning))) for term, meaning in pairs)
    return tag("div", tag("h3", title), tag("dl", *items))
