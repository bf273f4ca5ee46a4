"""Build the JSON models of engines from their snapshots."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import zip_longest
from json import dumps
from math import inf
from typing import Final

from spec_decode_exporter.analysis.cost import Cost
from spec_decode_exporter.drops.drop import DropStatus
from spec_decode_exporter.analysis.end_to_end import EndToEnd
from spec_decode_exporter.analysis.evaluation_result import Evaluation
from spec_decode_exporter.learned.plain_period import PlainPeriod
from spec_decode_exporter.figures import latency
from spec_decode_exporter.figures.estimate import Estimate
from spec_decode_exporter.figures.figure import Figure, ListFigure
from spec_decode_exporter.figures.poll_spread import Spread
from spec_decode_exporter.figures.quantiles import LATENCY_QUANTILES, SPREAD_QUANTILES
from spec_decode_exporter.figures.table import shown
from spec_decode_exporter.figures.window_figures import WindowFigures
from spec_decode_exporter.monitor.engine_snapshot import EngineSnapshot
from spec_decode_exporter.scrape.page.engine_table import Counter, Gauge
from spec_decode_exporter.scrape.page.sample import Buckets
from spec_decode_exporter.views.models import (
    BaselineView,
    BucketView,
    CostView,
    CountsView,
    DepthView,
    DropsView,
    EndToEndView,
    EngineView,
    Estimated,
    EvaluatedView,
    FindingView,
    QuantilesView,
    SpreadView,
    TotalsView,
    WindowView,
)
from spec_decode_exporter.views.setting_view import setting_view
from spec_decode_exporter.views.verdict_text import recommendation_text, verdict_text
from spec_decode_exporter.window.ledger import Window

_FIGURES: Final = shown()
_COUNTERS: Final = {
    counter.name.lower(): counter for counter in Counter if counter.name.lower() in CountsView.model_fields
}


def engine_id(target: str, model_name: str, engine: str) -> str:
    """Return the engine's identifier in URLs: 12 hexadecimal digits, equal for equal labels."""
    return blake2b(dumps([target, model_name, engine]).encode(), digest_size=6).hexdigest()


def id_of(labels: Mapping[str, str]) -> str:
    """Return the identifier of an engine by the labels of its metrics."""
    return engine_id(labels["target"], labels["model_name"], labels["engine"])


def engine_view(labels: Mapping[str, str], snapshot: EngineSnapshot) -> EngineView:
    """Return the JSON model of an engine; ``labels`` are those of its metrics."""
    evaluation, known = snapshot.evaluation, snapshot.speculation
    return EngineView(
        id=id_of(labels),
        target=labels["target"],
        model_name=labels["model_name"],
        engine=labels["engine"],
        labels=dict(labels),
        state=evaluation.state,
        verdict=evaluation.verdict,
        verdict_text=verdict_text(snapshot),
        evaluated=_evaluated(snapshot),
        recommendation=evaluation.action,
        recommendation_text=recommendation_text(snapshot),
        setting=setting_view(snapshot),
        method=known.method,
        method_source=known.source,
        draft_model=known.draft_model,
        configured_tokens=snapshot.tokens or None,
        recommended_tokens=evaluation.recommended.tokens if evaluation.recommended else None,
        cost=_cost(evaluation.cost),
        baseline=_baseline(snapshot.baseline),
        crossover_running_requests=evaluation.crossover,
        depths=tuple(_depths(evaluation)),
        findings=tuple(
            FindingView(name=each.name, severity=each.severity, values=dict(each.values), text=each.text)
            for each in evaluation.findings
        ),
        drops=_drops(snapshot.drops),
        broken_checks=tuple(sorted(snapshot.broken)),
        windows=tuple(
            _window(window, request)
            for window, request in zip_longest(snapshot.figures, evaluation.requests)
            if window is not None
        ),
        latency_seconds={name: _quantiles(buckets) for name, buckets in snapshot.latencies.items()},
        engine_reported_acceptance_ratio=snapshot.engine_reported(Gauge.REPORTED_ACCEPTANCE_RATIO),
        engine_reported_acceptance_length_tokens=snapshot.engine_reported(Gauge.REPORTED_ACCEPTANCE_LENGTH),
        totals=_totals(snapshot),
        resets=snapshot.totals.resets,
    )


def counts_view(window: Window) -> CountsView:
    """Return the integers that every number of a window is computed from."""
    return CountsView(**_counts(window.counters), position_accepted_tokens=window.positions)


def _counts(counters: tuple[int | None, ...]) -> dict[str, int | None]:
    return {name: counters[counter] for name, counter in _COUNTERS.items()}


