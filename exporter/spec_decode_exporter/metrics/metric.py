"""Row of the metric table: a metric, and how to read it from its subject."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from spec_decode_exporter.analysis.figure_table import LONGEST, Figure, Windows
from spec_decode_exporter.analysis.window_evaluation import WindowEvaluation
from spec_decode_exporter.config.schema import Group, Profile
from spec_decode_exporter.metrics.subject import ENGINE, Parts, Subject

Number = float | None
"""None: the series is left out of the page."""
Numbers = Iterable[tuple[str, Number] | tuple[tuple[str, ...], Number]]
"""Numbers with their own label value, or several."""
Series = tuple[tuple[str, ...], Number]
Kind = Literal["counter", "gauge", "histogram", "unknown"]
"""Type in the exposition formats. Quantiles are ``unknown``, without a count of observations: decision 17."""

_PLACES: Final = {Windows.EACH: slice(None), Windows.SHORTEST: slice(1)}
_LONGEST: Final = slice(-1, None)
"""Windows of a metric among those of its subject."""


@dataclass(frozen=True, slots=True, eq=False)
class Metric:
    """A metric; its name, labels and meaning are a contract with users."""

    group: Group
    profile: Profile
    """Smallest profile with it."""
    name: str
    """Name on the page; a counter's with ``_total``, a histogram's without suffix."""
    help: str
    """One sentence of at most 120 characters: what, over what, unit."""
    read: Callable[[Any], Number | Numbers]
    """Number of the subject, or of each of its windows; with own labels, numbers by label values.

    A histogram has the suffix of its name and its upper bound in place of label values."""
    labels: tuple[str, ...] = ()
    """Own labels beyond those of the subject and of the window."""
    windows: Windows | None = None
    """Windows that have series; None: the subject itself has one."""
    reduced: Windows | None = None
    """Windows in the profiles below ``full``; None: the same."""
    kind: Kind = "gauge"
    subject: Subject = ENGINE
    source: tuple[str, ...] = ()
    """Counters, gauges, settings or fields that it comes from; empty: the exporter's own observation."""

    @property
    def label_names(self) -> tuple[str, ...]:
        """Labels beyond those of the subject, in the order of the values that ``series`` yields."""
        return self.labels if self.windows in {None, Windows.BARE} else ("window", *self.labels)

    @property
    def is_plain(self) -> bool:
        """True if a subject, or each of its windows, has one series."""
        return not self.labels and self.kind != "histogram"

    @property
    def family(self) -> str:
        """Name of its family in OpenMetrics, which for a counter lacks ``_total``."""
        return self.name.removesuffix("_total") if self.kind == "counter" else self.name

    def places(self, view: object, parts: Parts[Any], windows: Windows | None) -> Parts[Any]:
        """Return the subject, or its windows that have series, with the label ``window`` or an empty text."""
        if windows is None:
            return (("", view),)
        chosen = parts[_PLACES.get(windows, _LONGEST)]
        return [("", part) for _, part in chosen] if windows is Windows.BARE else chosen

    def series(self, view: object, parts: Parts[Any], windows: Windows | None) -> Sequence[Series]:
        """Return label values and number of each series of a subject, of these windows alone.

        The metric is not plain: see ``is_plain``.
        """
        found: list[tuple[tuple[str, ...], Any]] = [
            ((label,) if label else (), self.read(part))
            for label, part in self.places(view, parts, windows)
            if part is not None
        ]
        return [
            ((*before, own) if isinstance(own, str) else (*before, *own), number)
            for before, numbers in found
            for own, number in numbers or ()
        ]


def figure_metrics(figures: Sequence[Figure]) -> Iterator[Metric]:
    """Yield the metric of each figure, and those of its bounds."""
    for its in figures:
        name, source, labels = its.metric, its.sources, (its.index,) if its.index else ()
        yield Metric(
            *(its.group, its.profile, name, its.help, _reader(its), labels, its.windows, its.reduced),
            source=source,
        )
        reduced = LONGEST if its.windows is Windows.EACH else None
        for side in ("lower", "upper") if its.bounds else ():
            text, read = f"The {side} 95 % bound of {name} in the window.", _bound_reader(its, side)
            yield Metric(
                *(its.group, its.bounds_profile, f"{name}_{side}", text, read, (), its.windows, reduced),
                source=source,
            )


def _reader(figure: Figure) -> Callable[[WindowEvaluation], Number | Numbers]:
    """Return the function that reads a figure of a window."""
    each = figure.each
    return figure.of if each is None else lambda its: [(str(n), value) for n, value in enumerate(each(its))]


def _bound_reader(figure: Figure, side: str) -> Callable[[WindowEvaluation], Number]:
    return lambda its: getattr(figure.bounds(its) if figure.bounds else None, side, None)
