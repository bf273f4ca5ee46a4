"""One record of what was sent to us, to a request: what is needed is checked, all else is passed over."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any, Final

from spec_decode_exporter.requests.request import Refusal, Request

MOST_NAME: Final = 256
"""Characters of a name: of a model, a request type, a target."""
_MOST_COUNT: Final = 2**63
MOST_DRAFTED: Final = 1000
"""K: nobody drafts a tenth of it. What one request could make too great says nothing until the restart."""
MOST_STEPS: Final = 10_000_000
"""D, and G: some times the tokens that any model's context holds."""
_MOST_TEMPERATURE: Final = 100.0
_MOST_MILLISECONDS: Final = 1e12
MOST_SECONDS: Final = 1e6
"""From the first token to the last: eleven days."""
_SPECULATION: Final = "metrics.speculative_decoding"


class RefusedError(ValueError):
    """A request that is not taken; the text says why, and repeats nothing of it."""

    def __init__(self, reason: Refusal, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


def request_of(record: object, hashed: Callable[[str], str]) -> Request:
    """Return what a record says; ``hashed`` is what is kept in place of a user.

    Raises:
        RefusedError: it cannot be taken.
    """
    if not isinstance(record, Mapping):
        raise _malformed("is not an object with each of its keys once")
    model_name = _name(record, "model")
    if not model_name:
        raise _malformed("model is missing")
    alone = _count(record, "n", "n", missing=1) == 1
    metrics = _part(record, "metrics", "metrics") or _nothing_said()
    speculation = _part(metrics, "speculative_decoding", _SPECULATION) or _nothing_said()
    usage = _part(record, "usage", "usage")
    seconds = _number(metrics, "generation_time_ms", "metrics.generation_time_ms", _MOST_MILLISECONDS)
    completion_tokens = _count(usage, "completion_tokens", "usage.completion_tokens") if usage else None
    _check_possible("usage.completion_tokens", completion_tokens, MOST_STEPS)
    _check_possible("metrics.generation_time_ms", seconds, 1000 * MOST_SECONDS)
    return Request(
        model_name=model_name,
        **_counts(speculation),
        request_type=_name(record, "request_type"),
        temperature=_number(record, "temperature", "temperature", _MOST_TEMPERATURE),
        stream=_flag(record, "stream"),
        completion_tokens=completion_tokens if alone else None,
        decode_seconds=None if seconds is None or not alone else seconds / 1000,
        target=_name(record, "target"),
        user=hashed(_user(record)),
    )


def _counts(said: Mapping[str, Any]) -> dict[str, int]:
    drafts, draft_tokens, accepted, tokens = (
        _needed(said, key)
        for key in ("num_spec_steps", "num_draft_tokens", "num_accepted_draft_tokens", "num_spec_tokens")
    )
    _check_possible(f"{_SPECULATION}.num_spec_tokens", tokens, MOST_DRAFTED)
    _check_possible(f"{_SPECULATION}.num_spec_steps", drafts, MOST_STEPS)
    if accepted > draft_tokens:
        raise _contradictory("more tokens are accepted than drafted")
    if draft_tokens > tokens * drafts:
        raise _contradictory("more tokens are drafted than num_spec_steps times num_spec_tokens")
    _check_histogram(said, drafts, accepted, tokens)
    return {
        "drafts": drafts,
        "draft_tokens": draft_tokens,
        "accepted_tokens": accepted,
        "tokens": tokens,
    }


def _check_possible(path: str, number: float | None, most: float) -> None:
    """Refuse what no request has, so that one that is broken does not drown all others in the sums."""
    if number is not None and number > most:
        raise _contradictory(f"{path} is above {most:g}, which no request has")


def _check_histogram(said: Mapping[str, Any], drafts: int, accepted: int, tokens: int) -> None:
    """Refuse a histogram that says something else than the counts; its place is how many were accepted."""
    histogram = said.get("acceptance_histogram")
    if histogram is None:
        return
    if not isinstance(histogram, list) or not all(_is_count(each) for each in histogram):
        raise _malformed(f"{_SPECULATION}.acceptance_histogram is not a list of whole numbers from 0")
    if len(histogram) > tokens + 1 and any(histogram[tokens + 1 :]):
        raise _contradictory("acceptance_histogram has steps that accepted more than num_spec_tokens")
    if sum(histogram) != drafts:
        raise _contradictory("the sum of acceptance_histogram is not num_spec_steps")
    if sum(place * steps for place, steps in enumerate(histogram)) != accepted:
        raise _contradictory("acceptance_histogram and num_accepted_draft_tokens differ")


def _nothing_said() -> Mapping[str, Any]:
    raise RefusedError(
        Refusal.WITHOUT_METRICS,
        f"has no {_SPECULATION}: the server says it of single sequences, with "
        "--enable-per-request-metrics and --per-request-spec-decode-metrics",
    )


def _part(record: Mapping[str, Any], key: str, path: str) -> Mapping[str, Any] | None:
    found = record.get(key)
    if found is None or isinstance(found, Mapping):
        return found
    raise _malformed(f"{path} is not an object with each of its keys once")


def _name(record: Mapping[str, Any], key: str) -> str:
    found = record.get(key)
    if found is None:
        return ""
    if not isinstance(found, str):
        raise _malformed(f"{key} is not a text")
    if len(found) > MOST_NAME:
        raise _malformed(f"{key} has more than {MOST_NAME} characters")
    if not found.isprintable():
        raise _malformed(f"{key} has a character that cannot be printed")
    return found


def _user(record: Mapping[str, Any]) -> str:
    """Return a user; what is no text is none, since whoever sends it may not expect that it is read."""
    found = record.get("user")
    return found if isinstance(found, str) else ""


def _flag(record: Mapping[str, Any], key: str) -> bool | None:
    found = record.get(key)
    if found is None or isinstance(found, bool):
        return found
    raise _malformed(f"{key} is neither true nor false")


def _needed(said: Mapping[str, Any], key: str) -> int:
    found = _count(said, key, f"{_SPECULATION}.{key}")
    if found is None:
        raise _malformed(f"{_SPECULATION}.{key} is missing")
    return found


def _count(record: Mapping[str, Any], key: str, path: str, missing: int | None = None) -> int | None:
    found = record.get(key)
    if found is None:
        return missing
    if not _is_count(found):
        raise _malformed(f"{path} is not a whole number from 0")
    return int(found)


def _is_count(value: object) -> bool:
    """Return whether something counts; what passes through other programs may come as 4.0."""
    if isinstance(value, float):
        return value.is_integer() and 0 <= value < _MOST_COUNT
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST_COUNT


def _number(record: Mapping[str, Any], key: str, path: str, most: float) -> float | None:
    found = record.get(key)
    if found is None:
        return None
    is_number = isinstance(found, int | float) and not isinstance(found, bool)
    # Compared first: a whole number of a thousand digits is no float.
    if not (is_number and 0 <= found <= most and isfinite(found)):
        raise _malformed(f"{path} is not a number from 0 to {most:g}")
    return float(found)


def _malformed(detail: str) -> RefusedError:
    return RefusedError(Refusal.MALFORMED, detail)


def _contradictory(detail: str) -> RefusedError:
    return RefusedError(Refusal.CONTRADICTORY, detail)