def _totals(snapshot: EngineSnapshot) -> TotalsView:
    totals = snapshot.totals
    return TotalsView(
        **_counts(totals.counters),
        position_accepted_tokens=totals.positions,
        covered_seconds=totals.covered_seconds,
    )


def _window(window: WindowFigures, request: EndToEnd | None) -> WindowView:
    return WindowView.model_validate(
        {
            "window": window.label,
            "seconds": window.window.seconds,
            "polls": window.window.polls,
            "partial": window.window.partial,
            "counts": counts_view(window.window),
            **{figure.key: _value(window, figure) for figure in _FIGURES},
            "end_to_end_speedup_ratio": _end_to_end(request),
            "interval_acceptance_ratio": _spread(window.spread()),
        }
    )


def _value(window: WindowFigures, figure: Figure) -> Estimated | Sequence[float | None] | float | None:
    if isinstance(figure, ListFigure):
        return window.numbers(figure)
    value = window.number(figure)
    return value if figure.bounds is None else _estimated(value, window.bounds(figure))


def _estimated(value: float | None, estimate: Estimate | None) -> Estimated:
    return Estimated(
        value=value,
        lower=estimate.lower if estimate else None,
        upper=estimate.upper if estimate else None,
    )


def _end_to_end(request: EndToEnd | None) -> EndToEndView | None:
    if request is None:
        return None
    bounds = request.bounds
    return EndToEndView(
        value=request.value,
        lower=bounds.lower if bounds else None,
        upper=bounds.upper if bounds else None,
        basis=request.basis,
    )


def _spread(spread: Spread | None) -> SpreadView | None:
    if spread is None:
        return None
    quantiles = {name: spread.quantile(share) for name, share in SPREAD_QUANTILES}
    return SpreadView(**quantiles, min=spread.lowest, max=spread.highest, stddev=spread.standard_deviation())


def _evaluated(snapshot: EngineSnapshot) -> EvaluatedView | None:
    its, figures = snapshot.evaluation.evaluated, snapshot.evaluated
    if its is None or figures is None:
        return None
    return EvaluatedView(
        basis=its.choice.basis,
        seconds=its.choice.window.seconds,
        early=its.choice.is_early,
        since=its.choice.since,
        end_to_end_speedup_ratio=_end_to_end(its.result.request),
        **{
            key: _estimated(figures.value(key), figures.estimate(key))
            for key in ("estimated_speedup_ratio", "acceptance_length_tokens")
        },
    )


def _cost(cost: Cost | None) -> CostView | None:
    if cost is None:
        return None
    return CostView(
        draft_cost_ratio=cost.draft_cost_ratio,
        draft_cost_ratio_lower=cost.low.draft_cost_ratio,
        draft_cost_ratio_upper=cost.high.draft_cost_ratio,
        fixed_cost_ratio=cost.fixed_cost_ratio,
        source=cost.source,
        running_requests=cost.running_requests,
    )


def _baseline(period: PlainPeriod | None) -> BaselineView | None:
    if period is None:
        return None
    request = period.request
    return BaselineView(
        name=period.name,
        seconds=period.seconds,
        end=period.end,
        age_seconds=period.age_seconds,
        time_to_first_token_seconds=request.first_token_seconds if request else None,
        prefix_cache_hit_ratio=request.prefix_hit_ratio if request else None,
        queue_seconds=request.queue_seconds if request else None,
    )


def _depths(evaluation: Evaluation) -> Iterator[DepthView]:
    for depth, benefit in zip_longest(evaluation.depths, evaluation.marginal_benefits):
        yield DepthView(
            tokens=depth.tokens,
            speedup_ratio=depth.speedup,
            extrapolated=depth.extrapolated,
            recommended=evaluation.recommended is not None and depth.tokens == evaluation.recommended.tokens,
            position_marginal_benefit_ratio=benefit,
        )


def _drops(drops: DropStatus) -> DropsView:
    return DropsView(
        baseline_acceptance_length_tokens=drops.baseline_length,
        baseline_acceptance_length_tokens_stddev=drops.baseline_stddev,
        sigma=drops.sigma,
        dropped=dict(drops.dropped),
        total=dict(drops.drops),
    )


def _quantiles(buckets: Buckets) -> QuantilesView:
    edges_of = {name: latency.edges(share, buckets) for name, share in LATENCY_QUANTILES}
    return QuantilesView(
        **{name: latency.quantile(share, buckets) for name, share in LATENCY_QUANTILES},
        buckets={name: _bucket(edges) for name, edges in edges_of.items() if edges is not None},
    )


def _bucket(edges: latency.Edges) -> BucketView:
    return BucketView(lower=edges.lower, upper=edges.upper if edges.upper < inf else None)
