"""JSON models of single requests, sent to the exporter and reported by it; rules as in ``models``."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field

from spec_decode_exporter.requests.request_findings import Effect
from spec_decode_exporter.requests.request_record import (
    MAX_MILLISECONDS,
    MAX_NAME_CHARACTERS,
    MAX_STEPS,
    Refusal,
)
from spec_decode_exporter.views.window_models import Estimated, View

Count = Annotated[int, Field(ge=0, lt=2**63)]
Name = Annotated[str, Field(max_length=MAX_NAME_CHARACTERS)]


class SentSpeculation(BaseModel):
    """vLLM's own `metrics.speculative_decoding` of a response. Other keys are ignored."""

    num_spec_steps: Count = Field(description="Decode steps that drafted.")
    num_draft_tokens: Count
    num_accepted_draft_tokens: Count = Field(description="At most `num_draft_tokens`.")
    num_spec_tokens: Count = Field(description="Maximum of tokens drafted in one step.")
    acceptance_histogram: list[Count] | None = Field(
        default=None, description="Steps by their accepted tokens; its sums must equal the counts."
    )


class SentMetrics(BaseModel):
    """vLLM's own `metrics` of a response. Other keys are ignored."""

    generation_time_ms: Annotated[float, Field(ge=0, le=MAX_MILLISECONDS)] | None = Field(
        default=None, description="From the first token to the last."
    )
    time_to_first_token_ms: Annotated[float, Field(ge=0, le=MAX_MILLISECONDS)] | None = Field(
        default=None, description="From the arrival to the first token."
    )
    speculative_decoding: SentSpeculation | None = Field(
        default=None, description="A request without it is rejected as `without_metrics`."
    )


class SentPromptDetails(BaseModel):
    """The `prompt_tokens_details` of a usage. Other keys are ignored."""

    cached_tokens: Count | None = Field(
        default=None, description="Prompt tokens from the prefix cache: at most `prompt_tokens`."
    )


class SentUsage(BaseModel):
    """The `usage` of a response. Other keys are ignored."""

    completion_tokens: Count | None = None
    prompt_tokens: Annotated[int, Field(ge=0, le=MAX_STEPS)] | None = None
    prompt_tokens_details: SentPromptDetails | None = None


class SentRequest(BaseModel):
    """One completed request. Other keys are ignored and not kept: send no texts."""

    model: Annotated[str, Field(min_length=1, max_length=MAX_NAME_CHARACTERS)]
    metrics: SentMetrics
    usage: SentUsage | None = None
    request_type: Name | None = Field(default=None, description="The sender's name of this kind of work.")
    temperature: Annotated[float, Field(ge=0, le=100)] | None = None
    n: Count | None = Field(default=None, description="Sequences of the request.")
    stream: bool | None = None
    target: Name | None = Field(default=None, description="Name of the server in the exporter.")
    user: str | None = Field(
        default=None, description="Hashed immediately; ignored unless `requests.users` is configured."
    )


class MistakeView(View):
    """Reason for which one request was rejected."""

    index: int = Field(description="Index in the body, from 0.")
    detail: str = Field(description="The mistake; it never repeats the request.")


class TakenView(View):
    """Result of a body of requests."""

    taken: int = Field(description="Number of counted requests.")
    refused: dict[Refusal, int] = Field(
        description="Rejected requests by every reason. Senders count `dropped` and `too_costly`."
    )
    mistakes: tuple[MistakeView, ...] = Field(description="The first ten mistakes.")


class PercentilesView(View):
    """Percentiles of a number over requests, each with weight 1."""

    p10: float
    p50: float
    p90: float


class HistogramView(View):
    """Histogram of requests that drafted, by a number."""

    upper_bounds: tuple[float, ...] = Field(
        description="Ascending; a number equal to a bound is below it. The label `le` of the metric."
    )
    counts: tuple[int, ...] = Field(
        description="Requests between two bounds, not cumulative; the last above every bound."
    )
    sum: float = Field(description="Sum of the numbers.")


class RequestTotalsView(View):
    """Sums over requests."""

    requests: int
    drafts: int = Field(description="Decode steps that drafted.")
    draft_tokens: int
    accepted_tokens: int = Field(description="Saved tokens: each saves a decode step of the target model.")
    draft_acceptance_ratio: float | None = Field(
        description="Accepted tokens over draft tokens, weighted as the server's counters are."
    )


