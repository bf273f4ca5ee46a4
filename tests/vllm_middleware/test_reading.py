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
from tests.vllm_middleware.harness import METRICS, answer, event, stream

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


def work():
    """Return work without limits: they have their own tests."""
    one = inside.Work(lambda: 0.0, lambda seconds: None)
    one.begin(1.0)
    return one


def top_level(text, *, whole=True):
    return inside.top_level(text, KEYS, work(), whole=whole)


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


def test_a_tool_s_temperature_is_not_that_of_the_request():
    tools = [{"function": {"parameters": {"properties": {"temperature": {"n": 3}}}}}]
    request = {"temperature": 0.2, "tools": tools, "messages": [{"content": '{"temperature": 9}'}]}
    assert top_level(json.dumps(request).encode()) == {"temperature": 0.2}


def test_a_value_that_is_too_long_is_none():
    assert top_level(json.dumps({"metadata": {"a": "b" * 10_000}}).encode()) == {"metadata": None}


def read_answer(one):
    return inside.read_response(one, work())


def exchange(request=b"{}", text=None, streamed=False, kind=b"", user=b""):
    """Return a complete exchange."""
    one = object.__new__(inside.Exchange)
    text = answer() if text is None else text
    one.stream, one.type, one.user, one.head = streamed, kind, user, text[:1024]
    one.body, one.answer = inside.Tail(inside.BODY_BYTES), inside.Tail(inside.RESPONSE_BYTES)
    one.body.add(request)
    one.answer.add(text)
    return one


def said(request, **fields):
    settings = inside.Settings(**fields)
    return read_request(exchange(json.dumps(request).encode()), settings)


def read_request(one, settings):
    return inside.read_request(one, inside.request_keys(settings), settings, work())


@pytest.mark.parametrize("temperature", [0, 0.7, 1, 2.0])
def test_a_temperature_is_read(temperature):
    assert said({"temperature": temperature}) == {"temperature": temperature}


@pytest.mark.parametrize("temperature", [100.5, 1e300, 10**300])
def test_a_temperature_above_the_limit_is_reported_as_the_limit(temperature):
    assert said({"temperature": temperature}) == {"temperature": inside.MAX_TEMPERATURE}


@pytest.mark.parametrize("temperature", [None, "0.7", True, [0.7], float("nan"), float("inf"), 10**400])
def test_an_invalid_temperature_is_omitted(temperature):
    assert said({"temperature": temperature}) == {}


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


@pytest.mark.parametrize("text", ["\ud800x", "x\udfff", "a\ud83d"])
def test_a_lone_surrogate_is_omitted(text):
    """json.loads accepts it as bytes and as an escape."""
    for raw in (
        json.dumps({"user": text}).encode(),
        b'{"user":"%s"}' % text.encode("utf-8", "surrogatepass"),
    ):
        found = read_request(exchange(raw), inside.Settings(user_field="user"))
        assert found == {"user": inside.short(json.loads(raw)["user"])}


def test_headers_have_priority_over_fields():
    settings = inside.Settings(type_field="type", user_header="X-User", user_field="user")
    reporter = inside.Reporter(settings)
    kind, user = reporter.type_and_user([(b"x-request-type", b"batch"), (b"x-user", b"ann"), (b"a", b"b")])
    request = b'{"type":"chat","user":"bob"}'
    found = read_request(exchange(request, kind=kind, user=user), settings)
    assert found == {"request_type": "batch", "user": "ann"}


def test_long_names_are_cut_to_the_exporter_s_limit():
    assert inside.TEXT_CHARACTERS == MAX_NAME_CHARACTERS
    found = said({"type": "a" * 1000}, type_field="type")
    assert found["request_type"] == "a" * MAX_NAME_CHARACTERS
    assert read_header("x-request-type", ("b" * 1000).encode()) == "b" * MAX_NAME_CHARACTERS
    assert read_header("x-request-type", "ü".encode() * 1000) == "ü" * MAX_NAME_CHARACTERS


def read_header(name, value):
    reporter = inside.Reporter(inside.Settings())
    kind, _ = reporter.type_and_user([(name.encode(), value)])
    found = read_request(exchange(kind=kind), inside.Settings())
    return found.get("request_type", "")


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("größe".encode(), "größe"),
        ("größe".encode("latin-1"), "gr\ufffd\ufffde"),
        ("日本語".encode(), "日本語"),
        (b"  a\tb\x00\x7f ", "ab"),
        (b"\xed\xa0\x80x", "\ufffd\ufffd\ufffdx"),
        (b" \t ", ""),
    ],
)
def test_a_header_is_utf_8_without_unprintable_characters(value, kind):
    assert read_header("x-request-type", value) == kind


@given(st.binary(max_size=400), st.text(max_size=300), st.floats() | st.integers())
async def test_the_exporter_accepts_every_value_of_a_client(header, field, temperature):
    """Any type, and any temperature from 0, as vLLM accepts."""
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


def test_a_byte_order_mark_is_skipped():
    assert read_request(exchange(b'\xef\xbb\xbf{"temperature": 0.5}'), inside.Settings()) == {
        "temperature": 0.5
    }


@pytest.mark.parametrize("deep", [b"[" * 5000, b'{"a":' * 1000])
def test_a_value_that_is_nested_too_deep_is_none(deep):
    assert top_level(b'{"n":' + deep) == {"n": None}


def test_a_number_is_read_up_to_its_limit():
    digits = b"9" * (inside.NUMBER_BYTES + 1)
    assert top_level(b'{"n":%s}' % digits) == {"n": None}
    assert top_level(b'{"n":%s}' % digits[1:]) == {"n": int(digits[1:])}


def test_an_incomplete_text_has_no_values():
    """vLLM refuses such a request, so it is not a failure of the middleware."""
    for end in ("", "\\", '\\"', "\\\\"):
        assert top_level(b'{"n":1,"prompt":"a' + end.encode()) in ({}, {"n": 1})


def test_the_model_of_a_long_answer_is_read_at_its_beginning():
    one = exchange(text=answer(text='"model":"other"' * 10_000))
    assert one.answer.size <= inside.RESPONSE_BYTES
    assert read_answer(one)["model"] == "tiny"


def test_metrics_are_found_after_log_probabilities():
    """Log probabilities of a long prompt are between usage and metrics."""
    one = exchange(text=answer(prompt_logprobs=[{"1": {"logprob": -0.5}}] * 5000))
    record = read_answer(one)
    assert record == {"model": "tiny", "metrics": METRICS}


def test_the_metrics_of_a_transfer_are_not_those_of_the_request():
    one = exchange(text=answer(None, kv_transfer_params={"metrics": {"queue_time_ms": 1.0}}))
    assert read_answer(one)["metrics"] == {}


def test_the_last_event_may_have_no_metrics():
    pieces = [
        *stream()[:2],
        event(choices=[{"text": '"metrics":{"queue_time_ms":1}'}]) + b"\n\n",
        stream()[-1],
    ]
    record = read_answer(exchange(text=b"".join(pieces), streamed=True))
    assert record == {"model": "tiny", "metrics": {}}


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


@given(st.lists(st.binary(max_size=20), max_size=30), st.integers(1, 40))
def test_a_tail_has_the_last_bytes_and_at_most_one_more_piece(pieces, limit):
    ending = inside.Tail(limit)
    for piece in pieces:
        ending.add(piece)
    whole = b"".join(pieces)
    size = ending.size
    assert min(limit, len(whole)) <= size < limit + max([1, *map(len, pieces)])
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
