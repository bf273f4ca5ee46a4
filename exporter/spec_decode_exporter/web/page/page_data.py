"""Data of the page: the models of the API, and a trace of each engine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Self

from spec_decode_exporter.analysis.verdict import Verdict
from spec_decode_exporter.core.isolation import Isolation
from spec_decode_exporter.monitor.engine_snapshot import EngineSnapshot
from spec_decode_exporter.requests.findings import RequestFindings
from spec_decode_exporter.views.engine_view import EngineView
from spec_decode_exporter.views.experiment_view import ExperimentView
from spec_decode_exporter.views.fleet_view import EventView, TargetView
from spec_decode_exporter.views.history import Trace, acceptance_trace
from spec_decode_exporter.web.page.fleet_summary import standing
from spec_decode_exporter.web.page.page_query import Words, folded
from spec_decode_exporter.web.page.words import STATES, VERDICTS, advice

_Subject = tuple[str, str]
"""``engine`` or ``target``, and its id or name."""


class OmittedEngine(NamedTuple):
    """Engine that could not be shown because of an internal error."""

    labels: Mapping[str, str]


class ShownEngine(NamedTuple):
    """Engine and its acceptance over time; None without a window."""

    view: EngineView
    trace: Trace | None

    @classmethod
    def of(cls, labels: Mapping[str, str], snapshot: EngineSnapshot, now: float) -> Self:
        """Return an engine at ``now`` (monotonic) with the labels of its metrics."""
        windows = snapshot.evaluation.windows
        trace = acceptance_trace(windows[-1].window, now) if windows else None
        return cls(EngineView(labels=labels, snapshot=snapshot), trace)

    @property
    def name(self) -> str:
        """Name of the engine in a sentence."""
        view = self.view
        return f"{view.model_name} on {view.target}, engine {view.engine}"

    @property
    def words(self) -> Words:
        """Words that a filter matches: labels, and the terms of the page and the API."""
        return folded((*self.view.labels.items(), *_words(self.view)))


def _words(view: EngineView) -> Iterator[tuple[str, str]]:
    yield "engine", f"engine {view.engine}"
    yield "method", view.method
    yield "state", str(view.state)
    yield "state", STATES[view.state].text
    yield "verdict", str(view.verdict)
    if isinstance(standing(view), Verdict):
        yield "verdict", VERDICTS[view.verdict].text
    yield "action", str(view.recommendation)
    yield "action", str(advice(view) or "")
    dropped = [str(kind) for kind, is_so in view.drops.dropped.items() if is_so]
    yield from (("dropped", kind) for kind in (*dropped, *(["dropped now"] if dropped else [])))


def shown_engine(
    labels: Mapping[str, str], snapshot: EngineSnapshot, now: float, errors: Isolation
) -> ShownEngine | OmittedEngine:
    """Return an engine at ``now`` (monotonic), or its labels if an internal error omits it."""
    return errors.attempt("page", labels, lambda: ShownEngine.of(labels, snapshot, now)) or OmittedEngine(
        labels
    )


@dataclass(frozen=True, slots=True)
class PageData:
    """Content of the page at one moment. Every text is untrusted."""

    time: float
    """Unix time."""
    engines: Iterator[ShownEngine | OmittedEngine]
    """Built one by one: polls run in between."""
    targets: Sequence[TargetView]
    events: Sequence[EventView]
    """Events, the newest last."""
    requests: RequestFindings = field(default_factory=RequestFindings)
    experiments: Sequence[ExperimentView] = ()
    errors: Isolation = field(default_factory=Isolation)
    """Omits parts that cannot be shown, and logs each once."""
    problem: str = ""
    """Sentence about a problem of the exporter itself; empty without one."""
    _places: Mapping[_Subject, list[int]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Index the events by engine and target: every row uses the index."""
        places: dict[_Subject, list[int]] = {}
        for place, event in enumerate(self.events):
            subject = ("target", event.target) if event.engine_id is None else ("engine", event.engine_id)
            places.setdefault(subject, []).append(place)
        object.__setattr__(self, "_places", places)

    def events_of(self, engine: str, target: str) -> list[EventView]:
        """Return the events of an engine, by its id, and of its target; the newest last."""
        places = [*self._places.get(("engine", engine), ()), *self._places.get(("target", target), ())]
        return [self.events[place] for place in sorted(places)]
