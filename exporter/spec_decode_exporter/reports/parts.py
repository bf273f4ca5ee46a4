"""Parts of a report, independent of the output format."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Tone(StrEnum):
    """Meaning of a text; a terminal shows it as a color."""

    GOOD = "good"
    FAIR = "fair"
    BAD = "bad"
    NEUTRAL = "neutral"


@dataclass(frozen=True, slots=True)
class Fact:
    """A name and a text."""

    name: str
    text: str
    untrusted: bool = False
    """True if the text contains names that servers or users chose."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A name and a number."""

    name: str
    value: str
    bounds: str = ""
    """95 % bounds of the value."""
    meaning: str = ""


@dataclass(frozen=True, slots=True)
class FigureTable:
    """Rows of figures in several columns."""

    columns: tuple[str, ...]
    """Title of each column; that of the first may be empty."""
    rows: tuple[tuple[str, ...], ...]
    """Cells; the first names the row."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One row of a chart."""

    label: str
    share: float
    """Length, at most 1."""
    values: tuple[str, ...]
    """One value for each of the chart's columns."""
    remark: str = ""
    marked: bool = False
    """True if the row is highlighted."""
    guessed: bool = False
    """True if the value is extrapolated."""


@dataclass(frozen=True, slots=True)
class Chart:
    """Bars with numbers beside them."""

    heading: str
    """Title of the labels."""
    columns: tuple[str, ...]
    bars: tuple[Bar, ...]


@dataclass(frozen=True, slots=True)
class Note:
    """A sentence or two, and an optional name."""

    text: str
    name: str = ""
    tone: Tone = Tone.NEUTRAL
    untrusted: bool = False
    """True if name or text contain names that servers or users chose."""


Part = Fact | Figure | FigureTable | Chart | Note


@dataclass(frozen=True, slots=True)
class ReportSection:
    """Parts under a title; a section without parts is omitted."""

    title: str
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class EngineReport:
    """Report of one engine, model or plan."""

    name: str
    """Name of the model and the engine: untrusted text."""
    place: str
    """Name of the target: untrusted text."""
    word: str
    """Badge: the verdict, or the state."""
    tone: Tone
    gist: str
    """The figure behind the verdict, in a few words."""
    verdict: str
    advice: str
    facts: tuple[Fact, ...]
    sections: tuple[ReportSection, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """A report: notes, engines, requests and events."""

    title: str
    missing: tuple[Note, ...]
    """Targets that are not in the report, each with the reason."""
    engines: tuple[EngineReport, ...]
    events: tuple[Note, ...] = ()
    requests: tuple[ReportSection, ...] = ()
    """Single requests, a section for each model."""
    facts: tuple[Fact, ...] = ()
    """Facts about the report as a whole."""
    remarks: tuple[Note, ...] = ()
    """Notes at the end of the report."""
