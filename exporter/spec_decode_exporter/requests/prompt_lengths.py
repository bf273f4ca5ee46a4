"""Findings by the length of the prompt: buckets of each model, evaluated in slices of about a millisecond."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from spec_decode_exporter.core.tasks import yield_to_event_loop
from spec_decode_exporter.figures.estimate import Estimate, ratio
from spec_decode_exporter.requests.bucket_labels import bucket_labels
from spec_decode_exporter.requests.context_fall import context_fall
from spec_decode_exporter.requests.ratio_estimate import (
    RatioSums,
    add_ratio_sums,
    ratio_estimate,
    ratio_sums,
)
from spec_decode_exporter.requests.request_aggregate import (
    SLICE_SUMMED,
    CostOf,
    add_sums,
    indices_by,
    percentiles,
    summary,
    sums,
)
from spec_decode_exporter.requests.request_findings import PromptBucket, PromptFindings
from spec_decode_exporter.requests.request_speedup import effect
from spec_decode_exporter.requests.stored_requests import UNKNOWN_TOKENS, RequestRows
from spec_decode_exporter.requests.window_findings import RequestInputs


@dataclass(frozen=True, slots=True)
class PromptSums:
    """Sums over requests with a known prompt length."""

    requests: int = 0
    prompt_tokens: int = 0
    looked_up: int = 0
    """Prompt tokens of the requests that report their cached ones."""
    cached: int = 0
    accepted: RatioSums = field(default_factory=RatioSums)
    """A and D of requests that drafted."""
    first_token_seconds: Sequence[float] = ()


async def prompt_findings(
    rows: RequestRows, bounds: Sequence[int], inputs: RequestInputs
) -> list[PromptFindings]:
    """Return the findings of each model whose requests report the length of the prompt.

    Args:
        rows: Requests of the longest window.
        bounds: Ascending upper bounds of the buckets, in tokens; each belongs to its bucket.
        inputs: Costs and errors of the evaluation.
    """
    keys = (
        None if tokens == UNKNOWN_TOKENS else (group.key.model_name, bisect_left(bounds, tokens))
        for tokens, group in zip(rows.prompt_tokens, rows.groups, strict=True)
    )
    by_model: dict[str, list[tuple[int, Sequence[int]]]] = {}
    for (model_name, place), indices in sorted((await indices_by(keys)).items()):
        by_model.setdefault(model_name, []).append((place, indices))
    findings = []
    for model_name, buckets in by_model.items():
        of_model = partial(_model, model_name, buckets, rows, bucket_labels(bounds), inputs)
        findings.append(await inputs.errors.attempt_async("requests", of_model, {"model_name": model_name}))
    return [each for each in findings if each is not None]


async def _model(
    model_name: str,
    buckets: Sequence[tuple[int, Sequence[int]]],
    rows: RequestRows,
    labels: Sequence[str],
    inputs: RequestInputs,
) -> PromptFindings:
    cost_of = inputs.cost_of(model_name)
    evaluated = [await _bucket(labels[place], rows, indices, cost_of) for place, indices in buckets]
    return PromptFindings(model_name, evaluated, context_fall(evaluated))


async def _bucket(label: str, rows: RequestRows, indices: Sequence[int], cost_of: CostOf) -> PromptBucket:
    parts, prompts = [], []
    for first in range(0, len(indices), SLICE_SUMMED):
        part = rows.at(indices[first : first + SLICE_SUMMED])
        parts.append(sums(part, cost_of))
        prompts.append(_prompt_sums(part))
        await yield_to_event_loop()
    total, prompt = add_sums(parts), _add(prompts)
    return PromptBucket(
        prompt_tokens=label,
        mean_prompt_tokens=prompt.prompt_tokens / prompt.requests,
        cached_ratio=ratio(prompt.cached, prompt.looked_up),
        acceptance_length=_length(ratio_estimate(prompt.accepted)),
        time_to_first_token_seconds=percentiles(sorted(prompt.first_token_seconds)),
        summary=summary(total),
        effect=effect(total.speedup),
    )


def _prompt_sums(rows: RequestRows) -> PromptSums:
    known = [
        (cached, tokens)
        for cached, tokens in zip(rows.cached_tokens, rows.prompt_tokens, strict=True)
        if cached != UNKNOWN_TOKENS
    ]
    drafted = [
        (accepted, drafts)
        for accepted, drafts in zip(rows.accepted_tokens, rows.drafts, strict=True)
        if drafts
    ]
    return PromptSums(
        len(rows),
        sum(rows.prompt_tokens),
        sum(tokens for _, tokens in known),
        sum(cached for cached, _ in known),
        ratio_sums([accepted for accepted, _ in drafted], [drafts for _, drafts in drafted]),
        [seconds for seconds in rows.first_token_seconds if seconds == seconds],  # noqa: PLR0124  # not NaN
    )


def _add(parts: Sequence[PromptSums]) -> PromptSums:
    return PromptSums(
        sum(part.requests for part in parts),
        sum(part.prompt_tokens for part in parts),
        sum(part.looked_up for part in parts),
        sum(part.cached for part in parts),
        add_ratio_sums(part.accepted for part in parts),
        [seconds for part in parts for seconds in part.first_token_seconds],
    )


def _length(accepted: Estimate | None) -> Estimate | None:
    """Return 1 + A/D with the bounds of A/D."""
    if accepted is None:
        return None
    return accepted._replace(value=1 + accepted.value, lower=1 + accepted.lower, upper=1 + accepted.upper)
