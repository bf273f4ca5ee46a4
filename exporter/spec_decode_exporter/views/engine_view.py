"""Documents of an engine and of its windows: facts of its snapshot, each computed when it is first read.

A window has one field for each row of the figure table, with the description of the row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

from pydantic import Field, InstanceOf

from spec_decode_exporter.analysis.end_to_end import EndToEndBasis
from spec_decode_exporter.analysis.evaluation import Basis
from spec_decode_exporter.analysis.figure_table import FIGURES, Figure
from spec_decode_exporter.analysis.load_bands import LoadBand
from spec_decode_exporter.analysis.missing_evidence import CostMeasurement, needs_cost, ways_to_know
from spec_decode_exporter.analysis.recommended_setting import Obstacle
from spec_decode_exporter.analysis.verdict import PAYING, Action, State, Verdict
from spec_decode_exporter.analysis.window_evaluation import WindowEvaluation
from spec_decode_exporter.costs.blocks import Blocks
from spec_decode_exporter.costs.cost import CostSource, CostSources
from spec_decode_exporter.drops.sums import DropStatus
from spec_decode_exporter.figures.estimate import ratio
from spec_decode_exporter.figures.quantile import LATENCY_QUANTILES, SPREAD_QUANTILES, edges, quantile
from spec_decode_exporter.figures.window_figures import acceptance_length
from spec_decode_exporter.findings.finding import Finding
from spec_decode_exporter.monitor.snapshot import EngineSnapshot, id_of
from spec_decode_exporter.scrape.engines import Gauge, Latency
from spec_decode_exporter.scrape.sample import Buckets
from spec_decode_exporter.views import advice_text
from spec_decode_exporter.views import verdict_text as sentences
from spec_decode_exporter.views.document import Estimated, Unlimited, View, at, estimated, fact
from spec_decode_exporter.views.latency_view import LatencyComparisonView, latency_comparison_view
from spec_decode_exporter.views.words import Standing
from spec_decode_exporter.window.poll import Check, Reset

T = TypeVar("T")
V = TypeVar("V", bound=View)
_ALARMING: Final = ("dropped", Verdict.HARMFUL, State.STALLED, State.UNREACHABLE)
_OTHERS: Final = (Verdict.POOR, Verdict.UNCLEAR, *PAYING, Verdict.INSUFFICIENT, State.IDLE, State.UNKNOWN)
_URGENCIES: Final = {each: place for place, each in enumerate((*_ALARMING, *_OTHERS, State.DISABLED))}


def _with_figures(base: type[V]) -> type[V]:
    """Add a field for each figure to a document of a window."""
    fields = {figure.key: _figure(figure) for figure in FIGURES}
    return type(base.__name__, (base,), {**fields, "__doc__": base.__doc__, "__module__": base.__module__})


def _figure(figure: Figure) -> cached_property[Any]:
    each, bounds = figure.each, figure.bounds
    if each is not None:
        return fact(figure.help, tuple[float | None, ...], lambda view: tuple(each(view.its)))
    if bounds is not None:
        return fact(figure.help, Estimated, lambda view: estimated(figure.of(view.its), bounds(view.its)))
    return fact(figure.help, float | None, lambda view: figure.of(view.its))


# fmt: off
class ObstacleView(View):
    """Reason against a schedule."""

    name: Obstacle
    text: str = at("The reason and the remedy.")


class EndToEndView(Estimated):
    """Speed of whole requests relative to no speculation: time to first token and decoding."""

    lower: float | None = at("Null if its bounds are unknown.", "bounds.lower", default=None)
    upper: float | None = at("Null exactly if `lower` is null.", "bounds.upper", default=None)
    basis: EndToEndBasis = at("Time to first token without speculation: that of a baseline, or the same as with it.")


class CountsView(View):
    """Increases of the engine's counters. A counter that the engine does not have is null."""

    drafts: int | None = at("Drafts.")
    draft_tokens: int | None = at("Draft tokens.")
    accepted_tokens: int | None = at("Accepted draft tokens.")
    position_accepted_tokens: tuple[int, ...] = at("Accepted draft tokens at each of the K draft positions; empty if they are unknown or K is 0.")
    generation_tokens: int | None = at("Generated tokens.")
    first_tokens: int | None = at("First tokens of requests, which no decode step gives.")
    decode_steps: int | None = at("Decode steps, counted once for each running request.")
    decode_nanoseconds: int | None = at("Time that requests spent in decode steps.")
    first_token_nanoseconds: int | None = at("Time until the first tokens of requests, time in the queue included.")
    preemptions: int | None = at("Preemptions.")
    prefix_cache_queries: int | None = at("Prompt tokens looked up in the prefix cache.")
    prefix_cache_hits: int | None = at("Prompt tokens that the prefix cache held.")


