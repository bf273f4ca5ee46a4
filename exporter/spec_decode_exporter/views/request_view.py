"""Build the JSON models of single requests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from spec_decode_exporter.core.internal_errors import NO_ITEM, InternalErrors
from spec_decode_exporter.figures.estimate import Estimate
from spec_decode_exporter.figures.ratio import ratio
from spec_decode_exporter.requests.model_findings import BOUNDS
from spec_decode_exporter.requests.request_findings import (
    GroupFindings,
    GroupKey,
    GroupTotals,
    ModelFindings,
    Percentiles,
    PromptBucket,
    PromptFindings,
    RequestFindings,
    RequestHistogram,
    RequestTotals,
    Summary,
    UserFindings,
    WindowFindings,
)
from spec_decode_exporter.requests.request_record import Refusal
from spec_decode_exporter.views.request_models import (
    ContextFallView,
    HistogramView,
    PercentilesView,
    RequestGroupView,
    RequestModelView,
    RequestPromptBucketView,
    RequestPromptsView,
    RequestSinceStartView,
    RequestUserView,
    RequestWindowView,
)
from spec_decode_exporter.views.window_models import Estimated, View


def refused_view(refused: Mapping[Refusal, int]) -> dict[Refusal, int]:
    """Return the number of rejected requests by every reason."""
    return {reason: refused.get(reason, 0) for reason in Refusal}


def head(findings: RequestFindings) -> dict[str, Any]:
    """Return the part that concerns all requests."""
    return {
        "enabled": findings.enabled,
        "taken": findings.taken,
        "refused": refused_view(findings.refused),
        "folded": dict(findings.folded),
    }


def lists(findings: RequestFindings, errors: InternalErrors) -> dict[str, Iterator[View]]:
    """Return the lists, whose members are built lazily; one that fails is omitted."""
    windows = findings.windows
    groups = [(name, group) for name, window in windows.items() for group in window.groups]
    models = [(name, model) for name, window in windows.items() for model in window.models]
    return {
        "windows": errors.each("requests", windows.items(), lambda _: NO_ITEM, lambda each: _window(*each)),
        "groups": errors.each(
            "requests", groups, lambda each: each[1].key.labels, lambda each: _group(*each)
        ),
        "models": errors.each(
            "requests", models, lambda each: {"model_name": each[1].model_name}, lambda each: _model(*each)
        ),
        "since_start": errors.each(
            "requests",
            findings.since_start.items(),
            lambda each: each[0].labels,
            lambda each: _since_start(*each),
        ),
        "users": errors.each(
            "requests", findings.users, lambda each: {"model_name": each.model_name, "user": each.user}, _user
        ),
        "prompts": errors.each(
            "requests", findings.prompts, lambda each: {"model_name": each.model_name}, _prompts
        ),
    }


def _window(name: str, window: WindowFindings) -> View:
    return RequestWindowView(
        window=name,
        seconds=window.seconds,
        partial=window.partial,
        covered_seconds=window.covered_seconds,
    )


def _group(window: str, group: GroupFindings) -> View:
    return RequestGroupView(
        window=window,
        model_name=group.key.model_name,
        request_type=group.key.request_type,
        temperature=group.key.temperature,
        effect=group.effect,
        **_summary(group.summary),
    )


def _model(window: str, model: ModelFindings) -> View:
    return RequestModelView(
        window=window,
        model_name=model.model_name,
        mixed=model.mixed,
        low_share=model.modes and model.modes.low_share,
        low_mean_acceptance_ratio=model.modes and model.modes.low_mean,
        high_mean_acceptance_ratio=model.modes and model.modes.high_mean,
        modes_mean_acceptance_ratio=model.modes and model.modes.mean,
        modes_requests=model.modes and model.modes.requests,
        advice=tuple(model.advice),
        acceptance_bounds=BOUNDS,
        acceptance_counts=tuple(model.acceptance_counts),
        **_summary(model.summary),
    )


def _since_start(key: GroupKey, group: GroupTotals) -> View:
    return RequestSinceStartView(
        model_name=key.model_name,
        request_type=key.request_type,
        temperature=key.temperature,
        acceptance_ratio_histogram=_histogram(group.acceptance_ratio),
        acceptance_length_tokens_histogram=_histogram(group.acceptance_length_tokens),
        **_totals(group.totals),
    )


def _user(each: UserFindings) -> View:
    return RequestUserView(user=each.user, model_name=each.model_name, **_summary(each.summary))


def _prompts(each: PromptFindings) -> View:
    return RequestPromptsView(
        model_name=each.model_name,
        fall=None if each.fall is None else ContextFallView(**asdict(each.fall)),
        buckets=tuple(map(_prompt_bucket, each.buckets)),
    )


def _prompt_bucket(bucket: PromptBucket) -> RequestPromptBucketView:
    return RequestPromptBucketView(
        prompt_tokens=bucket.prompt_tokens,
        mean_prompt_tokens=bucket.mean_prompt_tokens,
        cached_ratio=bucket.cached_ratio,
        mean_acceptance_length_tokens=_estimated(bucket.acceptance_length),
        time_to_first_token_seconds=_percentiles(bucket.time_to_first_token_seconds),
        effect=bucket.effect,
        **_summary(bucket.summary),
    )


def _totals(totals: RequestTotals) -> dict[str, Any]:
    return {
        "requests": totals.requests,
        "drafts": totals.drafts,
        "draft_tokens": totals.draft_tokens,
        "accepted_tokens": totals.accepted_tokens,
        "draft_acceptance_ratio": (ratio(totals.accepted_tokens, totals.draft_tokens)),
    }


def _summary(summary: Summary) -> dict[str, Any]:
    return {
        **_totals(summary.totals),
        "mean_acceptance_ratio": summary.mean_acceptance_ratio,
        "acceptance_ratio": _percentiles(summary.acceptance_ratio),
        "acceptance_length_tokens": _percentiles(summary.acceptance_length_tokens),
        "time_per_output_token_seconds": _percentiles(summary.time_per_output_token_seconds),
        "speedup_ratio": _estimated(summary.speedup_ratio),
        "below_break_even": summary.below_break_even,
        "evaluated": summary.evaluated,
        "rejected": summary.rejected,
        "repetitive": summary.repetitive,
    }


def _histogram(histogram: RequestHistogram) -> HistogramView:
    return HistogramView(
        upper_bounds=tuple(histogram.upper_bounds), counts=tuple(histogram.counts), sum=histogram.sum
    )


def _percentiles(percentiles: Percentiles | None) -> PercentilesView | None:
    return (
        None
        if percentiles is None
        else PercentilesView(p10=percentiles.p10, p50=percentiles.p50, p90=percentiles.p90)
    )


def _estimated(estimate: Estimate | None) -> Estimated | None:
    return (
        None
        if estimate is None
        else Estimated(value=estimate.value, lower=estimate.lower, upper=estimate.upper)
    )
