"""The parsers of pages and requests, and what each keeps to with any bytes.

In pages, a record separator precedes a later page.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from spec_decode_exporter.config.batch_schedule import MAX_POSITIONS
from spec_decode_exporter.config.types import MAX_LABEL_VALUE
from spec_decode_exporter.requests.record import (
    MAX_MISTAKES,
    NotJsonError,
    RequestRecord,
    RequestSource,
)
from spec_decode_exporter.requests.record import read as read_requests
from spec_decode_exporter.scrape.errors import PageError
from spec_decode_exporter.scrape.sample import MAX_COUNT, MAX_ENGINES, SampleReader


@dataclass(frozen=True)
class Harness:
    """Parser under attack."""

    check: Callable[[bytes], object]  # takes any bytes. Whatever it raises is a finding.
    words: tuple[str, ...]
    """What the parser looks for, so that it is met more often than chance would have it."""
    json: bool = False  # whether documents of these words make good inputs


def sane(error: Exception, max_characters: int = 4000) -> None:
    """Check that an error text is short and can be encoded."""
    text = str(error)
    assert text
    assert len(text) <= max_characters, text[:max_characters]
    text.encode()


_LOOP = asyncio.new_event_loop()

WORDS = (
    "vllm:spec_decode_num_drafts_total", "vllm:spec_decode_num_accepted_tokens_per_pos_total",
    "vllm:num_requests_running", "vllm:time_to_first_token_seconds_bucket", "process_start_time_seconds",
    "vllm:spec_decode_num_drafts_created", '{engine="0"}', 'model_name="m",', 'position="1"', 'le="+Inf"',
    "NaN", "+Inf", "1.5e3", "9007199254740992", "# EOF\n", " # {} 1", "# TYPE ", " 1\n", "\n", "\x1e",
)  # fmt: skip


def _page_error(error: PageError) -> None:
    sane(error, 400)
    assert error.reason == "malformed"
    assert str(error).isprintable()


def reading(reader: SampleReader, page: bytes, *, with_latencies: bool):
    """Read a page; check what was found, or the error, and return None for that."""
    try:
        found = reader.read(page, with_latencies=with_latencies)
    except PageError as error:
        _page_error(error)
        return None
    assert len(found.samples) <= MAX_ENGINES
    for name, sample in found.samples.items():
        assert max(map(len, name)) <= MAX_LABEL_VALUE
        assert len(sample.positions) <= MAX_POSITIONS
        assert all(type(one) is int and 0 <= one < MAX_COUNT for one in sample.positions)
        assert all(one is None or (type(one) is int and one >= 0) for one in sample.counters)
        assert all(one is None or math.isfinite(one) for one in (*sample.gauges, sample.created))
        for buckets in (sample.latencies or {}).values():
            assert list(buckets.bounds) == sorted(set(buckets.bounds))
            assert buckets.bounds[-1] == math.inf
    return found


def check_reader(data: bytes) -> None:
    """Check that earlier pages do not affect a reading, and that samples are within the limits."""
    reader = SampleReader()
    for page in data.split(b"\x1e")[:4]:
        for with_latencies in (True, False):
            found = reading(reader, page, with_latencies=with_latencies)
            assert found == reading(SampleReader(), page, with_latencies=with_latencies)


READER = Harness(check_reader, WORDS)


_MOST = 2**63


def check_sent(data: bytes) -> None:
    """Check a body as both kinds."""
    for lines in (False, True):
        try:
            batch = _LOOP.run_until_complete(read_requests(data, lines=lines, salt=b"0123456789abcdef"))
        except NotJsonError as error:
            sane(error, 200)
            continue
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
        assert len(name) <= 256
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


HARNESSES = {"reader": READER, "sent-requests": SENT}
