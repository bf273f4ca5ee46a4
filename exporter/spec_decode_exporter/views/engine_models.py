"""What JSON says of one engine; see ``models``, which has these and the others."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from spec_decode_exporter.analysis.cost import CostSource
from spec_decode_exporter.analysis.drops.drop import DropKind
from spec_decode_exporter.analysis.finding import FindingName, Severity
from spec_decode_exporter.analysis.integrity import Check
from spec_decode_exporter.analysis.recommendation import Action
from spec_decode_exporter.analysis.speculation_state import State
from spec_decode_exporter.analysis.verdict import Verdict
from spec_decode_exporter.scrape.page.engine_table import Latency
from spec_decode_exporter.window.increments import Reset


class View(BaseModel):
    """What all models have in common."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Estimated(View):
    """A value with its 95 % bounds."""

    value: float | None = Field(description="Null where the window has nothing to make it of.")
    lower: float | None = Field(description="Null where too few requests pass through the window to say.")
    upper: float | None = Field(description="Null just where `lower` is.")


class CountsView(View):
    """How far the engine's counters moved. A counter that the engine does not have is null."""

    drafts: int | None = Field(description="Drafts.")
    draft_tokens: int | None = Field(description="Tokens drafted.")
    accepted_tokens: int | None = Field(description="Draft tokens accepted.")
    position_accepted_tokens: tuple[int, ...] = Field(
        description="Draft tokens accepted at each of the K draft positions; empty where K is unknown or 0."
    )
    generation_tokens: int | None = Field(description="Tokens generated.")
    first_tokens: int | None = Field(description="First tokens of requests, which no decode step gives.")
    decode_steps: int | None = Field(description="Decode steps, counted once for each running request.")
    decode_nanoseconds: int | None = Field(description="Time that requests spent in decode steps.")
    preemptions: int | None = Field(description="Preemptions.")
    prefix_cache_queries: int | None = Field(description="Prompt tokens looked up in the prefix cache.")
    prefix_cache_hits: int | None = Field(description="Prompt tokens found there.")


class TotalsView(CountsView):
    """Everything counted since the exporter first saw the engine, over the server's restarts."""

    covered_seconds: float = Field(description="The time between successful polls: what the counts cover.")


class SpreadView(View):
    """How the polls of a window differ in their acceptance rate. Over polls, not over requests."""

    p10: float = Field(description="The 10th percentile, weighted by draft tokens.")
    p50: float = Field(description="The median.")
    p90: float = Field(description="The 90th percentile.")
    min: float = Field(description="The lowest rate of a poll.")
    max: float = Field(description="The highest rate of a poll.")
    stddev: float = Field(description="The standard deviation.")


class WindowView(View):
    """What one window says. Every number is made of the `counts`, none is smoothed."""

    window: str = Field(description="Its name and length, as in the label `window`: `30s`, `5m`.")
    seconds: float = Field(description="The time that it really covers.")
    polls: int = Field(description="How many increments it is the sum of.")
    partial: bool = Field(description="Whether it covers too little for bounds, verdict and advice.")
    counts: CountsView
    draft_acceptance_ratio: Estimated = Field(description="Accepted tokens over draft tokens.")
    acceptance_length_tokens: Estimated = Field(
        description="Mean tokens that a draft gives, the bonus token included: 1 + accepted over drafts."
    )
    estimated_speedup_ratio: Estimated = Field(
        description="Times as fast as without speculation, at the cost that is assumed; below 1 is slower."
    )
    speedup_ceiling_ratio: float | None = Field(description="The same if drafting and verifying were free.")
    break_even_acceptance_ratio: float | None = Field(
        description="The acceptance rate above which speculation pays at the cost that is assumed."
    )
    position_acceptance_ratio: tuple[float | None, ...] = Field(
        description="Share of drafts accepted up to and including each position."
    )
    position_conditional_acceptance_ratio: tuple[float | None, ...] = Field(
        description="Share accepted at each position of the drafts that were accepted up to the one before."
    )
    acceptance_decay_ratio: float | None = Field(
        description="Mean of the conditional acceptance after the first position, pooled; 1 is no decay."
    )
    accepted_length_ratio: tuple[float | None, ...] = Field(
        description="Share of drafts of which exactly 0, 1, … K tokens are accepted."
    )
    draft_length_tokens: float | None = Field(description="Mean tokens of a draft.")
    coverage_ratio: float | None = Field(description="Share of decode steps that had a draft.")
    effective_tokens_per_step: float | None = Field(
        description="Mean tokens that a decode step gives, with a draft or without."
    )
    drafts_per_second: float | None = Field(description="Drafts a second.")
    draft_tokens_per_second: float | None = Field(description="Tokens drafted a second.")
    accepted_tokens_per_second: float | None = Field(description="Draft tokens accepted a second.")
    rejected_tokens_per_second: float | None = Field(description="Draft tokens a second that were wasted.")
    generation_tokens_per_second: float | None = Field(description="Tokens generated a second.")
    step_seconds: float | None = Field(description="Mean time of a decode step of one request.")
    time_per_output_token_seconds: float | None = Field(
        description="Mean time per output token after the first, weighted by tokens."
    )
    running_requests: float | None = Field(description="Mean of the running requests over the polls.")
    waiting_requests: float | None = Field(description="Mean of the waiting requests over the polls.")
    kv_cache_usage_ratio: float | None = Field(description="Mean share of the KV cache in use.")
    prefix_cache_hit_ratio: float | None = Field(description="Share of prompt tokens found in the cache.")
    preemptions_per_second: float | None = Field(description="Preemptions a second.")
    interval_acceptance_ratio: SpreadView | None = Field(description="Null where nothing was drafted.")


