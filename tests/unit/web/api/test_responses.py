"""Responses of the API: snapshot, engine, targets and events."""

import gzip
import json

import pytest

from spec_decode_exporter.core.event import Event
from spec_decode_exporter.monitor.snapshot import engine_id
from spec_decode_exporter.views.fleet_view import EventsView
from spec_decode_exporter.web import limits
from spec_decode_exporter.web.application import create_app
from tests.unit.web.api.conftest import json_of
from tests.unit.web.plain_state import plain_state

CHAT = engine_id("chat", "llama", "0")


@pytest.mark.parametrize(
    ("query", "targets"),
    [
        ("target=chat", ["chat"]),
        ("target=chat&target=code", ["chat", "code"]),
        ("model=llama", ["chat", "code"]),
        ("engine=0", ["chat", "code", "idle"]),
        ("match=zone=us", ["code"]),
        ("match=zone=", ["idle"]),
        ("verdict=harmful", ["idle"]),
    ],
)
async def test_engines_are_filtered(client, query, targets):
    engines = (await json_of(client, f"snapshot?{query}"))["engines"]
    assert [engine["target"] for engine in engines] == targets


async def test_events_after_a_snapshot_are_complete_and_those_of_an_earlier_run_are_a_gap(client, events):
    last = (await json_of(client, "snapshot"))["last_event"]
    assert last == "a1-6"
    events.record(Event("target_recovered", {}), 1_790_000_010.0, {"target": "code"})
    page = await json_of(client, f"events?since={last}")
    assert ([event["id"] for event in page["events"]], page["gap"]) == (["a1-7"], False)
    assert (await json_of(client, "events?since=99-3"))["gap"] is True


async def test_engines_have_the_named_window_alone(client):
    engines = (await json_of(client, "snapshot?window=30s"))["engines"]
    assert [[each["window"] for each in engine["windows"]] for engine in engines] == [["30s"]] * 3


@pytest.mark.parametrize(
    ("query", "numbers", "more"),
    [
        ("", [1, 2, 3, 4, 5, 6], False),
        ("limit=2", [5, 6], False),
        ("since=a1-2", [3, 4, 5, 6], False),
        ("since=a1-2&limit=2", [3, 4], True),
        ("type=target_failing", [6], False),
        ("target=chat&since=a1-3", [4, 5], False),
        (f"engine_id={CHAT}", [1, 2, 3, 4, 5], False),
    ],
)
async def test_events_are_filtered(client, query, numbers, more):
    page = EventsView.model_validate(await json_of(client, f"events?{query}"))
    assert [int(event.id.partition("-")[2]) for event in page.events] == numbers
    assert (page.more, page.gap) == (more, False)
    assert page.last == (f"a1-{numbers[-1]}" if more else "a1-6")


PAGES = ("snapshot", f"engines/{CHAT}", "targets", "events", "openapi.json")


async def test_every_page_has_a_head_and_is_compressed_if_the_client_accepts_gzip(
    aiohttp_client, sources, monkeypatch
):
    monkeypatch.setattr(limits, "_PIECE", 1000)  # so large answers are sent in pieces, with their length
    client = await aiohttp_client(create_app(plain_state(**sources)), auto_decompress=False)
    for page in PAGES:
        asked = [(method, encoding) for method in ("GET", "HEAD") for encoding in ("identity", "gzip")]
        plain, packed, head, _ = [
            await client.request(method, f"/api/v1/{page}", headers={"Accept-Encoding": encoding})
            for method, encoding in asked
        ]
        assert (head.status, await head.read()) == (200, b"")
        assert head.headers["Content-Length"] == plain.headers["Content-Length"]
        assert "Transfer-Encoding" not in plain.headers
        assert (plain.content_type, plain.headers["Cache-Control"]) == ("application/json", "no-store")
        assert packed.headers["Content-Encoding"] == "gzip"
        assert "Content-Encoding" not in plain.headers
        assert json.loads(gzip.decompress(await packed.read())) == json.loads(await plain.read())
        assert plain.headers["Vary"] == "Accept-Encoding"
