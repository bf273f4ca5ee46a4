from __future__ import annotations

import asyncio
import contextlib
import copy
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.requests.record_reader import MOST_CHARACTERS, NotJsonError
from spec_decode_exporter.requests.request import Refusal, Request
from spec_decode_exporter.requests.request_batch import MOST_MISTAKES, MOST_REQUESTS, TooManyError, read
from spec_decode_exporter.requests.request_record import MOST_DRAFTED, MOST_NAME, MOST_SECONDS, MOST_STEPS

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
    "usage": {"prompt_tokens": 9, "completion_tokens": 120},
    "request_type": "chat",
    "temperature": 0.7,
    "n": 1,
    "stream": True,
    "target": "chat-0",
    "user": "ann",
}
SECRET = "my grandmother's pancakes"


def changed(path, value):
    """The record, with something else in one place."""
    record = copy.deepcopy(RECORD)
    *above, last = path.split(".")
    inner = record
    for name in above:
        inner = inner[name]
    inner[last] = value
    return record


def without(path):
    record = copy.deepcopy(RECORD)
    *above, last = path.split(".")
    inner = record
    for name in above:
        inner = inner[name]
    del inner[last]
    return record


def batch_of(body, *, lines=False, salt=None):
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    return asyncio.run(read(text, lines=lines, salt=salt))


def refusal_of(record):
    """Why it is not taken, and what is told."""
    batch = batch_of(record)
    assert not batch.requests
    ((reason, number),) = batch.refused.items()
    (mistake,) = batch.mistakes
    assert (number, mistake.index) == (1, 0)
    return reason, mistake.detail


def test_a_record_is_a_request_of_which_nothing_else_is_kept():
    assert batch_of(RECORD).requests == [
        Request(
            model_name="llama",
            drafts=40,
            draft_tokens=160,
            accepted_tokens=65,
            tokens=4,
            request_type="chat",
            temperature=0.7,
            stream=True,
            completion_tokens=120,
            decode_seconds=0.9,
            target="chat-0",
        )
    ]


def test_only_a_model_and_its_metrics_are_needed():
    least = {"num_spec_steps": 0, "num_accepted_draft_tokens": 0, "num_draft_tokens": 0, "num_spec_tokens": 4}
    (request,) = batch_of({"model": "a", "metrics": {"speculative_decoding": least}}).requests
    assert request == Request("a", 0, 0, 0, 4)


@pytest.mark.parametrize(
    "path", ["usage", "request_type", "temperature", "n", "stream", "target", "user", "metrics.generation_time_ms",
             "usage.completion_tokens", "metrics.speculative_decoding.acceptance_histogram"]
)  # fmt: skip
def test_what_need_not_be_said_may_be_null(path):
    assert batch_of(changed(path, None)).requests == batch_of(without(path)).requests != []


def test_an_array_and_lines_say_the_same():
    records = [changed("model", name) for name in "abc"]
    lines = b"\r\n\n".join(json.dumps(each).encode() for each in records) + b"\n"
    in_array, in_lines = batch_of(records), batch_of(lines, lines=True)
    assert in_array.requests == in_lines.requests
    assert [request.model_name for request in in_array.requests] == ["a", "b", "c"]


def test_lines_that_are_called_json_are_lines_all_the_same():
    lines = b"\n".join(json.dumps(changed("model", each)).encode() for each in "abc")
    assert batch_of(lines).requests == batch_of(lines, lines=True).requests
    assert len(batch_of(json.dumps(RECORD, indent=1).encode()).requests) == 1


@pytest.mark.parametrize("lines", [False, True])
def test_a_byte_order_mark_at_the_beginning_is_passed_over(lines):
    body = b"\xef\xbb\xbf" + json.dumps(RECORD).encode()
    batch = batch_of(body, lines=lines)
    assert (len(batch.requests), batch.refused) == (1, {})
    with pytest.raises(NotJsonError):
        batch_of(b"\xef\xbb\xbf" + body)


