"""Records: what of a request and a response is sent, and what never leaves vLLM."""

import json

import pytest

from spec_decode_exporter.vllm_middleware import spec_decode_requests as inside
from tests.unit.vllm_middleware.harness import (
    METRICS,
    SCOPE,
    USAGE,
    answer,
    application,
    asked,
    body,
    configure,
    json_exchange,
    run,
    start,
    stream,
    stream_exchange,
)

TOKENS = {"completion_tokens": 10, "prompt_tokens": 7, "prompt_tokens_details": {"cached_tokens": 4}}
RECORD = {"model": "tiny", "metrics": METRICS, "usage": TOKENS, "temperature": 0.5}
SENT_PREDICTIONS = {"accepted_prediction_tokens": 3, "rejected_prediction_tokens": 2}
PREDICTIONS = {**SENT_PREDICTIONS, "audio_tokens": 1}


async def recorded(exporter, exchange, headers=(), path="/v1/completions"):
    """Pass an exchange; return the records that the exporter receives."""
    incoming, outgoing = exchange
    app = inside.Middleware(application(outgoing))
    await run(app, incoming, {**SCOPE, "path": path, "headers": [*SCOPE["headers"], *headers]})
    del exporter.requests[:]
    app._reporter.work(0.0)
    return exporter.records()


@pytest.mark.parametrize(
    ("path", "exchange"),
    [
        ("/v1/chat/completions", json_exchange()),
        ("/v1/completions", stream_exchange()),
        ("/behind/a/proxy/v1/completions", json_exchange()),
    ],
    ids=["chat", "stream", "behind a proxy"],
)
async def test_the_metrics_of_a_response_are_sent(exporter, path, exchange):
    assert await recorded(exporter, exchange, path=path) == [{**RECORD, "stream": path == "/v1/completions"}]


LONG = b'data: {"text":"%s"}\n\n' % (b"a" * inside.BODY_BYTES)
END = b"".join(stream()[-2:])


@pytest.mark.parametrize(
    "pieces",
    [
        [LONG, END], [LONG + END], *([piece.rstrip() + end for piece in stream()] for end in (b"\n\n", b"\r\n\r\n", b"\n: keep-alive\n\n")),
    ],
    ids=["beyond the limit", "beyond the limit in one piece", "\\n", "\\r\\n", "keep-alive"],
)  # fmt: skip
async def test_a_stream_is_read_from_its_end_whatever_ends_its_lines(exporter, pieces):
    (record,) = await recorded(exporter, stream_exchange(pieces=pieces))
    assert record["metrics"] == METRICS


async def test_prompts_and_completions_are_never_sent(exporter):
    secret = "Rumpelstilzchen"
    asks = f'{{"messages":[{{"content":"{secret}"}}],"temperature":0.5,"user":"{secret}"}}'.encode()
    for exchange in (
        json_exchange(asks, answer({**METRICS, "prompt": secret}, secret, prompt=secret, user=secret)),
        stream_exchange(asks, stream({**METRICS, "text": secret}, [secret])),
    ):
        assert len(await recorded(exporter, exchange)) == 1
        assert not any(secret in head or secret.encode() in text for head, text in exporter.requests)


@pytest.mark.parametrize(
    ("asks", "members"),
    [
        (b"{}", {}),
        (b'{"temperature": 0}', {"temperature": 0}),
        (b'{"temperature": 1e+300}', {"temperature": inside.MAX_TEMPERATURE}),
        (b'{"temperature": null, "n": 2}', {"n": 2}),
        (b'{"temperature":1,"n":1,"a":{"n":7},"temperature":2}', {"temperature": 2, "n": 1}),
    ],
)
async def test_temperature_and_n_are_those_of_the_request(exporter, asks, members):
    (record,) = await recorded(exporter, json_exchange(asks))
    assert {name: record[name] for name in ("temperature", "n") if name in record} == members


