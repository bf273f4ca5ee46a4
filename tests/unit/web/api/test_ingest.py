"""Ingest of single requests over HTTP: accepted and rejected bodies, and findings."""

import asyncio
import json
from io import BytesIO
from ssl import SSLError
from types import SimpleNamespace
from unittest.mock import AsyncMock

import pytest
from aiohttp import web

from spec_decode_exporter.config.schema import Config, RequestSettings
from spec_decode_exporter.monitor.fleet import Fleet
from spec_decode_exporter.monitor.target_monitor import Shared
from spec_decode_exporter.requests.record import Refusal
from spec_decode_exporter.vllm_middleware import spec_decode_requests as inside
from spec_decode_exporter.web import api
from spec_decode_exporter.web.application import create_app
from spec_decode_exporter.web.endpoint import RequestError
from spec_decode_exporter.web.limits import MAX_REQUESTS
from spec_decode_exporter.web.state import ExporterState
from tests.unit.requests.test_record import RECORD, changed

PATH = "/api/v1/requests"
JSON, NDJSON = "application/json", "application/x-ndjson"
NOTHING_REFUSED = dict.fromkeys(
    ("malformed", "without_metrics", "contradictory", "rate", "dropped", "too_costly", "body"), 0
)


@pytest.fixture
def state(clock):
    settings = RequestSettings(ingest=True, rate=100)
    return ExporterState(Fleet(Config(requests=settings), Shared(clock)))


@pytest.fixture
async def client(aiohttp_client, state):
    return await aiohttp_client(create_app(state))


