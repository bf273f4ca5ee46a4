"""Metrics of single requests by the length of the prompt, over the longest window."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple
from functools import partial
from typing import Final

from spec_decode_exporter.config.schema import Group
from spec_decode_exporter.figures.estimate import Estimate
from spec_decode_exporter.figures.quantiles import QUANTILE_LABEL, SPREAD_QUANTILES
from spec_decode_exporter.metrics.metric import Metric, MetricKind, Numbers, Read
from spec_decode_exporter.requests.request_findings import Percentiles, PromptBucket, RequestFindings

_BUCKET: Final = ("model_name", "prompt_tokens")
_PROMPT: Final = "response: usage.prompt_tokens"
_SPECULATION: Final = (_PROMPT, "response: metrics.speculative_decoding")

_row: partial[Metric[RequestFindings]] = partial(Metric, group=Group.REQUESTS, kind=MetricKind.GAUGE)
_gauge = partial(_row, labels=_BUCKET)


def quantiles(labels: tuple[str, ...], percentiles: Percentiles | None) -> Numbers:
    """Yield the percentiles over some requests, with the label ``quantile`` after ``labels``."""
    if percentiles is not None:
        for quantile, value in zip(SPREAD_QUANTILES, astuple(percentiles), strict=True):
            yield (*labels, quantile.label), value


def _each(value: Callable[[PromptBucket], float | None]) -> Read[RequestFindings]:
    """Read a number of every bucket."""
    return lambda findings: [
        ((model.model_name, bucket.prompt_tokens), value(bucket))
        for model in findings.prompts
        for bucket in model.buckets
    ]


def _of(
    which: Callable[[PromptBucket], Estimate | None], value: Callable[[Estimate], float]
) -> Read[RequestFindings]:
    """Read the value, or a bound, of an estimate; absent of too few requests."""
    return _each(lambda bucket: None if (estimate := which(bucket)) is None else value(estimate))


def _first_token(findings: RequestFindings) -> Numbers:
    for model in findings.prompts:
        for bucket in model.buckets:
            yield from quantiles((model.model_name, bucket.prompt_tokens), bucket.time_to_first_token_seconds)


PROMPT_METRICS: tuple[Metric[RequestFindings], ...] = (
    _gauge(
        "spec_decode_prompt_requests",
        help="Requests of the longest window with prompts of this length.",
        source=(_PROMPT,),
        read=_each(lambda bucket: bucket.summary.totals.requests),
    ),
    _gauge(
        "spec_decode_prompt_acceptance_length_tokens",
        help="Acceptance length of the requests with prompts of this length, bonus token included.",
        source=_SPECULATION,
        read=_of(lambda bucket: bucket.acceptance_length, lambda estimate: estimate.value),
    ),
    _gauge(
        "spec_decode_prompt_speedup_ratio",
        help="Estimated decoding speed of the requests with prompts of this length, relative to no speculation.",
        source=_SPECULATION,
        read=_of(lambda bucket: bucket.summary.speedup_ratio, lambda estimate: estimate.value),
    ),
    _gauge(
        "spec_decode_prompt_speedup_ratio_upper",
        help="The upper 95 % bound of the speed-up of the requests with prompts of this length.",
        source=_SPECULATION,
        read=_of(lambda bucket: bucket.summary.speedup_ratio, lambda estimate: estimate.upper),
    ),
    _row(
        "spec_decode_prompt_time_to_first_token_quantile_seconds",
        kind=MetricKind.QUANTILES,
        labels=(*_BUCKET, QUANTILE_LABEL),
        help="Quantiles of the time to first token over the requests with prompts of this length, in seconds.",
        source=(_PROMPT, "response: metrics.time_to_first_token_ms"),
        read=_first_token,
    ),
    _gauge(
        "spec_decode_prompt_cached_ratio",
        help="Share of the prompt tokens from the prefix cache, of requests with prompts of this length.",
        source=(_PROMPT, "response: usage.prompt_tokens_details.cached_tokens"),
        read=_each(lambda bucket: bucket.cached_ratio),
    ),
    _row(
        "spec_decode_acceptance_falls_with_prompt",
        labels=("model_name",),
        help="State of the model's requests: 1 if long prompts have a significantly lower acceptance length.",
        source=_SPECULATION,
        read=lambda findings: [
            ((model.model_name,), float(model.fall is not None)) for model in findings.prompts
        ],
    ),
)
