"""What JSON says of single requests, and what is taken of them: see ``models`` for the rules."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field

from spec_decode_exporter.requests.request_findings import Effect
from spec_decode_exporter.requests.request_record import MAX_MILLISECONDS, MAX_NAME_CHARACTERS, Refusal
from spec_decode_exporter.views.window_models import Estimated, View

Count = Annotated[int, Field(ge=0, lt=2**63)]
Name = Annotated[str, Field(max_length=MAX_NAME_CHARACTERS)]


class SentSpeculation(BaseModel):
    """vLLM's own `metrics.speculative_decoding` of a response. Other keys are passed over."""

    num_spec_steps: Count = Field(description="Decode steps that drafted.")
    num_draft_tokens: Count
    num_accepted_draft_tokens: Count = Field(description="At most `num_draft_tokens`.")
    num_spec_tokens: Count = Field(description="The most tokens drafted in one step.")
    acceptance_histogram: list[Count] | None = Field(
        default=None, description="Steps by how many tokens they accepted; its sums must be the counts."
    )


class SentMetrics(BaseModel):
    """vLLM's own `metrics` of a response. Other keys are passed over."""

    generation_time_ms: Annotated[float, Field(ge=0, le=MAX_MILLISECONDS)] | None = Field(
        default=None, description="From the first token to the last."
    )
    speculative_decoding: SentSpeculation | None = Field(
        default=None, description="A request without it is refused as `without_metrics`."
    )


class SentUsage(BaseModel):
    """The `usage` of a response. Other keys are passed over."""

    completion_tokens: Count | None = None


class SentRequest(BaseModel):
    """One request that a server has answered. Other keys are passed over and not kept: send no texts."""

    model: Annotated[str, Field(min_length=1, max_length=MAX_NAME_CHARACTERS)]
    metrics: SentMetrics
    usage: SentUsage | None = None
    request_type: Name | None = Field(default=None, description="What you call this kind of work.")
    temperature: Annotated[float, Field(ge=0, le=100)] | None = None
    n: Count | None = Field(default=None, description="Sequences of the request.")
    stream: bool | None = None
    target: Name | None = Field(default=None, description="The server, as the exporter calls it.")
    user: str | None = Field(
        default=None, description="Hashed at once; not looked at unless `requests.users` is configured."
    )


class MistakeView(View):
    """Why one request was not taken."""

    index: int = Field(description="Its place in the body, from 0.")
    detail: str = Field(description="What is wrong; it never repeats what was sent.")


class TakenView(View):
    """What became of the requests of a body."""

    taken: int = Field(description="How many were counted.")
    refused: dict[Refusal, int] = Field(
        description="How many were not, by each reason. Senders count `dropped` and `too_costly`."
    )
    mistakes: tuple[MistakeView, ...] = Field(description="The first ten that are malformed, or the like.")


class PercentilesView(View):
    """Of a number over requests, each counting once."""

    p10: float
    p50: float
    p90: float


class HistogramView(View):
    """Requests that drafted, by a number."""

    upper_bounds: tuple[float, ...] = Field(
        description="Ascending; a number on a bound is below it. They are the label `le` of the metric."
    )
    counts: tuple[int, ...] = Field(
        description="Requests between two bounds, not cumulative; the last are those above every bound."
    )
    sum: float = Field(description="Of the numbers.")


class RequestTotalsView(View):
    """Sums over requests."""

    requests: int
    drafts: int = Field(description="Decode steps that drafted.")
    draft_tokens: int
    accepted_tokens: int = Field(description="Tokens saved: none needed a step of the target of its own.")
    draft_acceptance_ratio: float | None = Field(
        description="Accepted tokens over draft tokens, as the server's counters weigh it."
    )


class RequestSummaryView(RequestTotalsView):
    """What requests of one window have in common."""

    mean_acceptance_ratio: float | None = Field(description="The mean over requests, each counting once.")
    acceptance_ratio: PercentilesView | None
    acceptance_length_tokens: PercentilesView | None
    time_per_output_token_seconds: PercentilesView | None
    speedup_ratio: Estimated | None = Field(description="Of all their tokens, at what drafting costs.")
    below_break_even: int = Field(description="Requests that speculation made slower.")
    judged: int = Field(description="Requests of which that can be said.")
    rejected: int = Field(description="Requests of whose draft tokens almost none was accepted.")
    repetitive: int = Field(description="Requests of whose draft tokens almost all were.")


class RequestGroupView(RequestSummaryView):
    """One kind of requests in one window."""

    window: str
    model_name: str
    request_type: str
    temperature: str = Field(description="The bucket: `0`, `to 0.7`, `above 1`, `unknown`.")
    effect: Effect = Field(description="What speculation surely does to them.")


class RequestModelView(RequestSummaryView):
    """All requests of a model in one window."""

    window: str
    model_name: str
    mixed: bool = Field(description="Whether the mean hides two kinds of requests.")
    low_share: float | None = Field(
        description="The share of requests in the lower of two heaps; null, as the next, where there is one."
    )
    low_mean_acceptance_ratio: float | None
    high_mean_acceptance_ratio: float | None
    advice: tuple[str, ...] = Field(description="The most useful first.")
    acceptance_bounds: tuple[float, ...] = Field(
        description="Of `acceptance_counts`: from each bound to below the next; 1 belongs to the last."
    )
    acceptance_counts: tuple[int, ...] = Field(
        description="Requests that drafted, by their acceptance ratio: it shows whether there are two heaps."
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

    user: str = Field(description="A hash.")
    model_name: str


class RequestWindowView(View):
    """One window."""

    window: str = Field(description="Its name and length, as in the label `window`.")
    seconds: float
    partial: bool = Field(description="Whether requests of it are missing.")
    covered_seconds: float = Field(
        description="The time of it of which every request is here; less than `seconds` where it is partial."
    )


class RequestsView(View):
    """What single requests say at one moment."""

    time: float = Field(description="When it was taken, in Unix time.")
    enabled: bool = Field(description="Whether requests are taken: `requests.ingest` of the configuration.")
    taken: int = Field(description="Requests counted since the start.")
    refused: dict[Refusal, int] = Field(description="Requests refused since the start, by reason.")
    folded: dict[str, int] = Field(description="Requests counted as `other` since the start, by label.")
    windows: tuple[RequestWindowView, ...]
    groups: tuple[RequestGroupView, ...]
    models: tuple[RequestModelView, ...]
    since_start: tuple[RequestSinceStartView, ...]
    users: tuple[RequestUserView, ...] = Field(description="Empty unless users are kept.")