@pytest.mark.parametrize(
    ("metrics", "usage", "members"),
    [
        (None, USAGE, {"usage": TOKENS}),
        ({**METRICS, "new": "x"}, {}, {"metrics": METRICS, "usage": {}}),
        (METRICS, None, {"metrics": METRICS}),
        (METRICS, {"completion_tokens_details": PREDICTIONS}, {"metrics": METRICS, "usage": {}}),
        ({"queue_time_ms": 1.5}, {"completion_tokens_details": PREDICTIONS}, {"metrics": {"queue_time_ms": 1.5}, "usage": {"completion_tokens_details": SENT_PREDICTIONS}}),
    ],
    ids=["no metrics", "unknown", "no usage", "predictions beside metrics", "predictions alone"],
)  # fmt: skip
async def test_only_known_members_of_a_response_are_sent(exporter, metrics, usage, members):
    (record,) = await recorded(exporter, json_exchange(text=answer(metrics, usage=usage)))
    assert record == {"model": "tiny", "stream": False, "temperature": 0.5, **members}


@pytest.mark.usefixtures("exporter")
@pytest.mark.parametrize(
    ("exchange", "unreported"),
    [
        (json_exchange(text=b"null"), []),
        (json_exchange(text=b""), []),
        (json_exchange(text=b"Not { json ["), [False]),
        (json_exchange(text=answer({"queue_time_ms": "soon"})), [False]),
        (json_exchange(b'{"temperature":"0.5"}'), [False]),
        (json_exchange('{"temperature": 0.5}'.encode("utf-16")), [False]),
        (([asked(b"{")], [start(400), body(b"{}")]), []),
        (([asked(b"{", more=True), {"type": "http.disconnect"}], json_exchange()[1]), []),
        (json_exchange(b'{"n":' + b"[" * 100_000), [False]),
        (json_exchange(b"{%s}" % (b" " * inside.BODY_BYTES)), [True]),
        (json_exchange(text=answer(text="a" * inside.BODY_BYTES)), [True]),
        (stream_exchange(pieces=[b"data: [DONE]\n\n"]), [False]),
    ],
    ids=lambda value: str(value)[:60],
)
async def test_a_request_that_is_not_reported_is_counted_if_vllm_answered_it(exchange, unreported):
    """The count says whether it was too large."""
    app = inside.Middleware(application(exchange[1]))
    await run(app, exchange[0])
    app._reporter._not_before = 1.0  # it sends nothing
    app._reporter.work(0.0)
    assert (list(app._reporter.unreported), len(app._reporter.records)) == (unreported, 0)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("größe".encode(), "größe"),
        ("größe".encode("latin-1"), "gr\ufffd\ufffde"),
        (b"  a\tb\x00\x7f ", "ab"),
        ("ü".encode() * 1000, "ü" * inside.TEXT_CHARACTERS),
    ],
    ids=["utf-8", "latin-1", "unprintable", "long utf-8"],
)
async def test_a_header_is_utf_8_without_unprintable_characters_up_to_the_limit(exporter, value, kind):
    (record,) = await recorded(exporter, json_exchange(), [(b"x-request-type", value)])
    assert record.get("request_type") == kind


FIELDS = {"USER_FIELD": "meta.deep.user"}


@pytest.mark.parametrize(
    ("values", "members"),
    [
        ({}, {"request_type": "header"}),
        ({"TYPE_HEADER": ""}, {}),
        ({"TYPE_HEADER": "", "TYPE_FIELD": "meta.type"}, {"request_type": "chat"}),
        ({"TYPE_FIELD": "meta.type", **FIELDS}, {"request_type": "header", "user": "ann"}),
        ({"USER_HEADER": "X-User", **FIELDS}, {"request_type": "header", "user": "eve"}),
        ({"TYPE_HEADER": "", "TYPE_FIELD": "größe-1"}, {"request_type": "big"}),
        ({"TYPE_HEADER": "", "TYPE_FIELD": "meta.deep"}, {}),
        ({"TYPE_HEADER": "", "TYPE_FIELD": "meta.type.no", "TARGET": "vllm-0"}, {"target": "vllm-0"}),
    ],
)
async def test_type_user_and_target_are_those_of_the_settings(exporter, monkeypatch, values, members):
    configure(monkeypatch, **values)
    asks = {"meta": {"type": "chat", "deep": {"user": "ann"}}, "größe-1": "big", "": "nobody"}
    exchange = json_exchange(json.dumps(asks).encode())
    (record,) = await recorded(exporter, exchange, [(b"x-request-type", b"header"), (b"x-user", b"eve")])
    assert {name: record[name] for name in ("request_type", "user", "target") if name in record} == members
