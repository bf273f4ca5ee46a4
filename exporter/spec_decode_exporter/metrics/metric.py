"""Row of the metric table: a metric, and the part of an engine that it reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from spec_decode_exporter.analysis.figure_table import Figure, Windows
from spec_decode_exporter.analysis.window_evaluation import WindowEvaluation
from spec_decode_exporter.monitor.engine_snapshot import EngineSnapshot
from spec_decode_exporter.config.schema import Group, Profile

Number = float | None
"""None: the series is left out of the page."""
Numbers = Iterable[tuple[str, Number] | tuple[tuple[str, ...], Number]]
"""Numbers with their own label value, or several."""
Series = tuple[tuple[str, ...], Number]

EACH = {Windows.EACH: slice(None), Windows.SHORTEST: slice(1)}
"""Windows of a metric in an evaluation; by default the longest."""


@dataclass(frozen=True, slots=True, eq=False)
class Metric:
    """A metric; its name, labels and meaning are a contract with users."""

    profile: Profile
    """Smallest profile with it."""
    group: Group
    name: str
    help: str
    """One sentence of at most 120 characters: what, over what, unit."""
    read: Callable[[Any], Number | Numbers]
    """Number of an engine, or of a window if it has ``windows``; with own labels, numbers by label values."""
    labels: tuple[str, ...] = ()
    """Own labels beyond those of the engine and of the window."""
    windows: Windows | None = None
    reduced: Windows | None = None
    """Windows in the profiles below ``full``; None: the same."""
    kind: str = "gauge"

    @property
    def label_names(self) -> tuple[str, ...]:
        """Labels beyond those of the engine, in the order of the values that ``series`` yields."""
        return self.labels if self.windows in {None, Windows.BARE} else ("window", *self.labels)

    def series(self, engine: EngineSnapshot, *, is_full: bool) -> Iterator[Series]:
        """Yield label values and number of each series of an engine."""
        if self.windows is None:
            yield from self._numbers((), engine)
            return
        windows = self.windows if is_full else self.reduced or self.windows
        for window in engine.evaluation.windows[EACH.get(windows, slice(-1, None))]:
            yield from self._numbers(() if windows is Windows.BARE else (window.label,), window)

    def _numbers(
        self, before: tuple[str, ...], subject: EngineSnapshot | WindowEvaluation
    ) -> Iterator[Series]:
        found: Any = self.read(subject)
        if not self.labels:
            yield before, found
        else:
            for own, number in found or ():
                yield (*before, *((own,) if isinstance(own, str) else own)), number


def figure_metrics(figures: Sequence[Figure]) -> Iterator[Metric]:
    """Yield the metric of each figure, and those of its bounds."""
    for its in figures:
        name, labels = f"spec_decode_{its.key}", (its.index,) if its.index else ()
        yield Metric(its.profile, its.group, name, its.help, reader(its), labels, its.windows, its.reduced)
        for side, (profile, reduced) in (("lower", its.lower), ("upper", its.upper)) if its.bounds else ():
            text = f"The {side} 95 % bound of {name} in the window."
            bound = _bound_reader(its, side)
            yield Metric(profile, its.group, f"{name}_{side}", text, bound, (), its.windows, reduced)


def reader(figure: Figure) -> Callable[[WindowEvaluation], Number | Numbers]:
    """Return the function that reads a figure of a window."""
    each = figure.each
    return figure.of if each is None else lambda its: [(str(n), value) for n, value in enumerate(each(its))]


def _bound_reader(figure: Figure, side: str) -> Callable[[WindowEvaluation], Number]:
    return lambda its: getattr(figure.bounds(its) if figure.bounds else None, side, None)
