"""Single requests over HTTP: what is taken, what is refused and how, and what they say together."""

from __future__ import annotations

import asyncio
import json
from io import BytesIO
from types import SimpleNamespace

import pytest
from aiohttp import web

from spec_decode_exporter.config.request_settings import RequestSettings, RequestUsers
from spec_decode_exporter.config.schema import Config
from spec_decode_exporter.monitor.event_log import EventLog
from spec_decode_exporter.monitor.request_receiver import RequestReceiver
from spec_decode_exporter.requests.request_record import Refusal
from spec_decode_exporter.vllm_middleware import spec_decode_requests as inside
from spec_decode_exporter.web.api import request_ingest
from spec_decode_exporter.web.api.api_source import ApiSource
from spec_decode_exporter.web.api.problems import RequestError
from spec_decode_exporter.web.application import create_app
from tests.requests.test_request_batch import RECORD, changed

PATH = "/api/v1/requests"
JSON, NDJSON = "application/json", "application/x-ndjson"
NOTHING_REFUSED = {
    "malformed": 0,
    "without_metrics": 0,
    "contradictory": 0,
    "rate": 0,
    "dropped": 0,
    "too_costly": 0,
    "body": 0,
}


class NoFleet:
    """Stands in for a fleet with no engines."""

    config = Config()

    def __iter__(self):
        return iter(())


@pytest.fixture
def receiver(clock):
    settings = RequestSettings(ingest=True, rate=100)
    return RequestReceiver(settings, NoFleet(), EventLog("a1"), clock)


@pytest.fixture
async def client(aiohttp_client, make_state, source, receiver):
    found = []

    async def prepare():
        found[:] = [await receiver.findings()]

    given = {
        name: getattr(source, name)
        for name in ("now", "labels", "windows", "snapshot", "histories", "targets")
    }
    api = ApiSource(
        **given,
        events=source.events,
        requests=lambda: found[0],
        receiver=lambda: receiver if receiver.is_open else None,
    )
    return await aiohttp_client(create_app(make_state(api=api, prepare=prepare)))


@pytest.fixture
def post(client):
    """A function that sends a body and returns the status and what is answered."""

    async def post(body, content_type=JSON, **headers):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        answer = await client.post(
            PATH, data=BytesIO(data), headers={"Content-Type": content_type, **headers}
        )
        if answer.status >= 400:
            assert answer.content_type == "application/problem+json"
        return answer.status, await answer.json(content_type=None)

    return post


async def test_one_or_many_are_taken_in_either_form(post):
    lines = b"\n".join([json.dumps(RECORD).encode()] * 3)
    for body, content_type, taken in [(RECORD, JSON, 1), ([RECORD] * 2, JSON, 2), (lines, NDJSON, 3)]:
        assert await post(body, content_type) == (
            200,
            {"taken": taken, "refused": NOTHING_REFUSED, "mistakes": []},
        )


async def test_what_is_taken_is_told(post, client):
    await post([RECORD, changed("request_type", "code"), changed("temperature", 0)])
    said = await (await client.get(PATH)).json()
    assert (said["enabled"], said["taken"], said["refused"]) == (True, 3, NOTHING_REFUSED)
    assert {
        (group["request_type"], group["temperature"]) for group in said["groups"] if group["window"] == "5m"
    } == {
        ("chat", "0"),
        ("chat", "to 0.7"),
        ("code", "to 0.7"),
    }
    model = next(model for model in said["models"] if model["window"] == "30s")
    assert (model["model_name"], model["requests"], model["accepted_tokens"]) == ("llama", 3, 195)
    assert model["draft_acceptance_ratio"] == 65 / 160
    assert [window["window"] for window in said["windows"]] == ["30s", "5m"]
    assert sum(group["requests"] for group in said["since_start"]) == 3
    assert said["users"] == []


@pytest.mark.parametrize(
    ("query", "groups", "models", "windows"),
    [
        ("window=5m", 2, 1, 1),
        ("request_type=chat", 2, 2, 2),
        ("request_type=chat&temperature=to+0.7&window=30s", 1, 1, 1),
        ("model=llama", 4, 2, 2),
        ("model=nobody", 0, 0, 2),
    ],
)
async def test_a_part_of_it_can_be_asked_for(post, client, query, groups, models, windows):
    await post([RECORD, changed("request_type", "code")])
    said = await (await client.get(f"{PATH}?{query}")).json()
    assert [len(said[name]) for name in ("groups", "models", "windows")] == [groups, models, windows]


async def test_a_window_that_is_not_kept_is_refused(client):
    answer = await client.get(f"{PATH}?window=7m")
    assert answer.status == 400
    assert (await answer.json(content_type=None))["parameters"][0]["name"] == "window"