def test_nothing_is_nothing():
    assert batch_of([]).requests == batch_of(b" \n\n", lines=True).requests == []


def test_numbers_that_passed_through_other_programs_may_be_floats():
    record = json.loads(json.dumps(RECORD), parse_int=float)
    assert batch_of(record).requests == batch_of(RECORD).requests


def test_of_several_sequences_together_no_time_for_a_token_can_be_told():
    (request,) = batch_of(changed("n", 2)).requests
    assert (request.completion_tokens, request.decode_seconds) == (None, None)


@pytest.mark.parametrize("path", ["metrics", "metrics.speculative_decoding"])
def test_where_the_server_said_nothing_the_remedy_is_told(path):
    for record in (without(path), changed(path, None)):
        reason, detail = refusal_of(record)
        assert reason is Refusal.WITHOUT_METRICS
        assert "--per-request-spec-decode-metrics" in detail


SPECULATION = "metrics.speculative_decoding"


@pytest.mark.parametrize(
    ("path", "value", "told"),
    [
        (f"{SPECULATION}.num_accepted_draft_tokens", 161, "more tokens are accepted than drafted"),
        (f"{SPECULATION}.num_draft_tokens", 161, "num_spec_steps times num_spec_tokens"),
        (f"{SPECULATION}.num_spec_tokens", 3, "num_spec_steps times num_spec_tokens"),
        (f"{SPECULATION}.acceptance_histogram", [10, 10, 10, 5, 6], "the sum of acceptance_histogram"),
        (f"{SPECULATION}.acceptance_histogram", [11, 9, 10, 5, 5], "acceptance_histogram and num_accepted_"),
        (f"{SPECULATION}.acceptance_histogram", [10, 10, 10, 5, 4, 1], "accepted more than num_spec_tokens"),
    ],
)
def test_numbers_that_cannot_be_contradict_each_other(path, value, told):
    reason, detail = refusal_of(changed(path, value))
    assert reason is Refusal.CONTRADICTORY
    assert told in detail


COUNTS = [f"{SPECULATION}.{name}" for name in ("num_spec_steps", "num_draft_tokens", "num_spec_tokens")]


@pytest.mark.parametrize("path", [*COUNTS, "n", "usage.completion_tokens"])
@pytest.mark.parametrize(
    "value", [-1, 2**63, 10**400, 0.5, math.nan, math.inf, -math.inf, 1e300, True, "4", [], {}]
)
def test_what_does_not_count_is_refused(path, value):
    reason, detail = refusal_of(changed(path, value))
    assert reason is Refusal.MALFORMED
    assert detail == f"{path} is not a whole number from 0"


@pytest.mark.parametrize(
    ("path", "most"),
    [
        ("metrics.speculative_decoding.num_spec_tokens", MOST_DRAFTED),
        ("metrics.speculative_decoding.num_spec_steps", MOST_STEPS),
        ("usage.completion_tokens", MOST_STEPS),
        ("metrics.generation_time_ms", 1000 * MOST_SECONDS),
    ],
)
def test_what_no_request_has_is_refused_though_it_agrees(path, most):
    record = changed(path, most)
    record["metrics"]["speculative_decoding"].update(acceptance_histogram=None, num_draft_tokens=100)
    record["metrics"]["speculative_decoding"].update(num_accepted_draft_tokens=50)
    assert len(batch_of([record]).requests) == 1
    *above, last = path.split(".")
    inner = record
    for name in above:
        inner = inner[name]
    inner[last] = most + 1
    batch = batch_of([record])
    assert batch.refused == {Refusal.CONTRADICTORY: 1}
    assert batch.mistakes[0].detail == f"{path} is above {most:g}, which no request has"


@pytest.mark.parametrize("path", ["temperature", "metrics.generation_time_ms"])
@pytest.mark.parametrize("value", [-0.1, math.nan, math.inf, 1e13, 10**400, True, "0.7", []])
def test_what_is_no_sensible_number_is_refused(path, value):
    reason, detail = refusal_of(changed(path, value))
    assert reason is Refusal.MALFORMED
    assert detail.startswith(f"{path} is not a number from 0 to ")


