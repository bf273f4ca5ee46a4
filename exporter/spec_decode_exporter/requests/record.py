"""Record of one request: the schema of a sent one, its validation, and bodies of records.

Speculation comes from vLLM's ``metrics.speculative_decoding``. A gateway that reports only
``usage.completion_tokens_details`` gives a rate. Prompts and completions are never kept: decoding skips other
keys. A mistake names a field and never repeats its value. docs/guide/requests.md describes the format.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import blake2b
from itertools import islice
from math import sqrt
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Raw, Struct

from spec_decode_exporter.core.numbers import MAX_TEXT, TooManyValuesError
from spec_decode_exporter.core.tasks import yield_to_event_loop
from spec_decode_exporter.figures.student_t import NORMAL_975

MAX_BATCH_REQUESTS: Final = 5000  # requests of one body
MAX_COMMAS: Final = 200_000  # commas of an array of requests: splitting it takes longer than reading them
MAX_MISTAKES: Final = 10  # mistakes that are returned for one body; the others are only counted
ALMOST_NONE: Final = 0.05
"""A request is rejected if the upper bound of its share is below this: speculation does not help it."""
ALMOST_ALL: Final = 0.95
"""A request is repetitive if the lower bound of its share is above this; copied code is below."""
SLICE: Final = 64  # records between two yields to the event loop: less than a millisecond of work

Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Tokens = Annotated[int, Meta(ge=0, le=10_000_000)]
"""D, G and the prompt: up to several times the context length of any model."""
DraftLength = Annotated[int, Meta(ge=0, le=1000)]
"""K; real methods draft fewer than 100. A larger value would dominate the totals until a restart."""
Milliseconds = Annotated[float, Meta(ge=0, le=10**9)]  # a time, up to eleven days
Name = Annotated[str, Meta(max_length=MAX_TEXT)]  # a model name, a request type or a target


# fmt: off
class SentSpeculation(Struct):
    """vLLM's own `metrics.speculative_decoding` of a response. Other keys are ignored."""

    num_spec_steps: Annotated[Tokens, Meta(description="Decode steps that drafted.")]
    num_draft_tokens: Count
    num_accepted_draft_tokens: Annotated[Count, Meta(description="At most `num_draft_tokens`.")]
    num_spec_tokens: Annotated[DraftLength, Meta(description="Maximum of tokens drafted in one step.")]


class SentMetrics(Struct):
    """vLLM's own `metrics` of a response. Other keys are ignored."""

    generation_time_ms: Annotated[Milliseconds | None, Meta(description="From the first token to the last.")] = None
    time_to_first_token_ms: Annotated[Milliseconds | None, Meta(description="From the arrival to the first token.")] = None
    speculative_decoding: Annotated[SentSpeculation | None, Meta(description="A request without it, and without the prediction tokens of `usage`, is rejected as `without_metrics`.")] = None


class SentPromptDetails(Struct):
    """The `prompt_tokens_details` of a usage. Other keys are ignored."""

    cached_tokens: Annotated[Tokens | None, Meta(description="Prompt tokens from the prefix cache: at most `prompt_tokens`.")] = None


class SentCompletionDetails(Struct):
    """The `completion_tokens_details` of a usage, read if vLLM's own `metrics` are absent: a rate only.

    Two zeros count as absent: OpenAI's API and some servers write them without speculation.
    """

    accepted_prediction_tokens: Annotated[Tokens | None, Meta(description="Accepted draft tokens.")] = None
    rejected_prediction_tokens: Annotated[Tokens | None, Meta(description="Rejected draft tokens.")] = None


class SentUsage(Struct):
    """The `usage` of a response. Other keys are ignored."""

    completion_tokens: Tokens | None = None
    completion_tokens_details: SentCompletionDetails | None = None
    prompt_tokens: Tokens | None = None
    prompt_tokens_details: SentPromptDetails | None = None


