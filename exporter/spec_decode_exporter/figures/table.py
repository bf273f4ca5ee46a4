"""Figure table: ONE row for each figure of a window.

Metrics, JSON models, group sums, the page, the report of ``observe``, ``reference compare`` and
docs/metrics.md take a figure from its row. The order is that of the JSON fields.
"""

from __future__ import annotations

from typing import Final

from spec_decode_exporter.config.schema import Group
from spec_decode_exporter.figures import acceptance, decode_work, latency, positions, server_load
from spec_decode_exporter.figures.figure import (
    Figure,
    GroupSum,
    ListFigure,
    MetricWindows,
    ReportLine,
    ScalarFigure,
    Unit,
    at_cost,
    of_window,
)
from spec_decode_exporter.figures.ratio import ratio
from spec_decode_exporter.figures.terms import DECODED_TOKENS, CounterTerm, GaugeTerm, PollsTerm, SecondsTerm
from spec_decode_exporter.scrape.page.engine_table import Counter, Gauge
from spec_decode_exporter.window.ledger import NANO, Window

DRAFTS: Final = "vllm:spec_decode_num_drafts_total"
DRAFT_TOKENS: Final = "vllm:spec_decode_num_draft_tokens_total"
ACCEPTED: Final = "vllm:spec_decode_num_accepted_tokens_total"
POSITIONS: Final = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
GENERATED: Final = "vllm:generation_tokens_total"
FIRST: Final = "vllm:time_to_first_token_seconds_count"
STEPS: Final = "vllm:inter_token_latency_seconds_count"
STEP_SECONDS: Final = "vllm:inter_token_latency_seconds_sum"

_SPECULATION: Final = (Counter.DRAFTS, Counter.DRAFT_TOKENS, Counter.ACCEPTED_TOKENS)
_DECODE_SECONDS: Final = CounterTerm(Counter.DECODE_NANOSECONDS, divisor=NANO)
_NOT_IN_TABLES: Final = ReportLine("")


def _per_second(
    key: str,
    counter: Counter,
    source: str,
    label: str,
    description: str,
    *,
    report: ReportLine | None = None,
    comparison: ReportLine = _NOT_IN_TABLES,
) -> ScalarFigure:
    """Return the row of a counter's rate."""
    return ScalarFigure(
        key=key,
        label=label,
        description=description,
        unit=Unit.PER_SECOND,
        source=(source,),
        group=Group.RATES,
        formula=of_window(lambda window: server_load.per_second(window, window[counter])),
        numerator=CounterTerm(counter),
        denominator=SecondsTerm(),
        in_groups=GroupSum.SUM,
        report=report,
        comparison=comparison,
    )


def _mean(
    key: str, gauge: Gauge, source: str, label: str, description: str, *, comparison: ReportLine
) -> ScalarFigure:
    """Return the row of a gauge's mean over the polls: of requests each window's, as a sum in groups."""
    is_share = gauge is Gauge.KV_CACHE_USAGE
    return ScalarFigure(
        key=key,
        label=label,
        description=description,
        unit=Unit.SHARE if is_share else Unit.REQUESTS,
        source=(source,),
        group=Group.LOAD,
        windows=MetricWindows.LONGEST if is_share else MetricWindows.EACH,
        formula=of_window(lambda window: server_load.mean(window, gauge)),
        numerator=GaugeTerm(gauge),
        denominator=PollsTerm(),
        highest=1.0 if is_share else float("inf"),
        in_groups=None if is_share else GroupSum.SUM,
        comparison=comparison,
    )


def _tokens_per_request(counter: Counter, source: str, key: str, name: str, place: int) -> ScalarFigure:
    """Return the row of the mean tokens of a request, for comparisons alone."""
    first = Counter.FIRST_TOKENS
    return ScalarFigure(
        key=key,
        label=name.capitalize(),
        description=f"Mean {name} in the window.",
        unit=Unit.NUMBER,
        source=(source, FIRST),
        group=None,
        formula=of_window(lambda window: ratio(window[counter], window[first])),
        numerator=CounterTerm(counter),
        denominator=CounterTerm(first),
        comparison=ReportLine("Load and work", name, place=place),
    )


def _rejected_per_second(window: Window) -> float | None:
    return server_load.per_second(window, acceptance.rejected_tokens(window))


