"""Sections about single requests, as an exporter returns them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from spec_decode_exporter.config.units import format_duration
from spec_decode_exporter.core import number_formats as numbers
from spec_decode_exporter.reports.parts import Fact, Note, Part, ReportSection, Tone
from spec_decode_exporter.requests.bucket_labels import bucket_text
from spec_decode_exporter.requests.request_findings import Effect
from spec_decode_exporter.views.request_models import (
    PercentilesView,
    RequestGroupView,
    RequestModelView,
    RequestPromptBucketView,
    RequestPromptsView,
    RequestsView,
    RequestWindowView,
)
from spec_decode_exporter.views.request_text import acceptance_falls, prompt_bucket, why_unclear

_TITLE: Final = "Requests"
_OFF: Final = "That exporter does not receive them: its `requests.ingest` is off."
_NONE: Final = "None came lately."
_MIXED: Final = "Mixed workload: the average hides that some requests gain much less than others, or lose."
_TONES: Final[Mapping[Effect, Tone]] = {
    Effect.LOSES: Tone.BAD,
    Effect.GAINS: Tone.GOOD,
    Effect.UNCLEAR: Tone.NEUTRAL,
}
"""Tone of each effect, in the order of the groups."""


def requests(view: RequestsView) -> Iterator[ReportSection]:
    """Yield a section for each model, of the longest window that the exporter keeps."""
    if not view.models:
        yield ReportSection(_TITLE, (Note(_NONE if view.enabled else _OFF),))
        return
    window = view.windows[-1]
    for model in view.models:
        if model.window == window.window:
            key = (model.window, model.model_name)
            groups = [each for each in view.groups if (each.window, each.model_name) == key]
            prompts = [each for each in view.prompts if each.model_name == model.model_name]
            parts = (*_parts(model, groups, window), *(part for each in prompts for part in _prompts(each)))
            yield ReportSection(_TITLE, parts)


def _parts(
    model: RequestModelView, groups: list[RequestGroupView], window: RequestWindowView
) -> Iterator[Part]:
    yield Fact("model", model.model_name, untrusted=True)
    yield Fact("requests", f"{numbers.count(model.requests)} in {_covered(window)}")
    yield Fact("acceptance rate", _acceptance(model))
    if model.evaluated:
        yield Fact("below break-even", _below(model))
    if model.rejected or model.repetitive:
        yield Fact("pathological", _pathological(model))
    if model.mixed:
        yield Note(_MIXED, tone=Tone.BAD)
    yield from (Note(each, untrusted=True) for each in model.advice)
    order = list(_TONES)
    for group in sorted(groups, key=lambda each: (order.index(each.effect), _speedup(each))):
        yield _group(group)


def _covered(window: RequestWindowView) -> str:
    """Return the window's name, and the part of it that has every request."""
    if not window.partial:
        return window.window
    return f"{window.window}, complete for the last {format_duration(int(window.covered_seconds))}"


def _group(group: RequestGroupView) -> Note:
    words = [_effect(group), *_fast(group), f"acceptance {_spread(group.acceptance_ratio)}"]
    words += [f"{_below(group)} below break-even"] if group.evaluated else []
    words += [
        f"{numbers.count(group.accepted_tokens)} tokens saved by {numbers.count(group.requests)} requests"
    ]
    name = f"{group.request_type}, temperature {bucket_text(group.temperature)}"
    return Note("; ".join(words), name, _TONES[group.effect], untrusted=True)


def _prompts(prompts: RequestPromptsView) -> Iterator[Part]:
    """Yield the finding about the length of the prompt, and a line for each bucket."""
    fall = prompts.fall
    if fall is not None:
        yield Note(acceptance_falls(**fall.model_dump()), tone=Tone.BAD)
    for bucket in prompts.buckets:
        yield Note("; ".join(_prompt_words(bucket)), f"prompts {prompt_bucket(bucket.prompt_tokens)} tokens")


def _prompt_words(bucket: RequestPromptBucketView) -> Iterator[str]:
    yield f"{numbers.count(bucket.requests)} requests"
    length, first = bucket.mean_acceptance_length_tokens, bucket.time_to_first_token_seconds
    if length is not None and length.value is not None:
        bounds = numbers.bounds(length.lower, length.upper)
        yield f"acceptance length {numbers.plain(length.value)} ({bounds})"
    yield from _fast(bucket)
    if first is not None:
        yield f"first token after {numbers.duration(first.p50)} (p90 {numbers.duration(first.p90)})"
    if bucket.cached_ratio is not None:
        yield f"{numbers.percent(bucket.cached_ratio)} of the prompt cached"


def _effect(group: RequestGroupView) -> str:
    if group.effect is not Effect.UNCLEAR:
        return group.effect.value
    speedup = group.speedup_ratio
    bounds = (speedup.lower, speedup.upper) if speedup else (None, None)
    return f"{group.effect.value} ({why_unclear(group.drafts, group.evaluated, *bounds)})"


def _speedup(group: RequestGroupView) -> float:
    """Return the sort key of groups with the same effect: the largest gain or loss comes first."""
    value = group.speedup_ratio.value if group.speedup_ratio else None
    if value is None:
        return 0.0
    return value if group.effect is Effect.LOSES else -value


def _fast(group: RequestGroupView | RequestPromptBucketView) -> Iterator[str]:
    speedup = group.speedup_ratio
    if speedup is not None:
        bounds = f"{numbers.plain(speedup.lower)} to {numbers.plain(speedup.upper)}"
        yield f"{numbers.plain(speedup.value)} times as fast ({bounds})"


def _spread(percentiles: PercentilesView | None) -> str:
    if percentiles is None:
        return numbers.ABSENT
    p10, p50, p90 = map(numbers.share, (percentiles.p10, percentiles.p50, percentiles.p90))
    return f"p50 {p50} (p10 {p10}, p90 {p90})"


def _acceptance(model: RequestModelView) -> str:
    """Return the percentiles and both means; the server's counters show the second."""
    mean, weighed = map(numbers.share, (model.mean_acceptance_ratio, model.draft_acceptance_ratio))
    return f"{_spread(model.acceptance_ratio)}; mean {mean}, by draft tokens {weighed}"


def _below(view: RequestGroupView | RequestModelView) -> str:
    share = 100 * view.below_break_even / view.evaluated
    return f"{share:.1f} % of {numbers.count(view.evaluated)}"


def _pathological(model: RequestModelView) -> str:
    counts = ((model.rejected, "almost nothing"), (model.repetitive, "almost everything"))
    return ", ".join(f"{numbers.count(count)} with {what} accepted" for count, what in counts if count)
