"""What the page is made of: the API's own models, a trace for each engine, and where the other pages are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Self

from spec_decode_exporter.analysis.verdict import Verdict
from spec_decode_exporter.core.internal_errors import InternalErrors
from spec_decode_exporter.monitor.engine_monitor import EngineSnapshot
from spec_decode_exporter.requests.request_findings import RequestFindings
from spec_decode_exporter.views.engine_view import engine_view
from spec_decode_exporter.views.models import EngineView, EventView, TargetView
from spec_decode_exporter.views.trace import Trace, acceptance_trace
from spec_decode_exporter.web.page.advice import advice
from spec_decode_exporter.web.page.fleet_summary import standing
from spec_decode_exporter.web.page.page_query import Words, folded
from spec_decode_exporter.web.page.words import STATES, VERDICTS

_Whose = tuple[str, str]
"""An engine or a target: which, and its id or name."""


class OmittedEngine(NamedTuple):
    """An engine that could not be shown: an internal error."""

    labels: Mapping[str, str]


class ShownEngine(NamedTuple):
    """An engine, and what a line is drawn of; None where it was not seen for too long."""

    view: EngineView
    trace: Trace | None

    @classmethod
    def of(cls, labels: Mapping[str, str], findings: EngineSnapshot, now: float) -> Self:
        """Show an engine at ``now`` (monotonic); ``labels`` are those of its metrics."""
        trace = acceptance_trace(findings.windows[-1], now) if findings.windows else None
        return cls(engine_view(labels, findings), trace)

    @property
    def name(self) -> str:
        """How people call it in a sentence."""
        view = self.view
        return f"{view.model_name} on {view.target}, engine {view.engine}"

    @property
    def words(self) -> Words:
        """What a filter looks at: the labels, and the words that the page and the API have for it."""
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


@dataclass(frozen=True, slots=True)
class PageData:
    """Everything that the page shows, taken at one moment. Every text may come from a stranger."""

    time: float
    """Unix time."""
    engines: Iterator[ShownEngine | OmittedEngine]
    """Made one by one, so that the polls have their turn in between."""
    targets: Sequence[TargetView]
    events: Sequence[EventView]
    """The newest last."""
    requests: RequestFindings = field(default_factory=RequestFindings)
    errors: InternalErrors = field(default_factory=InternalErrors)
    """Omits what cannot be shown, and logs it once."""
    _places: Mapping[_Whose, list[int]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Note once whose each event is: every row asks."""
        places: dict[_Whose, list[int]] = {}
        for place, event in enumerate(self.events):
            whose = ("target", event.target) if event.engine_id is None else ("engine", event.engine_id)
            places.setdefault(whose, []).append(place)
        object.__setattr__(self, "_places", places)

    def events_of(self, engine: str, target: str) -> list[EventView]:
        """Return what happened to an engine, by its id, and to its target; the newest last."""
        places = [*self._places.get(("engine", engine), ()), *self._places.get(("target", target), ())]
        return [self.events[place] for place in sorted(places)]
