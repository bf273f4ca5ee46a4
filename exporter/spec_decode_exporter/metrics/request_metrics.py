"""The rows of the catalogue about single requests, and how they read what those say together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import astuple
from functools import partial
from itertools import accumulate
from typing import Final

from spec_decode_exporter.config.schema import Group
from spec_decode_exporter.figures.estimate import Estimate
from spec_decode_exporter.metrics.metric import Metric, MetricKind, Values
from spec_decode_exporter.requests.request_findings import (
    Effect,
    GroupKey,
    GroupTotals,
    ModelFindings,
    Percentiles,
    RequestFindings,
    RequestHistogram,
    Summary,
)
from spec_decode_exporter.requests.request_record import Refusal

_GROUP: Final = ("model_name", "request_type", "temperature")
_PERCENTILES: Final = ("p10", "p50", "p90")

_row: partial[Metric[RequestFindings]] = partial(Metric, group=Group.REQUESTS)
_counter = partial(_row, kind=MetricKind.COUNTER, labels=_GROUP)
_histogram = partial(_row, kind=MetricKind.HISTOGRAM, labels=_GROUP)
_gauge = partial(_row, kind=MetricKind.GAUGE, labels=(*_GROUP, "window"))
_percentiles = partial(_row, kind=MetricKind.GAUGE, labels=(*_GROUP, "window", "percentile"))
_model = partial(_row, kind=MetricKind.GAUGE, labels=("model_name", "window"))
_user = partial(_row, kind=MetricKind.GAUGE, labels=("user", "model_name"))
_own = partial(_row, kind=MetricKind.COUNTER, group=Group.EXPORTER)

_START = "Since the exporter's start, or since the group has been told apart."
_WINDOW = "Over a window that the exporter keeps of the requests that ended in it."
_LONG = "Over the longest window that the exporter keeps of the requests that ended in it."
_SOURCE = "From the responses' metrics.speculative_decoding."
_TIMES = "From the responses' metrics.generation_time_ms and usage.completion_tokens."

Read = Callable[[RequestFindings], Values]
Numbers = Iterator[tuple[tuple[str, ...], float | None]]


def _labels(key: GroupKey) -> tuple[str, str, str]:
    return key.model_name, key.request_type, key.temperature


def _totals(value: Callable[[GroupTotals], float]) -> Read:
    """Read a sum of every group since the start."""
    return lambda findings: [(_labels(key), value(totals)) for key, totals in findings.since_start.items()]


def _histograms(which: Callable[[GroupTotals], RequestHistogram]) -> Read:
    """Read a histogram of every group: before its labels come the sample's suffix and its upper bound."""

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
    for window, found in findings.windows.items():
        for group in found.groups:
            yield (*_labels(group.key), window), group.summary


def _each(value: Callable[[Summary], float | None]) -> Read:
    """Read a number of every group in every window."""
    return lambda findings: [(labels, value(summary)) for labels, summary in _summaries(findings)]


def _each_percentile(which: Callable[[Summary], Percentiles | None]) -> Read:
    """Read the percentiles of every group in every window."""

    def read(findings: RequestFindings) -> Numbers:
        for labels, summary in _summaries(findings):
            yield from _spread(labels, which(summary))

    return read


def _spread(labels: tuple[str, ...], percentiles: Percentiles | None) -> Numbers:
    if percentiles is not None:
        for name, value in zip(_PERCENTILES, astuple(percentiles), strict=True):
            yield (*labels, name), value


def _speedup(value: Callable[[Estimate], float | None]) -> Read:
    return _each(lambda summary: value(summary.speedup_ratio) if summary.speedup_ratio else None)


def _effects(findings: RequestFindings) -> Numbers:
    """Read a state set: a series for each effect, of which one is 1."""
    for window, found in findings.windows.items():
        for group in found.groups:
            for effect in Effect:
                yield (*_labels(group.key), window, str(effect)), float(effect == group.effect)


def _pathological(findings: RequestFindings) -> Numbers:
    for labels, summary in _summaries(findings):
        yield (*labels, "rejected"), summary.rejected
        yield (*labels, "repetitive"), summary.repetitive


def _below_break_even(summary: Summary) -> float | None:
    return summary.below_break_even / summary.evaluated if summary.evaluated else None


def _models(findings: RequestFindings) -> Iterable[tuple[tuple[str, ...], ModelFindings]]:
    for window, found in findings.windows.items():
        for model in found.models:
            yield (model.model_name, window), model


