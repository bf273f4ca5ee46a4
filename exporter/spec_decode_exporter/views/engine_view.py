"""Document of an engine: facts of its snapshot, each computed when it is first read; nothing is copied."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from hashlib import blake2b
from json import dumps
from math import inf
from typing import Annotated, Final

from pydantic import Field, InstanceOf

from spec_decode_exporter.analysis.cost import CostSource
from spec_decode_exporter.analysis.evaluation import Basis
from spec_decode_exporter.analysis.verdict import Action, State, Verdict
from spec_decode_exporter.drops.sums import DropKind
from spec_decode_exporter.figures.quantile import LATENCY_QUANTILES, edges, quantile
from spec_decode_exporter.findings.finding import Severity
from spec_decode_exporter.findings.findings import NAMES
from spec_decode_exporter.monitor.engine_snapshot import EngineSnapshot
from spec_decode_exporter.scrape.engines import Gauge, Latency
from spec_decode_exporter.scrape.sample import Buckets
from spec_decode_exporter.views.document import Estimated, View, at, fact
from spec_decode_exporter.views.setting_view import SettingView, setting_view
from spec_decode_exporter.views.verdict_text import recommendation_text, verdict_text
from spec_decode_exporter.views.window_view import CountsView, EndToEndView, WindowView, counts
from spec_decode_exporter.window.poll import Check, Reset

Standing = Verdict | State
"""Verdict, or the state of an engine that does not draft."""

_ALARMING: Final = (Verdict.HARMFUL, State.STALLED, State.UNREACHABLE)
_CHANGES: Final = (Action.INCREASE, Action.DECREASE, Action.DISABLE)
"""Advice to draft the recommended number of tokens."""


# fmt: off
class TotalsView(CountsView):
    """Counts since the exporter first saw the engine, over the server's restarts."""

    covered_seconds: float = at("Time between successful polls, which the counts cover.")


class BucketView(View):
    """The edges of a histogram's bucket, in seconds."""

    lower: float = at("0 for the first bucket.")
    upper: float | None = at("Null for the last bucket, which has no end.")


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

    draft_cost_ratio: float = at("Cost of one more draft token, drafted and verified.", "token.guess")
    draft_cost_ratio_lower: float = at("Lowest possible cost of a draft token at this load.", "token.low")
    draft_cost_ratio_upper: float = at("Highest possible cost of a draft token at this load.", "token.high")
    fixed_cost_ratio: float = at("Cost of a step that drafts, independent of its draft tokens.", "step.guess")
    source: CostSource
    running_requests: float | None = at("Load at which it is known; null: the present one.")


class BaselineView(View):
    """Newest period in which the target served the model without speculation."""

    name: str = at("Name in a sentence: `3 h without speculation on 12 November`.")
    seconds: float = at("Time with requests that it covers.")
    end: float = at("Unix time of its end.")
    age_seconds: float = at("Time from its end to the newest poll.")
    time_to_first_token_seconds: float | None = at("Mean time to first token, queue included; null if unknown.", "request.first_token_seconds", default=None)
    prefix_cache_hit_ratio: float | None = at("Share of the looked-up prompt tokens that the prefix cache held; null if unknown.", "request.prefix_hit_ratio", default=None)


class DepthView(View):
    """Estimated result of another number of draft tokens over the evaluated window: a hypothesis to test."""

    tokens: int
    speedup_ratio: float = at("Speed relative to no speculation.", "speedup")
    extrapolated: bool = at("Whether it exceeds the engine's present number.")
    recommended: bool = at("Whether it is the recommended number.")
    position_marginal_benefit_ratio: float | None = at("Benefit of its last position over its cost; worth drafting above 1.", "marginal_benefit")


class FindingView(View):
    """A finding beside the verdict."""

    name: str = Field(json_schema_extra={"enum": list(NAMES)})
    severity: Severity
    values: dict[str, float] = at("Numbers of the finding; each finding has its own names.")
    text: str = at("One or two sentences with these numbers and the remedy.")


class DropsView(View):
    """Acceptance length compared with the engine's baseline."""

    baseline_acceptance_length_tokens: float | None = at("Baseline, learned from about the last half hour of drafts.", "baseline_length")
    baseline_acceptance_length_tokens_stddev: float | None = at("Standard deviation of the length over 30 s around the baseline, by chance alone.", "baseline_stddev")
    sigma: float | None = at("Standard errors by which the length of the last 20 to 25 s is below the baseline.")
    dropped: dict[DropKind, bool] = at("Whether acceptance is below its baseline, by kind of drop; unknown kinds are absent.")
    total: dict[DropKind, int] = at("Number of drops, by kind.", "drops")


