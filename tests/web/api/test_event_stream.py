"""The event stream: events as they occur, reconnection, gaps and limits."""

from __future__ import annotations

import json

import pytest

from spec_decode_exporter.core.event import Event
from spec_decode_exporter.monitor.event_log import EventSubject
from spec_decode_exporter.views.fleet_view import event_view
from spec_decode_exporter.web.api.event_stream import MAX_READERS_PER_CLIENT, READERS, Readers
from spec_decode_exporter.web.application import create_app

STREAM = "/api/v1/events/stream"


class Reader:
    """A client that reads a stream."""

    def __init__(self, answer):
        self.answer = answer
        self.place = None
        """Return the id that it would reconnect with."""

    async def block(self):
        """Return the fields of the next event or comment; a comment's name is empty."""
        fields = {}
        while (line := (await self.answer.content.readline()).decode()) != "\n":
            assert line, "the stream ended"
            name, _, value = line.rstrip("\n").partition(": ")
            fields[name.removesuffix(":")] = value
        self.place = fields.get("id", self.place)
        return fields

    async def event(self):
        """Return the next event; skip ids without an event."""
        while "event" not in (fields := await self.block()):
            pass
        return fields["event"], fields.get("id"), json.loads(fields["data"])


@pytest.fixture
def read(aiohttp_client, make_state, sources):
    """Return a function that starts to read a stream."""
    clients = []

    async def read(query="", headers=(), most=32, keep_alive=60.0):
        if not clients:
            app = create_app(make_state(**sources))
            app[READERS] = Readers(most, keep_alive)
            clients.append(await aiohttp_client(app))
        answer = await clients[0].get(STREAM + query, headers=dict(headers))
        reader = Reader(answer)
        if answer.status == 200:
            assert (await reader.block()).keys() == {"retry", "id"}
        return reader

    return read


def happens(events, n, target="chat"):
    events.record(Event("engine_reset", {"n": n}), 1_790_000_100.0, EventSubject(target, "llama", "0"))


async def test_events_are_sent_as_they_occur(read, events):
    reader = await read()
    assert reader.answer.content_type == "text/event-stream"
    happens(events, 10)
    kind, identifier, data = await reader.event()
    assert (kind, identifier) == ("engine_reset", "a1-7")
    assert data == event_view(events.since("a1-6").events[0]).model_dump(mode="json")
    happens(events, 11)
    assert (await reader.event())[1] == "a1-8"


@pytest.mark.parametrize(
    ("query", "headers"),
    [("?since=a1-4", {}), ("", {"Last-Event-ID": "a1-4"}), ("?since=a1-1", {"Last-Event-ID": "a1-4"})],
)
async def test_a_reconnecting_reader_gets_the_missed_events(read, query, headers):
    reader = await read(query, headers)
    assert [(await reader.event())[1] for _ in range(2)] == ["a1-5", "a1-6"]


async def test_only_selected_events_are_sent(read, events):
    reader = await read("?target=code&since=a1-0")
    assert (await reader.event())[1] == "a1-6"
    happens(events, 10)
    happens(events, 11, "code")
    assert (await reader.event())[1] == "a1-8"


async def test_a_reader_gets_the_last_id_even_if_its_events_are_few(read, events):
    """Without the id, a reader that reconnects would get a gap although it missed nothing."""
    reader = await read("?target=code")
    assert reader.place == "a1-6"
    for n in range(100):  # more than the log stores
        happens(events, n)
        assert await reader.block() == {"id": f"a1-{7 + n}"}
    reader.answer.close()
    happens(events, 100, "code")
    again = await read("?target=code", {"Last-Event-ID": reader.place})
    assert (await again.block())["id"] == "a1-107"


async def test_a_reader_that_reconnects_before_the_first_event_misses_none(read, events):
    reader = await read()
    reader.answer.close()
    happens(events, 1)
    again = await read("", {"Last-Event-ID": reader.place})
    assert (await again.event())[1] == "a1-7"


async def test_a_reader_that_is_too_slow_gets_a_gap_first(read, events):
    for n in range(60):
        happens(events, n)
    reader = await read("?since=a1-3")
    fields = await reader.block()
    assert (fields["event"], json.loads(fields["data"])) == ("gap", {"since": "a1-3"})
    assert "id" not in fields
    assert (await reader.event())[1] == "a1-17"


async def test_a_silent_stream_is_kept_alive(read):
    reader = await read(keep_alive=0.01)
    assert await reader.block() == {"": "no events"}


async def test_the_stream_ends_when_the_exporter_does(read, events):
    reader = await read()
    events.close()
    assert await reader.answer.content.read() == b""


async def test_streams_of_a_client_address_are_limited(read):
    for _ in range(MAX_READERS_PER_CLIENT):
        assert (await read()).answer.status == 200
    assert (await read()).answer.status == 503


async def test_readers_are_limited(read, events, until):
    first = await read(most=1)
    refused = await read()
    assert (refused.answer.status, refused.answer.headers["Retry-After"]) == (503, "30")
    assert (await refused.answer.json(content_type=None))["title"] == "Service Unavailable"
    first.answer.close()
    happens(events, 1)  # the write reveals that the client disconnected
    for n in range(20):
        happens(events, n)
        again = await read()
        if again.answer.status == 200:
            break
    assert again.answer.status == 200


async def test_head_counts_as_no_reader(client):
    answer = await client.head(STREAM)
    assert (answer.status, answer.content_type) == (200, "text/event-stream")


async def test_an_invalid_event_id_is_a_problem(read):
    reader = await read(headers={"Last-Event-ID": "nonsense"})
    assert reader.answer.status == 400
    assert (await reader.answer.json(content_type=None))["parameters"][0]["name"] == "Last-Event-ID"


async def test_an_event_that_fails_is_omitted_and_the_next_is_sent(read, events):
    reader = await read()
    happens(events, 10, "\ud800")  # a lone surrogate, which JSON cannot encode
    happens(events, 11)
    _, identifier, data = await reader.event()
    assert (identifier, data["fields"]) == (events.last, {"n": 11})