@pytest.mark.parametrize("path", ["model", "request_type", "target"])
@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("a" * (MOST_NAME + 1), f"has more than {MOST_NAME} characters"),
        ("a\nb", "has a character that cannot be printed"),
        ("\x00", "has a character that cannot be printed"),
        ("\ud800", "has a character that cannot be printed"),
        ("\u2028", "has a character that cannot be printed"),
        (7, "is not a text"),
        ([], "is not a text"),
    ],
)
def test_a_name_is_a_short_text_that_can_be_printed(path, value, told):
    assert refusal_of(changed(path, value)) == (Refusal.MALFORMED, f"{path} {told}")


@pytest.mark.parametrize(
    ("record", "told"),
    [
        (without("model"), "model is missing"),
        (changed("model", ""), "model is missing"),
        (changed("metrics", []), "metrics is not an object with each of its keys once"),
        (changed(SPECULATION, 4), f"{SPECULATION} is not an object with each of its keys once"),
        (without(f"{SPECULATION}.num_spec_steps"), f"{SPECULATION}.num_spec_steps is missing"),
        (
            changed(f"{SPECULATION}.acceptance_histogram", [1, -1]),
            f"{SPECULATION}.acceptance_histogram is not a list",
        ),
        (changed("stream", 1), "stream is neither true nor false"),
        (changed("usage", "x"), "usage is not an object"),
        (None, "is not an object"),
        (7, "is not an object"),
        (SECRET, "is not an object"),
    ],
)
def test_what_is_no_such_record_is_refused_and_told_why(record, told):
    reason, detail = refusal_of(record)
    assert reason is Refusal.MALFORMED
    assert detail.startswith(told)


def test_a_key_that_is_there_twice_makes_no_record_but_others_may_have_it():
    text = json.dumps(RECORD)
    twice = text.replace('"model"', '"model": "other", "model"')
    inside = text.replace('"num_spec_steps"', '"num_spec_steps": 1, "num_spec_steps"')
    elsewhere = text.replace('"model"', '"choices": {"a": 1, "a": 2}, "model"')
    for record in (twice, inside):
        batch = batch_of(record.encode())
        assert batch.refused == {Refusal.MALFORMED: 1}
    assert len(batch_of(elsewhere.encode()).requests) == 1


@pytest.mark.parametrize(
    "body",
    [b"", b" ", b"{", b"[", b"]", b"nonsense", b"[1", b"[1,]", b"[1 2]", b"{} {}", b"[] x", b"\xff", b"[" * 100_000,
     b"\xef\xbb\xbf" * 2 + b"{}", b'{"a": ' + b"9" * 5000 + b"}", b'["' + b"a" * (MOST_CHARACTERS + 1) + b'"]']
)  # fmt: skip
def test_what_is_no_json_is_refused_as_a_whole_without_its_text(body):
    with pytest.raises(NotJsonError) as refused:
        batch_of(body)
    assert str(refused.value).startswith("The body is")
    assert "nonsense" not in str(refused.value)


def test_a_line_that_is_no_json_is_one_mistake_among_others():
    lines = b"\n".join([b"[" * 5000, json.dumps(RECORD).encode(), b"x" * (MOST_CHARACTERS + 1), b"{"])
    batch = batch_of(lines, lines=True)
    assert (len(batch.requests), batch.refused) == (1, {Refusal.MALFORMED: 3})
    assert [mistake.index for mistake in batch.mistakes] == [0, 2, 3]


def test_a_text_of_which_no_line_is_json_was_sent_by_mistake():
    with pytest.raises(NotJsonError, match="No line"):
        batch_of(b"this is\nno JSON\n", lines=True)


