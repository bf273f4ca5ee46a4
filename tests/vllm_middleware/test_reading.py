"""Reading values from request and response bodies without decoding them."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.requests.request_batch import read
from spec_decode_exporter.requests.request_record import MAX_NAME_CHARACTERS
from spec_decode_exporter.vllm_middleware import spec_decode_requests as inside
from tests.vllm_middleware.harness import METRICS, answer, event, exchange, stream, work_of

NAMES = ("temperature", "n", "metadata")
KEYS = inside.keys_of(*NAMES)

texts = st.one_of(
    st.text(max_size=12),
    st.sampled_from(['"temperature":1', '\\"n\\":', "\\", '\\\\"', '{"n":[', "]}", 'a","n":2,"b":"', *NAMES]),
)
values = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-5, 5), st.floats(allow_nan=False, allow_infinity=False), texts
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.one_of(st.sampled_from(NAMES), texts), inner, max_size=4),
    ),
    max_leaves=12,
)
objects = st.dictionaries(st.one_of(st.sampled_from(NAMES), texts), values, max_size=6)


def top_level(text, *, whole=True):
    return inside.top_level(text, KEYS, work_of(), whole=whole)


def written(thing, spaces, ascii_only):
    separators = (", ", ": ") if spaces else (",", ":")
    return json.dumps(thing, ensure_ascii=ascii_only, separators=separators, indent=spaces or None).encode()


@given(objects, st.sampled_from([0, 1, 3]), st.booleans())
def test_values_equal_those_of_a_json_parser(thing, spaces, ascii_only):
    text = written(thing, spaces, ascii_only)
    assert top_level(text) == {name: thing[name] for name in NAMES if name in thing}


pairs = st.lists(st.tuples(st.one_of(st.sampled_from(NAMES), texts), values), max_size=10)


@given(pairs, st.booleans(), st.sampled_from([0, 5000]))
def test_the_last_of_repeated_keys_counts_at_any_position_of_the_prompt(members, whole, length):
    """The longest gap between keys is skipped: it may be before, between or after the keys."""
    gap = json.dumps('a\\"{[' * length)
    text = ",".join(f"{json.dumps(name)}:{json.dumps(value)}" for name, value in members)
    for parts in ((f'"a":{gap}', text), (text, f'"a":{gap}'), (text, f'"a":{gap}', text)):
        body = "{" + ",".join(part for part in parts if part) + "}"
        expected = json.loads(body)
        found = top_level(body.encode(), whole=whole)
        assert found == {name: expected[name] for name in NAMES if name in expected}


@given(objects, st.booleans(), st.data())
def test_values_are_correct_without_the_beginning(thing, ascii_only, data):
    text = written(thing, 0, ascii_only)
    cut = data.draw(st.integers(0, len(text)))
    found = top_level(text[cut:], whole=cut == 0)
    assert found.items() <= thing.items()
    for name, value in found.items():
        assert json.dumps(value) == json.dumps(thing[name])


@given(objects, st.integers(2, 7))
def test_a_long_text_is_read_in_chunks(thing, stretch):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inside, "CHUNK_BYTES", stretch)
        patch.setattr(inside, "STEPS", 1_000_000)
        assert top_level(written(thing, 0, True)) == {name: thing[name] for name in NAMES if name in thing}


@given(st.binary(max_size=200))
def test_invalid_json_gives_no_values_or_a_handled_error(text):
    try:
        found = top_level(b'{"n":' + text)
    except ValueError:
        return
    assert set(found) <= set(NAMES)


def read_answer(one):
    return inside.read_response(one, work_of())


def said(request, **fields):
    settings = inside.Settings(**fields)
    return read_request(exchange(json.dumps(request).encode()), settings)


def read_request(one, settings):
    return inside.read_request(one, inside.request_keys(settings), settings, work_of())


def test_a_request_type_and_a_user_are_read_from_configured_fields():
    request = {"metadata": {"type": "chat", "deep": {"user": "ann"}}, "user": "bob"}
    assert said(request) == {}
    assert said(request, type_field="metadata.type", user_field="metadata.deep.user") == {
        "request_type": "chat",
        "user": "ann",
    }
    assert said(request, type_field="metadata.deep.type", user_field="user") == {"user": "bob"}


@pytest.mark.parametrize("name", ["größe", "日本", 'a"b', "a\\b"])
@pytest.mark.parametrize("ascii_only", [True, False])
def test_the_name_of_a_field_may_be_escaped(name, ascii_only):
    """Most JSON writers escape non-ASCII characters."""
    settings = inside.Settings(type_field=f"{name}.type")
    text = json.dumps({name: {"type": "chat"}, "n": 1}, ensure_ascii=ascii_only).encode()
    assert read_request(exchange(text), settings) == {"n": 1, "request_type": "chat"}


def test_headers_have_priority_over_fields():
    settings = inside.Settings(type_field="type", user_header="X-User", user_field="user")
    reporter = inside.Reporter(settings)
    kind, user = reporter.type_and_user([(b"x-request-type", b"batch"), (b"x-user", b"ann"), (b"a", b"b")])
    request = b'{"type":"chat","user":"bob"}'
    found = read_request(exchange(request, kind=kind, user=user), settings)
    assert found == {"request_type": "batch", "user": "ann"}


@given(st.binary(max_size=400), st.text(st.characters(), max_size=300), st.floats() | st.integers())
async def test_the_exporter_accepts_every_value_of_a_client(header, field, temperature):
    """Any type, with lone surrogates too, and any temperature from 0, as vLLM accepts."""
    settings = inside.Settings(user_field="type")
    body = {"type": field, "temperature": max(temperature, 0)}
    one = exchange(json.dumps(body).encode(), kind=header)
    record = {**read_request(one, settings), **read_answer(one)}
    batch = await read(json.dumps(record).encode(), lines=True, salt=b"0" * 16)
    assert (len(batch.requests), batch.refused) == (1, {})


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"])
def test_a_body_in_another_encoding_is_not_reported_as_one_without_a_temperature(encoding):
    """vLLM reads these too. Without the beginning, the end shows the encoding."""
    for cut in (0, 8):
        one = exchange('{"temperature": 0.5, "prompt": "a"}'.encode(encoding)[cut:])
        with pytest.raises(UnicodeError):
            read_request(one, inside.Settings())


@pytest.mark.parametrize("end", [b"\n\n", b"\r\n\r\n", b"\n: keep-alive\n\n"])
def test_lines_of_a_stream_may_end_as_its_format_allows(end):
    text = b"".join(piece.rstrip() + end for piece in stream())
    assert read_answer(exchange(text=text, streamed=True))["metrics"] == METRICS


def test_only_known_numbers_are_kept():
    odd = {**METRICS, "new": "x", "queue_time_ms": "soon"}
    odd["speculative_decoding"] = {
        **METRICS["speculative_decoding"],
        "tokens": ["a"],
        "num_spec_steps": ["b"],
    }
    taken = inside.only_metrics(odd)
    assert set(taken) == set(METRICS) - {"queue_time_ms"}
    assert set(taken["speculative_decoding"]) == set(METRICS["speculative_decoding"]) - {"num_spec_steps"}


@given(st.lists(st.binary(max_size=20), max_size=30), st.integers(1, 40), st.sampled_from([4, inside.PIECES]))
def test_a_tail_has_the_last_bytes_and_at_most_one_more_piece(pieces, limit, most):
    """Small pieces need more memory than their bytes: if there are too many, they are joined to one."""
    ending = inside.Tail(limit)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inside, "PIECES", most)
        for piece in pieces:
            ending.add(piece)
            assert len(ending.pieces) <= most
    whole = b"".join(pieces)
    size = ending.size
    longest = max([1, *map(len, pieces), limit if len(pieces) > most else 0])
    assert min(limit, len(whole)) <= size < limit + longest
    text = ending.take()
    assert whole.endswith(text)
    assert (size, ending.size, ending.take()) == (len(text), 0, b"")


@pytest.mark.parametrize(
    ("usage", "taken"),
    [
        (None, {}),
        ([], {}),
        ("usage", {}),
        ({}, {}),
        ({"prompt_tokens": 7, "total_tokens": 9}, {"prompt_tokens": 7}),
        ({"prompt_tokens": True, "completion_tokens": "10"}, {}),
        ({"prompt_tokens": math.inf, "completion_tokens": 10}, {"completion_tokens": 10}),
        ({"prompt_tokens_details": None}, {}),
        ({"prompt_tokens_details": [4]}, {}),
        ({"prompt_tokens_details": {"cached_tokens": None}}, {}),
        (
            {"prompt_tokens_details": {"cached_tokens": 4, "audio_tokens": 1}},
            {"prompt_tokens_details": {"cached_tokens": 4}},
        ),
    ],
)
def test_only_the_numbers_of_tokens_of_a_usage_are_taken(usage, taken):
    assert inside.only_usage(usage) == taken


@pytest.mark.parametrize(
    ("written", "read"),
    [
        *((number, number) for number in (0, 0.7, 1, 2.0)),
        *((number, inside.MAX_TEMPERATURE) for number in (100.5, 1e300, 10**300)),
        *((number, None) for number in (None, "0.7", True, [0.7], float("nan"), float("inf"), 10**400)),
    ],
)
def test_a_temperature_is_a_number_up_to_the_limit(written, read):
    assert said({"temperature": written}).get("temperature") == read


@pytest.mark.parametrize(
    ("value", "read"),
    [
        (b'{"a":"%s"}' % (b"b" * 10_000), None),
        (b"[" * 5000, None),
        (b'{"a":' * 1000, None),
        (b"9" * (inside.NUMBER_BYTES + 1), None),
        (b"9" * inside.NUMBER_BYTES, int("9" * inside.NUMBER_BYTES)),
    ],
    ids=["too long", "too many brackets", "too many keys", "too many digits", "the longest number"],
)
def test_a_value_is_read_up_to_its_limits(value, read):
    assert top_level(b'{"n":%s}' % value) == {"n": read}


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("größe".encode(), "größe"),
        ("größe".encode("latin-1"), "gr\ufffd\ufffde"),
        (b"  a\tb\x00\x7f ", "ab"),
        (b"\xed\xa0\x80x", "\ufffd\ufffd\ufffdx"),
        (b" \t ", None),
        (b"b" * 1000, "b" * MAX_NAME_CHARACTERS),
        ("ü".encode() * 1000, "ü" * MAX_NAME_CHARACTERS),
    ],
)
def test_a_header_is_utf_8_without_unprintable_characters_up_to_the_exporter_s_limit(value, kind):
    kind_read, _ = inside.Reporter(inside.Settings()).type_and_user([(b"x-request-type", value)])
    assert read_request(exchange(kind=kind_read), inside.Settings()).get("request_type") == kind


LAST_WITHOUT = [
    *stream()[:2],
    event(choices=[{"text": '"metrics":{"queue_time_ms":1}'}]) + b"\n\n",
    stream()[-1],
]


@pytest.mark.parametrize(
    ("text", "streamed", "metrics"),
    [
        (answer(text='"model":"other"' * 10_000), False, METRICS),
        (answer(prompt_logprobs=[{"1": {"logprob": -0.5}}] * 5000), False, METRICS),
        (answer(None, kv_transfer_params={"metrics": {"queue_time_ms": 1.0}}), False, {}),
        (b"".join(LAST_WITHOUT), True, {}),
    ],
    ids=[
        "a long answer",
        "log probabilities before the metrics",
        "metrics of a transfer",
        "a stream without metrics",
    ],
)
def test_the_model_is_read_at_the_beginning_and_the_metrics_at_the_end(text, streamed, metrics):
    record = read_answer(exchange(text=text, streamed=streamed))
    assert (record["model"], record["metrics"]) == ("tiny", metrics)
