"""Metrics of single requests: groups, models and users."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import astuple
from functools import partial
from itertools import accumulate
from typing import Final

from spec_decode_exporter.config.schema import Group
from spec_decode_exporter.figures.estimate import Estimate
from spec_decode_exporter.figures.quantiles import QUANTILE_LABEL, SPREAD_QUANTILES
from spec_decode_exporter.figures.ratio import ratio
from spec_decode_exporter.metrics.metric import Metric, MetricKind, Numbers, Read
from spec_decode_exporter.requests.request_findings import (
    Effect,
    GroupKey,
    GroupTotals,
    ModelFindings,
    Percentiles,
    PromptBucket,
    RequestFindings,
    RequestHistogram,
    Summary,
)
from spec_decode_exporter.requests.request_record import Refusal

_GROUP: Final = ("model_name", "request_type", "temperature")

_row: partial[Metric[RequestFindings]] = partial(Metric, group=Group.REQUESTS)
_counter = partial(_row, kind=MetricKind.COUNTER, labels=_GROUP)
_histogram = partial(_row, kind=MetricKind.HISTOGRAM, labels=_GROUP)
_gauge = partial(_row, kind=MetricKind.GAUGE, labels=(*_GROUP, "window"))
_quantiles = partial(_row, kind=MetricKind.QUANTILES, labels=(*_GROUP, "window", QUANTILE_LABEL))
_model = partial(_row, kind=MetricKind.GAUGE, labels=("model_name", "window"))
_user = partial(_row, kind=MetricKind.GAUGE, labels=("user", "model_name"))
_prompt = partial(_row, kind=MetricKind.GAUGE, labels=("model_name", "prompt_tokens"))
_own = partial(_row, kind=MetricKind.COUNTER, group=Group.EXPORTER)

_SPECULATION: Final = ("response: metrics.speculative_decoding",)
_PROMPTS: Final = ("response: usage.prompt_tokens", *_SPECULATION)
_TIMES: Final = ("response: metrics.generation_time_ms", "response: usage.completion_tokens")


def _labels(key: GroupKey) -> tuple[str, str, str]:
    return key.model_name, key.request_type, key.temperature


def _totals(value: Callable[[GroupTotals], float]) -> Read[RequestFindings]:
    """Read a sum of every group since the start."""
    return lambda findings: [(_labels(key), value(totals)) for key, totals in findings.since_start.items()]


def _histograms(which: Callable[[GroupTotals], RequestHistogram]) -> Read[RequestFindings]:
    """Read a histogram of every group: the sample's suffix and its upper bound precede the labels."""

    def read(findings: RequestFindings) -> Numbers:
        for key, totals in findings.since_start.items():
            for suffix, bound, number in _samples(which(totals)):
                yield (suffix, bound, *_labels(key)), number

    return read


def _samples(histogram: RequestHistogram) -> Iterator[tuple[str, str, float]]:
    bounds = (*(str(float(bound)) for bound in histogram.upper_bounds), "+Inf")
    for bound, number in zip(bounds, accumulate(histogram.counts), strict=True):
        yield "_bucket", bound, number
    yield "_count", "", histogram.count
    yield "_sum", "", histogram.sum


def _summaries(findings: RequestFindings) -> Iterable[tuple[tuple[str, ...], Summary]]:
    for label, window in findings.windows.items():
        for group in window.groups:
            yield (*_labels(group.key), label), group.summary


def _each(value: Callable[[Summary], float | None]) -> Read[RequestFindings]:
    """Read a number of every group in every window."""
    return lambda findings: [(labels, value(summary)) for labels, summary in _summaries(findings)]


def _quantile_values(labels: tuple[str, ...], percentiles: Percentiles | None) -> Numbers:
    """Yield the percentiles over some requests, with the label ``quantile`` after ``labels``."""
    if percentiles is not None:
        for quantile, value in zip(SPREAD_QUANTILES, astuple(percentiles), strict=True):
            yield (*labels, quantile.label), value