async def test_what_is_refused_is_told_by_its_place_and_counted(post, client):
    status, said = await post([RECORD, 7, changed("metrics", None), RECORD, {"model": "a" * 300}])
    assert (status, said["taken"]) == (200, 2)
    assert said["refused"] == {**NOTHING_REFUSED, "malformed": 2, "without_metrics": 1}
    assert [mistake["index"] for mistake in said["mistakes"]] == [1, 2, 4]
    told = await (await client.get(PATH)).json()
    assert told["refused"] == said["refused"]


@pytest.mark.parametrize(
    ("body", "content_type", "headers", "status"),
    [
        (b"no JSON", JSON, {}, 400),
        (b"no JSON", NDJSON, {}, 400),
        (b"{}", "text/plain", {}, 415),
        (b"{}", "application/x-www-form-urlencoded", {}, 415),
        (b"{}", "multipart/form-data; boundary=a", {}, 415),
        (b"{}", "", {}, 415),
        (b"{}", "application/json; charset=latin-1", {}, 415),
        (b"{}", JSON, {"Content-Encoding": "gzip"}, 415),
        (b"[" + b"0," * 5000 + b"0]", JSON, {}, 413),
        (b" " * (request_ingest.MOST_BODY + 1), JSON, {}, 413),
    ],
)
async def test_a_body_that_is_not_as_described_is_a_problem_and_counted(
    post, receiver, body, content_type, headers, status
):
    answered, problem = await post(body, content_type, **headers)
    assert (answered, problem["status"]) == (status, status)
    assert problem["detail"].endswith(".")
    found = await receiver.findings()
    assert (found.taken, found.refused) == (0, {Refusal.BODY: 1})


@pytest.mark.parametrize(
    "content_type", ["application/json; charset=UTF-8", "Application/JSON", "application/json;charset=utf8"]
)
async def test_the_same_type_may_be_written_otherwise(post, content_type):
    assert (await post(RECORD, content_type))[0] == 200