@_with_figures
class WindowView(View):
    """A window: every number is computed from its `counts`, none is smoothed."""

    its: Annotated[InstanceOf[WindowEvaluation], Field(exclude=True)]

    window = fact("Name and length of the window, as in the label `window`: `30s`, `5m`.", str, lambda view: view.its.label)
    seconds = fact("Time that the window covers.", float, lambda view: view.its.window.seconds)
    polls = fact("Number of increments that the window sums.", int, lambda view: view.its.window.polls)
    partial = fact("Whether it covers too little for bounds, verdict and recommendation.", bool, lambda view: view.its.is_partial)
    counts = fact("Increases of the engine's counters.", CountsView, lambda view: CountsView.of(view.its.total, position_accepted_tokens=view.its.positions.accepted))
    end_to_end_speedup_ratio = fact("Null without a speed-up, or without times to first token: decode only.", EndToEndView | None, lambda view: EndToEndView.of(view.its.request) if view.its.request else None)
    interval_acceptance_ratio = fact("Spread of the acceptance rate over polls, not over requests: `min`, `max`, `stddev`, and percentiles by draft tokens: `p10`, `p50`, `p90`. Null without draft tokens.", dict[str, float | None] | None, lambda view: _spread(view.its))

    if TYPE_CHECKING:
        def __getattr__(self, name: str) -> Any: ...  # noqa: ANN401  a figure by its key


class BucketView(View):
    """The edges of a histogram's bucket, in seconds."""

    lower: float = at("0 for the first bucket.")
    upper: Unlimited = at("Null for the last bucket, which has no end.")


class QuantilesView(View):
    """Quantiles of one of the server's own histograms, in seconds; null without observations.

    They are interpolated within the server's buckets. Only the bucket of each is certain.
    """

    p50: float | None
    p95: float | None
    p99: float | None
    buckets: dict[str, BucketView] = at("Bucket of each quantile.")


class CostView(View):
    """Cost of drafting in plain decode steps of the target model."""

    draft_cost_ratio: float = at("Cost of one more draft token, drafted and verified.", "guess.token")
    draft_cost_ratio_lower: float = at("Lowest possible cost of a draft token at this load.", "low.token")
    draft_cost_ratio_upper: float = at("Highest possible cost of a draft token at this load.", "high.token")
    fixed_cost_ratio: float = at("Cost of a step that drafts, independent of its draft tokens.", "guess.step")
    fixed_cost_ratio_lower: float = at("Lowest possible cost of such a step.", "low.step")
    fixed_cost_ratio_upper: float = at("Highest possible cost of such a step.", "high.step")
    source: CostSource
    running_requests: float | None = at("Load at which it is known; null: the present one.")


class BaselineView(View):
    """Newest period in which the target served the model without speculation."""

    name: str = at("Name in a sentence: `3 h without speculation on 12 November`.")
    seconds: float = at("Time with requests that it covers.")
    end: float = at("Unix time of its end.")
    age_seconds: float = at("Time from its end to the newest poll.")
    time_to_first_token_seconds: float | None = at("Mean time to first token, queue included; null if unknown.", "first_token_seconds")
    time_per_output_token_seconds: float | None = at("Mean time per output token after the first; null if unknown.", "token_seconds")
    prefix_cache_hit_ratio: float | None = at("Share of the looked-up prompt tokens that the prefix cache held; null if unknown.", "prefix_hit_ratio")


class DepthView(View):
    """Estimated result of another number of draft tokens over the evaluated window: a hypothesis to test."""

    tokens: int
    speedup_ratio: float = at("Speed relative to no speculation.", "speedup")
    extrapolated: bool = at("Whether it exceeds the engine's present number.")
    recommended: bool = at("Whether it is the recommended number.")
    position_marginal_benefit_ratio: float | None = at("Benefit of its last position over its cost; worth drafting above 1.", "marginal_benefit")


