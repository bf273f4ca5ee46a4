"""How rows of the catalogue read what an engine's judgement and its watch for drops say."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Literal

from spec_decode_exporter.analysis.cost import Cost
from spec_decode_exporter.analysis.depth import Depth
from spec_decode_exporter.analysis.drops.drop import DropStatus
from spec_decode_exporter.analysis.evaluation import Bounds, Evaluation
from spec_decode_exporter.figures.estimate import Estimate
from spec_decode_exporter.metrics.metric import Values
from spec_decode_exporter.metrics.reads import Read, window_label
from spec_decode_exporter.monitor.engine_monitor import EngineSnapshot
from spec_decode_exporter.window.ledger import Window

Side = Literal["lower", "upper"]


def bound(which: Callable[[Bounds], Estimate | None], side: Side) -> Read:
    """Read one side of the bounds, for every window that has them."""

    def read(findings: EngineSnapshot) -> Iterator[tuple[tuple[str, ...], float | None]]:
        for window, bounds in zip(findings.windows, findings.evaluation.bounds, strict=False):
            estimate = which(bounds)
            yield (window_label(window),), None if estimate is None else getattr(estimate, side)

    return read


def each_window_at_cost(formula: Callable[[Window, Cost], float | None]) -> Read:
    """Read a formula that needs the cost, for every window; absent where the cost is unknown."""

    def read(findings: EngineSnapshot) -> Iterator[tuple[tuple[str, ...], float | None]]:
        for window, cost in zip(findings.windows, findings.evaluation.costs, strict=False):
            yield (window_label(window),), None if cost is None else formula(window, cost)

    return read


def long_window_at_cost(formula: Callable[[Window, Cost], float | None]) -> Read:
    """Read a formula that needs the cost for the longest window, without a label that says so."""
    return lambda findings: [((), value) for _, value in list(each_window_at_cost(formula)(findings))[-1:]]


def of_evaluation(value: Callable[[Evaluation], float | None]) -> Read:
    """Read one number of the judgement."""
    return lambda findings: [((), value(findings.evaluation))]


def one_of(members: type[StrEnum], value: Callable[[Evaluation], StrEnum]) -> Read:
    """Read a state set: a series for each member, of which one is 1."""
    return lambda findings: [
        ((str(member),), float(member == value(findings.evaluation))) for member in members
    ]


def engine_info(findings: EngineSnapshot) -> Values:
    """Read what is known of the speculation; unknown is empty."""
    known = findings.speculation
    return [((known.method, known.source, known.draft_model), 1.0)]


def configured_tokens(findings: EngineSnapshot) -> Values:
    """Read K, where it is known."""
    return [((), findings.tokens or None)]


def draft_cost(findings: EngineSnapshot) -> Values:
    """Read what a draft token costs, and where that is known from."""
    cost = findings.evaluation.cost
    return [] if cost is None else [((str(cost.source),), cost.draft_cost_ratio)]


def depth_speedups(findings: EngineSnapshot) -> Iterator[tuple[tuple[str, ...], float | None]]:
    """Read the speed-up of every depth over the longest window."""
    for window in findings.windows[-1:]:
        for depth in findings.evaluation.depths:
            yield (window_label(window), str(depth.tokens), _basis(depth)), depth.speedup


def marginal_benefits(findings: EngineSnapshot) -> Iterator[tuple[tuple[str, ...], float | None]]:
    """Read what each position adds over what it costs, over the longest window."""
    for window in findings.windows[-1:]:
        for position, benefit in enumerate(findings.evaluation.marginal_benefits):
            yield (window_label(window), str(position)), benefit


def recommended_tokens(findings: EngineSnapshot) -> Values:
    """Read how many tokens to draft."""
    depth = findings.evaluation.recommended
    return [] if depth is None else [((_basis(depth),), depth.tokens)]


def of_drops(value: Callable[[DropStatus], float | None]) -> Read:
    """Read one number of the watch for drops."""
    return lambda findings: [((), value(findings.drops))]


def dropped(findings: EngineSnapshot) -> Values:
    """Read whether acceptance is below its baseline, by kind of drop, as far as anybody can say."""
    return [((str(kind),), float(is_so)) for kind, is_so in findings.drops.dropped.items()]


def drops_total(findings: EngineSnapshot) -> Values:
    """Read how often acceptance dropped, by kind."""
    return [((str(kind),), count) for kind, count in findings.drops.drops.items()]


def _basis(depth: Depth) -> str:
    return "extrapolated" if depth.extrapolated else "measured"
