"""Records: the sent ones that are valid, the reasons of the others, and bodies of records."""

import asyncio
import copy
import json
import math
from functools import reduce
from operator import getitem

import pytest

from spec_decode_exporter.core.numbers import TooManyValuesError
from spec_decode_exporter.requests.record import (
    MAX_BATCH_REQUESTS,
    MAX_MISTAKES,
    NotJsonError,
    Refusal,
    RequestRecord,
    RequestSource,
    read,
)

SALT = b"0123456789abcdef"
RECORD = {
    "model": "llama",
    "metrics": {
        "time_to_first_token_ms": 12.3,
        "generation_time_ms": 900.0,
        "speculative_decoding": {
            "mean_acceptance_length": 2.625,
            "draft_acceptance_rate": 0.40625,
            "acceptance_histogram": [10, 10, 10, 5, 5],
            "num_spec_steps": 40,
            "num_accepted_draft_tokens": 65,
            "num_draft_tokens": 160,
            "num_spec_tokens": 4,
        },
    },
    "usage": {
        "prompt_tokens": 9,
        "completion_tokens": 120,
        "prompt_tokens_details": {"cached_tokens": 4, "created_cache_tokens": 5},
    },
    "request_type": "chat",
    "temperature": 0.7,
    "n": 1,
    "stream": True,
    "target": "chat-0",
    "user": "ann",
}
SECRET = "my grandmother's pancakes"


ABSENT = object()


def changed(path, value, record=RECORD):
    """Return a record with another value at a path, or with none if it is ``ABSENT``."""
    record = copy.deepcopy(record)
    *above, last = path.split(".")
    inner = reduce(getitem, above, record)
    if value is ABSENT:
        del inner[last]
    else:
        inner[last] = value
    return record


SPECULATION = "metrics.speculative_decoding"
CACHED = "usage.prompt_tokens_details.cached_tokens"
COUNTS = [f"{SPECULATION}.{name}" for name in ("num_spec_steps", "num_draft_tokens", "num_spec_tokens")]
USAGE = {"accepted_prediction_tokens": 60, "rejected_prediction_tokens": 40, "reasoning_tokens": 5}


def of_usage(**details):
    """Return a record of a gateway that reports the tokens of drafts in its usage."""
    record = changed("metrics", ABSENT)
    record["usage"]["completion_tokens_details"] = {**USAGE, **details}
    return record


def batch_of(body, *, lines=False, salt=None):
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    return asyncio.run(read(text, lines=lines, salt=salt))


def refusal_of(record):
    batch = batch_of(record)
    assert not batch.requests
    ((reason, number),) = batch.refused.items()
    (mistake,) = batch.mistakes
    assert (number, mistake.index) == (1, 0)
    return reason, mistake.detail


def test_a_record_becomes_a_request_and_other_keys_are_ignored():
    assert batch_of(RECORD).requests == [
        RequestRecord(
            model_name="llama",
            drafts=40,
            draft_tokens=160,
            accepted_tokens=65,
            tokens=4,
            request_type="chat",
            temperature=0.7,
            completion_tokens=120,
            decode_seconds=0.9,
            first_token_seconds=pytest.approx(0.0123),
            prompt_tokens=9,
            cached_tokens=4,
            target="chat-0",
        )
    ]


OPTIONAL = [
    "usage", "request_type", "temperature", "n", "target", "user", "metrics.generation_time_ms",
    "usage.completion_tokens", "usage.prompt_tokens_details", CACHED, "metrics.time_to_first_token_ms",
]  # fmt: skip


@pytest.mark.parametrize("path", OPTIONAL)
def test_optional_fields_may_be_null(path):
    assert batch_of(changed(path, None)).requests == batch_of(changed(path, ABSENT)).requests != []


