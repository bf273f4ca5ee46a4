"""Parser of posted requests: a JSON document, or lines of JSON."""

from __future__ import annotations

import asyncio

import msgspec

from spec_decode_exporter.requests.record import (
    MAX_MISTAKES,
    MAX_NAME_CHARACTERS,
    Batch,
    NotJsonError,
    RequestRecord,
    RequestSource,
    read,
)
from tests.robustness.fuzz.harness import Harness, sane

_LOOP = asyncio.new_event_loop()
_MOST = 2**63


def check_sent(data: bytes) -> None:
    """Check a body as both kinds."""
    for lines in (False, True):
        try:
            batch = _LOOP.run_until_complete(read(data, lines=lines, salt=b"0123456789abcdef"))
        except NotJsonError as error:
            sane(error, 200)
        else:
            _check(batch)


def _check(batch: Batch) -> None:
    assert len(batch.mistakes) == min(MAX_MISTAKES, sum(batch.refused.values()))
    for mistake in batch.mistakes:
        assert mistake.detail.isascii()
        assert len(mistake.detail) < 200
    for request in batch.requests:
        _check_request(request)


def _check_request(request: RequestRecord) -> None:
    assert 0 <= request.accepted_tokens <= request.draft_tokens
    if request.source is RequestSource.METRICS:
        assert request.draft_tokens <= request.drafts * request.tokens
    assert max(request.drafts, request.draft_tokens, request.tokens) < _MOST
    assert request.model_name
    for name in (request.model_name, request.request_type, request.target):
        assert name.isprintable()
        assert len(name) <= MAX_NAME_CHARACTERS
    assert request.user == "" or len(request.user) == 16
    prompt = (request.first_token_seconds, request.prompt_tokens, request.cached_tokens)
    for number in (request.temperature, request.decode_seconds, request.completion_tokens, *prompt):
        assert number is None or 0 <= number < _MOST
    assert (request.cached_tokens or 0) <= (request.prompt_tokens or 0)
    assert all(type(value) is not dict for value in msgspec.structs.astuple(request))


SENT = Harness(
    check_sent,
    (
        "model", "metrics", "speculative_decoding", "num_spec_steps", "num_draft_tokens", "num_accepted_draft_tokens",
        "num_spec_tokens", "acceptance_histogram", "generation_time_ms", "usage", "completion_tokens", "request_type",
        "prompt_tokens", "prompt_tokens_details", "cached_tokens", "completion_tokens_details", "accepted_prediction_tokens",
        "rejected_prediction_tokens", "time_to_first_token_ms",
        "temperature", "n", "stream", "target", "user", "NaN", "1e400", "[", "]", "{", "}", ",", "\n", '"', "\\ud800",
    ),
    json=True,
)  # fmt: skip
