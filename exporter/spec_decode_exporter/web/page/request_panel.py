"""Requests: gain or loss by speculation, by model, request type and temperature."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from spec_decode_exporter.analysis.verdict import Verdict
from spec_decode_exporter.core.isolation import Isolation
from spec_decode_exporter.core.tasks import yield_to_event_loop
from spec_decode_exporter.requests.advice import bucket_text
from spec_decode_exporter.requests.cells import Effect, Percentiles, Sums
from spec_decode_exporter.requests.findings import (
    GroupFindings,
    GroupKey,
    ModelFindings,
    RequestFindings,
    WindowFindings,
)
from spec_decode_exporter.requests.record import Refusal, RequestSource
from spec_decode_exporter.web.page.charts import columns, range_bar
from spec_decode_exporter.web.page.markup import Markup, joined, name, tag
from spec_decode_exporter.web.page.page_numbers import (
    DASH,
    NOTHING,
    Format,
    between,
    duration,
    number,
    percent,
    plain,
    times,
    whole,
)
from spec_decode_exporter.web.page.prompt_table import prompt_finding, prompt_table
from spec_decode_exporter.web.page.words import NOT_SHOWN, Word, verdict_sign

_EFFECTS: Final[Mapping[Effect, tuple[Word, Verdict]]] = {
    Effect.LOSES: (
        Word("Loses", "Speculation makes these requests slower, statistically significant (95 %)."),
        Verdict.HARMFUL,
    ),
    Effect.GAINS: (
        Word("Gains", "Speculation makes these requests faster, statistically significant (95 %)."),
        Verdict.HEALTHY,
    ),
    Effect.UNCLEAR: (
        Word("Unclear", "The data does not show a gain or a loss by speculation."),
        Verdict.INSUFFICIENT,
    ),
}
"""Words in the order of the rows, each with the verdict of the same sign and color."""
_ORDER: Final = list(_EFFECTS)

_HEADS: Final = (
    ("Requests of", False, "The request type, and the bucket of the temperature"),
    ("Number", True, "Requests, and their share of all"),
    ("Acceptance", False, "Accepted over draft tokens, by request: p50 in each window, and p10 to p90"),
    ("Length", True, "Mean tokens of a draft, bonus token included: p50, and p10 to p90"),
    ("Below break-even", True, "Requests that speculation made slower, of those with a known cost"),
    (
        "Tokens saved",
        True,
        "Accepted draft tokens: each saved a decode step; the cost of drafting is not subtracted",
    ),
    ("Time/token", True, "Time per output token of a request: p50, and p10 to p90"),
    ("Effect", False, "Speed-up of all tokens, with 95 % bounds"),
)
"""Title, whether the column shows the longest window only, and tooltip."""

_REFUSALS: Final[Mapping[Refusal, str]] = {
    Refusal.MALFORMED: "malformed",
    Refusal.WITHOUT_METRICS: "without metrics of speculation",
    Refusal.CONTRADICTORY: "contradictory",
    Refusal.RATE: "above the rate",
    Refusal.DROPPED: "dropped by the sender",
    Refusal.TOO_COSTLY: "too costly for vLLM to read",
    Refusal.BODY: "whole bodies",
}


async def requests(findings: RequestFindings, errors: Isolation) -> Markup:
    """Return the section, or nothing if requests are not received; yield to the event loop after each row."""
    if not findings.enabled:
        return Markup("")
    longest = list(findings.windows.values())[-1] if findings.windows else WindowFindings(0.0, partial=True)
    parts = [
        await errors.attempt_async(
            "page", partial(_model, model, findings, errors), {"model_name": model.model_name}
        )
        or _omitted(name(model.model_name))
        for model in longest.models
    ]
    return joined([*(parts or [_none(findings)]), _counted(findings)])


def _omitted(title: Markup) -> Markup:
    return tag("p", title, ": ", NOT_SHOWN, class_="error")


async def _model(model: ModelFindings, findings: RequestFindings, errors: Isolation) -> Markup:
    windows = findings.windows
    label, longest = list(windows.items())[-1]
    prompts = [each for each in findings.prompts if each.model_name == model.model_name]
    title = tag("h3", name(model.model_name))
    overview = tag("div", *_advice(model.advice), *_distribution(model, label), class_="overview")
    falls = (part for each in prompts for part in prompt_finding(each))
    parts = [title, *_finding(model), *falls, overview]
    rows = []
    for group in _in_order(model.model_name, longest):
        row = errors.attempt("page", group.key._asdict(), partial(_row, group.key, group, model, windows))
        rows.append(row or _omitted_row(group.key))
        await yield_to_event_loop()
    tables = [_table(rows, model, label), *(prompt_table(each, label) for each in prompts)]
    parts += [*tables, *_partial(longest, label)]
    return tag("div", *parts, class_="requests", data_key=model.model_name)


def _in_order(model_name: str, window: WindowFindings) -> list[GroupFindings]:
    """Return the groups of a model: losing ones first, then by size."""
    own = (group for group in window.groups if group.key.model_name == model_name)
    return sorted(own, key=lambda group: (_ORDER.index(group.summary.effect), -group.summary.requests))


def _finding(model: ModelFindings) -> Iterator[Markup]:
    if model.mixed:
        text = "Mixed workload: the average hides that some requests gain much less than others, or lose."
        yield tag("p", tag("strong", text), class_="mixed")


def _advice(sentences: Sequence[str]) -> Iterator[Markup]:
    if sentences:
        yield tag("ul", *(tag("li", name(each)) for each in sentences), class_="sentences")


def _distribution(model: ModelFindings, label: str) -> Iterator[Markup]:
    """Yield the histogram of the requests' acceptance rates, with the means of two modes."""
    counts = model.summary.acceptance_counts
    if not any(counts):
        return
    ends = tag("div", *(tag("span", end) for end in ("0 %", "50 %", "100 %")), class_="x", aria_hidden="true")
    caption = tag("figcaption", f"Requests by acceptance rate, {label}")
    means = () if model.modes is None else (model.modes.low_mean, model.modes.high_mean)
    text = _distribution_text(model, sum(counts))
    yield tag("figure", caption, columns(counts, means, text), ends, class_="distribution")


