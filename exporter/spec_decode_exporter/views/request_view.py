"""Documents of single requests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from spec_decode_exporter.core.isolation import NO_ITEM, Isolation
from spec_decode_exporter.figures.estimate import ratio
from spec_decode_exporter.requests.record import Mistake, Refusal, RequestSource
from spec_decode_exporter.requests.store import RequestFindings
from spec_decode_exporter.requests.summary import ACCEPTANCE_BINS, Effect, Percentiles
from spec_decode_exporter.views.document import Estimated, View, at, fact


# fmt: off
class RequestSummaryView(View):
    """Summary of requests of one window."""

    requests: int = at("Number of requests.", "summary.requests")
    drafts: int = at("Decode steps that drafted.", "summary.drafts")
    draft_tokens: int = at("Draft tokens.", "summary.draft_tokens")
    accepted_tokens: int = at("Saved tokens: each saves a decode step of the target model.", "summary.accepted_tokens")

    draft_acceptance_ratio = fact("Accepted tokens over draft tokens, weighted as the server's counters are.", float | None, lambda view: ratio(view.accepted_tokens, view.draft_tokens))

    mean_acceptance_ratio: float | None = at("Mean over requests, each with weight 1.", "summary.mean_acceptance_ratio")
    acceptance_ratio: Percentiles | None = at("Accepted over draft tokens.", "summary.acceptance_ratio")
    acceptance_length_tokens: Percentiles | None = at("Tokens of a draft, bonus token included.", "summary.acceptance_length_tokens")
    time_per_output_token_seconds: Percentiles | None = at("Time per output token after the first.", "summary.time_per_output_token_seconds")
    speedup_ratio: Estimated | None = at("Speed-up of their tokens, at the cost of drafting.", "summary.speedup_ratio")
    below_break_even: int = at("Requests that speculation made slower.", "summary.below_break_even")
    evaluated: int = at("Requests with decode steps and a known cost.", "summary.evaluated")
    rejected: int = at("Requests with almost no accepted draft token.", "summary.rejected")
    repetitive: int = at("Requests with almost all draft tokens accepted.", "summary.repetitive")


class RequestGroupView(RequestSummaryView):
    """One kind of requests in one window."""

    window: str
    model_name: str = at("The label `model_name`.", "key.model_name")
    request_type: str = at("The sender's name of this kind of work.", "key.request_type")
    temperature: str = at("The bucket: `0`, `0.3-0.7`, `>1`, `unknown`.", "key.temperature")
    effect: Effect = at("Statistically significant (95 %) effect of speculation.", "summary.effect")


class RequestModelView(RequestSummaryView):
    """All requests of a model in one window."""

    window: str
    model_name: str
    mixed: bool = at("True if an average hides that two kinds of requests differ.")
    mixed_by: str | None = at("Label by which they differ, the first of `request_type`, `temperature` and `prompt_tokens`; null, as the next, if not mixed.", "mixture.label", default=None)
    low_kind: str | None = at("Value of that label with the least acceptance length.", "mixture.low.value", default=None)
    low_acceptance_length_tokens: Estimated | None = at("Tokens of a draft of the former.", "mixture.low.length", default=None)
    high_kind: str | None = at("Value of that label with the greatest acceptance length.", "mixture.high.value", default=None)
    high_acceptance_length_tokens: Estimated | None = at("Tokens of a draft of the former.", "mixture.high.length", default=None)
    advice: tuple[str, ...] = at("The most useful first.")
    acceptance_bounds: tuple[float, ...] = at("Bounds of `acceptance_counts`: from each bound to below the next; 1 is in the last.", default=tuple(part / ACCEPTANCE_BINS for part in range(ACCEPTANCE_BINS + 1)))
    acceptance_counts: tuple[int, ...] = at("Requests that drafted, by their acceptance ratio.", "summary.acceptance_counts")


class RequestUserView(RequestSummaryView):
    """One user in the longest window."""

    user: str = at("Hash of the user.")
    model_name: str


class RequestPromptBucketView(RequestSummaryView):
    """Requests of one model with about the same length of the prompt, in the longest window."""

    prompt_tokens: str = at("The bucket: `0-1000`, `1000-4000`, `>64000`.")
    mean_prompt_tokens: float = at("Mean tokens of the prompts.", "summary.mean_prompt_tokens")
    cached_ratio: float | None = at("Share of the prompt tokens from the prefix cache, of requests that report it.", "summary.cached_ratio")
    mean_acceptance_length_tokens: Estimated | None = at("Tokens of a draft, bonus token included; null of fewer than 30 requests.", "summary.acceptance_length")
    time_to_first_token_seconds: Percentiles | None = at("Time to first token.", "summary.time_to_first_token_seconds")
    effect: Effect = at("Statistically significant (95 %) effect of speculation.", "summary.effect")


class RequestPromptsView(View):
    """Requests of one model by the length of the prompt, in the longest window."""

    model_name: str
    falls: bool = at("True if acceptance is significantly lower (95 %) with long prompts.")
    buckets: tuple[RequestPromptBucketView, ...] = at("Ascending; without empty ones.")


class RequestWindowView(View):
    """One window."""

    window: str = at("Name and length of the window, as in the label `window`.")
    seconds: float
    partial: bool = at("True if requests of it are missing.")
    covered_seconds: float = at("Time of which every request is kept; less than `seconds` if it is partial.")


class TakenView(View):
    """Result of a body of requests."""

    taken: int = at("Number of counted requests.")
    refused: dict[Refusal, int] = at("Rejected requests by every reason. Senders count `dropped` and `too_costly`.")
    mistakes: tuple[Mistake, ...] = at("The first ten mistakes.")


class RequestsView(View):
    """Single requests at one moment."""

    time: float = at("Unix time of the snapshot.")
    enabled: bool = at("True if requests are received (`requests.ingest`).")
    taken: int = at("Requests counted since the start.")
    sources: dict[RequestSource, int] = at("Of these, by the field that reports their speculation: `usage` gives a rate only.")
    refused: dict[Refusal, int] = at("Requests rejected since the start, by reason.")
    folded: dict[str, int] = at("Requests counted as `other` since the start, by label.")
    windows: tuple[RequestWindowView, ...]
    groups: tuple[RequestGroupView, ...]
    models: tuple[RequestModelView, ...]
    users: tuple[RequestUserView, ...] = at("Empty unless users are kept.")
    prompts: tuple[RequestPromptsView, ...] = at("Empty unless senders report `usage.prompt_tokens`.", default=())
# fmt: on


def refused_view(refused: Mapping[Refusal, int]) -> dict[Refusal, int]:
    """Return the number of rejected requests by every reason."""
    return {reason: refused.get(reason, 0) for reason in Refusal}


def head(findings: RequestFindings) -> dict[str, Any]:
    """Return the part that concerns all requests."""
    return {
        "enabled": findings.enabled,
        "taken": findings.taken,
        "sources": {source: findings.sources.get(source, 0) for source in RequestSource},
        "refused": refused_view(findings.refused),
        "folded": dict(findings.folded),
    }


def lists(findings: RequestFindings, errors: Isolation) -> dict[str, Iterator[View]]:
    """Return the lists, whose members are built lazily; one that fails is omitted."""
    windows = findings.windows.items()
    members: dict[str, Iterable[Callable[[], View]]] = {
        "windows": [partial(RequestWindowView.of, its, window=name) for name, its in windows],
        "groups": [
            partial(RequestGroupView.of, each, window=name) for name, its in windows for each in its.groups
        ],
        "models": [
            partial(RequestModelView.of, each, window=name) for name, its in windows for each in its.models
        ],
        "users": [partial(RequestUserView.of, each) for each in findings.users],
        "prompts": [partial(RequestPromptsView.of, each) for each in findings.prompts],
    }
    return {
        name: errors.each("requests", each, lambda _: NO_ITEM, lambda view: view())
        for name, each in members.items()
    }