class UsedTokensView(View):
    """A number of draft tokens that was in use within the last 7 days, and what it gave."""

    tokens: int = at("Draft tokens; 0: the schedule drafted nothing at the load.")
    seconds: float = at("Time in use.", "sums.seconds", "seconds")
    begin: float = at("Unix time of the first use.")
    end: float = at("Unix time of the last use.")
    running_requests: float = at("Mean running requests of the steps.")
    decode_steps: int = at("Decode steps.")
    acceptance_length_tokens: Estimated = at("Null without drafts; bounds need 12 minutes of use.")
    effective_tokens_per_step: Estimated = at("Tokens of a decode step.")
    estimated_speedup_ratio: Estimated = at("By the present cost of drafting at its load; null without a cost or bounds.")


class EvaluatedView(View):
    """Time that the verdict, the recommendation, the depths and the findings cover."""

    basis: Basis = at("`longest`: the longest window. `change`: since the last detected change. `shorter`: a shorter window that contradicts the longer ones.")
    seconds: float = at("Covered seconds.", "verdict_window.window.seconds")
    early: bool = at("Whether they are less than half of the longest window.", "is_early")
    since: float | None = at("Unix time of the last detected change; null for another basis.")
    estimated_speedup_ratio: Estimated
    end_to_end_speedup_ratio: EndToEndView | None = at("Speed-up of whole requests; null if it is unknown.")
    acceptance_length_tokens: Estimated


class SettingView(View):
    """Recommended setting of speculation, by load if the cost is known at several loads."""

    tokens: int | None = at("`num_speculative_tokens` to set; 0 is no speculation, null is unknown.")
    schedule: tuple[tuple[int, int, int], ...] = at("`num_speculative_tokens_per_batch_size` to set: first and last number of running requests, and draft tokens; empty for one number at every load.")
    change: bool = at("Whether it differs from the setting in force.", "is_change")
    speculative_config: str = at("Value of vLLM's `--speculative-config`, JSON; empty without tokens, and of another engine.")
    complete: bool = at("Whether `speculative_config` has all keys that vLLM needs; else it has those to change.")
    text: str = at("What to set and why.")
    measure: str = at("What to measure for a setting, or for one by load; empty if it is known.")
    obstacles: tuple[ObstacleView, ...] = at("Reasons why vLLM ignores the schedule, or why it may cost more than it gains.")
    bands: tuple[LoadBand, ...] = at("Ascending by load, without gaps; empty unless the cost is known at several loads.")
    paused_from: int | None = at("Fewest running requests at which the schedule in force drafts nothing, if it is in this range now; else null.", "pause.first", default=None)
    drafted_time: float | None = at("Unix time of the drafts whose acceptance counts during the pause; null without any.", "pause.drafted", default=None)
    source: CostSource | None = at("Source of the cost by load; null without one.")
    lowest_running_requests: float | None = at("Lowest load with a known cost.")
    highest_running_requests: float | None = at("Highest load with a known cost.")

# fmt: on


def _spread(its: WindowEvaluation) -> dict[str, float | None] | None:
    if not (rates := its.poll_rates):
        return None
    found = its.poll_rate_quantiles([share for _, share in SPREAD_QUANTILES])
    quantiles = {name: rate for (name, _), rate in zip(SPREAD_QUANTILES, found, strict=True)}
    return {**quantiles, "min": rates[0][0], "max": rates[-1][0], "stddev": its.poll_rate_deviation}


def setting_view(snapshot: EngineSnapshot) -> SettingView:
    """Return the document of an engine's recommended setting."""
    evaluation, setting = snapshot.evaluation, snapshot.evaluation.setting
    config, is_complete = advice_text.speculative_config(evaluation)
    low, high = setting.known or (None, None)
    return SettingView.of(
        setting,
        schedule=advice_text.ranges(setting),
        speculative_config=config,
        complete=is_complete,
        text=advice_text.setting_text(snapshot),
        measure=advice_text.measure_text(evaluation),
        obstacles=[
            ObstacleView(name=each, text=advice_text.obstacle_text(each, setting))
            for each in setting.obstacles
        ],
        lowest_running_requests=low,
        highest_running_requests=high,
    )


def _evaluated(snapshot: EngineSnapshot) -> EvaluatedView | None:
    evaluation = snapshot.evaluation
    if not evaluation.windows:
        return None
    its = WindowView(its=evaluation.verdict_window)
    names = "estimated_speedup_ratio", "end_to_end_speedup_ratio", "acceptance_length_tokens"
    return EvaluatedView.of(evaluation, **{name: getattr(its, name) for name in names})