def _distribution_text(model: ModelFindings, drafted: int) -> str:
    modes = model.modes
    if modes is None:
        return f"{whole(drafted)} requests by acceptance rate, with one mode."
    low, high = percent(modes.low_share), percent(1 - modes.low_share)
    means = percent(modes.low_mean), percent(modes.high_mean)
    return (
        f"{whole(drafted)} requests by acceptance rate, with two modes: of {whole(modes.requests)} with long "
        f"answers, {low} around {means[0]}, {high} around {means[1]}."
    )


def _table(rows: Sequence[Markup], model: ModelFindings, label: str) -> Markup:
    heads = (
        tag(
            "th",
            title,
            *([" ", tag("small", label)] if is_long else []),
            scope="col",
            role="columnheader",
            title=meaning,
            class_="number" if is_long else None,
        )
        for title, is_long, meaning in _HEADS
    )
    head = tag("thead", tag("tr", *heads, role="row"), role="rowgroup")
    body = tag("tbody", *rows, role="rowgroup")
    title = f"Requests of {model.model_name} by type and temperature"
    return tag("table", head, body, class_="groups", role="table", aria_label=title)


def _row(
    key: GroupKey, group: GroupFindings, model: ModelFindings, windows: Mapping[str, WindowFindings]
) -> Markup:
    summary = group.summary
    bucket = tag("span", "temperature ", name(bucket_text(key.temperature)), class_="context")
    title = joined((name(key.request_type), bucket, *_pathological(summary)))
    cells = (
        _number(summary, model.summary),
        _acceptance(key, summary, windows),
        _percentiles(summary.acceptance_length_tokens, plain),
        _below(summary),
        number(summary.accepted_tokens, whole),
        _percentiles(summary.time_per_output_token_seconds, duration),
        _effect(group),
    )
    head = tag("th", title, scope="row", role="rowheader")
    drawn = (_cell(*each, value) for each, value in zip(_HEADS[1:], cells, strict=True))
    return tag("tr", head, *drawn, role="row", data_key=_key(key))


def _key(key: GroupKey) -> str:
    """Return the key of a row; no temperature has a slash, so it is unambiguous."""
    return f"{key.request_type}/{key.temperature}"


def _omitted_row(key: GroupKey) -> Markup:
    """Return the row of a group that could not be shown."""
    bucket = tag("span", "temperature ", name(key.temperature), class_="context")
    title = joined((name(key.request_type), bucket))
    head = tag("th", title, scope="row", role="rowheader")
    text = tag("td", NOT_SHOWN, role="cell", colspan=len(_HEADS) - 1, class_="error")
    return tag("tr", head, text, role="row", data_key=_key(key))


def _cell(title: str, is_long: bool, meaning: str, value: Markup) -> Markup:  # noqa: FBT001 - a row of _HEADS
    """Return a cell; narrow screens show its label instead of the table head."""
    del meaning
    return tag("td", tag("div", value), class_="number" if is_long else None, role="cell", data_label=title)


def _number(summary: Sums, of_all: Sums) -> Markup:
    share = summary.requests / of_all.requests
    return joined((number(summary.requests, whole), tag("small", number(share, percent), class_="bounds")))