def _each_model(value: Callable[[ModelFindings], float | None]) -> Read:
    return lambda findings: [(labels, value(model)) for labels, model in _models(findings)]


def _model_percentiles(findings: RequestFindings) -> Numbers:
    for labels, model in _models(findings):
        yield from _spread(labels, model.summary.acceptance_ratio)


def _each_user(value: Callable[[Summary], float | None]) -> Read:
    return lambda findings: [((one.user, one.model_name), value(one.summary)) for one in findings.users]


def _acceptance_ratio(summary: Summary) -> float | None:
    totals = summary.totals
    return totals.accepted_tokens / totals.draft_tokens if totals.draft_tokens else None


REQUEST_METRICS: tuple[Metric[RequestFindings], ...] = (
    _counter(
        "spec_decode_requests_total",
        help=f"Requests that said how their own speculation went. {_START} {_SOURCE}",
        read=_totals(lambda group: group.totals.requests),
    ),
    _counter(
        "spec_decode_request_drafts_total",
        help=f"Drafts of those requests. {_START} {_SOURCE}",
        read=_totals(lambda group: group.totals.drafts),
    ),
    _counter(
        "spec_decode_request_draft_tokens_total",
        help=f"Tokens drafted for those requests. {_START} {_SOURCE}",
        read=_totals(lambda group: group.totals.draft_tokens),
    ),
    _counter(
        "spec_decode_request_saved_tokens_total",
        help="Draft tokens accepted in those requests: each came out without a step of the target of its own. "
        f"{_START} {_SOURCE}",
        read=_totals(lambda group: group.totals.accepted_tokens),
    ),
    _histogram(
        "spec_decode_request_acceptance_ratio",
        help="Requests by accepted over drafted tokens of each; those that drafted nothing are left out. "
        f"{_START} {_SOURCE}",
        read=_histograms(lambda group: group.acceptance_ratio),
    ),
    _histogram(
        "spec_decode_request_acceptance_length_tokens",
        help="Requests by the mean tokens that a draft of each gave, the bonus token included; those that drafted "
        f"nothing are left out. {_START} {_SOURCE}",
        read=_histograms(lambda group: group.acceptance_length_tokens),
    ),
    _gauge(
        "spec_decode_window_requests",
        help=f"Requests that said how their own speculation went. {_WINDOW} {_SOURCE}",
        read=_each(lambda summary: summary.totals.requests),
    ),
    _row(
        "spec_decode_request_window_seconds",
        kind=MetricKind.GAUGE,
        labels=("window",),
        help="Time that the window really covers, with every request of it; less than its name says after a start, or "
        "where more requests came than are kept (requests.keep).",
        read=lambda findings: [
            ((label,), window.covered_seconds) for label, window in findings.windows.items()
        ],
    ),
    _percentiles(
        "spec_decode_request_acceptance_quantile_ratio",
        help="Percentiles over requests, each counting once, of accepted over drafted tokens. Absent where none "
        f"drafted. {_WINDOW} {_SOURCE}",
        read=_each_percentile(lambda summary: summary.acceptance_ratio),
    ),
    _percentiles(
        "spec_decode_request_acceptance_length_quantile_tokens",
        help="Percentiles over requests, each counting once, of the mean tokens that a draft gave, the bonus token "
        f"included. Absent where none drafted. {_WINDOW} {_SOURCE}",
        read=_each_percentile(lambda summary: summary.acceptance_length_tokens),
    ),
    _percentiles(
        "spec_decode_request_time_per_output_token_seconds",
        help="Percentiles over requests, each counting once, of the time per output token after the first. Absent "
        f"where no sender says both. {_WINDOW} {_TIMES}",
        read=_each_percentile(lambda summary: summary.time_per_output_token_seconds),
    ),
    _gauge(
        "spec_decode_requests_below_break_even_ratio",
        help="Share of the requests that speculation made slower, by their own acceptance at what drafting costs. "
        f"Absent where the cost is unknown. {_WINDOW} {_SOURCE}",
        read=_each(_below_break_even),
    ),
    _gauge(
        "spec_decode_window_judged_requests",
        help="Requests of which it can be said whether speculation made them slower: those that drafted, where the "
        f"cost is known. Shares of several groups are weighed by it. {_WINDOW} {_SOURCE}",
        read=_each(lambda summary: summary.evaluated),
    ),
    _gauge(
        "spec_decode_request_speedup_ratio",
        help="How much faster the requests were decoded than without speculation, all their tokens together, "
        f"estimated at what drafting costs; below 1 slower. Absent where the cost is unknown. {_WINDOW} {_SOURCE}",
        read=_speedup(lambda speedup: speedup.value),
    ),
    *(
        _gauge(
            f"spec_decode_request_speedup_ratio_{side}",
            help=f"The {side} 95 % bound of how much faster the requests were decoded than without speculation, from "
            f"their own scatter. Absent where too few requests say. {_WINDOW} {_SOURCE}",
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
        help="What speculation does to the requests: one of the series is 1. They gain while the lower bound of their "
        "speed-up is above 1 and lose while the upper one is below; by a cost of drafting that is only a guess, that is "
        "unclear of all whose drafts give more than hardly a token. "
        f"{_WINDOW} {_SOURCE}",
        read=_effects,
    ),
    _row(
        "spec_decode_pathological_requests",
        kind=MetricKind.GAUGE,
        labels=(*_GROUP, "window", "kind"),
        help="Requests of which almost no draft token was accepted, or, as in a loop of repetition, almost every "
        f"one; those that drafted too little to say are neither. {_WINDOW} {_SOURCE}",
        read=_pathological,
    ),
    _row(
        "spec_decode_model_request_acceptance_quantile_ratio",
        kind=MetricKind.GAUGE,
        labels=("model_name", "window", "percentile"),
        help="Percentiles over all requests of the model, each counting once, of accepted over drafted tokens. "
        f"Absent where none drafted. {_WINDOW} {_SOURCE}",
        read=_model_percentiles,
    ),
    _model(
        "spec_decode_model_request_mean_acceptance_ratio",
        help="Mean over all requests of the model, each counting once, of accepted over drafted tokens; the "
        f"server's own counters weigh them by draft tokens. {_WINDOW} {_SOURCE}",
        read=_each_model(lambda model: model.summary.mean_acceptance_ratio),
    ),
    _model(
        "spec_decode_model_requests_below_break_even_ratio",
        help="Share of all requests of the model that speculation made slower. Absent where the cost is unknown. "
        f"{_WINDOW} {_SOURCE}",
        read=_each_model(lambda model: _below_break_even(model.summary)),
    ),
    _model(
        "spec_decode_mixed_workload",
        help="Whether the model's requests are two kinds that an average hides: acceptance falls into two heaps, or "
        f"the p10 request is below break-even while the mean is above. {_WINDOW} {_SOURCE}",
        read=_each_model(lambda model: float(model.mixed)),
    ),
    _user(
        "spec_decode_user_requests",
        help="Requests of a user, who is named by a hash; absent unless users are kept. "
        f"{_LONG} From the senders' user.",
        read=_each_user(lambda summary: summary.totals.requests),
    ),
    _user(
        "spec_decode_user_acceptance_ratio",
        help="Accepted over drafted tokens of a user's requests; absent unless users are kept. "
        f"{_LONG} {_SOURCE}",
        read=_each_user(_acceptance_ratio),
    ),
    _own(
        "spec_decode_exporter_requests_taken_total",
        help="Requests sent to the exporter and counted; absent where none are taken.",
        read=lambda findings: [((), findings.taken)],
    ),
    _own(
        "spec_decode_exporter_request_bodies_taken_total",
        help="Bodies of requests sent to the exporter and taken, whatever was in them. Those that were rejected are "
        "the reason body of the requests refused.",
        read=lambda findings: [((), findings.bodies)],
    ),
    _own(
        "spec_decode_exporter_requests_refused_total",
        labels=("reason",),
        help="Requests not counted, by reason: not readable, without vLLM's metrics of the speculation, numbers that "
        "contradict each other, more a second than are taken, dropped by their sender, or too costly for the middleware to "
        "read. A body that is rejected whole counts as one.",
        read=lambda findings: [((str(reason),), findings.refused.get(reason, 0)) for reason in Refusal],
    ),
    _own(
        "spec_decode_exporter_requests_folded_total",
        labels=("label",),
        help="Requests counted as other in a label, because more of its values came than are told apart. Above 0, "
        "the figures of other stand for several.",
        read=lambda findings: [((label,), number) for label, number in sorted(findings.folded.items())],
    ),
)