async def post(client, body, content_type=JSON, **headers):
    """Send a body; return status and JSON of the response."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    response = await client.post(PATH, data=BytesIO(data), headers={"Content-Type": content_type, **headers})
    if response.status >= 400:
        assert response.content_type == "application/problem+json"
    return response.status, await response.json(content_type=None)


async def unfinished(begun, end):
    """Yield the first byte of a body, and wait before the next."""
    yield b"["
    begun.put_nowait(None)
    await end.wait()


async def test_one_or_many_requests_are_accepted_in_both_formats(client):
    lines, other = b"\n".join([json.dumps(RECORD).encode()] * 3), "Application/JSON;charset=utf8"
    for body, kind, taken in [(RECORD, other, 1), ([RECORD] * 2, JSON, 2), (lines, NDJSON, 3)]:
        answer = {"taken": taken, "refused": NOTHING_REFUSED, "mistakes": []}
        assert await post(client, body, kind) == (200, answer)


async def test_accepted_requests_are_reported(client):
    await post(client, [RECORD, changed("request_type", "code"), changed("temperature", 0)])
    response = await (await client.get(f"{PATH}?window=5m")).json()
    assert (response["enabled"], response["taken"], response["refused"]) == (True, 3, NOTHING_REFUSED)
    groups = {(each["request_type"], each["temperature"]) for each in response["groups"]}
    assert groups == {("chat", "0"), ("chat", "0.3-0.7"), ("code", "0.3-0.7")}
    (model,) = response["models"]
    assert (model["model_name"], model["requests"], model["accepted_tokens"]) == ("llama", 3, 195)
    assert model["draft_acceptance_ratio"] == 65 / 160
    assert [window["window"] for window in response["windows"]] == ["5m"]
    assert response["users"] == []


async def test_refused_requests_are_reported_by_index_and_counted(client):
    status, response = await post(client, [RECORD, 7, changed("metrics", None), RECORD, {"model": "a" * 300}])
    assert (status, response["taken"]) == (200, 2)
    assert response["refused"] == {**NOTHING_REFUSED, "malformed": 2, "without_metrics": 1}
    assert [mistake["index"] for mistake in response["mistakes"]] == [1, 2, 4]
    report = await (await client.get(PATH)).json()
    assert report["refused"] == response["refused"]


@pytest.mark.parametrize(
    ("body", "content_type", "headers", "status"),
    [
        (b"no JSON", JSON, {}, 400),
        (b"no JSON", NDJSON, {}, 400),
        (b"{}", "text/plain", {}, 415),
        (b"{}", "", {}, 415),
        (b"{}", "application/json; charset=latin-1", {}, 415),
        (b"{}", JSON, {"Content-Encoding": "gzip"}, 415),
        (b" " * (api.MAX_BODY_BYTES + 1), JSON, {}, 413),
    ],
)
async def test_an_invalid_body_is_a_problem_and_counted(client, state, body, content_type, headers, status):
    answered, problem = await post(client, body, content_type, **headers)
    assert (answered, problem["status"]) == (status, status)
    assert problem["detail"].endswith(".")
    findings = (await state.take()).requests
    assert (findings.taken, findings.refused) == (0, {Refusal.BODY: 1})


async def test_a_body_that_is_too_slow_is_rejected_and_counted(client, state, monkeypatch):
    monkeypatch.setattr(api, "BODY_SECONDS", 0.01)
    body = unfinished(asyncio.Queue(), asyncio.Event())
    response = await client.post(PATH, data=body, headers={"Content-Type": JSON})
    assert response.status == 408
    assert (await state.take()).requests.refused == {Refusal.BODY: 1}


@pytest.mark.parametrize(
    "error",
    [ConnectionResetError("Connection lost"), web.RequestPayloadError("zz"), SSLError(1, "WRONG_VERSION")],
)
async def test_an_incomplete_body_is_rejected_and_not_logged(error):
    """Otherwise a client could fill the log with tracebacks."""
    cut = SimpleNamespace(read=AsyncMock(side_effect=error))
    with pytest.raises(RequestError) as rejected:
        await api._body(cut)
    assert rejected.value.status == 400


async def test_a_body_above_the_concurrency_limit_is_rejected_before_it_is_read(client, state, monkeypatch):
    monkeypatch.setattr("spec_decode_exporter.web.limits.WAIT_SECONDS", 0)
    begun, end = asyncio.Queue(), asyncio.Event()
    bodies = [unfinished(begun, end) for _ in range(MAX_REQUESTS)]
    sent = [client.post(PATH, data=body, headers={"Content-Type": JSON}) for body in bodies]
    slow = [asyncio.create_task(each) for each in sent]
    for _ in slow:
        await begun.get()
    assert (await post(client, RECORD))[0] == 503
    assert (await state.take()).requests.refused == {Refusal.BODY: 1}
    end.set()
    await asyncio.gather(*slow)


async def test_requests_above_the_rate_are_counted_and_dropped_unless_all_are(client, clock, state):
    status, response = await post(client, [RECORD] * 150)
    assert (status, response["taken"], response["refused"]["rate"]) == (200, 100, 50)
    status, problem = await post(client, [RECORD])
    assert status == 429
    assert "requests.rate" in problem["detail"]
    assert (await state.take()).requests.refused == {Refusal.RATE: 50}
    clock.now += 0.5
    assert (await post(client, [RECORD] * 60))[1]["refused"]["rate"] == 10


NO_NUMBERS = ("", "-1", "+1", "1.0", "0x1", "1_000", "1234567890", "٣", "3, 4")


@pytest.mark.parametrize(
    ("unsent", "costly", "counted"),
    [
        *[("7", "", (7, 0)), ("000000035", "0", (35, 0)), ("7", "3", (4, 3)), ("3", "7", (0, 3)), ("3", "x", (3, 0))],
        *[(text, "7", (0, 0)) for text in NO_NUMBERS],
    ],
)  # fmt: skip
async def test_dropped_requests_and_those_that_are_too_costly_are_counted(client, unsent, costly, counted):
    _, response = await post(client, [RECORD], **{api.DROPPED: unsent, api.TOO_COSTLY: costly})
    assert response["refused"] == {**NOTHING_REFUSED, "dropped": counted[0], "too_costly": counted[1]}


async def test_requests_of_the_middleware_are_accepted_and_its_dropped_ones_counted(client, state):
    reporter = inside.Reporter(inside.Settings(url=str(client.make_url(PATH))))
    reporter.records.append(json.dumps(RECORD).encode())
    reporter.unreported.extend([True] * 3 + [False] * 12)
    await asyncio.to_thread(reporter.work, 0.0)
    findings = (await state.take()).requests
    assert (findings.taken, findings.refused) == (1, {Refusal.DROPPED: 12, Refusal.TOO_COSTLY: 3})
