"""What single requests say: who gains from speculation and who pays, by model, type and temperature."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from spec_decode_exporter.analysis.verdict import Verdict
from spec_decode_exporter.core.internal_errors import InternalErrors
from spec_decode_exporter.requests.request_advice import temperature
from spec_decode_exporter.requests.request_findings import (
    Effect,
    GroupFindings,
    GroupKey,
    ModelFindings,
    Percentiles,
    RequestFindings,
    Summary,
    WindowFindings,
)
from spec_decode_exporter.requests.request_record import Refusal
from spec_decode_exporter.views.request_text import why_unclear
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
from spec_decode_exporter.web.page.words import NOT_SHOWN, Word, verdict_sign

_EFFECTS: Final[Mapping[Effect, tuple[Word, Verdict]]] = {
    Effect.LOSES: (Word("Loses", "Speculation makes these requests slower, beyond doubt."), Verdict.HARMFUL),
    Effect.GAINS: (Word("Gains", "Speculation makes these requests faster, beyond doubt."), Verdict.HEALTHY),
    Effect.UNCLEAR: (
        Word("Unclear", "Nobody can say whether speculation makes these requests faster or slower."),
        Verdict.INSUFFICIENT,
    ),
}
"""In the order of their rows, each with the verdict whose sign and colour it has."""
_ORDER: Final = list(_EFFECTS)

_HEADS: Final = (
    ("Requests of", False, "The request type, and the bucket of the temperature"),
    ("Number", True, "Requests, and their share of all"),
    ("Acceptance", False, "Accepted over draft tokens, by request: p50 in each window, and p10 to p90"),
    ("Length", True, "Tokens that a draft gives, the bonus token included: p50, and p10 to p90"),
    ("Below break-even", True, "Requests that speculation made slower, of those of which that can be said"),
    (
        "Tokens saved",
        True,
        "Accepted draft tokens: each came without a step of its own; what drafting cost is not taken off",
    ),
    ("Time/token", True, "Time per output token of a request: p50, and p10 to p90"),
    ("Effect", False, "The speed-up of all their tokens together, with 95 % bounds"),
)
"""The title, whether the column is of the longest window alone, and what it means."""

_REFUSALS: Final[Mapping[Refusal, str]] = {
    Refusal.MALFORMED: "malformed",
    Refusal.WITHOUT_METRICS: "without vLLM's metrics",
    Refusal.CONTRADICTORY: "contradictory",
    Refusal.RATE: "above the rate",
    Refusal.DROPPED: "dropped by the sender",
    Refusal.TOO_COSTLY: "too costly for vLLM to read",
    Refusal.BODY: "whole bodies",
}


async def requests(findings: RequestFindings, errors: InternalErrors) -> Markup:
    """Return the section; nothing where none are taken. The event loop gets its turn after each row."""
    if not findings.enabled:
        return Markup("")
    longest = list(findings.windows.values())[-1] if findings.windows else WindowFindings(0.0, partial=True)
    parts = [
        await errors.attempt_async(
            "page", partial(_model, model, findings.windows, errors), {"model_name": model.model_name}
        )
        or _omitted(name(model.model_name))
        for model in longest.models
    ]
    return joined([*(parts or [_none(findings)]), _counted(findings)])


def _omitted(title: Markup) -> Markup:
    return tag("p", title, ": ", NOT_SHOWN, class_="error")


async def _model(
    model: ModelFindings, windows: Mapping[str, WindowFindings], errors: InternalErrors
) -> Markup:
    label, longest = list(windows.items())[-1]
    title = tag("h3", name(model.model_name))
    told = tag("div", *_advice(model.advice), *_heaps(model, label), class_="told")
    parts = [title, *_finding(model), told]
    rows = []
    for group in _in_order(model.model_name, longest):
        row = errors.attempt("page", group.key.labels, partial(_row, group.key, group, model, windows))
        rows.append(row or _omitted_row(group.key))
        await asyncio.sleep(0)
    parts += [_table(rows, model, label), *_partial(longest, label)]
    return tag("div", *parts, class_="requests", data_key=model.model_name)


def _in_order(model_name: str, window: WindowFindings) -> list[GroupFindings]:
    """Return the groups of a model: first those that lose, then the largest."""
    own = (group for group in window.groups if group.key.model_name == model_name)
    return sorted(own, key=lambda group: (_ORDER.index(group.effect), -group.summary.totals.requests))


def _finding(model: ModelFindings) -> Iterator[Markup]:
    if model.mixed:
        says = "Mixed workload: the average hides that some requests gain much less than others, or lose."
        yield tag("p", tag("strong", says), class_="mixed")


def _advice(sentences: Sequence[str]) -> Iterator[Markup]:
    if sentences:
        yield tag("ul", *(tag("li", name(each)) for each in sentences), class_="sentences")


def _heaps(model: ModelFindings, label: str) -> Iterator[Markup]:
    """Yield the requests by their acceptance, which shows whether there are two heaps."""
    counts = model.acceptance_counts
    if not any(counts):
        return
    modes = model.modes
    means = () if modes is None else (modes.low_mean, modes.high_mean)
    ends = tag("div", *(tag("span", end) for end in ("0 %", "50 %", "100 %")), class_="x", aria_hidden="true")
    caption = tag("figcaption", f"Requests by acceptance rate, {label}")
    yield tag("figure", caption, columns(counts, means, _heaps_said(model)), ends, class_="heaps")


def _heaps_said(model: ModelFindings) -> str:
    modes, drafted = model.modes, sum(model.acceptance_counts)
    if modes is None:
        return f"{whole(drafted)} requests by their acceptance rate, in one heap."
    low, high = percent(modes.low_share), percent(1 - modes.low_share)
    means = percent(modes.low_mean), percent(modes.high_mean)
    return f"{whole(drafted)} requests in two heaps: {low} around {means[0]}, {high} around {means[1]}."


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
    called = f"Requests of {model.model_name} by type and temperature"
    return tag("table", head, body, class_="groups", role="table", aria_label=called)


def _row(
    key: GroupKey, group: GroupFindings, model: ModelFindings, windows: Mapping[str, WindowFindings]
) -> Markup:
    said = group.summary
    bucket = tag("span", "temperature ", name(temperature(key.temperature)), class_="where")
    title = joined((name(key.request_type), bucket, *_pathological(said)))
    cells = (
        _number(said, model.summary),
        _acceptance(key, said, windows),
        _percentiles(said.acceptance_length_tokens, plain),
        _below(said),
        number(said.totals.accepted_tokens, whole),
        _percentiles(said.time_per_output_token_seconds, duration),
        _effect(group),
    )
    head = tag("th", title, scope="row", role="rowheader")
    drawn = (_cell(*each, value) for each, value in zip(_HEADS[1:], cells, strict=True))
    return tag("tr", head, *drawn, role="row", data_key=f"{key.request_type}\0{key.temperature}")


def _omitted_row(key: GroupKey) -> Markup:
    """Return the row of a group that could not be shown."""
    bucket = tag("span", "temperature ", name(key.temperature), class_="where")
    title = joined((name(key.request_type), bucket))
    head = tag("th", title, scope="row", role="rowheader")
    says = tag("td", NOT_SHOWN, role="cell", colspan=len(_HEADS) - 1, class_="error")
    return tag("tr", head, says, role="row", data_key=f"{key.request_type}\0{key.temperature}")


def _cell(title: str, is_long: bool, meaning: str, value: Markup) -> Markup:  # noqa: FBT001 - a row of _HEADS
    """Return a cell; on a narrow screen, where there is no head, it says itself what it is."""
    del meaning
    return tag("td", tag("div", value), class_="number" if is_long else None, role="cell", data_label=title)


def _number(said: Summary, of_all: Summary) -> Markup:
    share = said.totals.requests / of_all.totals.requests
    return joined(
        (number(said.totals.requests, whole), tag("small", number(share, percent), class_="bounds"))
    )


def _acceptance(key: GroupKey, said: Summary, windows: Mapping[str, WindowFindings]) -> Markup:
    if said.acceptance_ratio is None:
        return NOTHING
    medians = (
        tag("span", tag("small", label), " ", number(_median(key, window), percent))
        for label, window in windows.items()
    )
    found = said.acceptance_ratio
    ends = ("p10 ", number(found.p10, percent), ", p90 ", number(found.p90, percent))
    return joined(
        (
            tag("div", *medians, class_="figures"),
            range_bar(found.p10, found.p50, found.p90),
            tag("small", *ends, class_="bounds"),
        )
    )


def _median(key: GroupKey, window: WindowFindings) -> float | None:
    found = next((group.summary.acceptance_ratio for group in window.groups if group.key == key), None)
    return None if found is None else found.p50


def _percentiles(found: Percentiles | None, write: Format) -> Markup:
    if found is None:
        return NOTHING
    ends = (number(found.p10, write), DASH, number(found.p90, write))
    return joined((number(found.p50, write), tag("small", *ends, class_="bounds", title="p10 to p90")))


def _below(said: Summary) -> Markup:
    if not said.evaluated:
        return NOTHING
    of_them = f"{whole(said.below_break_even)} of {whole(said.evaluated)}"
    share = number(said.below_break_even / said.evaluated, percent)
    return joined((share, tag("small", of_them, class_="bounds")))


def _effect(group: GroupFindings) -> Markup:
    word, verdict = _EFFECTS[group.effect]
    chip = tag(
        "span",
        verdict_sign(verdict),
        tag("span", word.text),
        class_=f"verdict {verdict}",
        title=word.meaning,
    )
    return joined((chip, *_speedup(group.summary), *_why(group)))


def _speedup(said: Summary) -> Iterator[Markup]:
    speedup = said.speedup_ratio
    if speedup is not None:
        yield tag("span", number(speedup.value, times), " as fast", class_="figure")
        yield between(speedup.lower, speedup.upper, times)


def _why(group: GroupFindings) -> Iterator[Markup]:
    """Say why it is unclear, in sight: who touches a screen sees no title."""
    said, speedup = group.summary, group.summary.speedup_ratio
    if group.effect is Effect.UNCLEAR:
        bounds = (speedup.lower, speedup.upper) if speedup else (None, None)
        yield tag("small", why_unclear(said.totals.drafts, said.evaluated, *bounds), class_="where")


def _pathological(said: Summary) -> Iterator[Markup]:
    for count, what in ((said.rejected, "nothing"), (said.repetitive, "everything")):
        if count:
            yield tag("span", number(count, whole), f" had almost {what} accepted", class_="where alarm")


def _partial(window: WindowFindings, label: str) -> Iterator[Markup]:
    if window.partial:
        yield tag(
            "p",
            f"Of the last {label} not every request is here: the exporter is younger, or had no room.",
            class_="note",
        )


def _none(findings: RequestFindings) -> Markup:
    says = "None lately." if findings.taken else "No request was taken yet."
    how = tag("code", "/api/v1/requests")
    return tag("p", f"{says} Send what vLLM's responses say of themselves to ", how, ".", class_="empty")


def _counted(findings: RequestFindings) -> Markup:
    """Say how many were taken since the start, how many were not, and what is not told apart."""
    refused = [f"{whole(count)} {_REFUSALS[reason]}" for reason, count in findings.refused.items() if count]
    folded = [f"{whole(count)} by {label}" for label, count in findings.folded.items() if count]
    told = [
        f"Since the start {whole(findings.taken)} requests were taken",
        *([f"refused {', '.join(refused)}"] if refused else []),
        *([f"counted as other {', '.join(folded)}"] if folded else []),
    ]
    return tag("p", f"{'; '.join(told)}.", class_="note")