class SentRequest(Struct):
    """One completed request. Other keys are ignored and not kept: send no texts."""

    model: Annotated[Name, Meta(min_length=1)]
    metrics: SentMetrics | None = None
    usage: SentUsage | None = None
    request_type: Annotated[Name | None, Meta(description="The sender's name of this kind of work.")] = None
    temperature: Annotated[float, Meta(ge=0, le=100)] | None = None
    n: Annotated[Count | None, Meta(description="Sequences of the request.")] = None
    target: Annotated[Name | None, Meta(description="Name of the server in the exporter.")] = None
    user: Annotated[Raw, Meta(description="Hashed immediately; ignored unless `requests.users` is configured.", extra_json_schema={"type": ["string", "null"]})] = msgspec.field(default_factory=lambda: Raw(b"null"))
# fmt: on


class Refusal(StrEnum):
    """Reason why a request is not counted: the value of the ``reason`` label."""

    MALFORMED = "malformed"  # the record does not have the format of docs/guide/requests.md
    WITHOUT_METRICS = "without_metrics"
    """It reports no speculation: several sequences, a stream without usage, or the option is off."""
    CONTRADICTORY = "contradictory"  # the numbers are impossible: more tokens accepted than drafted
    RATE = "rate"  # the request exceeds the configured rate
    DROPPED = "dropped"  # the sender dropped the request, and reports it with its next body
    TOO_COSTLY = "too_costly"
    """The middleware inside vLLM did not read the request: it exceeds the limits of time or items."""
    BODY = "body"  # the whole body is rejected. Each body counts as one: its number of requests is unknown.


class RequestSource(StrEnum):
    """Field of a record that reports speculation: the value of the ``source`` label."""

    METRICS = "metrics"  # vLLM's ``metrics.speculative_decoding``
    USAGE = "usage"  # tokens of ``usage.completion_tokens_details``, which gateways write: a rate only


class RefusedError(ValueError):
    """A request is refused: ``args`` are the reason, and a text that repeats nothing of the request."""


class NotJsonError(ValueError):
    """A body is not JSON. The text gives the reason and never repeats the body."""


class RequestRecord(Struct, frozen=True):
    """Speculation of one valid request."""

    model_name: str
    drafts: int  # D, ``num_spec_steps``: decode steps that drafted; 0 if the source is ``usage``
    draft_tokens: int  # T, ``num_draft_tokens``
    accepted_tokens: int  # A, ``num_accepted_draft_tokens``
    tokens: int  # K, ``num_spec_tokens``: the maximum of one step's draft; 0 if the source is ``usage``
    request_type: str = ""  # the sender's name for this kind of work; empty if it sends none
    temperature: float | None = None  # None if the request left it to the server
    completion_tokens: int | None = None  # G, the first token included
    decode_seconds: float | None = None  # ``generation_time_ms``: from the first token to the last
    first_token_seconds: float | None = None
    """``time_to_first_token_ms``: from the arrival to the first token."""
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    """``usage.prompt_tokens_details.cached_tokens``: prompt tokens from the prefix cache."""
    target: str = ""  # the target that served the request; empty if the sender does not know it
    user: str = ""  # a hash; empty unless users are configured
    source: RequestSource = RequestSource.METRICS

    @property
    def decoded_tokens(self) -> int:
        """Tokens after the first: G - 1. The last draft may be accepted beyond the end, by at most K tokens.

        If G is unknown or contradicts the counts, every step is taken to draft: D + A tokens.
        """
        decoded = (self.completion_tokens or 0) - 1
        beyond_the_end = max(0, self.accepted_tokens - self.tokens)
        return decoded if decoded >= self.drafts + beyond_the_end else self.drafts + self.accepted_tokens

    @property
    def pathology(self) -> str:
        """``rejected`` if almost no draft token was accepted, ``repetitive`` if almost all; else empty.

        By Wilson's 95 % bounds (JASA 22, 1927) of as many drafts, since draft tokens of one are dependent: 73
        at least. vLLM's pull request 44487 proposes the same two; examples are its issues 36872 and 55605.
        """
        number = self.drafts
        if not number or not self.draft_tokens:
            return ""
        share, squared = self.accepted_tokens / self.draft_tokens, NORMAL_975**2
        half = NORMAL_975 * sqrt(share * (1 - share) * number + squared / 4)
        middle = share * number + squared / 2
        if (middle + half) / (number + squared) < ALMOST_NONE:
            return "rejected"
        return "repetitive" if (middle - half) / (number + squared) > ALMOST_ALL else ""


