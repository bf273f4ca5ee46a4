"""Record of one request's speculation, from vLLM's ``metrics`` of the response: types and validation.

Prompts and completions are never kept. Error texts name a field and never repeat its value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from math import isfinite
from typing import Any, Final

MAX_NAME_CHARACTERS: Final = 256
"""Characters of a model name, a request type or a target."""
MAX_DRAFT_LENGTH: Final = 1000
"""K; real methods draft fewer than 100. A larger value would dominate the totals until a restart."""
MAX_STEPS: Final = 10_000_000
"""D, G and the prompt: several times the context length of any model."""
MAX_SECONDS: Final = 1e6
"""From the first token to the last: eleven days."""
MAX_MILLISECONDS: Final = 1000 * MAX_SECONDS
"""Limit of ``generation_time_ms``; the API documents the same."""
_MAX_COUNT: Final = 2**63
_MAX_NUMBER: Final = 1e12
"""A number above this is malformed."""
_MAX_TEMPERATURE: Final = 100.0
_SPECULATION: Final = "metrics.speculative_decoding"


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """Speculation of one request."""

    model_name: str
    drafts: int
    """D, ``num_spec_steps``: decode steps that drafted."""
    draft_tokens: int
    """T, ``num_draft_tokens``."""
    accepted_tokens: int
    """A, ``num_accepted_draft_tokens``."""
    tokens: int
    """K, ``num_spec_tokens``: the maximum of one step's draft."""
    request_type: str = ""
    """The sender's name for this kind of work; empty if it sends none."""
    temperature: float | None = None
    """None if the request left it to the server."""
    stream: bool | None = None
    completion_tokens: int | None = None
    """G, the first token included."""
    decode_seconds: float | None = None
    """``generation_time_ms``: from the first token to the last."""
    first_token_seconds: float | None = None
    """``time_to_first_token_ms``: from the arrival to the first token."""
    prompt_tokens: int | None = None
    """``usage.prompt_tokens``."""
    cached_tokens: int | None = None
    """``usage.prompt_tokens_details.cached_tokens``: prompt tokens from the prefix cache."""
    target: str = ""
    """The target that served the request; empty if the sender does not know it."""
    user: str = ""
    """A hash; empty unless users are configured."""


class Refusal(StrEnum):
    """Reason why a request is not counted: the value of the ``reason`` label."""

    MALFORMED = "malformed"
    """The record does not have the format of docs/guide/requests.md."""
    WITHOUT_METRICS = "without_metrics"
    """vLLM reported no speculation: several sequences, a stream without usage, or the option is off."""
    CONTRADICTORY = "contradictory"
    """The numbers are impossible: more tokens accepted than drafted."""
    RATE = "rate"
    """The request exceeds the configured rate."""
    DROPPED = "dropped"
    """The sender dropped the request, and reports it with its next body."""
    TOO_COSTLY = "too_costly"
    """The middleware inside vLLM did not read the request: it exceeds the limits of time or items."""
    BODY = "body"
    """The whole body is rejected. Each body counts as one: its number of requests is unknown."""


