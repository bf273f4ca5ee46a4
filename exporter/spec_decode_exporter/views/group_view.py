"""Group engines by labels: sums of their counters, and ratios of these sums."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, InstanceOf

from spec_decode_exporter.analysis.figure_table import FIGURES, Figure, GroupSum
from spec_decode_exporter.analysis.verdict import Verdict
from spec_decode_exporter.analysis.window_evaluation import WindowEvaluation
from spec_decode_exporter.monitor.engine_snapshot import EngineSnapshot
from spec_decode_exporter.views.document import View, at, fact
from spec_decode_exporter.views.engine_view import id_of
from spec_decode_exporter.views.window_view import CountsView, counts, figure_field
from spec_decode_exporter.window.history import Window
from spec_decode_exporter.window.poll import Counters

Engines = Sequence[tuple[Mapping[str, str], EngineSnapshot]]
Members = Sequence[WindowEvaluation]


class _GroupWindow(View):
    """A window of a group of engines. Ratios are ratios of sums, of engines with both counters."""

    members: Annotated[tuple[InstanceOf[WindowEvaluation], ...], Field(exclude=True)]

    @fact
    def window(self) -> str:
        """Name and length of the window, as in the label `window`."""
        return self.members[0].label

    @fact
    def engines(self) -> int:
        """Number of its engines with this window: those polled recently."""
        return len(self.members)

    @fact
    def counts(self) -> CountsView:
        """Sums over the engines that have the counter; those of positions only of equal K."""
        totals = zip(*(its.total for its in self.members), strict=True)
        same = _of_equal_tokens(self.members)
        positions = Window.over_time([its.window for its in same]).positions if same else ()
        return CountsView(**counts(Counters(*map(_sum_of_known, totals)), positions))


def _figures() -> Iterator[tuple[str, Any]]:
    """Yield the fields of the figures: ratios of sums first, then sums."""
    for figure in sorted(
        (each for each in FIGURES if each.groups), key=lambda each: each.groups is GroupSum.SUM
    ):
        yield figure.key, figure_field(figure, *_reader(figure))


def _reader(figure: Figure) -> tuple[Callable[[Any], object], object, str]:
    each = figure.each
    if each is not None:
        return lambda group: _listed(each, group.members), tuple[float | None, ...], " Empty if K differs."
    if figure.groups is GroupSum.SUM:
        note = " Sum over the engines."
        return lambda group: _sum_of_known(map(figure.of, group.members)), float | None, note
    return lambda group: _ratio(figure, group.members), float | None, ""


def _ratio(figure: Figure, members: Members) -> float | None:
    """Return the formula on the sums of the engines that have all of its counters."""
    counted = [
        its for its in members if all(getattr(its.total, name) is not None for name in figure.counters)
    ]
    return figure.of(_added(counted)) if counted else None


def _listed(
    formula: Callable[[WindowEvaluation], Sequence[float | None]], members: Members
) -> tuple[float | None, ...]:
    same = _of_equal_tokens(members)
    return tuple(formula(_added(same))) if same else ()


def _of_equal_tokens(members: Members) -> Members:
    """Return the windows with positions; none if their K differs, since positions are then not comparable."""
    counted = [its for its in members if len(its.positions) and its.total.drafts is not None]
    return counted if len({len(its.positions) for its in counted}) == 1 else ()


def _added(members: Members) -> WindowEvaluation:
    return WindowEvaluation(Window.over_time([its.window for its in members]), members[0].known)


def _sum_of_known(values: Iterable[Any]) -> Any:  # noqa: ANN401  a sum of integers is one, and one of floats too
    known = [value for value in values if value is not None]
    return sum(known) if known else None


if TYPE_CHECKING:
    GroupWindowView = _GroupWindow
else:
    GroupWindowView = type(
        "GroupWindowView",
        (_GroupWindow,),
        {**dict(_figures()), "__doc__": _GroupWindow.__doc__, "__module__": __name__},
    )


class GroupView(View):
    """Engines with equal values of the labels in `group_by`."""

    labels: dict[str, str] = at("These labels; empty if an engine does not have the label.")
    engines: tuple[str, ...] = at("Identifiers of its engines.")
    verdicts: dict[Verdict, int] = at("Number of engines by verdict.")
    windows: tuple[GroupWindowView, ...] = at("Ascending by length.")


def grouped(engines: Engines, names: Sequence[str]) -> list[tuple[Mapping[str, str], Engines]]:
    """Return the engines of each combination of the values of the labels ``names``, with that combination."""
    groups: dict[tuple[str, ...], list[tuple[Mapping[str, str], EngineSnapshot]]] = defaultdict(list)
    for labels, snapshot in engines:
        groups[tuple(labels.get(name, "") for name in names)].append((labels, snapshot))
    return [(dict(zip(names, values, strict=True)), groups[values]) for values in sorted(groups)]


def group_view(labels: Mapping[str, str], members: Engines, windows: Sequence[str] = ()) -> GroupView:
    """Return the sums over a group's engines and the ratios of these sums; ``windows`` are all if empty."""
    by_length: dict[float, list[WindowEvaluation]] = defaultdict(list)
    for _, snapshot in members:
        for its in snapshot.evaluation.windows:
            if not windows or its.label in windows:
                by_length[its.window.length].append(its)
    return GroupView(
        labels=dict(labels),
        engines=tuple(id_of(labels) for labels, _ in members),
        verdicts=dict(Counter(snapshot.evaluation.verdict for _, snapshot in members)),
        windows=tuple(GroupWindowView(members=tuple(by_length[length])) for length in sorted(by_length)),
    )