FIGURES: tuple[Figure, ...] = (
    ScalarFigure(
        key="draft_acceptance_ratio",
        label="Acceptance rate",
        description="Accepted tokens over draft tokens in the window.",
        unit=Unit.SHARE,
        source=(ACCEPTED, DRAFT_TOKENS),
        group=Group.ACCEPTANCE,
        formula=of_window(acceptance.draft_acceptance_ratio),
        numerator=CounterTerm(Counter.ACCEPTED_TOKENS),
        denominator=CounterTerm(Counter.DRAFT_TOKENS),
        required=_SPECULATION,
        bounds=lambda bounds: bounds.acceptance_ratio,
        highest=1.0,
        in_groups=GroupSum.RATIO_OF_SUMS,
        report=ReportLine("Acceptance", "acceptance rate", "of the draft tokens"),
        comparison=ReportLine("Acceptance", "acceptance rate", place=1),
    ),
    ScalarFigure(
        key="acceptance_length_tokens",
        label="Acceptance length",
        description="Mean tokens of a draft in the window, bonus token included: 1 + accepted over drafts.",
        unit=Unit.TOKENS,
        source=(ACCEPTED, DRAFTS),
        group=Group.ACCEPTANCE,
        formula=of_window(acceptance.acceptance_length_tokens),
        numerator=CounterTerm(Counter.ACCEPTED_TOKENS),
        denominator=CounterTerm(Counter.DRAFTS),
        counts="in drafts:",
        required=_SPECULATION,
        bounds=lambda bounds: bounds.acceptance_length,
        in_groups=GroupSum.RATIO_OF_SUMS,
        report=ReportLine("Acceptance", "acceptance length", "tokens, bonus included"),
        comparison=ReportLine("Acceptance", "acceptance length", place=2),
    ),
    ScalarFigure(
        key="estimated_speedup_ratio",
        label="Estimated speed-up",
        description="Speed relative to no speculation in the window, at the assumed cost; below 1 is slower.",
        unit=Unit.FACTOR,
        source=(GENERATED, FIRST, STEPS, DRAFTS, DRAFT_TOKENS),
        group=Group.PAY,
        formula=at_cost(decode_work.estimated_speedup_ratio),
        bounds=lambda bounds: bounds.speedup,
    ),
    ScalarFigure(
        key="speedup_ceiling_ratio",
        label="Speed-up if drafting were free",
        description="Speed-up in the window if drafting and verifying cost nothing.",
        unit=Unit.FACTOR,
        source=(GENERATED, FIRST, STEPS, ACCEPTED, DRAFTS),
        group=Group.PAY,
        formula=of_window(decode_work.speedup_ceiling_ratio),
    ),
    ScalarFigure(
        key="break_even_acceptance_ratio",
        label="Break-even acceptance rate",
        description="Acceptance rate above which speculation pays in the window, at the assumed cost.",
        unit=Unit.SHARE,
        source=(DRAFTS, DRAFT_TOKENS, STEPS),
        group=Group.PAY,
        windows=MetricWindows.LONGEST_UNLABELLED,
        formula=at_cost(decode_work.break_even_acceptance_ratio),
    ),
    ListFigure(
        key="position_acceptance_ratio",
        label="Acceptance up to the position",
        description="Share of the window's drafts that are accepted up to and including the position.",
        unit=Unit.SHARE,
        source=(POSITIONS, DRAFTS),
        group=Group.ACCEPTANCE,
        formula=positions.position_acceptance_ratios,
        index="position",
        in_groups=GroupSum.RATIO_OF_SUMS,
    ),
    ListFigure(
        key="position_conditional_acceptance_ratio",
        label="Conditional acceptance at the position",
        description="Share accepted at the position, of drafts of the window accepted up to the one before.",
        unit=Unit.SHARE,
        source=(POSITIONS, DRAFTS),
        group=Group.ACCEPTANCE,
        formula=positions.conditional_acceptance_ratios,
        index="position",
    ),
    ScalarFigure(
        key="acceptance_decay_ratio",
        label="Decay from position to position",
        description="Pooled conditional acceptance after the first position in the window; 1 is no decay.",
        unit=Unit.NUMBER,
        source=(POSITIONS,),
        group=Group.ACCEPTANCE,
        formula=of_window(positions.decay_ratio),
    ),
    ListFigure(
        key="accepted_length_ratio",
        label="Accepted length",
        description="Share of the window's drafts with exactly this number of accepted tokens, 0 to K.",
        unit=Unit.SHARE,
        source=(POSITIONS, DRAFTS),
        group=Group.DISTRIBUTION,
        default=False,
        formula=positions.accepted_length_ratios,
        index="length",
    ),
    ScalarFigure(
        key="draft_length_tokens",
        label="Draft length",
        description="Mean tokens of a draft in the window; below K if drafts are shorter.",
        unit=Unit.TOKENS,
        source=(DRAFT_TOKENS, DRAFTS),
        group=Group.ACCEPTANCE,
        formula=of_window(acceptance.draft_length_tokens),
        numerator=CounterTerm(Counter.DRAFT_TOKENS),
        denominator=CounterTerm(Counter.DRAFTS),
        counts="in drafts:",
        required=_SPECULATION,
        in_groups=GroupSum.RATIO_OF_SUMS,
        comparison=ReportLine("Acceptance", "draft length", place=4),
    ),
    ScalarFigure(
        key="coverage_ratio",
        label="Decode steps with a draft",
        description="Share of the window's decode steps that had a draft.",
        unit=Unit.SHARE,
        source=(DRAFTS, STEPS),
        group=Group.ACCEPTANCE,
        formula=of_window(acceptance.coverage_ratio),
        numerator=CounterTerm(Counter.DRAFTS),
        denominator=CounterTerm(Counter.DECODE_STEPS),
        highest=1.0,
        in_groups=GroupSum.RATIO_OF_SUMS,
        comparison=ReportLine("Acceptance", "steps with a draft", place=5),
    ),
    ScalarFigure(
        key="effective_tokens_per_step",
        label="Tokens per decode step",
        description="Mean tokens that a decode step of the window gives, with a draft or without.",
        unit=Unit.TOKENS,
        source=(GENERATED, FIRST, STEPS),
        group=Group.ACCEPTANCE,
        formula=of_window(acceptance.effective_tokens_per_step),
        numerator=DECODED_TOKENS,
        denominator=CounterTerm(Counter.DECODE_STEPS),
        counts="in steps:",
        in_groups=GroupSum.RATIO_OF_SUMS,
        report=ReportLine("Acceptance", "tokens per step"),
        comparison=ReportLine("Acceptance", "tokens per step", place=3),
    ),
    _per_second("drafts_per_second", Counter.DRAFTS, DRAFTS, "Drafts", "Drafts per second in the window."),
    _per_second(
        "draft_tokens_per_second",
        Counter.DRAFT_TOKENS,
        DRAFT_TOKENS,
        "Tokens drafted",
        "Draft tokens per second in the window.",
        report=ReportLine("Waste", "drafted", "tokens a second"),
    ),
    _per_second(
        "accepted_tokens_per_second",
        Counter.ACCEPTED_TOKENS,
        ACCEPTED,
        "Tokens accepted",
        "Accepted draft tokens per second in the window.",
        report=ReportLine("Waste", "accepted", "tokens a second"),
    ),
    ScalarFigure(
        key="rejected_tokens_per_second",
        label="Tokens rejected",
        description="Rejected draft tokens per second in the window.",
        unit=Unit.PER_SECOND,
        source=(DRAFT_TOKENS, ACCEPTED),
        group=Group.RATES,
        formula=of_window(_rejected_per_second),
        in_groups=GroupSum.SUM,
        report=ReportLine("Waste", "wasted", "tokens a second"),
    ),
    _per_second(
        "generation_tokens_per_second",
        Counter.GENERATION_TOKENS,
        GENERATED,
        "Tokens generated",
        "Generated tokens per second in the window.",
        comparison=ReportLine("Speed", "tokens per second", place=3),
    ),
    ScalarFigure(
        key="step_seconds",
        label="Time of a decode step",
        description="Mean time of a decode step of one request in the window, in seconds.",
        unit=Unit.SECONDS,
        source=(STEP_SECONDS, STEPS),
        group=Group.LATENCY,
        formula=of_window(latency.step_seconds),
        numerator=_DECODE_SECONDS,
        denominator=CounterTerm(Counter.DECODE_STEPS),
        counts="s in steps:",
        in_groups=GroupSum.RATIO_OF_SUMS,
        comparison=ReportLine("Speed", "time per step", place=2),
    ),
    ScalarFigure(
        key="time_per_output_token_seconds",
        label="Time per output token",
        description="Mean time per output token after the first in the window, by token, in seconds.",
        unit=Unit.SECONDS,
        source=(STEP_SECONDS, GENERATED, FIRST),
        group=Group.LATENCY,
        formula=of_window(latency.time_per_output_token_seconds),
        numerator=_DECODE_SECONDS,
        denominator=DECODED_TOKENS,
        counts="s in tokens:",
        in_groups=GroupSum.RATIO_OF_SUMS,
        report=ReportLine("Time", "time per output token", "mean, by token"),
        comparison=ReportLine("Speed", "time per output token", place=1),
    ),
    _mean(
        "running_requests",
        Gauge.RUNNING_REQUESTS,
        "vllm:num_requests_running",
        "Running requests",
        "Mean running requests over the polls of the window.",
        comparison=ReportLine("Load and work", "running requests", place=1),
    ),
    _mean(
        "waiting_requests",
        Gauge.WAITING_REQUESTS,
        "vllm:num_requests_waiting",
        "Waiting requests",
        "Mean waiting requests over the polls of the window.",
        comparison=ReportLine("Load and work", "waiting requests", place=2),
    ),
    _mean(
        "kv_cache_usage_ratio",
        Gauge.KV_CACHE_USAGE,
        "vllm:kv_cache_usage_perc",
        "KV cache in use",
        "Mean share of the KV cache in use over the polls of the window.",
        comparison=ReportLine("Load and work", "KV cache in use", place=7),
    ),
    ScalarFigure(
        key="prefix_cache_hit_ratio",
        label="Prefix cache hits",
        description="Share of the window's prompt tokens that the prefix cache held.",
        unit=Unit.SHARE,
        source=("vllm:prefix_cache_hits_total", "vllm:prefix_cache_queries_total"),
        group=Group.LOAD,
        windows=MetricWindows.LONGEST,
        formula=of_window(server_load.prefix_cache_hit_ratio),
        numerator=CounterTerm(Counter.PREFIX_CACHE_HITS),
        denominator=CounterTerm(Counter.PREFIX_CACHE_QUERIES),
        highest=1.0,
        comparison=ReportLine("Load and work", "prompt tokens from the cache", place=6),
    ),
    ScalarFigure(
        key="preemptions_per_second",
        label="Preemptions",
        description="Preemptions per second in the window.",
        unit=Unit.PER_SECOND,
        source=("vllm:num_preemptions_total",),
        group=Group.LOAD,
        windows=MetricWindows.LONGEST,
        formula=of_window(lambda window: server_load.per_second(window, window[Counter.PREEMPTIONS])),
        numerator=CounterTerm(Counter.PREEMPTIONS),
        denominator=SecondsTerm(),
    ),
    ScalarFigure(
        key="requests_per_second",
        label="Requests",
        description="Requests per second that began in the window.",
        unit=Unit.REQUESTS,
        source=(FIRST,),
        group=None,
        formula=of_window(lambda window: server_load.per_second(window, window[Counter.FIRST_TOKENS])),
        numerator=CounterTerm(Counter.FIRST_TOKENS),
        denominator=SecondsTerm(),
        comparison=ReportLine("Load and work", "requests per second", place=3),
    ),
    _tokens_per_request(
        Counter.GENERATION_TOKENS, GENERATED, "output_tokens_per_request", "tokens per answer", 5
    ),
    _tokens_per_request(
        Counter.PROMPT_TOKENS,
        "vllm:prompt_tokens_total",
        "prompt_tokens_per_request",
        "tokens per prompt",
        4,
    ),
)
"""All figures of a window, in the order of the JSON fields."""


_SCALARS: Final = {figure.key: figure for figure in FIGURES if isinstance(figure, ScalarFigure)}


def scalar(key: str) -> ScalarFigure:
    """Return the row of a figure of one number."""
    return _SCALARS[key]


def shown() -> tuple[Figure, ...]:
    """Return the figures with a metric and a JSON field."""
    return tuple(figure for figure in FIGURES if figure.group is not None)


def measured() -> tuple[ScalarFigure, ...]:
    """Return the figures that references measure."""
    return tuple(
        figure for figure in FIGURES if isinstance(figure, ScalarFigure) and figure.comparison is not None
    )