async def test_a_body_whose_length_nobody_knows_is_taken_as_far_as_it_may_go(client):
    async def parts(size):
        yield json.dumps(RECORD).encode()
        for _ in range(size // 65536):
            yield b" " * 65536

    for size, status in [
        (0, 200),
        (request_ingest.MOST_BODY - 65536, 200),
        (request_ingest.MOST_BODY + 65536, 413),
    ]:
        answer = await client.post(PATH, data=parts(size), headers={"Content-Type": JSON})
        assert answer.status == status


async def test_another_page_takes_no_such_body(client):
    answer = await client.post("/api/v1/snapshot", data=b" " * 70_000, headers={"Content-Type": JSON})
    assert answer.status == 413
    answer = await client.post("/api/v1/snapshot", json={})
    assert answer.status == 405


async def test_who_sends_a_body_too_slowly_is_refused_and_counted(client, receiver, monkeypatch):
    monkeypatch.setattr(request_ingest, "_BODY_SECONDS", 0.01)
    never = asyncio.Event()

    async def parts():
        yield b"["
        await never.wait()

    answer = await client.post(PATH, data=parts(), headers={"Content-Type": JSON})
    assert answer.status == 408
    assert (await receiver.findings()).refused == {Refusal.BODY: 1}


@pytest.mark.parametrize("error", [ConnectionResetError("Connection lost"), web.RequestPayloadError("zz")])
async def test_a_body_that_is_cut_is_refused_and_no_error(error):
    """Whoever goes away in the middle of it could fill the log with tracebacks."""

    async def parts():
        yield b"["
        raise error

    cut = SimpleNamespace(content=SimpleNamespace(iter_any=parts))
    with pytest.raises(RequestError) as refused:
        await request_ingest._body(cut)
    assert refused.value.status == 400


async def test_a_body_for_which_there_is_no_room_is_counted(client, post, receiver, monkeypatch):
    """One client sends more than it may at a time: the answer comes before any of it is read."""
    monkeypatch.setattr("spec_decode_exporter.web.server.concurrency_limit.WAIT_SECONDS", 0)
    never, begun = asyncio.Event(), asyncio.Queue()

    async def parts():
        yield b"["
        begun.put_nowait(None)
        await never.wait()

    slow = [
        asyncio.create_task(client.post(PATH, data=parts(), headers={"Content-Type": JSON}))
        for _ in range(request_ingest.MOST_BODIES_PER_CLIENT)
    ]
    for _ in slow:
        await begun.get()
    assert (await post(RECORD))[0] == 503
    assert (await receiver.findings()).refused == {Refusal.BODY: 1}
    never.set()
    await asyncio.gather(*slow)


async def test_a_page_of_the_same_name_that_is_refused_is_no_body(client, receiver):
    assert (await client.get(f"{PATH}?window=7m")).status == 400
    assert (await receiver.findings()).refused == {}


async def test_what_is_above_the_rate_is_counted_and_let_go_unless_it_is_all(post, clock, receiver):
    status, said = await post([RECORD] * 150)
    assert (status, said["taken"], said["refused"]["rate"]) == (200, 100, 50)
    status, problem = await post([RECORD])
    assert status == 429
    assert "requests.rate" in problem["detail"]
    assert (await receiver.findings()).refused == {Refusal.RATE: 50}
    clock.now += 0.5
    assert (await post([RECORD] * 60))[1]["refused"]["rate"] == 10


async def test_a_sender_may_say_how_many_it_has_dropped(post, client):
    for number in ("7", "0", "000000035"):
        status, said = await post([RECORD], **{request_ingest.DROPPED: number})
        assert (status, said["taken"]) == (200, 1)
        assert said["refused"] == {**NOTHING_REFUSED, "dropped": int(number)}
    told = await (await client.get(PATH)).json()
    assert (told["taken"], told["refused"]) == (3, {**NOTHING_REFUSED, "dropped": 42})


@pytest.mark.parametrize(
    ("unsent", "costly", "counted"),
    [("7", "3", (4, 3)), ("3", "7", (0, 3)), ("3", "x", (3, 0)), ("", "7", (0, 0))],
)
async def test_a_sender_reports_how_many_were_too_costly_to_read(post, unsent, costly, counted):
    """They are among those that it did not send."""
    _, said = await post([RECORD], **{request_ingest.DROPPED: unsent, request_ingest.TOO_COSTLY: costly})
    assert said["refused"] == {**NOTHING_REFUSED, "dropped": counted[0], "too_costly": counted[1]}


@pytest.mark.parametrize(
    "said", ["", "-1", "+1", "1.0", "1e3", "0x1", "1_000", "1234567890", "٣", "3, 4", "3 4"]
)
async def test_what_is_no_number_of_them_is_passed_over(post, said):
    status, answer = await post([RECORD], **{request_ingest.DROPPED: said})
    assert (status, answer["taken"], answer["refused"]) == (200, 1, NOTHING_REFUSED)


@pytest.fixture
def reporter(client):
    """What sends for vLLM's middleware: its own code, over a socket, with a record that waits."""
    reporter = inside.Reporter(inside.Settings(url=str(client.make_url(PATH))))
    reporter.sender.keep(json.dumps(RECORD).encode())
    return reporter


async def test_what_vllm_s_middleware_says_is_understood(reporter, receiver):
    reporter.sender.dropped, reporter.sender.too_costly = 12, 3
    await asyncio.to_thread(reporter.work, 0.0)
    found = await receiver.findings()
    assert (found.taken, found.refused) == (1, {Refusal.DROPPED: 12, Refusal.TOO_COSTLY: 3})
    reporter.sender.dropped = 5
    await asyncio.to_thread(reporter.work, 1.0)
    found = await receiver.findings()
    assert (found.taken, found.refused) == (1, {Refusal.DROPPED: 17, Refusal.TOO_COSTLY: 3})
    assert (reporter.sender.dropped, reporter.sender.too_costly) == (0, 0)


async def test_what_vllm_s_middleware_sends_above_the_rate_counts_once_when_it_is_taken(
    reporter, post, receiver, clock
):
    await post([RECORD] * 100)
    for moment in (0.0, 40.0):
        await asyncio.to_thread(reporter.work, moment)
        found = await receiver.findings()
        assert (found.taken, found.refused, reporter.sender.dropped) == (100, {}, 0)
    clock.now += 1
    await asyncio.to_thread(reporter.work, 80.0)
    found = await receiver.findings()
    assert (found.taken, found.refused, reporter.sender.dropped) == (101, {}, 0)


async def test_where_nothing_is_taken_the_remedy_is_told(post, client, receiver):
    receiver.adopt(RequestSettings())
    status, problem = await post(RECORD)
    assert status == 404
    assert "requests.ingest: true" in problem["detail"]
    said = await (await client.get(PATH)).json()
    assert (said["enabled"], said["groups"]) == (False, [])


async def test_no_other_site_is_allowed_to_send_anything(client):
    """A browser asks first with OPTIONS, as the type is not one of a form, and nobody says yes."""
    origin = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
    asked = await client.options(PATH, headers=origin)
    sent = await client.post(PATH, json=RECORD, headers=origin)
    assert (asked.status, sent.status) == (403, 403)
    for answer in (asked, sent):
        assert not [name for name in answer.headers if name.lower().startswith("access-control-")]


async def test_a_user_is_shown_as_a_hash_and_only_where_users_are_kept(post, client, receiver):
    users = RequestUsers.model_validate({"salt_file": __file__})
    receiver.adopt(RequestSettings(ingest=True, users=users))
    await post([changed("user", "ann.smith")] * 3)
    text = await (await client.get(PATH)).text()
    (user,) = {each["user"] for each in json.loads(text)["users"]}
    assert len(user) == 16
    assert "ann" not in text
