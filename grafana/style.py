"""Style of the dashboards: few colours, each with one meaning, and all thresholds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from spec_decode_exporter.views import words


class Colour(StrEnum):
    """Meaning of a colour. Every colour has one."""

    GOOD = "green"
    WATCH = "yellow"
    BAD = "orange"
    HARM = "red"
    UNKNOWN = "#8e8e8e"
    """Off, not known, not enough to say."""
    NOW = "blue"
    """The short window; what is measured."""
    TREND = "purple"
    """The long window; what is expected of the engine; the baseline."""
    FAINT = "#5f87b8"
    """Beside what is measured: bounds, extrapolation."""


class Word(NamedTuple):
    """One value of a state set, as people read it, in its colour."""

    value: str
    """The label's value."""
    text: str
    colour: Colour


Words = Sequence[Word]
"""A state set from the least to the most urgent. A word's number is its place: tables sort by urgency."""

_TONES = {"good": Colour.GOOD, "unsure": Colour.WATCH, "bad": Colour.HARM}


def _words(table: Mapping[Any, words.Word], urgency: str) -> Words:
    """Return the page's words; those of waiting and of being off have the colour of the unknown."""
    named = [(value, table[value]) for value in urgency.split()]
    return [Word(value, word.label.lower(), _TONES.get(word.tone, Colour.UNKNOWN)) for value, word in named]


def _same(**colours: Colour) -> Words:
    """Return words that are read as their values."""
    return [Word(value, value, colour) for value, colour in colours.items()]


VERDICTS = _words(words.VERDICTS, "insufficient unclear optimal healthy marginal poor harmful")
STATES = _words(words.STATES, "disabled unknown idle active stalled unreachable")
_BY_URGENCY = "collect keep measure_cost increase decrease switch_method limit_batch disable"
ACTIONS = _words(words.ACTIONS, _BY_URGENCY)

Steps = Sequence[tuple[float | None, Colour]]
"""Thresholds: each colour holds from its value up; the first has none."""

PLAIN: Steps = ((None, Colour.NOW),)
NEUTRAL: Steps = ((None, Colour.UNKNOWN),)
NONE_IS_GOOD: Steps = ((None, Colour.GOOD), (1, Colour.HARM))
SPEEDUP: Steps = ((None, Colour.HARM), (1.0, Colour.WATCH), (1.1, Colour.GOOD))
"""The verdict's own limits, as they are by default; above the last, speculation pays."""
PAYS: Steps = ((None, Colour.HARM), (1.0, Colour.GOOD))
SHORTER: Steps = ((None, Colour.GOOD), (1.0, Colour.HARM))
"""Ratio of a time to that without speculation."""
AGAINST_BASELINE: Steps = ((None, Colour.HARM), (0.95, Colour.UNKNOWN), (1.05, Colour.GOOD))
"""The alert about a slower arm has the same limit; the baseline itself is 1."""
COMPARABLE: Steps = ((None, Colour.BAD), (0.67, Colour.GOOD), (1.5, Colour.BAD))
"""The load up to which the recording rules compare arms, and one over it."""
UNLIKE: Steps = ((None, Colour.GOOD), (1.1, Colour.WATCH), (1.25, Colour.BAD))
"""The largest factor between the traffic of two arms."""
AGE_SECONDS: Steps = ((None, Colour.GOOD), (10, Colour.WATCH), (60, Colour.HARM))
SHARE_OF_SERVER: Steps = ((None, Colour.GOOD), (0.01, Colour.WATCH), (0.05, Colour.HARM))

QUANTILES: Mapping[str, str] = {"0.5": "#8ab8ff", "0.95": "#3274d9", "0.99": "#1250b0"}
"""The same thing, ever rarer: one colour, ever darker."""

SEVERITIES = _same(info=Colour.NOW, warning=Colour.BAD, critical=Colour.HARM)
YES_NO: Words = (Word("0", "no", Colour.HARM), Word("1", "yes", Colour.GOOD))
HOLDS: Words = (Word("0", "broken", Colour.HARM), Word("1", "holds", Colour.GOOD))
WINS: Words = (Word("0", "not shown", Colour.UNKNOWN), Word("1", "fastest", Colour.GOOD))
EFFECTS = _same(unclear=Colour.UNKNOWN, gains=Colour.GOOD, loses=Colour.HARM)
DROPPED: Words = (Word("0", "steady", Colour.GOOD), Word("1", "dropped", Colour.HARM))

Mapped = dict[str, Any]
"""How values are shown, as Grafana's JSON has it."""
FACTOR: Mapped = {"unit": "suffix:\u00d7"}
"""The unit of a speed-up."""
TIMES: Mapped = {**FACTOR, "decimals": 2}
PERCENT: Mapped = {"unit": "percentunit", "decimals": 0}
SECONDS: Mapped = {"unit": "s", "decimals": 1}
COUNT: Mapped = {"decimals": 0}
TOKENS_A_SECOND: Mapped = {"unit": "suffix: tok/s", "decimals": 0}

BY_THRESHOLDS: Mapped = {"mode": "thresholds"}
BY_NAME: Mapped = {"mode": "palette-classic-by-name"}
"""Of series that differ by name, of which none is better than another."""


def thresholds(steps: Steps) -> Mapped:
    """Return the steps as Grafana wants them."""
    return {"mode": "absolute", "steps": [{"value": value, "color": colour} for value, colour in steps]}


def mappings(words: Words, *, named: bool = False) -> list[Mapped]:
    """Return how the words' numbers are shown; ``named``: how their values, where a column holds these."""
    options = {
        word.value if named else str(number): {"text": word.text, "color": word.colour, "index": number}
        for number, word in enumerate(words)
    }
    return [{"type": "value", "options": options}]


def nothing(**text: str) -> Mapped:
    """Return how no value is shown, by default as what the panel says without data.

    It would have the colour of the lowest threshold otherwise.
    """
    shown = {**text, "color": Colour.UNKNOWN, "index": 0}
    return {"type": "special", "options": {"match": "null+nan", "result": shown}}


def fixed(colour: str, mode: str = "fixed") -> Mapped:
    """Return the way to paint everything in one colour, or in ``shades`` of it."""
    return {"mode": mode, "fixedColor": colour}