class BucketView(View):
    """The edges of a histogram's bucket, in seconds."""

    lower: float = Field(description="0 of the first bucket.")
    upper: float | None = Field(description="Null of the last bucket, which has no end.")


class QuantilesView(View):
    """Quantiles of one of the server's own histograms, in seconds; null where nothing was observed.

    They are interpolated within the server's buckets: what is certain is that each lies within its bucket.
    """

    p50: float | None
    p95: float | None
    p99: float | None
    buckets: dict[str, BucketView] = Field(description="By quantile, the bucket that it lies in.")


class CostView(View):
    """What drafting costs, in plain decode steps of the target model."""

    draft_cost_ratio: float = Field(description="One more draft token, drafted and verified.")
    fixed_cost_ratio: float = Field(description="A step that speculates, however many tokens it drafts.")
    source: CostSource
    running_requests: float | None = Field(description="The load at which it is known; null: for all loads.")


class DepthView(View):
    """A number of draft tokens, and what it would give over the longest window. A hypothesis to try."""

    tokens: int
    speedup_ratio: float = Field(description="Times as fast as without speculation.")
    extrapolated: bool = Field(description="Whether it is more than the engine drafts now.")
    recommended: bool = Field(description="Whether it is the number of tokens that is recommended.")
    position_marginal_benefit_ratio: float | None = Field(
        description="What its last position adds over what it costs; worth drafting while above 1."
    )


class FindingView(View):
    """Something found beside the verdict."""

    name: FindingName
    severity: Severity
    values: dict[str, float] = Field(description="The numbers it was found by; their names are its own.")
    text: str = Field(description="One or two sentences with these numbers, and what to do.")


class DropsView(View):
    """How the acceptance length stands against what is usual for the engine."""

    baseline_acceptance_length_tokens: float | None = Field(
        description="What is usual, by about the last half hour of drafts."
    )
    baseline_acceptance_length_tokens_stddev: float | None = Field(
        description="Standard deviation of the length over 30 s around the baseline, by chance alone."
    )
    sigma: float | None = Field(
        description="How far the length of the last 20 to 25 s is below the baseline, in standard errors."
    )
    dropped: dict[DropKind, bool] = Field(
        description="Whether acceptance is below its baseline, by kind, as far as that can be judged."
    )
    total: dict[DropKind, int] = Field(description="How many drops were found, by kind.")


class EngineView(View):
    """One engine of one target. Judgements are of the longest window."""

    id: str = Field(description="The same for as long as target, model name and engine are.")
    target: str = Field(description="The label `target`.")
    model_name: str = Field(description="The label `model_name`, as the server says it.")
    engine: str = Field(description="The label `engine`: its number among the server's engines.")
    labels: dict[str, str] = Field(description="All labels of its metrics, these three included.")
    state: State
    verdict: Verdict
    verdict_text: str = Field(description="The state and the verdict in one sentence.")
    recommendation: Action
    recommendation_text: str = Field(description="What to do, in one sentence.")
    method: str = Field(description="As vLLM calls it: `eagle3`, `ngram`, …; empty where nobody says.")
    method_source: str = Field(
        description="`configured`, `label`, `pod_arguments` or `server_info`; empty where nobody says."
    )
    draft_model: str = Field(description="Empty where there is none, or nobody says.")
    configured_tokens: int | None = Field(description="K, the most tokens that are drafted at a time.")
    recommended_tokens: int | None = Field(description="How many tokens to draft; 0 is no speculation.")
    cost: CostView | None = Field(description="Null where it is unknown; then no speed-up is estimated.")
    crossover_running_requests: float | None = Field(description="The load at which it stops paying.")
    depths: tuple[DepthView, ...] = Field(description="Ascending by tokens; empty without a cost.")
    findings: tuple[FindingView, ...] = Field(description="Faults first, reasons for doubt last.")
    drops: DropsView
    broken_checks: tuple[Check, ...] = Field(description="Identities of the counters that do not hold.")
    windows: tuple[WindowView, ...] = Field(
        description="Ascending by length; empty where the engine was not seen for too long."
    )
    latency_seconds: dict[Latency, QuantilesView] = Field(
        description="By the server's own histograms over the longest window."
    )
    engine_reported_acceptance_ratio: float | None = Field(
        description="What the engine itself reports, where it has no counters that can be used."
    )
    engine_reported_acceptance_length_tokens: float | None = Field(description="The same of the length.")
    totals: TotalsView
    resets: dict[Reset, int] = Field(description="How often the server's counters began anew, by cause.")
