"""What the page is made of: the API's own models, a trace for each engine, and where the other pages are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

from exporter.analysis.engine import Findings
from exporter.export.models import EngineView, EventView, TargetView
from exporter.export.snapshot import engine_view
from exporter.export.trace import Trace, acceptance_trace


class ShownEngine(NamedTuple):
    """An engine, and what a line is drawn of; None where it was not seen for too long."""

    view: EngineView
    trace: Trace | None

    @classmethod
    def of(cls, labels: Mapping[str, str], findings: Findings, now: float) -> Self:
        """Show an engine at ``now`` (monotonic); ``labels`` are those of its metrics."""
        trace = acceptance_trace(findings.windows[-1], now) if findings.windows else None
        return cls(engine_view(labels, findings), trace)

    @property
    def name(self) -> str:
        """How people call it in a sentence."""
        view = self.view
        return f"{view.model_name} on {view.target}, engine {view.engine}"

    @property
    def words(self) -> dict[str, str]:
        """What a filter looks at: the labels, and the words that we have for it."""
        view = self.view
        return {
            **view.labels,
            "method": view.labels.get("method") or view.method,
            "state": str(view.state),
            "verdict": str(view.verdict),
            "action": str(view.recommendation),
            "dropped": " ".join(kind for kind, is_so in view.drops.dropped.items() if is_so),
        }


@dataclass(frozen=True, slots=True)
class PageData:
    """Everything that the page shows, taken at one moment. Every text may come from a stranger."""

    time: float
    """Unix time."""
    engines: Iterator[ShownEngine]
    """Made one by one, so that the polls have their turn in between."""
    targets: Sequence[TargetView]
    events: Sequence[EventView]
    """The newest last."""
