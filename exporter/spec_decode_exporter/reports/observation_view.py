"""Document of an observation: servers, engines, and the sums over the engines of each model.

``observe --save`` writes it, and ``--against`` compares the figures of its models. Increments of the engines
are added up moment by moment before bounds are computed: an event of all engines counts once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from spec_decode_exporter.analysis.figure_table import COMPARED, Figure, columns_of
from spec_decode_exporter.analysis.knowledge import Knowledge
from spec_decode_exporter.analysis.window_evaluation import WindowEvaluation
from spec_decode_exporter.core.isolation import Isolation
from spec_decode_exporter.core.numbers import Amount
from spec_decode_exporter.figures.estimate import Estimate, estimate_of
from spec_decode_exporter.figures.window_figures import MAX_INCREMENTS
from spec_decode_exporter.monitor.event_log import RecordedEvent
from spec_decode_exporter.views.document import Estimated, View, at, computed
from spec_decode_exporter.views.engine_view import EngineView
from spec_decode_exporter.views.fleet_view import SnapshotView, TargetView
from spec_decode_exporter.window.engine_windows import Window, columns, position_columns
from spec_decode_exporter.window.ring import Increments


# fmt: off
class Measured(Estimated):
    """A figure that has a value; its bounds are null if too few requests passed."""

    value: Amount
    lower: Amount | None = None
    upper: Amount | None = None

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if (self.lower is None) != (self.upper is None):
            raise ValueError("has one bound and not the other")
        if self.lower is not None and self.upper is not None and not self.lower <= self.value <= self.upper:
            raise ValueError("has bounds that do not contain it")
        return self


class ModelView(View):
    """Sums over the engines that serve a model with the same number of draft tokens."""

    model_name: str
    method: str = at("vLLM's name of the method; empty if it is unknown, or if the engines differ.")
    draft_model: str = at("Likewise.")
    server_version: str = at("Likewise.")
    engines: Annotated[int, Field(ge=1)] = at("Number of engines.")
    tokens: int = at("K, the number of draft positions.")
    figures: dict[str, Measured] = at("Figures over the observation that have a value, by key.")
    position_acceptance_ratio: tuple[Measured | None, ...] = at("Share of the drafts that are accepted up to and including the position.")

    @property
    def acceptance(self) -> Measured | None:
        """Acceptance rate; None if nothing was drafted."""
        return self.figures.get("draft_acceptance_ratio")


class ObservationView(SnapshotView):
    """Observation of servers. The last window of each engine covers all of it and is evaluated."""

    seconds: float = at("Length of the observation and of the last window of each engine.")
    targets: tuple[TargetView, ...] = at("Every server, also unreachable ones.")
    events: tuple[RecordedEvent, ...] = at("Events of the observation, oldest first.")

    @computed
    def models(self) -> tuple[ModelView, ...]:
        """Sums over the engines of each model and number of draft tokens: what `--against` compares."""
        groups = defaultdict[tuple[str, int], list[EngineView]](list)
        for engine in self.engines:
            if windows := engine.snapshot.evaluation.windows:
                groups[engine.model_name, len(windows[-1].window.positions)].append(engine)
        view = partial(_model_view, versions={target.target: target.version for target in self.targets})
        return tuple(Isolation().each("report", groups.values(), lambda group: group[0].labels, view))

# fmt: on


def _model_view(engines: Sequence[EngineView], versions: Mapping[str, str]) -> ModelView:
    windows = [engine.snapshot.evaluation.longest.window for engine in engines]
    return ModelView(
        model_name=engines[0].model_name,
        method=_common(engine.method for engine in engines),
        draft_model=_common(engine.draft_model for engine in engines),
        server_version=_common(versions.get(engine.target, "") for engine in engines),
        engines=len(engines),
        **measured(WindowEvaluation(sum_of_windows(windows), Knowledge())),
    )


def _common(texts: Iterable[str]) -> str:
    """Return the text that all engines share; empty if they differ."""
    different = set(texts)
    return different.pop() if len(different) == 1 else ""


def sum_of_windows(engines: Sequence[Window]) -> Window:
    """Return the sum of windows of equal length and end, of one or more engines."""
    if len(engines) == 1:
        return engines[0]
    return Window.side_by_side(engines, _side_by_side([window.increments for window in engines]))


def _side_by_side(engines: Sequence[Increments]) -> Increments:
    """Add increments in equal intervals of time: a simultaneous change of all engines is one event."""
    number = min(MAX_INCREMENTS, max(map(len, engines)))
    begins = [begin for engine in engines for begin in engine.begins]
    start, end = min(begins, default=0.0), max(begins, default=0.0)
    edges = [start + (end - start) / number * place for place in range(number)]
    parts = [engine.between([*engine.places(edges), len(engine)]) for engine in engines]
    columns = range(max(len(part.totals) for part in parts))
    rows = zip(
        *(map(sum, zip(*(part.column(place) for part in parts), strict=True)) for place in columns),
        strict=True,
    )
    return Increments.of([*rows], edges)


def measured(evaluation: WindowEvaluation) -> Mapping[str, Any]:
    """Return the fields of a ``ModelView`` that a window has: K, figures, and positions."""
    shares = evaluation.positions.acceptance or [None] * len(evaluation.positions)
    accepted = position_columns(evaluation.increments, len(shares))
    (drafts,) = columns(evaluation.increments, "drafts")
    return {
        "tokens": len(evaluation.window.positions),
        "figures": {
            figure.key: _with_bounds(value, _bounds(evaluation, figure))
            for figure in COMPARED
            if (value := figure.of(evaluation)) is not None
        },
        "position_acceptance_ratio": tuple(
            share if share is None else _with_bounds(share, evaluation.share_bounds(share, column, drafts))
            for share, column in zip(shares, accepted, strict=True)
        ),
    }


def _with_bounds(value: float, bounds: Estimate | None) -> Measured:
    """Return a value with its bounds, if they are known; they contain it."""
    if bounds is None:
        return Measured(value=value)
    return Measured(value=value, lower=min(value, bounds.lower), upper=max(value, bounds.upper))


def _bounds(evaluation: WindowEvaluation, figure: Figure) -> Estimate | None:
    """Return the bounds of a figure: those of its row if it has some, else those of the ratio of its sums."""
    if figure.bounds is not None:
        return figure.bounds(evaluation)
    if figure.over is None:
        return None
    above, below = (columns_of(evaluation.window, evaluation.increments, name) for name in figure.over)
    return estimate_of(above, below, evaluation.request_cosines, (0.0, figure.highest))