TEXT = json.dumps(RECORD)
WITH_USAGE = {**RECORD, "usage": of_usage()["usage"]}


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(json.loads(TEXT, parse_int=float)),
        json.dumps(json.loads(TEXT, parse_int=str)),
        TEXT.replace('"model"', '"model": "other", "model"'),
        json.dumps(RECORD, indent=1),
        f"\ufeff{TEXT}",
        json.dumps(WITH_USAGE),
    ],
    ids=["floats", "counts as texts", "the last of two keys", "indented", "a byte order mark", "a usage beside vLLM's own field"],
)  # fmt: skip
def test_a_record_may_be_written_in_several_ways(text):
    assert batch_of(text.encode()).requests == batch_of(RECORD).requests
    if "\n" not in text:
        assert batch_of(text.encode(), lines=True).requests == batch_of(RECORD).requests


def test_what_several_sequences_took_is_unknown():
    (request,) = batch_of(changed("n", 2)).requests
    assert (request.completion_tokens, request.first_token_seconds, request.decode_seconds) == (None,) * 3
    assert batch_of(changed(CACHED, 9)).requests[0].cached_tokens == 9  # as many as the prompt has


def test_an_array_and_lines_are_equivalent():
    records = [json.dumps(changed("model", name)).encode() for name in "abc"]
    in_array = batch_of(b"[" + b",".join(records) + b"]")
    assert [request.model_name for request in in_array.requests] == ["a", "b", "c"]
    assert batch_of(b"\r\n\n".join(records) + b"\n", lines=True).requests == in_array.requests
    assert batch_of(b"\n".join(records)).requests == in_array.requests  # with the content type of JSON
    assert batch_of([]).requests == batch_of(b" \n\n", lines=True).requests == []


def test_prediction_tokens_of_a_usage_are_a_rate_only():
    (request,) = batch_of(of_usage()).requests
    assert (request.accepted_tokens, request.draft_tokens) == (60, 100)
    assert (request.drafts, request.tokens, request.pathology) == (0, 0, "")
    assert (request.source, request.completion_tokens) == (RequestSource.USAGE, 120)
    assert batch_of(WITH_USAGE).requests[0].source is RequestSource.METRICS


NAMES = ["model", "request_type", "target"]
NONE, CONTRADICTORY, MALFORMED = Refusal.WITHOUT_METRICS, Refusal.CONTRADICTORY, Refusal.MALFORMED
OTHER_VALUES = [
    (f"{SPECULATION}.num_accepted_draft_tokens", 161, CONTRADICTORY, "more tokens are accepted than drafted"),
    (f"{SPECULATION}.num_draft_tokens", 161, CONTRADICTORY, "more tokens are drafted than num_spec_steps times num_spec_tokens"),
    (f"{SPECULATION}.num_spec_tokens", 3, CONTRADICTORY, "more tokens are drafted than num_spec_steps times num_spec_tokens"),
    (CACHED, 10, CONTRADICTORY, "more prompt tokens are cached than usage.prompt_tokens"),
    ("usage.prompt_tokens", None, CONTRADICTORY, "more prompt tokens are cached than usage.prompt_tokens"),
    *((path, value, MALFORMED, (f"{path}: expected `int", f"{path}: number out of range"))
      for path in (*COUNTS, "n", "usage.completion_tokens", "usage.prompt_tokens", CACHED)
      for value in (-1, 2**63, 10**400, 0.5, 1e300, True, "four", [], {})),
    *((path, value, MALFORMED, (f"{path}: expected `float", f"{path}: number out of range"))
      for path in ("temperature", "metrics.generation_time_ms")
      for value in (-0.1, 1e13, 10**400, True, "hot", [])),
    *((path, "a" * (256 + 1), MALFORMED, f"{path}: expected `str` of length <= 256") for path in NAMES),
    *((path, value, MALFORMED, f"{path} has an unprintable character") for path in NAMES for value in ("a\nb", "\x00", "\u2028")),
    *((path, value, MALFORMED, f"{path}: expected `str") for path in NAMES for value in (7, [])),
    ("model", "", MALFORMED, "model: expected `str` of length >= 1"),
    ("metrics", [], MALFORMED, "metrics: expected `object | null`, got `array`"),
    (SPECULATION, 4, MALFORMED, f"{SPECULATION}: expected `object | null`, got `int`"),
    (SPECULATION, {}, MALFORMED, f"{SPECULATION}: object missing required field `num_spec_steps`"),
    ("usage", "x", MALFORMED, "usage: expected `object | null`, got `str`"),
    ("usage.prompt_tokens_details", [4], MALFORMED, "usage.prompt_tokens_details: expected `object | null`, got `array`"),
]  # fmt: skip
"""Values of a path that make the record unusable, and the refusal."""
OTHER_RECORDS = [
    *(
        (changed(path, ABSENT), NONE, "--per-request-spec-decode-metrics")
        for path in ("metrics", SPECULATION)
    ),
    *((changed(path, None), NONE, "--per-request-spec-decode-metrics") for path in ("metrics", SPECULATION)),
    (of_usage(accepted_prediction_tokens=None), NONE, ""),
    (of_usage(rejected_prediction_tokens=None), NONE, ""),
    (of_usage(accepted_prediction_tokens=0, rejected_prediction_tokens=0), NONE, ""),
    (of_usage(accepted_prediction_tokens=-1), MALFORMED, ""),
    (changed("model", ABSENT), MALFORMED, "the record: object missing required field `model`"),
    (None, MALFORMED, "the record: expected `object`, got `null`"),
    (7, MALFORMED, "the record: expected `object`, got `int`"),
    (SECRET, MALFORMED, "the record: expected `object`, got `str`"),
]