def _each_quantile(which: Callable[[Summary], Percentiles | None]) -> Read[RequestFindings]:
    """Read the quantiles of every group in every window."""

    def read(findings: RequestFindings) -> Numbers:
        for labels, summary in _summaries(findings):
            yield from _quantile_values(labels, which(summary))

    return read


def _speedup(value: Callable[[Estimate], float | None]) -> Read[RequestFindings]:
    return _each(lambda summary: value(summary.speedup_ratio) if summary.speedup_ratio else None)


def _effects(findings: RequestFindings) -> Numbers:
    """Read a state set: a series for each effect, of which one is 1."""
    for label, window in findings.windows.items():
        for group in window.groups:
            for effect in Effect:
                yield (*_labels(group.key), label, str(effect)), float(effect == group.effect)


def _pathological(findings: RequestFindings) -> Numbers:
    for labels, summary in _summaries(findings):
        yield (*labels, "rejected"), summary.rejected
        yield (*labels, "repetitive"), summary.repetitive


def _below_break_even(summary: Summary) -> float | None:
    return ratio(summary.below_break_even, summary.evaluated)


def _models(findings: RequestFindings) -> Iterable[tuple[tuple[str, ...], ModelFindings]]:
    for label, window in findings.windows.items():
        for model in window.models:
            yield (model.model_name, label), model


def _each_model(value: Callable[[ModelFindings], float | None]) -> Read[RequestFindings]:
    return lambda findings: [(labels, value(model)) for labels, model in _models(findings)]


def _each_user(value: Callable[[Summary], float | None]) -> Read[RequestFindings]:
    return lambda findings: [((user.user, user.model_name), value(user.summary)) for user in findings.users]


def _each_bucket(value: Callable[[PromptBucket], float | None]) -> Read[RequestFindings]:
    """Read a number of every bucket of prompt lengths, over the longest window."""
    return lambda findings: [
        ((model.model_name, bucket.prompt_tokens), value(bucket))
        for model in findings.prompts
        for bucket in model.buckets
    ]


def _acceptance_length(bucket: PromptBucket) -> float | None:
    return None if bucket.acceptance_length is None else bucket.acceptance_length.value


def _acceptance_ratio(summary: Summary) -> float | None:
    totals = summary.totals
    return ratio(totals.accepted_tokens, totals.draft_tokens)