def test_an_array_is_read_in_parts_that_may_end_anywhere():
    padded = [changed("choices", "x" * size) for size in range(0, MOST_CHARACTERS - 1000, 997)]
    assert len(batch_of(padded).requests) == len(padded)
    dense = [changed("model", str(number)) for number in range(1000)]
    assert [request.model_name for request in batch_of(dense).requests] == list(map(str, range(1000)))


@given(st.lists(st.one_of(st.integers(), st.floats(), st.text(), st.none(), st.booleans()), max_size=20),
       st.integers(MOST_CHARACTERS - 60, MOST_CHARACTERS - 6))  # fmt: skip
def test_what_is_cut_at_the_edge_of_a_part_is_the_same_value(values, padding):
    body = json.dumps(["x" * padding, *values]).encode()
    batch = batch_of(body)
    assert sum(batch.refused.values()) == len(json.loads(body))


def test_only_so_many_are_taken_at_a_time():
    assert len(batch_of([RECORD] * 100).requests) == 100
    assert batch_of([0] * MOST_REQUESTS).refused == {Refusal.MALFORMED: MOST_REQUESTS}
    with pytest.raises(TooManyError, match=f"more than {MOST_REQUESTS}"):
        batch_of([0] * (MOST_REQUESTS + 1))


def test_the_first_mistakes_are_told_and_all_are_counted():
    batch = batch_of([0] * 50)
    assert batch.refused == {Refusal.MALFORMED: 50}
    assert [mistake.index for mistake in batch.mistakes] == list(range(MOST_MISTAKES))


async def test_others_have_their_turn_while_a_large_body_is_read():
    turns = 0

    async def count():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    await read(json.dumps([RECORD] * 1500).encode(), lines=False, salt=None)
    counting.cancel()
    assert turns > 20


def test_without_a_salt_nothing_of_a_user_is_kept():
    assert batch_of(RECORD).requests[0].user == ""


def test_a_user_is_a_hash_that_only_the_salt_can_make_again():
    (one,), (same,) = (batch_of(RECORD, salt=SALT).requests for _ in range(2))
    assert one.user == same.user
    assert len(one.user) == 16
    assert int(one.user, 16)
    (other,) = batch_of(RECORD, salt=SALT[::-1]).requests
    (another,) = batch_of(changed("user", "bob"), salt=SALT).requests
    assert len({one.user, other.user, another.user}) == 3


@pytest.mark.parametrize("user", [None, "", 7, ["ann"], {}])
def test_what_is_no_user_is_none(user):
    assert batch_of(changed("user", user), salt=SALT).requests[0].user == ""


@pytest.mark.parametrize("user", ["\ud800", "a" * 10_000])
def test_any_text_is_a_user(user):
    assert len(batch_of(changed("user", user), salt=SALT).requests[0].user) == 16


ANYTHING = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.just(SECRET)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(), inner, max_size=3)),
    max_leaves=5,
)
PATHS = ["model", "metrics", SPECULATION, *COUNTS, f"{SPECULATION}.acceptance_histogram", "usage", "temperature",
         "request_type", "n", "stream", "target", "user", "choices", "messages", "prompt"]  # fmt: skip


@given(st.sampled_from(PATHS), ANYTHING)
def test_whatever_stands_in_a_field_is_never_repeated(path, value):
    batch = batch_of(changed(path, value), salt=SALT)
    assert len(batch.requests) + sum(batch.refused.values()) == 1
    assert all(SECRET not in mistake.detail and len(mistake.detail) < 200 for mistake in batch.mistakes)
    for request in batch.requests:
        kept = (request.model_name, request.request_type, request.target)
        assert request.drafts * request.tokens >= request.draft_tokens >= request.accepted_tokens >= 0
        assert all(name.isprintable() and len(name) <= MOST_NAME for name in kept)


@given(st.binary(max_size=500), st.booleans())
def test_any_bytes_are_a_batch_or_no_json(data, lines):
    with contextlib.suppress(NotJsonError):
        batch = batch_of(data, lines=lines)
        assert len(batch.mistakes) == min(MOST_MISTAKES, sum(batch.refused.values()))
