"""JSON models of one engine; ``models`` has all models."""

from __future__ import annotations

from pydantic import Field

from spec_decode_exporter.analysis.cost_source import CostSource
from spec_decode_exporter.drops.drop import DropKind
from spec_decode_exporter.analysis.evaluated_window import Basis
from spec_decode_exporter.findings.finding import FindingName, Severity
from spec_decode_exporter.analysis.integrity import Check
from spec_decode_exporter.analysis.recommendation import Action
from spec_decode_exporter.analysis.speculation_state import State
from spec_decode_exporter.analysis.verdict import Verdict
from spec_decode_exporter.scrape.page.engine_table import Latency
from spec_decode_exporter.views.setting_models import SettingView
from spec_decode_exporter.views.window_models import CountsView, EndToEndView, Estimated, View, WindowView
from spec_decode_exporter.window.increments import Reset


class TotalsView(CountsView):
    """Counts since the exporter first saw the engine, over the server's restarts."""

    covered_seconds: float = Field(description="Time between successful polls, which the counts cover.")


class BucketView(View):
    """The edges of a histogram's bucket, in seconds."""

    lower: float = Field(description="0 for the first bucket.")
    upper: float | None = Field(description="Null for the last bucket, which has no end.")


class QuantilesView(View):
    """Quantiles of one of the server's own histograms, in seconds; null without observations.

    They are interpolated within the server's buckets. Only the bucket of each is certain.
    """

    p50: float | None
    p95: float | None
    p99: float | None
    buckets: dict[str, BucketView] = Field(description="Bucket of each quantile.")


class CostView(View):
    """Cost of drafting in plain decode steps of the target model."""

    draft_cost_ratio: float = Field(description="Cost of one more draft token, drafted and verified.")
    draft_cost_ratio_lower: float = Field(description="Lowest possible cost of a draft token at this load.")
    draft_cost_ratio_upper: float = Field(description="Highest possible cost of a draft token at this load.")
    fixed_cost_ratio: float = Field(
        description="Cost of a step that drafts, independent of its draft tokens."
    )
    source: CostSource
    running_requests: float | None = Field(description="Load at which it is known; null: the present one.")


class BaselineView(View):
    """Newest period in which the target served the model without speculation."""

    name: str = Field(description="Name in a sentence: `3 h without speculation on 12 November`.")
    seconds: float = Field(description="Time with requests that it covers.")
    end: float = Field(description="Unix time of its end.")
    age_seconds: float = Field(description="Time from its end to the newest poll.")
    time_to_first_token_seconds: float | None = Field(
        description="Mean time to first token, queue included; null if unknown."
    )
    prefix_cache_hit_ratio: float | None = Field(
        description="Share of the looked-up prompt tokens that the prefix cache held; null if unknown."
    )
    queue_seconds: float | None = Field(description="Median time in the queue; null if unknown.")


class DepthView(View):
    """Estimated result of another number of draft tokens over the evaluated window: a hypothesis to test."""

    tokens: int
    speedup_ratio: float = Field(description="Speed relative to no speculation.")
    extrapolated: bool = Field(description="Whether it exceeds the engine's present number.")
    recommended: bool = Field(description="Whether it is the recommended number.")
    position_marginal_benefit_ratio: float | None = Field(
        description="Benefit of its last position over its cost; worth drafting above 1."
    )


class FindingView(View):
    """A finding beside the verdict."""

    name: FindingName
    severity: Severity
    values: dict[str, float] = Field(description="Numbers of the finding; each finding has its own names.")
    text: str = Field(description="One or two sentences with these numbers and the remedy.")


class DropsView(View):
    """Acceptance length compared with the engine's baseline."""

    baseline_acceptance_length_tokens: float | None = Field(
        description="Baseline, learned from about the last half hour of drafts."
    )
    baseline_acceptance_length_tokens_stddev: float | None = Field(
        description="Standard deviation of the length over 30 s around the baseline, by chance alone."
    )
    sigma: float | None = Field(
        description="Standard errors by which the length of the last 20 to 25 s is below the baseline."
    )
    dropped: dict[DropKind, bool] = Field(
        description="Whether acceptance is below its baseline, by kind of drop; unknown kinds are absent."
    )
    total: dict[DropKind, int] = Field(description="Number of drops, by kind.")


class EvaluatedView(View):
    """Time that the verdict, the recommendation, the depths and the findings cover."""

    basis: Basis = Field(
        description="`longest`: the longest window. `change`: since the last detected change. `shorter`: a "
        "shorter window that contradicts the longer ones."
    )
    seconds: float = Field(description="Covered seconds.")
    early: bool = Field(description="Whether they are less than half of the longest window.")
    since: float | None = Field(description="Unix time of the last detected change; null for another basis.")
    estimated_speedup_ratio: Estimated
    end_to_end_speedup_ratio: EndToEndView | None = Field(
        description="Speed-up of whole requests; null if it is unknown."
    )
    acceptance_length_tokens: Estimated


class EngineView(View):
    """One engine of one target. The state is of the longest window, the verdict of `evaluated`."""

    id: str = Field(description="Stable while target, model name and engine are the same.")
    target: str = Field(description="The label `target`.")
    model_name: str = Field(description="The label `model_name`, as the server reports it.")
    engine: str = Field(description="The label `engine`: its number among the server's engines.")
    labels: dict[str, str] = Field(description="All labels of its metrics, these three included.")
    state: State
    verdict: Verdict
    verdict_text: str = Field(description="The state and the verdict in one sentence.")
    evaluated: EvaluatedView | None = Field(
        description="Time that the verdict covers; null for an engine that was absent for too long."
    )
    recommendation: Action
    recommendation_text: str = Field(description="The recommendation in one sentence.")
    setting: SettingView = Field(description="The recommendation as a setting of the server.")
    method: str = Field(description="vLLM's name of the method: `eagle3`, `ngram`, …; empty if unknown.")
    method_source: str = Field(
        description="`configured`, `label`, `pod_arguments` or `server_info`; empty if unknown."
    )
    draft_model: str = Field(description="Empty if there is none or it is unknown.")
    configured_tokens: int | None = Field(description="K, the maximum of tokens per draft.")
    recommended_tokens: int | None = Field(description="Recommended draft tokens; 0 is no speculation.")
    cost: CostView | None = Field(description="Null if unknown; then no speed-up is estimated.")
    baseline: BaselineView | None = Field(
        description="Learned while the target served the model without speculation; null without such a time."
    )
    crossover_running_requests: float | None = Field(description="Load at which speculation stops paying.")
    depths: tuple[DepthView, ...] = Field(description="Ascending by tokens; empty without a cost.")
    findings: tuple[FindingView, ...] = Field(description="Faults first, reasons for doubt last.")
    drops: DropsView
    broken_checks: tuple[Check, ...] = Field(description="Identities of the counters that are broken.")
    windows: tuple[WindowView, ...] = Field(
        description="Ascending by length; empty if the engine was absent for too long."
    )
    latency_seconds: dict[Latency, QuantilesView] = Field(
        description="Quantiles of the server's own histograms over the longest window."
    )
    engine_reported_acceptance_ratio: float | None = Field(
        description="Acceptance rate that the engine itself reports, if it has no usable counters."
    )
    engine_reported_acceptance_length_tokens: float | None = Field(
        description="Likewise the acceptance length."
    )
    totals: TotalsView
    resets: dict[Reset, int] = Field(description="Resets of the server's counters, by cause.")
