"""Row types of the figure table: a figure of a window, and the places that show it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from math import inf
from typing import Protocol

from spec_decode_exporter.config.schema import Group
from spec_decode_exporter.figures.decode_work import DraftCost
from spec_decode_exporter.figures.estimate import Estimate
from spec_decode_exporter.figures.terms import CounterTerm, Term
from spec_decode_exporter.scrape.page.engine_table import Counter
from spec_decode_exporter.window.ledger import Window


class Stability(StrEnum):
    """Promise to users of a metric."""

    STABLE = "stable"
    """The name, the labels and the meaning stay within a major version."""
    EXPERIMENTAL = "experimental"
    """May change with a minor version; the changelog lists the change."""


class Unit(Enum):
    """Unit of a figure; pages and reports choose the number format by it."""

    SHARE = auto()
    """A part of a whole, between 0 and 1."""
    FACTOR = auto()
    """A speed relative to another."""
    NUMBER = auto()
    """A dimensionless number of the size of a few."""
    TOKENS = auto()
    SECONDS = auto()
    PER_SECOND = auto()
    REQUESTS = auto()


class MetricWindows(Enum):
    """Windows of which a figure's metric has series."""

    EACH = auto()
    LONGEST = auto()
    LONGEST_UNLABELED = auto()
    """The longest window, without the label ``window``."""


class GroupSum(Enum):
    """Computation of a figure for a group of engines."""

    RATIO_OF_SUMS = auto()
    """The formula on the summed counters of the engines that have all of them."""
    SUM = auto()
    """The sum of the engines' values."""


class WindowBounds(Protocol):
    """95 % bounds of a window's figures; None for a figure without bounds."""

    @property
    def acceptance_ratio(self) -> Estimate | None:
        """Bounds of the acceptance rate."""

    @property
    def acceptance_length(self) -> Estimate | None:
        """Bounds of the acceptance length."""

    @property
    def speedup(self) -> Estimate | None:
        """Bounds of the estimated speed-up."""

    @property
    def break_even_cost(self) -> Estimate | None:
        """Bounds of the break-even cost."""


@dataclass(frozen=True, slots=True)
class ReportLine:
    """Line of a figure in the report of ``observe``, or row in the tables of ``observe --against``."""

    section: str
    """Title of the section or table; empty: measured and compared, in JSON alone."""
    name: str = ""
    meaning: str = ""
    place: int = 100
    """Rank within its section; lines of equal rank stand in the order of the table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureRow:
    """Columns of every row. The metric of a figure is ``spec_decode_<key>``, its JSON field ``<key>``."""

    key: str
    label: str
    """Name on the page."""
    description: str
    """HELP of the metric and description of the JSON field: one sentence, at most 120 characters."""
    unit: Unit
    source: tuple[str, ...]
    """vLLM series that it is computed from."""
    group: Group | None
    """Group of its metric; None: no metric and no JSON field, for comparisons alone."""
    numerator: Term | None = None
    denominator: Term | None = None
    counts: str = "of"
    """Words between the counts of numerator and denominator on the page."""
    required: tuple[Counter, ...] = ()
    """Counters, beside those of the terms, that an engine must have to be part of a group's ratio."""
    windows: MetricWindows = MetricWindows.EACH
    stability: Stability = Stability.STABLE
    in_groups: GroupSum | None = None
    report: ReportLine | None = None
    """Line in the report of ``observe``."""
    comparison: ReportLine | None = None
    """Row in the tables of ``observe --against``; None: the figure is not measured for references."""

    @property
    def metric(self) -> str:
        """Name of its metric."""
        return f"spec_decode_{self.key}"

    @property
    def counters(self) -> tuple[Counter, ...]:
        """Counters that an engine must have to be part of a group's ratio."""
        terms = (term for term in (self.numerator, self.denominator) if isinstance(term, CounterTerm))
        return (*self.required, *(counter for term in terms for counter in term.counters))


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalarFigure(FigureRow):
    """A figure of one number."""

    formula: Callable[[Window, DraftCost | None], float | None]
    """Its value; the cost of drafting is None if unknown."""
    bounds: Callable[[WindowBounds], Estimate | None] | None = None
    """Its 95 % bounds; None: it has none."""
    highest: float = inf
    """Highest possible value, which limits its bounds in comparisons."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListFigure(FigureRow):
    """A figure of one number for each draft position, or for each accepted length."""

    formula: Callable[[Window], Sequence[float | None]]
    index: str
    """Metric label of the place in the list."""


Figure = ScalarFigure | ListFigure
"""A row of the figure table."""


def of_window(
    formula: Callable[[Window], float | None],
) -> Callable[[Window, DraftCost | None], float | None]:
    """Return a figure's formula that needs no cost."""
    return lambda window, _: formula(window)


def at_cost(
    formula: Callable[[Window, DraftCost], float | None],
) -> Callable[[Window, DraftCost | None], float | None]:
    """Return a figure's formula that needs the cost; its value is absent if the cost is unknown."""
    return lambda window, cost: None if cost is None else formula(window, cost)