@dataclass(frozen=True, slots=True)
class Mistake:
    """Reason for which one request was rejected."""

    index: int
    """Index in the body, from 0; empty lines do not count."""
    detail: str
    """The mistake; it never repeats the request."""


@dataclass(slots=True)
class Batch:
    """Requests of one body, and those that are refused."""

    requests: list[RequestRecord] = field(default_factory=list)
    refused: Counter[Refusal] = field(default_factory=Counter)
    mistakes: list[Mistake] = field(default_factory=list)  # the first ``MAX_MISTAKES``

    @property
    def above_the_rate(self) -> bool:
        """True if requests exceed the rate and none of the body is counted."""
        return bool(self.refused[Refusal.RATE]) and not self.requests


# A count may be written as 4.0 or "4", as some programs do. Of a doubled key the last value counts.
_decode: Final = msgspec.json.Decoder(SentRequest, strict=False).decode
_decode_array: Final = msgspec.json.Decoder(list[Raw]).decode
_decode_any: Final = msgspec.json.Decoder(Raw).decode
_NOT_DECODED: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_NOT_JSON: Final = "is not JSON"


async def read(body: bytes, *, lines: bool, salt: bytes | None) -> Batch:
    """Read a body: an object or an array of objects; with ``lines``, NDJSON. A byte-order mark is skipped.

    Reading yields to the event loop. Users are hashed with ``salt`` at once; without one, they are ignored.

    Raises:
        NotJsonError: The body is not JSON, or none of its lines is.
        TooManyValuesError: The body has more than ``MAX_BATCH_REQUESTS``.
    """
    batch, was_json = Batch(), False
    records = _records(body.removeprefix(b"\xef\xbb\xbf").strip(), lines=lines)
    if len(records) > MAX_BATCH_REQUESTS:
        raise TooManyValuesError(f"The body has more than {MAX_BATCH_REQUESTS} requests; send them in parts.")
    for index, record in enumerate(records):
        if index % SLICE == 0:
            await yield_to_event_loop()
        try:
            batch.requests.append(_parsed(record, salt))
        except RefusedError as error:
            reason, detail = error.args
            batch.refused[reason] += 1
            was_json |= detail != _NOT_JSON
            if len(batch.mistakes) < MAX_MISTAKES:
                batch.mistakes.append(Mistake(index, detail))
    if records and not batch.requests and not was_json:
        raise NotJsonError("No line of the body is JSON.")
    return batch


def _records(body: bytes, *, lines: bool) -> Sequence[bytes | Raw]:
    """Split a body. An object that ends with a line may begin NDJSON: some log shippers send it as JSON."""
    if lines or (not body.startswith(b"[") and _is_json(body.partition(b"\n")[0])):
        found = (line.group().rstrip() for line in re.finditer(rb"\S[^\n]*", body))  # empty ones are cheap
        return list(islice(found, MAX_BATCH_REQUESTS + 1))
    try:
        if not body.startswith(b"["):
            return [_decode_any(body)]
        if body.count(b",") > MAX_COMMAS:
            raise TooManyValuesError(f"The body has more than {MAX_COMMAS} values; send them in parts.")
        return _decode_array(body)
    except _NOT_DECODED as error:
        raise NotJsonError(f"The body is not usable: {error}.") from None


def _is_json(line: bytes) -> bool:
    try:
        _decode_any(line)
    except _NOT_DECODED:
        return False
    return True


