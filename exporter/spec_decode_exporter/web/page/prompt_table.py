"""Table of a model's requests by the length of the prompt, and the finding that acceptance falls with it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from spec_decode_exporter.core import number_formats
from spec_decode_exporter.figures.estimate import Estimate
from spec_decode_exporter.requests.advice import bucket_text
from spec_decode_exporter.requests.cells import Percentiles
from spec_decode_exporter.requests.findings import ContextFall, PromptBucket, PromptFindings
from spec_decode_exporter.web.page.markup import Markup, joined, tag
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

_HEADS: Final = (
    ("Prompt tokens", "The bucket of the length of the prompt"),
    ("Number", "Requests of the longest window"),
    ("Length", "Mean tokens of a draft, bonus token included, with 95 % bounds"),
    ("Speed-up", "Speed-up of all tokens, with 95 % bounds"),
    ("First token", "Time to first token: p50, and p10 to p90"),
    ("Cached", "Share of the prompt tokens from the prefix cache"),
)


def _prompt_bucket(label: str) -> str:
    """Return the text of a bucket's label: ``0-1000`` is "up to 1,000", ``>64000`` "above 64,000"."""
    words, _, bound = bucket_text(label).rpartition(" ")
    return f"{words} {number_formats.count(int(bound))}"


def _acceptance_falls(fall: ContextFall) -> str:
    short, long = (number_formats.count(round(tokens)) for tokens in (fall.short_tokens, fall.long_tokens))
    return (
        f"Acceptance falls with the context: a draft gives {fall.short_length:.2f} tokens at {short} prompt "
        f"tokens, and {fall.long_length:.2f} at {long}. Check the context length that the draft model was "
        "trained for; serve long prompts with fewer draft tokens, or without speculation where they lose."
    )


def prompt_finding(prompts: PromptFindings) -> Iterator[Markup]:
    """Yield the sentence of acceptance that falls with the context."""
    if prompts.fall is not None:
        yield tag("p", tag("strong", _acceptance_falls(prompts.fall)), class_="mixed")


def prompt_table(prompts: PromptFindings, label: str) -> Markup:
    """Return the table; ``label`` names the longest window."""
    heads = (
        tag(
            "th",
            title,
            *([" ", tag("small", label)] if place else []),
            scope="col",
            role="columnheader",
            title=meaning,
            class_="number" if place else None,
        )
        for place, (title, meaning) in enumerate(_HEADS)
    )
    head = tag("thead", tag("tr", *heads, role="row"), role="rowgroup")
    body = tag("tbody", *map(_row, prompts.buckets), role="rowgroup")
    title = f"Requests of {prompts.model_name} by prompt length"
    return tag("table", head, body, class_="groups", role="table", aria_label=title)


def _row(bucket: PromptBucket) -> Markup:
    summary = bucket.summary
    cells = (
        number(summary.requests, whole),
        _estimated(summary.acceptance_length, plain),
        _estimated(summary.speedup_ratio, times),
        _percentiles(summary.time_to_first_token_seconds),
        NOTHING if summary.cached_ratio is None else number(summary.cached_ratio, percent),
    )
    head = tag("th", _prompt_bucket(bucket.prompt_tokens), scope="row", role="rowheader")
    drawn = (
        tag("td", tag("div", value), class_="number", role="cell", data_label=title)
        for (title, _), value in zip(_HEADS[1:], cells, strict=True)
    )
    return tag("tr", head, *drawn, role="row", data_key=bucket.prompt_tokens)


def _estimated(estimate: Estimate | None, write: Format) -> Markup:
    if estimate is None:
        return NOTHING
    return joined((number(estimate.value, write), between(estimate.lower, estimate.upper, write)))


def _percentiles(percentiles: Percentiles | None) -> Markup:
    if percentiles is None:
        return NOTHING
    ends = (number(percentiles.p10, duration), DASH, number(percentiles.p90, duration))
    p50 = number(percentiles.p50, duration)
    return joined((p50, tag("small", *ends, class_="bounds", title="p10 to p90")))