def _depths(snapshot: EngineSnapshot) -> tuple[DepthView, ...]:
    best = snapshot.evaluation.decision.advice.tokens
    return tuple(
        DepthView.of(each, extrapolated=each.basis == "extrapolated", recommended=each.tokens == best)
        for each in snapshot.evaluation.depths
    )


def _used_tokens(tokens: int, its: Blocks, cost: CostSources) -> UsedTokensView:
    sums, speedup = its.sums, its.speedup(cost)
    length = acceptance_length(sums.accepted, sums.drafts)
    return UsedTokensView.of(
        its,
        tokens=tokens,
        decode_steps=round(sums.steps),
        acceptance_length_tokens=estimated(length, its.acceptance_length),
        effective_tokens_per_step=estimated(ratio(sums.tokens, sums.steps), its.tokens_per_step),
        estimated_speedup_ratio=estimated(speedup and speedup.value, speedup),
    )


def _quantiles(buckets: Buckets) -> QuantilesView:
    values = {name: quantile(share, buckets) for name, share in LATENCY_QUANTILES}
    found = {name: each for name, share in LATENCY_QUANTILES if (each := edges(share, buckets))}
    return QuantilesView.model_validate({**values, "buckets": found})


def _row(description: str, type_: Any, read: Callable[[EngineSnapshot], T]) -> cached_property[T]:  # noqa: ANN401
    """Return a field that is computed of an engine's snapshot."""
    return fact(description, type_, lambda view: read(view.snapshot))