class RequestSummaryView(RequestTotalsView):
    """Summary of requests of one window."""

    mean_acceptance_ratio: float | None = Field(description="Mean over requests, each with weight 1.")
    acceptance_ratio: PercentilesView | None
    acceptance_length_tokens: PercentilesView | None
    time_per_output_token_seconds: PercentilesView | None
    speedup_ratio: Estimated | None = Field(description="Speed-up of their tokens, at the cost of drafting.")
    below_break_even: int = Field(description="Requests that speculation made slower.")
    evaluated: int = Field(description="Requests with decode steps and a known cost.")
    rejected: int = Field(description="Requests with almost no accepted draft token.")
    repetitive: int = Field(description="Requests with almost all draft tokens accepted.")


class RequestGroupView(RequestSummaryView):
    """One kind of requests in one window."""

    window: str
    model_name: str
    request_type: str
    temperature: str = Field(description="The bucket: `0`, `0.3-0.7`, `>1`, `unknown`.")
    effect: Effect = Field(description="Statistically significant (95 %) effect of speculation.")


class RequestModelView(RequestSummaryView):
    """All requests of a model in one window."""

    window: str
    model_name: str
    mixed: bool = Field(description="True if the mean hides two kinds of requests.")
    low_share: float | None = Field(
        description="Share of requests in the lower of two modes; null, as the next, if there is one mode."
    )
    low_mean_acceptance_ratio: float | None
    high_mean_acceptance_ratio: float | None
    modes_mean_acceptance_ratio: float | None = Field(description="Mean of the requests of both modes.")
    modes_requests: int | None = Field(
        description="Requests of both modes: long answers, with the same number of draft tokens."
    )
    advice: tuple[str, ...] = Field(description="The most useful first.")
    acceptance_bounds: tuple[float, ...] = Field(
        description="Bounds of `acceptance_counts`: from each bound to below the next; 1 is in the last."
    )
    acceptance_counts: tuple[int, ...] = Field(
        description="Requests that drafted, by their acceptance ratio; shows one mode or two."
    )


class RequestSinceStartView(RequestTotalsView):
    """One kind of requests since the exporter's start."""

    model_name: str
    request_type: str
    temperature: str
    acceptance_ratio_histogram: HistogramView
    acceptance_length_tokens_histogram: HistogramView


class RequestUserView(RequestSummaryView):
    """One user in the longest window."""

    user: str = Field(description="Hash of the user.")
    model_name: str


class RequestPromptBucketView(RequestSummaryView):
    """Requests of one model with about the same length of the prompt, in the longest window."""

    prompt_tokens: str = Field(description="The bucket: `0-1000`, `1000-4000`, `>64000`.")
    mean_prompt_tokens: float
    cached_ratio: float | None = Field(
        description="Share of the prompt tokens from the prefix cache, of requests that report it."
    )
    mean_acceptance_length_tokens: Estimated | None = Field(
        description="Tokens of a draft, bonus token included; null of fewer than 30 requests."
    )
    time_to_first_token_seconds: PercentilesView | None
    effect: Effect = Field(description="Statistically significant (95 %) effect of speculation.")


class ContextFallView(View):
    """Acceptance that is significantly lower with long prompts, by the mean length of both buckets."""

    short_tokens: float
    short_length: float = Field(description="Acceptance length with prompts of `short_tokens`.")
    long_tokens: float
    long_length: float = Field(description="Acceptance length with prompts of `long_tokens`.")


class RequestPromptsView(View):
    """Requests of one model by the length of the prompt, in the longest window."""

    model_name: str
    fall: ContextFallView | None = Field(
        description="Null unless acceptance is significantly lower (95 %) with long prompts."
    )
    buckets: tuple[RequestPromptBucketView, ...] = Field(description="Ascending; without empty ones.")


class RequestWindowView(View):
    """One window."""

    window: str = Field(description="Name and length of the window, as in the label `window`.")
    seconds: float
    partial: bool = Field(description="True if requests of it are missing.")
    covered_seconds: float = Field(
        description="Time of which every request is kept; less than `seconds` if it is partial."
    )


class RequestsView(View):
    """Single requests at one moment."""

    time: float = Field(description="Unix time of the snapshot.")
    enabled: bool = Field(description="True if requests are received (`requests.ingest`).")
    taken: int = Field(description="Requests counted since the start.")
    refused: dict[Refusal, int] = Field(description="Requests rejected since the start, by reason.")
    folded: dict[str, int] = Field(description="Requests counted as `other` since the start, by label.")
    windows: tuple[RequestWindowView, ...]
    groups: tuple[RequestGroupView, ...]
    models: tuple[RequestModelView, ...]
    since_start: tuple[RequestSinceStartView, ...]
    users: tuple[RequestUserView, ...] = Field(description="Empty unless users are kept.")
    prompts: tuple[RequestPromptsView, ...] = Field(
        default=(), description="Empty unless senders report `usage.prompt_tokens`."
    )
