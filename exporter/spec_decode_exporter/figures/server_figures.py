"""Rows of the figure table: rates, latency and load of the server, and the work of its requests."""

from __future__ import annotations

from math import inf
from typing import Final

from spec_decode_exporter.config.schema import Group
from spec_decode_exporter.figures import acceptance, latency, request_time, series, server_load
from spec_decode_exporter.figures.figure import (
    Figure,
    GroupSum,
    MetricWindows,
    ReportLine,
    ScalarFigure,
    Unit,
    of_window,
)
from spec_decode_exporter.figures.ratio import ratio
from spec_decode_exporter.figures.terms import DECODED_TOKENS, CounterTerm, GaugeTerm, PollsTerm, SecondsTerm
from spec_decode_exporter.scrape.page.engine_table import Counter, Gauge
from spec_decode_exporter.window.ledger import NANO, Window

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
        highest=1.0 if is_share else inf,
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
        source=(source, series.FIRST),
        group=None,
        formula=of_window(lambda window: ratio(window[counter], window[first])),
        numerator=CounterTerm(counter),
        denominator=CounterTerm(first),
        comparison=ReportLine("Load and work", name, place=place),
    )


def _rejected_per_second(window: Window) -> float | None:
    return server_load.per_second(window, acceptance.rejected_tokens(window))


SERVER_FIGURES: Final[tuple[Figure, ...]] = (
    _per_second(
        "drafts_per_second", Counter.DRAFTS, series.DRAFTS, "Drafts", "Drafts per second in the window."
    ),
    _per_second(
        "draft_tokens_per_second",
        Counter.DRAFT_TOKENS,
        series.DRAFT_TOKENS,
        "Tokens drafted",
        "Draft tokens per second in the window.",
        report=ReportLine("Waste", "drafted", "tokens a second"),
    ),
    _per_second(
        "accepted_tokens_per_second",
        Counter.ACCEPTED_TOKENS,
        series.ACCEPTED,
        "Tokens accepted",
        "Accepted draft tokens per second in the window.",
        report=ReportLine("Waste", "accepted", "tokens a second"),
    ),
    ScalarFigure(
        key="rejected_tokens_per_second",
        label="Tokens rejected",
        description="Rejected draft tokens per second in the window.",
        unit=Unit.PER_SECOND,
        source=(series.DRAFT_TOKENS, series.ACCEPTED),
        group=Group.RATES,
        formula=of_window(_rejected_per_second),
        in_groups=GroupSum.SUM,
        report=ReportLine("Waste", "wasted", "tokens a second"),
    ),
    _per_second(
        "generation_tokens_per_second",
        Counter.GENERATION_TOKENS,
        series.GENERATED,
        "Tokens generated",
        "Generated tokens per second in the window.",
        comparison=ReportLine("Speed", "tokens per second", place=3),
    ),
    ScalarFigure(
        key="step_seconds",
        label="Time of a decode step",
        description="Mean time of a decode step of one request in the window, in seconds.",
        unit=Unit.SECONDS,
        source=(series.STEP_SECONDS, series.STEPS),
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
        source=(series.STEP_SECONDS, series.GENERATED, series.FIRST),
        group=Group.LATENCY,
        formula=of_window(latency.time_per_output_token_seconds),
        numerator=_DECODE_SECONDS,
        denominator=DECODED_TOKENS,
        counts="s in tokens:",
        in_groups=GroupSum.RATIO_OF_SUMS,
        report=ReportLine("Time", "time per output token", "mean, by token"),
        comparison=ReportLine("Speed", "time per output token", place=1),
    ),
    ScalarFigure(
        key="time_to_first_token_seconds",
        label="Time to first token",
        description="Mean time to first token in the window, time in the queue included, in seconds.",
        unit=Unit.SECONDS,
        source=(series.FIRST_SECONDS, series.FIRST),
        group=Group.LATENCY,
        windows=MetricWindows.LONGEST,
        formula=of_window(request_time.time_to_first_token_seconds),
        numerator=CounterTerm(Counter.FIRST_TOKEN_NANOSECONDS, divisor=NANO),
        denominator=CounterTerm(Counter.FIRST_TOKENS),
        counts="s in requests:",
        in_groups=GroupSum.RATIO_OF_SUMS,
        report=ReportLine("Time", "time to first token", "mean, by request", place=1),
        comparison=ReportLine("Speed", "time to first token", place=4),
    ),
    ScalarFigure(
        key="first_token_time_ratio",
        label="Time before the first token",
        description="Share of the requests' time in the window before the first token; the rest is decoding.",
        unit=Unit.SHARE,
        source=(series.FIRST_SECONDS, series.STEP_SECONDS),
        group=Group.LATENCY,
        windows=MetricWindows.LONGEST,
        formula=of_window(request_time.first_token_time_ratio),
        highest=1.0,
        report=ReportLine("Time", "before the first token", "of the requests' time", place=2),
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
        source=(series.FIRST,),
        group=None,
        formula=of_window(lambda window: server_load.per_second(window, window[Counter.FIRST_TOKENS])),
        numerator=CounterTerm(Counter.FIRST_TOKENS),
        denominator=SecondsTerm(),
        comparison=ReportLine("Load and work", "requests per second", place=3),
    ),
    _tokens_per_request(
        Counter.GENERATION_TOKENS, series.GENERATED, "output_tokens_per_request", "tokens per answer", 5
    ),
    _tokens_per_request(
        Counter.PROMPT_TOKENS,
        "vllm:prompt_tokens_total",
        "prompt_tokens_per_request",
        "tokens per prompt",
        4,
    ),
)
