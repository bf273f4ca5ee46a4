"""From an engine's findings to what JSON says of it. The formulas are those of the catalogue's rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from hashlib import blake2b
from itertools import zip_longest
from json import dumps
from math import inf
from typing import Final

from spec_decode_exporter.analysis import speedup
from spec_decode_exporter.analysis.cost import Cost
from spec_decode_exporter.analysis.drops.drop import DropStatus
from spec_decode_exporter.analysis.evaluation import Bounds, Evaluation
from spec_decode_exporter.figures import acceptance, latency, poll_spread, positions, server_load
from spec_decode_exporter.figures.estimate import Estimate
from spec_decode_exporter.metrics.collector import Snapshot
from spec_decode_exporter.metrics.reads import PERCENTILES, SPREAD_PERCENTILES, window_label
from spec_decode_exporter.monitor.engine_monitor import EngineSnapshot
from spec_decode_exporter.scrape.page.engine_table import Counter, Gauge
from spec_decode_exporter.scrape.page.sample import Buckets
from spec_decode_exporter.views.experiment_view import experiment_view, experiments_of
from spec_decode_exporter.views.models import (
    BucketView,
    CostView,
    CountsView,
    DepthView,
    DropsView,
    EngineView,
    Estimated,
    FindingView,
    QuantilesView,
    SnapshotView,
    SpreadView,
    TotalsView,
    WindowView,
)
from spec_decode_exporter.views.verdict_text import recommendation_text, verdict_text
from spec_decode_exporter.window.ledger import Window

_NO_BOUNDS: Final = Bounds(None, None, None)

_COUNTERS: Final = {
    counter.name.lower(): counter for counter in Counter if counter.name.lower() in CountsView.model_fields
}
RATES: Final[Mapping[str, Callable[[Window], int | None]]] = {
    "drafts_per_second": lambda window: window[Counter.DRAFTS],
    "draft_tokens_per_second": lambda window: window[Counter.DRAFT_TOKENS],
    "accepted_tokens_per_second": lambda window: window[Counter.ACCEPTED_TOKENS],
    "rejected_tokens_per_second": acceptance.rejected_tokens,
    "generation_tokens_per_second": lambda window: window[Counter.GENERATION_TOKENS],
    "preemptions_per_second": lambda window: window[Counter.PREEMPTIONS],
}


def engine_id(target: str, model_name: str, engine: str) -> str:
    """Return what names an engine in URLs: 12 hexadecimal digits, the same for the same three labels."""
    return blake2b(dumps([target, model_name, engine]).encode(), digest_size=6).hexdigest()


def id_of(labels: Mapping[str, str]) -> str:
    """Return the id of an engine by the labels of its metrics."""
    return engine_id(labels["target"], labels["model_name"], labels["engine"])


def engine_view(labels: Mapping[str, str], findings: EngineSnapshot) -> EngineView:
    """Return what is to be said of one engine; ``labels`` are those of its metrics."""
    evaluation, known = findings.evaluation, findings.speculation
    return EngineView(
        id=id_of(labels),
        target=labels["target"],
        model_name=labels["model_name"],
        engine=labels["engine"],
        labels=dict(labels),
        state=evaluation.state,
        verdict=evaluation.verdict,
        verdict_text=verdict_text(findings),
        recommendation=evaluation.action,
        recommendation_text=recommendation_text(findings),
        method=known.method,
        method_source=known.source,
        draft_model=known.draft_model,
        configured_tokens=findings.tokens or None,
        recommended_tokens=evaluation.recommended.tokens if evaluation.recommended else None,
        cost=_cost(evaluation.cost),
        crossover_running_requests=evaluation.crossover,
        depths=tuple(_depths(evaluation)),
        findings=tuple(
            FindingView(name=each.name, severity=each.severity, values=dict(each.values), text=each.text)
            for each in evaluation.findings
        ),
        drops=_drops(findings.drops),
        broken_checks=tuple(sorted(findings.broken)),
        windows=tuple(_windows(findings)),
        latency_seconds={name: _quantiles(buckets) for name, buckets in findings.latencies.items()},
        engine_reported_acceptance_ratio=_reported(findings, Gauge.REPORTED_ACCEPTANCE_RATIO),
        engine_reported_acceptance_length_tokens=_reported(findings, Gauge.REPORTED_ACCEPTANCE_LENGTH),
        totals=_totals(findings),
        resets=findings.totals.resets,
    )


def snapshot_view(snapshot: Snapshot, now: float, version: str) -> SnapshotView:
    """Return what is to be said of every engine at ``now`` (Unix time)."""
    engines = tuple(engine_view(labels, findings) for labels, findings in snapshot.engines)
    experiments = tuple(experiment_view(*each) for each in experiments_of(snapshot.experiments))
    return SnapshotView(time=now, version=version, engines=engines, experiments=experiments)


def counts_view(window: Window) -> CountsView:
    """Return the integers behind every number of a window."""
    return CountsView(**_counts(window.counters), position_accepted_tokens=window.positions)


def _counts(counters: tuple[int | None, ...]) -> dict[str, int | None]:
    return {name: counters[counter] for name, counter in _COUNTERS.items()}


def _totals(findings: EngineSnapshot) -> TotalsView:
    totals = findings.totals
    return TotalsView(
        **_counts(totals.counters),
        position_accepted_tokens=totals.positions,
        covered_seconds=totals.covered_seconds,
    )


def _windows(findings: EngineSnapshot) -> Iterator[WindowView]:
    """Show every window, also where a defect of ours left it without a judgement."""
    evaluation = findings.evaluation
    parts = zip_longest(findings.windows, evaluation.bounds, evaluation.costs)
    for window, bounds, cost in parts:
        if window is not None:
            yield _window(window, bounds or _NO_BOUNDS, cost)


def _window(window: Window, bounds: Bounds, cost: Cost | None) -> WindowView:
    length = acceptance.acceptance_length_tokens(window)
    estimated = None if cost is None else speedup.estimated_speedup_ratio(window, cost)
    return WindowView(
        window=window_label(window),
        seconds=window.seconds,
        polls=window.polls,
        partial=window.partial,
        counts=counts_view(window),
        draft_acceptance_ratio=_sure(acceptance.draft_acceptance_ratio(window), bounds.acceptance_ratio),
        acceptance_length_tokens=_sure(length, bounds.acceptance_length),
        estimated_speedup_ratio=_sure(estimated, bounds.speedup),
        speedup_ceiling_ratio=speedup.speedup_ceiling_ratio(window),
        break_even_acceptance_ratio=cost and speedup.break_even_acceptance_ratio(window, cost),
        position_acceptance_ratio=tuple(positions.position_acceptance_ratios(window)),
        position_conditional_acceptance_ratio=tuple(positions.conditional_acceptance_ratios(window)),
        acceptance_decay_ratio=positions.decay_ratio(window),
        accepted_length_ratio=tuple(positions.accepted_length_ratios(window)),
        draft_length_tokens=acceptance.draft_length_tokens(window),
        coverage_ratio=acceptance.coverage_ratio(window),
        effective_tokens_per_step=acceptance.effective_tokens_per_step(window),
        **{name: server_load.per_second(window, count(window)) for name, count in RATES.items()},
        step_seconds=latency.step_seconds(window),
        time_per_output_token_seconds=latency.time_per_output_token_seconds(window),
        running_requests=server_load.mean(window, Gauge.RUNNING_REQUESTS),
        waiting_requests=server_load.mean(window, Gauge.WAITING_REQUESTS),
        kv_cache_usage_ratio=server_load.mean(window, Gauge.KV_CACHE_USAGE),
        prefix_cache_hit_ratio=server_load.prefix_cache_hit_ratio(window),
        interval_acceptance_ratio=_spread(window),
    )


def _sure(value: float | None, estimate: Estimate | None) -> Estimated:
    return Estimated(
        value=value,
        lower=estimate.lower if estimate else None,
        upper=estimate.upper if estimate else None,
    )


def _spread(window: Window) -> SpreadView | None:
    found = poll_spread.spread(window)
    if found is None:
        return None
    percentiles = {name: found.percentile(share) for name, share in SPREAD_PERCENTILES}
    return SpreadView(**percentiles, min=found.lowest, max=found.highest, stddev=found.standard_deviation())


def _cost(cost: Cost | None) -> CostView | None:
    if cost is None:
        return None
    return CostView(
        draft_cost_ratio=cost.draft_cost_ratio,
        fixed_cost_ratio=cost.fixed_cost_ratio,
        source=cost.source,
        running_requests=cost.running_requests,
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
    found = {name: latency.edges(share, buckets) for name, share in PERCENTILES}
    return QuantilesView(
        **{name: latency.quantile(share, buckets) for name, share in PERCENTILES},
        buckets={name: _bucket(edges) for name, edges in found.items() if edges is not None},
    )


def _bucket(edges: latency.Edges) -> BucketView:
    return BucketView(lower=edges.lower, upper=edges.upper if edges.upper < inf else None)


def _reported(findings: EngineSnapshot, gauge: Gauge) -> float | None:
    """Return what the engine itself reports, where it has no counters that can be used."""
    sample = findings.reported
    usable = sample is not None and sample[Counter.DRAFTS] is not None
    return None if sample is None or usable else sample.gauge(gauge)
