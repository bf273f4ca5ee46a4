"""Row of the metric table: a metric, and how to read it from its subject."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

from spec_decode_exporter.analysis.figure_table import FIGURE, Figure
from spec_decode_exporter.analysis.window_evaluation import WindowEvaluation
from spec_decode_exporter.config.schema import Group, Profile
from spec_decode_exporter.metrics.subject import ENGINE, Parts, Subject

Number = float | None  # None: the series is left out of the page
Numbers = Iterable[tuple[str, Number] | tuple[tuple[str, ...], Number]]
"""Numbers with their own label value, or several."""
Kind = Literal["counter", "gauge", "histogram"]
"""Type in the exposition formats. Quantiles are gauges, without a count of observations: decision 17."""
Windows = Literal["each", "longest", "shortest", "bare"]
"""Windows of which a metric has series; ``bare`` is the longest one, without the label ``window``."""
_PLACES: Final = {"each": slice(None), "shortest": slice(1)}
"""Windows of a metric among those of its subject, unless it is the longest."""


@dataclass(frozen=True, slots=True, eq=False)
class Metric:
    """A metric; its name, labels and meaning are a contract with users."""

    group: Group
    profile: Profile  # smallest profile with it
    name: str  # name on the page; a counter's with ``_total``, a histogram's without suffix
    help: str  # one sentence of at most 120 characters: what, over what, unit
    read: Callable[[Any], Number | Numbers]
    """Number of the subject, or of each of its windows; with own labels, numbers by label values.

    A histogram has the suffix of its name and its upper bound in place of label values."""
    labels: tuple[str, ...] = ()  # own labels beyond those of the subject and of the window
    windows: Windows | None = None  # windows that have series; None: the subject itself has one
    reduced: Windows | None = None  # windows in the profiles below ``full``; None: the same
    kind: Kind = "gauge"
    subject: Subject = ENGINE
    source: tuple[str, ...] = ()
    """Counters, gauges, settings or fields that it comes from; empty: the exporter's own observation."""

    @property
    def has_one(self) -> bool:
        """True if each subject, or each of its windows, has at most one series."""
        return not self.labels and self.kind != "histogram"

    @property
    def label_names(self) -> tuple[str, ...]:
        """Labels beyond those of the subject, in the order of the values that ``series`` yields."""
        return self.labels if self.windows in {None, "bare"} else ("window", *self.labels)

    def series(
        self, view: object, parts: Parts[Any], windows: Windows | None
    ) -> Iterator[tuple[tuple[str, ...], Number]]:
        """Yield label values and number of each series of a subject, or of its windows of this kind."""
        chosen = (("", view),) if windows is None else parts[_PLACES.get(windows, slice(-1, None))]
        for label, part in chosen:
            before = () if windows in {None, "bare"} else (label,)
            found: Any = None if part is None else self.read(part)
            if self.has_one:
                yield before, found
                continue
            for own, number in found or ():
                yield (*before, own) if isinstance(own, str) else (*before, *own), number


def figure_metrics(
    group: Group,
    profile: Profile,
    *names: str,
    bounds_profile: Profile = Profile.STANDARD,
    windows: Windows = "each",
    reduced: Windows | None = None,
) -> Iterator[Metric]:
    """Yield the metrics of figures of ``analysis/figure_table.py``, and of their bounds, by their names.

    Below ``full``, bounds are of the longest window alone.
    """
    for name in names:
        base, _, side = name.rpartition("_")
        figure = FIGURE.get(name.removeprefix("spec_decode_"))
        if figure:
            labels, read, text = (figure.index,) if figure.index else (), _reader(figure), figure.help
            kinds = profile, windows, reduced
        else:
            figure, labels = FIGURE[base.removeprefix("spec_decode_")], ()
            text, read = f"The {side} 95 % bound of {base} in the window.", _bound_reader(figure, side)
            kinds = bounds_profile, windows, "longest" if windows == "each" else None
        yield Metric(group, kinds[0], name, text, read, labels, *kinds[1:], source=figure.sources)


def _reader(figure: Figure) -> Callable[[WindowEvaluation], Number | Numbers]:
    """Return the function that reads a figure of a window."""
    each = figure.each
    return figure.of if each is None else lambda its: [(str(n), value) for n, value in enumerate(each(its))]


def _bound_reader(figure: Figure, side: str) -> Callable[[WindowEvaluation], Number]:
    return lambda its: getattr(figure.bounds(its) if figure.bounds else None, side, None)
