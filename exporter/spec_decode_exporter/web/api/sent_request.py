"""Documents of the ingest of single requests: a sent request, and the answer."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field

from spec_decode_exporter.requests.request_record import (
    MAX_MILLISECONDS,
    MAX_NAME_CHARACTERS,
    MAX_STEPS,
    Refusal,
)
from spec_decode_exporter.views.document import View

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
