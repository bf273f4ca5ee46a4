"""What a report is made of, however it is written."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Tone(StrEnum):
    """How something is meant; a terminal shows it as a colour."""

    GOOD = "good"
    FAIR = "fair"
    BAD = "bad"
    NEUTRAL = "neutral"


@dataclass(frozen=True, slots=True)
class Fact:
    """Something with a name that is no number."""

    name: str
    text: str
    foreign: bool = False
    """Whether strangers chose some of the words."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One number with its name."""

    name: str
    value: str
    bounds: str = ""
    """Where it lies with 95 % confidence."""
    meaning: str = ""


@dataclass(frozen=True, slots=True)
class Bar:
    """One row of a chart."""

    label: str
    share: float
    """How long it is, 1 being the longest there can be; what is beyond is cut off."""
    values: tuple[str, ...]
    """One for each of the chart's columns."""
    remark: str = ""
    marked: bool = False
    """Whether it is the row to look at."""
    guessed: bool = False
    """Whether it is extrapolated."""


@dataclass(frozen=True, slots=True)
class Chart:
    """Bars with numbers beside them."""

    heading: str
    """What the labels are."""
    columns: tuple[str, ...]
    bars: tuple[Bar, ...]


@dataclass(frozen=True, slots=True)
class Note:
    """A sentence or two, with what a program calls it."""

    text: str
    name: str = ""
    tone: Tone = Tone.NEUTRAL
    foreign: bool = False
    """Whether strangers chose some of the words, of the name or the text."""


Part = Fact | Figure | Chart | Note


@dataclass(frozen=True, slots=True)
class ReportSection:
    """A part of the report with a title. Without parts it is not shown."""

    title: str
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class EngineReport:
    """What is to be said of one engine."""

    name: str
    """Of the model and the engine: a stranger's words."""
    place: str
    """Of the target: a stranger's words too."""
    word: str
    """The verdict, or the state where that says more."""
    tone: Tone
    gist: str
    """The figure that the verdict rests on, in a few words."""
    verdict: str
    advice: str
    facts: tuple[Fact, ...]
    """How it drafts, and what was seen of it."""
    sections: tuple[ReportSection, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that is to be said of an observation."""

    title: str
    unseen: tuple[Note, ...]
    """The servers of which nothing is to be said, each with the reason: strangers' words in part."""
    engines: tuple[EngineReport, ...]
    events: tuple[Note, ...]
    """What happened meanwhile: strangers' words in part."""
    requests: tuple[ReportSection, ...] = ()
    """What single requests say, one for each model."""