# fmt: off
class EngineView(View):
    """One engine of one target. The state is of the longest window."""

    labels: Mapping[str, str] = at("All labels of its metrics, target, model and engine included.")
    snapshot: Annotated[InstanceOf[EngineSnapshot], Field(exclude=True)]
    shown: Annotated[tuple[str, ...], Field(exclude=True)] = ()
    """Names of the windows to show; all if empty."""

    id = fact("Stable while target, model name and engine are the same.", str, lambda view: id_of(view.labels))
    target = fact("The label `target`.", str, lambda view: str(view.labels["target"]))
    model_name = fact("The label `model_name`, as the server reports it.", str, lambda view: str(view.labels["model_name"]))
    engine = fact("The label `engine`: its number among the server's engines.", str, lambda view: str(view.labels["engine"]))
    state = _row("State of speculation.", State, lambda its: its.evaluation.state)
    verdict = _row("Verdict to show: another one by the evaluated window must last before it replaces this one.", Verdict, lambda its: its.evaluation.verdict)
    verdict_text = _row("The state and the verdict in one sentence; if it is unclear, with what is likely.", str, sentences.verdict_text)
    pays_share_ratio = _row("Share of published costs, or of the speed-up's interval (log scale), at which speculation pays; null if unknown.", float | None, lambda its: its.evaluation.pays_share_ratio)
    evaluated_at = _row("Unix time of the poll that was evaluated last; null for an engine that was absent for too long.", float | None, lambda its: its.evaluation.known.wall if its.evaluation.windows else None)
    evaluated = _row("Time that the verdict covers; null for an engine that was absent for too long.", EvaluatedView | None, _evaluated)
    ways_to_know = _row("How to find out whether speculation pays, cheapest first; empty unless the cost of drafting decides it.", tuple[CostMeasurement, ...], lambda its: ways_to_know(its.evaluation.verdict_window) if needs_cost(its.evaluation.verdict_window, its.evaluation.verdict) else ())
    recommendation = _row("Recommended action.", Action, lambda its: its.evaluation.action)
    recommendation_text = _row("The recommendation in one sentence.", str, advice_text.recommendation_text)
    setting = _row("The recommendation as a setting of the server.", SettingView, setting_view)
    method = _row("VLLM's name of the method: `eagle3`, `ngram`, …; empty if unknown.", str, lambda its: its.evaluation.known.speculation.method)
    method_source = _row("`configured`, `label`, `pod_arguments`, `server_info` or `model_name`; empty if unknown.", str, lambda its: its.evaluation.known.speculation.source)
    draft_model = _row("Empty if there is none or it is unknown.", str, lambda its: its.evaluation.known.speculation.draft_model)
    configured_tokens = _row("K, the maximum of tokens per draft.", int | None, lambda its: its.tokens or None)
    memory_return_text = _row("Return on the drafter's memory, compared with that of KV cache; empty if unknown.", str, lambda its: sentences.memory_text(its.evaluation.longest))
    usual_length_text = _row("Acceptance length that others published for the method, for orientation; empty without any.", str, sentences.usual_length_text)
    recommended_tokens = _row("Recommended draft tokens; 0 is no speculation.", int | None, lambda its: its.evaluation.decision.advice.tokens)
    cost = _row("Null if unknown; then no speed-up is estimated.", CostView | None, lambda its: CostView.of(its.evaluation.longest.cost) if its.evaluation.longest.cost else None)
    baseline = _row("Learned while the target served the model without speculation; null without such a time.", BaselineView | None, lambda its: BaselineView.of(its.evaluation.known.baseline) if its.evaluation.known.baseline else None)
    crossover_running_requests = _row("Load at which speculation stops paying.", float | None, lambda its: its.evaluation.crossover)
    depths = _row("Ascending by tokens; empty without a cost.", tuple[DepthView, ...], _depths)
    used_tokens = _row("Numbers of draft tokens in use within the last 7 days, ascending: other hours, other traffic.", tuple[UsedTokensView, ...], lambda its: tuple(_used_tokens(*use, its.evaluation.known.cost) for use in its.compute_token_use().items()))
    findings = _row("Faults first, reasons for doubt last.", tuple[Finding, ...], lambda its: its.findings)
    drops = _row("Acceptance length compared with the engine's baseline.", DropStatus, lambda its: its.drops)
    broken_checks = _row("Identities of the counters that are broken.", tuple[Check, ...], lambda its: tuple(sorted(its.broken)))
    windows = fact("Ascending by length; empty if the engine was absent for too long.", tuple[WindowView, ...], lambda view: tuple(WindowView(its=each) for each in view.snapshot.evaluation.windows if not view.shown or each.label in view.shown))
    latency_seconds = _row("Quantiles of the server's own histograms over the longest window.", dict[Latency, QuantilesView], lambda its: {name: _quantiles(each) for name, each in its.evaluation.latencies.items()})
    latency_comparison = _row("Latencies compared with those of a baseline without speculation; null without its histograms.", LatencyComparisonView | None, lambda its: latency_comparison_view(its.evaluation))
    engine_reported_acceptance_ratio = _row("Acceptance rate that the engine itself reports, if it has no usable counters.", float | None, lambda its: its.engine_reported(Gauge.REPORTED_ACCEPTANCE_RATIO))
    engine_reported_acceptance_length_tokens = _row("Likewise the acceptance length.", float | None, lambda its: its.engine_reported(Gauge.REPORTED_ACCEPTANCE_LENGTH))
    resets = _row("Resets of the server's counters, by cause.", dict[Reset, int], lambda its: its.totals.resets)

    # fmt: on
    # Read by page and reports besides the JSON

    @property
    def name(self) -> str:
        """Name of the engine in a sentence."""
        return f"{self.model_name} on {self.target}, engine {self.engine}"

    @property
    def longest(self) -> WindowView | None:
        """The longest window; None for an engine that was absent for too long."""
        return self.windows[-1] if self.windows else None

    @property
    def standing(self) -> Standing:
        """Its verdict, or the state of an engine that does not draft: the fleet's summary counts it."""
        drafts = self.state is State.ACTIVE or self.verdict is not Verdict.INSUFFICIENT
        return self.verdict if drafts else self.state

    @property
    def has_dropped(self) -> bool:
        """True during a drop of acceptance or drafting."""
        return any(self.drops.dropped.values())

    @property
    def urgency(self) -> int:
        """Place among engines, those first that need attention most."""
        is_first = self.has_dropped or Check.ONE_SERVER in self.broken_checks
        return 0 if is_first else _URGENCIES[self.standing]

    @property
    def is_alarming(self) -> bool:
        """True if the engine needs attention."""
        return self.urgency < len(_ALARMING)

    @property
    def advice(self) -> str | None:
        """``keep`` or ``try``: what to do about the current number of draft tokens; None without advice."""
        if self.recommended_tokens is None or self.configured_tokens is None:
            return None
        return "try" if self.recommended_tokens != self.configured_tokens else "keep"