class RefusedError(ValueError):
    """A request is refused. The text gives the reason and repeats nothing of the request."""

    def __init__(self, reason: Refusal, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


def parse_record(record: object, hash_user: Callable[[str], str]) -> RequestRecord:
    """Validate a decoded record; ``hash_user`` returns the text that is kept in place of a user.

    Other keys are ignored.

    Raises:
        RefusedError: The record is not valid.
    """
    if not isinstance(record, Mapping):
        raise _malformed("is not an object with unique keys")
    model_name = _name(record, "model")
    if not model_name:
        raise _malformed("model is missing")
    is_single = _count(record, "n", "n", missing=1) == 1
    metrics = _member(record, "metrics", "metrics") or _raise_without_metrics()
    speculation = _member(metrics, "speculative_decoding", _SPECULATION) or _raise_without_metrics()
    usage = _member(record, "usage", "usage")
    completion_tokens = _count(usage, "completion_tokens", "usage.completion_tokens") if usage else None
    _check_possible("usage.completion_tokens", completion_tokens, MAX_STEPS)
    decode_seconds = _seconds(metrics, "generation_time_ms")
    first_token_seconds = _seconds(metrics, "time_to_first_token_ms")
    prompt_tokens, cached_tokens = _prompt(usage or {})
    return RequestRecord(
        model_name=model_name,
        **_counts(speculation),
        request_type=_name(record, "request_type"),
        temperature=_number(record, "temperature", "temperature", _MAX_TEMPERATURE),
        stream=_flag(record, "stream"),
        completion_tokens=completion_tokens if is_single else None,
        decode_seconds=decode_seconds if is_single else None,
        first_token_seconds=first_token_seconds if is_single else None,
        prompt_tokens=prompt_tokens,
        cached_tokens=cached_tokens,
        target=_name(record, "target"),
        user=hash_user(_user(record)),
    )


def _prompt(usage: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """Return the tokens of the prompt, and those of them that the prefix cache had."""
    details = _member(usage, "prompt_tokens_details", "usage.prompt_tokens_details") or {}
    prompt = _count(usage, "prompt_tokens", "usage.prompt_tokens")
    cached = _count(details, "cached_tokens", "usage.prompt_tokens_details.cached_tokens")
    _check_possible("usage.prompt_tokens", prompt, MAX_STEPS)
    if cached is not None and cached > (prompt or 0):
        raise _contradictory("more prompt tokens are cached than usage.prompt_tokens")
    return prompt, cached


def _seconds(metrics: Mapping[str, Any], key: str) -> float | None:
    """Return a time of vLLM's ``metrics``, which are in milliseconds."""
    path = f"metrics.{key}"
    milliseconds = _number(metrics, key, path, _MAX_NUMBER)
    _check_possible(path, milliseconds, MAX_MILLISECONDS)
    return None if milliseconds is None else milliseconds / 1000


def _counts(speculation: Mapping[str, Any]) -> dict[str, int]:
    drafts, draft_tokens, accepted, tokens = (
        _required_count(speculation, key)
        for key in ("num_spec_steps", "num_draft_tokens", "num_accepted_draft_tokens", "num_spec_tokens")
    )
    _check_possible(f"{_SPECULATION}.num_spec_tokens", tokens, MAX_DRAFT_LENGTH)
    _check_possible(f"{_SPECULATION}.num_spec_steps", drafts, MAX_STEPS)
    if accepted > draft_tokens:
        raise _contradictory("more tokens are accepted than drafted")
    if draft_tokens > tokens * drafts:
        raise _contradictory("more tokens are drafted than num_spec_steps times num_spec_tokens")
    _check_histogram(speculation, drafts, accepted, tokens)
    return {
        "drafts": drafts,
        "draft_tokens": draft_tokens,
        "accepted_tokens": accepted,
        "tokens": tokens,
    }


def _check_possible(path: str, number: float | None, maximum: float) -> None:
    """Refuse an impossible number, so that one broken request does not dominate the totals."""
    if number is not None and number > maximum:
        raise _contradictory(f"{path} is above {maximum:g}, which is impossible for one request")


def _check_histogram(speculation: Mapping[str, Any], drafts: int, accepted: int, tokens: int) -> None:
    """Refuse a histogram that contradicts the counts: steps by their number of accepted tokens."""
    histogram = speculation.get("acceptance_histogram")
    if histogram is None:
        return
    if not isinstance(histogram, list) or not all(_is_count(each) for each in histogram):
        raise _malformed(f"{_SPECULATION}.acceptance_histogram is not a list of integers from 0")
    if len(histogram) > tokens + 1 and any(histogram[tokens + 1 :]):
        raise _contradictory("acceptance_histogram has steps that accepted more than num_spec_tokens")
    if sum(histogram) != drafts:
        raise _contradictory("the sum of acceptance_histogram is not num_spec_steps")
    if sum(position * steps for position, steps in enumerate(histogram)) != accepted:
        raise _contradictory("acceptance_histogram and num_accepted_draft_tokens differ")


def _raise_without_metrics() -> Mapping[str, Any]:
    raise RefusedError(
        Refusal.WITHOUT_METRICS,
        f"has no {_SPECULATION}: vLLM reports it for single sequences, with "
        "--enable-per-request-metrics and --per-request-spec-decode-metrics",
    )


def _member(record: Mapping[str, Any], key: str, path: str) -> Mapping[str, Any] | None:
    value = record.get(key)
    if value is None or isinstance(value, Mapping):
        return value
    raise _malformed(f"{path} is not an object with unique keys")


def _name(record: Mapping[str, Any], key: str) -> str:
    value = record.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise _malformed(f"{key} is not a string")
    if len(value) > MAX_NAME_CHARACTERS:
        raise _malformed(f"{key} has more than {MAX_NAME_CHARACTERS} characters")
    if not value.isprintable():
        raise _malformed(f"{key} has an unprintable character")
    return value


def _user(record: Mapping[str, Any]) -> str:
    """Return the user; empty for another type, as the sender may not expect that the field is read."""
    value = record.get("user")
    return value if isinstance(value, str) else ""


def _flag(record: Mapping[str, Any], key: str) -> bool | None:
    value = record.get(key)
    if value is None or isinstance(value, bool):
        return value
    raise _malformed(f"{key} is neither true nor false")


def _required_count(speculation: Mapping[str, Any], key: str) -> int:
    count = _count(speculation, key, f"{_SPECULATION}.{key}")
    if count is None:
        raise _malformed(f"{_SPECULATION}.{key} is missing")
    return count


def _count(record: Mapping[str, Any], key: str, path: str, missing: int | None = None) -> int | None:
    value = record.get(key)
    if value is None:
        return missing
    if not _is_count(value):
        raise _malformed(f"{path} is not an integer from 0")
    return int(value)


def _is_count(value: object) -> bool:
    """Return whether a value is a count. 4.0 is one: some programs convert integers."""
    if isinstance(value, float):
        return value.is_integer() and 0 <= value < _MAX_COUNT
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MAX_COUNT


def _number(record: Mapping[str, Any], key: str, path: str, maximum: float) -> float | None:
    value = record.get(key)
    if value is None:
        return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    # Compare first: an integer of a thousand digits does not convert to a float.
    if not (is_number and 0 <= value <= maximum and isfinite(value)):
        raise _malformed(f"{path} is not a number from 0 to {maximum:g}")
    return float(value)


def _malformed(detail: str) -> RefusedError:
    return RefusedError(Refusal.MALFORMED, detail)


def _contradictory(detail: str) -> RefusedError:
    return RefusedError(Refusal.CONTRADICTORY, detail)