class EvaluatedView(View):
    """Time that the verdict, the recommendation, the depths and the findings cover."""

    basis: Basis = at("`longest`: the longest window. `change`: since the last detected change. `shorter`: a shorter window that contradicts the longer ones.")
    seconds: float = at("Covered seconds.", "evaluated.window.seconds")
    early: bool = at("Whether they are less than half of the longest window.", "is_early")
    since: float | None = at("Unix time of the last detected change; null for another basis.")
    estimated_speedup_ratio: Estimated
    end_to_end_speedup_ratio: EndToEndView | None = at("Speed-up of whole requests; null if it is unknown.")
    acceptance_length_tokens: Estimated

# fmt: on


@lru_cache(maxsize=4096)
def engine_id(target: str, model_name: str, engine: str) -> str:
    """Return the engine's identifier in URLs: 12 hexadecimal digits, equal for equal labels."""
    return blake2b(dumps([target, model_name, engine]).encode(), digest_size=6).hexdigest()


def id_of(labels: Mapping[str, str]) -> str:
    """Return the identifier of an engine by the labels of its metrics."""
    return engine_id(labels["target"], labels["model_name"], labels["engine"])


class EngineView(View):
    """One engine of one target. The state is of the longest window."""

    labels: Mapping[str, str] = at("All labels of its metrics, target, model and engine included.")
    snapshot: Annotated[InstanceOf[EngineSnapshot], Field(exclude=True)]
    shown: Annotated[tuple[str, ...], Field(exclude=True)] = ()
    """Names of the windows to show; all if empty."""

    @fact
    def id(self) -> str:
        """Stable while target, model name and engine are the same."""
        return id_of(self.labels)

    @fact
    def target(self) -> str:
        """The label `target`."""
        return self.labels["target"]

    @fact
    def model_name(self) -> str:
        """The label `model_name`, as the server reports it."""
        return self.labels["model_name"]

    @fact
    def engine(self) -> str:
        """The label `engine`: its number among the server's engines."""
        return self.labels["engine"]

    @fact
    def state(self) -> State:
        """State of speculation."""
        return self.snapshot.evaluation.state

    @fact
    def verdict(self) -> Verdict:
        """Verdict to show: another one by the evaluated window must last before it replaces this one."""
        return self.snapshot.evaluation.verdict

    @fact
    def verdict_text(self) -> str:
        """The state and the verdict in one sentence; if it is unclear, with what is likely."""
        return verdict_text(self.snapshot)

    @fact
    def pays_share_ratio(self) -> float | None:
        """Share of the possible speed-ups, on a logarithmic scale, at which speculation pays; null if unknown."""
        return self.snapshot.evaluation.pays_share_ratio

    @fact
    def evaluated_at(self) -> float | None:
        """Unix time of the poll that was evaluated last; null for an engine that was absent for too long."""
        its = self.snapshot.evaluation
        return its.known.wall if its.windows else None

    @fact
    def evaluated(self) -> EvaluatedView | None:
        """Time that the verdict covers; null for an engine that was absent for too long."""
        evaluation = self.snapshot.evaluation
        if not evaluation.windows:
            return None
        its = WindowView(its=evaluation.evaluated)
        return EvaluatedView.of(
            evaluation,
            estimated_speedup_ratio=its.estimated_speedup_ratio,
            end_to_end_speedup_ratio=its.end_to_end_speedup_ratio,
            acceptance_length_tokens=its.acceptance_length_tokens,
        )

    @fact
    def recommendation(self) -> Action:
        """Recommended action."""
        return self.snapshot.evaluation.action

    @fact
    def recommendation_text(self) -> str:
        """The recommendation in one sentence."""
        return recommendation_text(self.snapshot)

    @fact
    def setting(self) -> SettingView:
        """The recommendation as a setting of the server."""
        return setting_view(self.snapshot)

    @fact
    def method(self) -> str:
        """VLLM's name of the method: `eagle3`, `ngram`, …; empty if unknown."""
        return self.snapshot.evaluation.known.speculation.method

    @fact
    def method_source(self) -> str:
        """`configured`, `label`, `pod_arguments` or `server_info`; empty if unknown."""
        return self.snapshot.evaluation.known.speculation.source

    @fact
    def draft_model(self) -> str:
        """Empty if there is none or it is unknown."""
        return self.snapshot.evaluation.known.speculation.draft_model

    @fact
    def configured_tokens(self) -> int | None:
        """K, the maximum of tokens per draft."""
        return self.snapshot.tokens or None

    @fact
    def recommended_tokens(self) -> int | None:
        """Recommended draft tokens; 0 is no speculation."""
        best = self.snapshot.evaluation.recommended
        return best.tokens if best else None

    @fact
    def cost(self) -> CostView | None:
        """Null if unknown; then no speed-up is estimated."""
        cost = self.snapshot.evaluation.cost
        return None if cost is None else CostView.of(cost)

    @fact
    def baseline(self) -> BaselineView | None:
        """Learned while the target served the model without speculation; null without such a time."""
        return None if self.snapshot.baseline is None else BaselineView.of(self.snapshot.baseline)

    @fact
    def crossover_running_requests(self) -> float | None:
        """Load at which speculation stops paying."""
        return self.snapshot.evaluation.crossover

    @fact
    def depths(self) -> tuple[DepthView, ...]:
        """Ascending by tokens; empty without a cost."""
        best = self.recommended_tokens
        return tuple(
            DepthView.of(each, extrapolated=each.basis == "extrapolated", recommended=each.tokens == best)
            for each in self.snapshot.evaluation.depths
        )

    @fact
    def findings(self) -> tuple[FindingView, ...]:
        """Faults first, reasons for doubt last."""
        return tuple(map(FindingView.of, self.snapshot.findings))

    @fact
    def drops(self) -> DropsView:
        """Acceptance length compared with the engine's baseline."""
        return DropsView.of(self.snapshot.drops)

    @fact
    def broken_checks(self) -> tuple[Check, ...]:
        """Identities of the counters that are broken."""
        return tuple(sorted(self.snapshot.broken))

    @fact
    def windows(self) -> tuple[WindowView, ...]:
        """Ascending by length; empty if the engine was absent for too long."""
        windows = self.snapshot.evaluation.windows
        return tuple(WindowView(its=its) for its in windows if not self.shown or its.label in self.shown)

    @fact
    def latency_seconds(self) -> dict[Latency, QuantilesView]:
        """Quantiles of the server's own histograms over the longest window."""
        return {name: _quantiles(its) for name, its in self.snapshot.evaluation.latencies.items()}

    @fact
    def engine_reported_acceptance_ratio(self) -> float | None:
        """Acceptance rate that the engine itself reports, if it has no usable counters."""
        return self.snapshot.engine_reported(Gauge.REPORTED_ACCEPTANCE_RATIO)

    @fact
    def engine_reported_acceptance_length_tokens(self) -> float | None:
        """Likewise the acceptance length."""
        return self.snapshot.engine_reported(Gauge.REPORTED_ACCEPTANCE_LENGTH)

    @fact
    def totals(self) -> TotalsView:
        """Counts since the exporter first saw the engine, over the server's restarts."""
        totals = self.snapshot.totals
        counted = counts(totals.counters, totals.positions)
        return TotalsView(**counted, covered_seconds=totals.covered_seconds)

    @fact
    def resets(self) -> dict[Reset, int]:
        """Resets of the server's counters, by cause."""
        return self.snapshot.totals.resets

    # What page and reports read besides the JSON

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
        """Its verdict, or the state of an engine that does not draft: what the fleet's summary counts."""
        drafts = self.state is State.ACTIVE or self.verdict is not Verdict.INSUFFICIENT
        return self.verdict if drafts else self.state

    @property
    def has_dropped(self) -> bool:
        """True during a drop of acceptance or drafting."""
        return any(self.drops.dropped.values())

    @property
    def is_alarming(self) -> bool:
        """True if the engine needs attention: it comes first."""
        return self.has_dropped or self.standing in _ALARMING

    @property
    def advice(self) -> str | None:
        """Relation of the recommended number of draft tokens to the current one; None without one.

        ``is best``; ``as good``: without a gain that justifies a change; ``try``; ``likely best``: at the best
        guess of the cost, while the recommendation is another one.
        """
        if self.recommended_tokens is None or self.configured_tokens is None:
            return None
        if self.recommended_tokens == self.configured_tokens:
            return "is best"
        if self.recommendation is Action.KEEP:
            return "as good"
        return "try" if self.recommendation in _CHANGES else "likely best"


def _quantiles(buckets: Buckets) -> QuantilesView:
    its = {name: edges(share, buckets) for name, share in LATENCY_QUANTILES}
    return QuantilesView(
        **{name: quantile(share, buckets) for name, share in LATENCY_QUANTILES},
        buckets={
            name: BucketView(lower=each.lower, upper=each.upper if each.upper < inf else None)
            for name, each in its.items()
            if each is not None
        },
    )