REQUEST_METRICS: tuple[Metric[RequestFindings], ...] = (
    _counter(
        "spec_decode_requests_total",
        help="Requests that reported their own speculation, since the exporter first saw the group.",
        source=_SPECULATION,
        read=_totals(lambda group: group.totals.requests),
    ),
    _counter(
        "spec_decode_request_saved_tokens_total",
        help="Accepted draft tokens of the requests, each saving a step of the target, since the exporter first saw the group.",
        source=_SPECULATION,
        read=_totals(lambda group: group.totals.accepted_tokens),
    ),
    _histogram(
        "spec_decode_request_acceptance_ratio",
        help="Requests by acceptance rate, since the exporter first saw the group; without requests that drafted nothing.",
        source=_SPECULATION,
        read=_histograms(lambda group: group.acceptance_ratio),
    ),
    _histogram(
        "spec_decode_request_acceptance_length_tokens",
        help="Requests by acceptance length, since the exporter first saw the group; without requests that drafted nothing.",
        source=_SPECULATION,
        read=_histograms(lambda group: group.acceptance_length_tokens),
    ),
    _gauge(
        "spec_decode_window_requests",
        help="Requests that reported their own speculation and ended in the window.",
        source=_SPECULATION,
        read=_each(lambda summary: summary.totals.requests),
    ),
    _quantiles(
        "spec_decode_request_acceptance_quantile_ratio",
        help="Quantiles of the acceptance rate over the requests of the window.",
        source=_SPECULATION,
        read=_each_quantile(lambda summary: summary.acceptance_ratio),
    ),
    _quantiles(
        "spec_decode_request_acceptance_length_quantile_tokens",
        help="Quantiles of the acceptance length over the requests of the window, bonus token included.",
        source=_SPECULATION,
        read=_each_quantile(lambda summary: summary.acceptance_length_tokens),
    ),
    _quantiles(
        "spec_decode_request_time_per_output_token_quantile_seconds",
        help="Quantiles of the time per output token after the first over the requests of the window, in seconds.",
        source=_TIMES,
        read=_each_quantile(lambda summary: summary.time_per_output_token_seconds),
    ),
    _gauge(
        "spec_decode_requests_below_break_even_ratio",
        help="Share of the requests of the window that speculation made slower, at the cost of drafting.",
        source=_SPECULATION,
        read=_each(_below_break_even),
    ),
    _gauge(
        "spec_decode_window_evaluated_requests",
        help="Requests of the window with drafts and a known cost; weight of the shares below break-even.",
        source=_SPECULATION,
        read=_each(lambda summary: summary.evaluated),
    ),
    _gauge(
        "spec_decode_request_speedup_ratio",
        help="Estimated decoding speed of the requests of the window relative to no speculation; below 1 is slower.",
        source=_SPECULATION,
        read=_speedup(lambda speedup: speedup.value),
    ),
    *(
        _gauge(
            f"spec_decode_request_speedup_ratio_{side}",
            help=f"The {side} 95 % bound of the speed-up of the requests of the window.",
            source=_SPECULATION,
            read=_speedup(bound),
        )
        for side, bound in (
            ("lower", lambda speedup: speedup.lower),
            ("upper", lambda speedup: speedup.upper),
        )
    ),
    _row(
        "spec_decode_request_effect",
        kind=MetricKind.GAUGE,
        labels=(*_GROUP, "window", "effect"),
        help="Effect of speculation on the requests of the window: 1 for the present effect, 0 for the others.",
        source=_SPECULATION,
        read=_effects,
    ),
    _row(
        "spec_decode_pathological_requests",
        kind=MetricKind.GAUGE,
        labels=(*_GROUP, "window", "kind"),
        help="Requests of the window with almost no accepted draft token (rejected) or almost all (repetitive).",
        source=_SPECULATION,
        read=_pathological,
    ),
    _model(
        "spec_decode_mixed_workload",
        help="State of the model's requests in the window: 1 if an average hides two kinds of them.",
        source=_SPECULATION,
        read=_each_model(lambda model: float(model.mixed)),
    ),
    _user(
        "spec_decode_user_requests",
        help="Requests of a user, named by a hash, in the longest window; absent unless users are kept.",
        source=("user of the request",),
        read=_each_user(lambda summary: summary.totals.requests),
    ),
    _user(
        "spec_decode_user_acceptance_ratio",
        help="Acceptance rate of a user's requests in the longest window; absent unless users are kept.",
        source=_SPECULATION,
        read=_each_user(_acceptance_ratio),
    ),
    _prompt(
        "spec_decode_prompt_acceptance_length_tokens",
        help="Acceptance length of the requests with prompts of this length, bonus token included.",
        source=_PROMPTS,
        read=_each_bucket(_acceptance_length),
    ),
    _row(
        "spec_decode_acceptance_falls_with_prompt",
        kind=MetricKind.GAUGE,
        labels=("model_name",),
        help="State of the model's requests: 1 if long prompts have a significantly lower acceptance length.",
        source=_PROMPTS,
        read=lambda findings: [
            ((model.model_name,), float(model.fall is not None)) for model in findings.prompts
        ],
    ),
    _own(
        "spec_decode_exporter_requests_taken_total",
        help="Received and counted requests; absent if the exporter receives none.",
        read=lambda findings: [((), findings.taken)],
    ),
    _own(
        "spec_decode_exporter_requests_refused_total",
        labels=("reason",),
        help="Rejected requests, by reason; a body that is rejected whole counts as one.",
        read=lambda findings: [((str(reason),), findings.refused.get(reason, 0)) for reason in Refusal],
    ),
    _own(
        "spec_decode_exporter_requests_folded_total",
        labels=("label",),
        help="Requests counted as other in a label, because it has more values than its limit.",
        read=lambda findings: [((label,), number) for label, number in sorted(findings.folded.items())],
    ),
)
