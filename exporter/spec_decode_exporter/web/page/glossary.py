"""Glossary: figures, verdicts and states of the page."""

from __future__ import annotations

from functools import cache
from typing import Final

from spec_decode_exporter.web.page.markup import Markup, joined, tag
from spec_decode_exporter.web.page.words import STATES, VERDICTS, state_word, verdict_chip

_FIGURES: Final = (
    ("Acceptance", "Share of the draft tokens that the model accepted. It falls with K."),
    ("Length", "Mean tokens of a draft, bonus token included."),
    ("K", "Number of draft tokens (num_speculative_tokens)."),
    (
        "Tokens/step",
        "Mean tokens of a decode step, with a draft or without: compare engines by it, not by the length.",
    ),
    ("Time/token", "Mean time per output token after the first, weighted by tokens."),
    (
        "Requests",
        "Requests that gain or lose, by type and temperature; shown if requests.ingest is on.",
    ),
    ("Small figures", "95 % bounds, if enough requests passed through the window."),
)


@cache
def glossary() -> Markup:
    """Return the figures, verdicts and states, each with its meaning."""
    figures = [(tag("b", title), text) for title, text in _FIGURES]
    verdicts = [(verdict_chip(verdict, word.meaning), word.meaning) for verdict, word in VERDICTS.items()]
    states = [(state_word(state), word.meaning) for state, word in STATES.items()]
    lists = (_list("Figures", figures), _list("Verdicts", verdicts), _list("States", states))
    inside = tag("div", *lists, class_="glossary")
    summary = tag("summary", tag("h2", "Glossary"))
    note = tag(
        "p",
        "Verdicts and advice use the longest window. The configuration sets the thresholds. More: ",
        tag("a", "what the words and figures mean", href="./docs/explanation/semantics.md"),
        ".",
        class_="note",
    )
    return tag("details", summary, inside, note, id="glossary", class_="other")


def _list(title: str, pairs: list[tuple[Markup, str]]) -> Markup:
    items = (joined((tag("dt", term), tag("dd", meaning))) for term, meaning in pairs)
    return tag("div", tag("h3", title), tag("dl", *items))