def _acceptance(key: GroupKey, summary: Sums, windows: Mapping[str, WindowFindings]) -> Markup:
    if summary.acceptance_ratio is None:
        return NOTHING
    medians = (
        tag("span", tag("small", label), " ", number(_median(key, window), percent))
        for label, window in windows.items()
    )
    percentiles = summary.acceptance_ratio
    ends = ("p10 ", number(percentiles.p10, percent), ", p90 ", number(percentiles.p90, percent))
    return joined(
        (
            tag("div", *medians, class_="figures"),
            range_bar(percentiles.p10, percentiles.p50, percentiles.p90),
            tag("small", *ends, class_="bounds"),
        )
    )


def _median(key: GroupKey, window: WindowFindings) -> float | None:
    percentiles = next((group.summary.acceptance_ratio for group in window.groups if group.key == key), None)
    return None if percentiles is None else percentiles.p50


def _percentiles(percentiles: Percentiles | None, write: Format) -> Markup:
    if percentiles is None:
        return NOTHING
    ends = (number(percentiles.p10, write), DASH, number(percentiles.p90, write))
    return joined((number(percentiles.p50, write), tag("small", *ends, class_="bounds", title="p10 to p90")))


def _below(summary: Sums) -> Markup:
    if not summary.evaluated:
        return NOTHING
    of_them = f"{whole(summary.below_break_even)} of {whole(summary.evaluated)}"
    share = number(summary.below_break_even / summary.evaluated, percent)
    return joined((share, tag("small", of_them, class_="bounds")))


def _effect(group: GroupFindings) -> Markup:
    word, verdict = _EFFECTS[group.summary.effect]
    chip = tag(
        "span",
        verdict_sign(verdict),
        tag("span", word.text),
        class_=f"verdict {verdict}",
        title=word.meaning,
    )
    return joined((chip, *_speedup(group.summary), *_why(group)))


def _speedup(summary: Sums) -> Iterator[Markup]:
    speedup = summary.speedup_ratio
    if speedup is not None:
        yield tag("span", number(speedup.value, times), " as fast", class_="figure")
        yield between(speedup.lower, speedup.upper, times)


def _why(group: GroupFindings) -> Iterator[Markup]:
    """Yield the reason of an unclear effect as text: touch screens show no tooltips."""
    summary, speedup = group.summary, group.summary.speedup_ratio
    if group.summary.effect is Effect.UNCLEAR:
        bounds = (speedup.lower, speedup.upper) if speedup else (None, None)
        yield tag("small", why_unclear(summary, *bounds), class_="context")


def why_unclear(summary: Sums, lower: float | None, upper: float | None) -> str:
    """Return why the effect on some requests is unclear; the bounds are those of the speed-up."""
    if not summary.draft_tokens:
        return "nothing was drafted"
    if not summary.drafts:
        return "the sender reports a rate only"
    if not summary.evaluated:
        return "the cost of drafting is unknown"
    if lower is None or upper is None:
        return "too few requests"
    if lower <= 1 <= upper:
        return "the bounds include 1"
    return "the cost of drafting is only a default"


def _pathological(summary: Sums) -> Iterator[Markup]:
    for count, what in ((summary.rejected, "nothing"), (summary.repetitive, "everything")):
        if count:
            yield tag("span", number(count, whole), f" had almost {what} accepted", class_="context alarm")


def _partial(window: WindowFindings, label: str) -> Iterator[Markup]:
    if window.partial:
        yield tag(
            "p",
            f"Some requests of the last {label} are missing: the exporter is younger, or its store was full.",
            class_="note",
        )


def _none(findings: RequestFindings) -> Markup:
    text = "No recent requests." if findings.taken else "No request was received yet."
    path = tag("code", "/api/v1/requests")
    return tag("p", f"{text} Send the metrics of vLLM's responses to ", path, ".", class_="empty")


def _counted(findings: RequestFindings) -> Markup:
    """Return the number of received, rejected and merged requests since the start."""
    refused = [f"{whole(count)} {_REFUSALS[reason]}" for reason, count in findings.refused.items() if count]
    folded = [f"{whole(count)} by {label}" for label, count in findings.folded.items() if count]
    rates = findings.sources.get(RequestSource.USAGE, 0)
    parts = [
        f"Since the start {whole(findings.taken)} requests were received",
        *([f"{whole(rates)} of them report a rate only"] if rates else []),
        *([f"rejected {', '.join(refused)}"] if refused else []),
        *([f"counted as other {', '.join(folded)}"] if folded else []),
    ]
    return tag("p", f"{'; '.join(parts)}.", class_="note")