def _parsed(record: bytes | Raw, salt: bytes | None) -> RequestRecord:
    """Decode and validate a record, or raise RefusedError."""
    try:
        sent = _decode(record)
        user = _hashed(sent.user, salt)
    except msgspec.ValidationError as error:
        raise RefusedError(Refusal.MALFORMED, _mistake(str(error))) from None
    except RecursionError:
        raise RefusedError(Refusal.MALFORMED, "is nested too deeply") from None
    except _NOT_DECODED:
        raise RefusedError(Refusal.MALFORMED, _NOT_JSON) from None
    for key in ("model", "request_type", "target"):
        if not (getattr(sent, key) or "").isprintable():
            raise RefusedError(Refusal.MALFORMED, f"{key} has an unprintable character")
    valid = _record(sent, user)
    if contradiction := _contradiction(valid):
        raise RefusedError(Refusal.CONTRADICTORY, contradiction)
    return valid


def _record(sent: SentRequest, user: str) -> RequestRecord:
    metrics, usage = sent.metrics or SentMetrics(), sent.usage or SentUsage()
    counts, details = metrics.speculative_decoding, usage.completion_tokens_details or SentCompletionDetails()
    accepted, rejected = details.accepted_prediction_tokens, details.rejected_prediction_tokens
    if counts:
        numbers = (
            counts.num_spec_steps,
            counts.num_draft_tokens,
            counts.num_accepted_draft_tokens,
            counts.num_spec_tokens,
        )
    elif accepted is not None and rejected is not None and accepted + rejected:
        numbers = 0, accepted + rejected, accepted, 0
    else:
        raise RefusedError(
            Refusal.WITHOUT_METRICS,
            "has no metrics.speculative_decoding: vLLM reports it for single sequences, with "
            "--enable-per-request-metrics and --per-request-spec-decode-metrics",
        )
    times = usage.completion_tokens, metrics.generation_time_ms, metrics.time_to_first_token_ms
    tokens, decoding, waiting = times if sent.n in {None, 1} else (None, None, None)
    return RequestRecord(
        sent.model,
        *numbers,
        request_type=sent.request_type or "",
        temperature=sent.temperature,
        completion_tokens=tokens,
        decode_seconds=decoding and decoding / 1000,
        first_token_seconds=waiting and waiting / 1000,
        prompt_tokens=usage.prompt_tokens,
        cached_tokens=usage.prompt_tokens_details.cached_tokens if usage.prompt_tokens_details else None,
        target=sent.target or "",
        user=user,
        source=RequestSource.METRICS if counts else RequestSource.USAGE,
    )


def _contradiction(record: RequestRecord) -> str:
    """Return why the numbers are impossible; empty if they are not."""
    if (record.cached_tokens or 0) > (record.prompt_tokens or 0):
        return "more prompt tokens are cached than usage.prompt_tokens"
    if record.accepted_tokens > record.draft_tokens:
        return "more tokens are accepted than drafted"
    if record.draft_tokens > record.tokens * record.drafts and record.source is RequestSource.METRICS:
        return "more tokens are drafted than num_spec_steps times num_spec_tokens"
    return ""


def _hashed(user: Raw, salt: bytes | None) -> str:
    """Return a keyed hash of 64 bits, the same for the same salt; empty without a salt or a user."""
    name = bytes(user).strip()
    if salt is None or not name.startswith(b'"') or name == b'""':
        return ""
    # A key has at most 64 bytes: hash the salt first, which may be longer.
    key, text = blake2b(salt).digest(), msgspec.json.decode(name, type=str)
    return blake2b(text.encode(), key=key, digest_size=8).hexdigest()


def _mistake(error: str) -> str:
    """Return msgspec's mistake with its place first: it has types and bounds, and never a value."""
    text, _, place = error.partition(" - at `$")
    path = place.strip(".`") or "the record"
    return f"{path}: {text[0].lower()}{text[1:]}"