@pytest.mark.parametrize(
    ("path", "value", "reason", "expected"),
    OTHER_VALUES,
    ids=[f"{path}={str(value)[:9]!a}" for path, value, *_ in OTHER_VALUES],
)
def test_a_record_with_another_value_is_refused_with_the_reason(path, value, reason, expected):
    found, detail = refusal_of(changed(path, value))
    assert found is reason
    assert detail.startswith(expected) or (found is CONTRADICTORY and expected in detail)


@pytest.mark.parametrize(("record", "reason", "expected"), OTHER_RECORDS, ids=range(len(OTHER_RECORDS)))
def test_an_unusable_record_is_refused_with_the_reason(record, reason, expected):
    found, detail = refusal_of(record)
    assert found is reason
    assert expected in detail
    assert SECRET not in detail


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_number_that_json_does_not_have_costs_its_line_or_its_array(value):
    record = json.dumps(changed("temperature", value)).encode()
    lines = batch_of(b"\n".join([record, json.dumps(RECORD).encode()]), lines=True)
    assert (len(lines.requests), lines.mistakes[0].detail) == (1, "is not JSON")
    with pytest.raises(NotJsonError):
        batch_of(b"[" + record + b"]")


@pytest.mark.parametrize(
    ("path", "maximum"),
    [
        (f"{SPECULATION}.num_spec_tokens", 1000),
        (f"{SPECULATION}.num_spec_steps", 10_000_000),
        ("usage.completion_tokens", 10_000_000),
        ("usage.prompt_tokens", 10_000_000),
        ("metrics.time_to_first_token_ms", 10**9),
        ("metrics.generation_time_ms", 10**9),
    ],
)
def test_an_impossible_number_is_refused_even_without_a_contradiction(path, maximum):
    record = copy.deepcopy(RECORD)
    record["metrics"]["speculative_decoding"].update(num_draft_tokens=100, num_accepted_draft_tokens=50)
    assert len(batch_of([changed(path, maximum, record)]).requests) == 1
    reason, detail = refusal_of([changed(path, maximum + 1, record)])
    assert reason is Refusal.MALFORMED
    assert detail.startswith(f"{path}: expected ")
    assert f" <= {maximum}" in detail


@pytest.mark.parametrize(
    "body",
    [b"", b" ", b"{", b"[", b"]", b"nonsense", b"[1", b"[1,]", b"[1 2]", b"{} {}", b"[] x", b"\xff", b"[" * 100_000,
     b"\xef\xbb\xbf" * 2 + b"{}", b'{"a": ' * 100_000]
)  # fmt: skip
def test_a_body_that_is_not_json_is_refused_without_repeating_it(body):
    with pytest.raises(NotJsonError) as refused:
        batch_of(body)
    assert str(refused.value).startswith("The body is")
    assert "nonsense" not in str(refused.value)


def test_a_line_that_is_not_json_is_one_mistake():
    lines = b"\n".join([b"[" * 5000, json.dumps(RECORD).encode(), b"x" * 100_000, b"{"])
    batch = batch_of(lines, lines=True)
    assert (len(batch.requests), batch.refused) == (1, {Refusal.MALFORMED: 3})
    assert [mistake.index for mistake in batch.mistakes] == [0, 2, 3]
    with pytest.raises(NotJsonError, match="No line"):
        batch_of(b"this is\nno JSON\n", lines=True)


def test_a_body_has_a_limited_number_of_requests_and_returns_the_first_mistakes():
    most = batch_of([1] * MAX_BATCH_REQUESTS)
    assert most.refused == {Refusal.MALFORMED: MAX_BATCH_REQUESTS}
    assert [mistake.index for mistake in most.mistakes] == list(range(MAX_MISTAKES))
    for body, lines in ((b"[" + b"1," * MAX_BATCH_REQUESTS + b"1]", False), (b"{}\n" * 5001, True)):
        with pytest.raises(TooManyValuesError):
            batch_of(body, lines=lines)


async def test_reading_a_large_body_yields_to_the_event_loop():
    turns, body = 0, json.dumps([RECORD] * 1500).encode()
    reading = asyncio.ensure_future(read(body, lines=False, salt=None))
    while not reading.done():
        turns += 1
        await asyncio.sleep(0)
    assert len(reading.result().requests) == 1500
    assert turns > 20


def test_a_user_is_a_hash_that_depends_on_the_salt():
    (one,), (same,) = (batch_of(RECORD, salt=SALT).requests for _ in range(2))
    assert one.user == same.user
    (other,) = batch_of(RECORD, salt=SALT[::-1]).requests
    (another,) = batch_of(changed("user", "bob"), salt=SALT).requests
    assert len({one.user, other.user, another.user}) == 3


@pytest.mark.parametrize(
    ("user", "salt", "characters"),
    [("ann", None, 0), *((user, SALT, 0) for user in (None, "", 7, ["ann"], {})), ("a" * 10_000, SALT, 16)],
    ids=["no salt", "null", "empty", "number", "list", "object", "long"],
)
def test_with_a_salt_any_string_is_a_user(user, salt, characters):
    (request,) = batch_of(changed("user", user), salt=salt).requests
    assert len(request.user) == characters
    assert not request.user or int(request.user, 16)


@pytest.mark.parametrize(
    ("counts", "answer_tokens", "expected"),
    [
        # 10 drafts gave at least 10 tokens, and at most 4 of 30 accepted ones are beyond the end.
        *(((10, 30, 4), tokens, (40, 10)) for tokens in (None, 0, 1, 4, 36, 41)),
        ((10, 30, 4), 37, (36, 10)),
        ((10, 30, 4), 1000, (999, 969)),
        ((0, 0, 4), 50, (49, 49)),
        ((0, 0, 4), None, (0, 0)),
    ],
)
def test_an_unknown_or_contradictory_length_counts_every_step_as_one_that_drafts(
    counts, answer_tokens, expected
):
    drafts, accepted, tokens = counts
    request = RequestRecord("m", drafts, drafts * tokens, accepted, tokens, completion_tokens=answer_tokens)
    decoded = request.decoded_tokens
    assert (decoded, max(drafts, decoded - accepted)) == expected


@pytest.mark.parametrize(
    ("drafts", "accepted_tokens", "expected"),
    [
        (100, 0, "rejected"), (73, 0, "rejected"), (72, 0, ""), (100, 40, ""), (1000, 120, "rejected"),
        (100, 400, "repetitive"), (1000, 3880, "repetitive"), (72, 288, ""), (100, 250, ""), (0, 0, ""),
    ],
)  # fmt: skip
def test_almost_none_or_almost_all_of_many_drafts_is_pathological(drafts, accepted_tokens, expected):
    assert RequestRecord("m", drafts, 4 * drafts, accepted_tokens, 4).pathology == expected
    assert RequestRecord("m", drafts, 0, 0, 4).pathology == ""
