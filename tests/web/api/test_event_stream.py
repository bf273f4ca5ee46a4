"""Events as they happen."""

from __future__ import annotations

import json

import pytest

from spec_decode_exporter.core.event import Event
from spec_decode_exporter.views.event_view import event_view
from spec_decode_exporter.web.api.event_stream import MOST_PER_CLIENT, READERS, Readers
from spec_decode_exporter.web.application import create_app

STREAM = "/api/v1/events/stream"


class Reader:
    """A client that reads a stream."""

    def __init__(self, answer):
        self.answer = answer
        self.place = None
        """The id that it would connect again with."""

    async def block(self):
        """The next event or comment, as its fields; a comment's name is empty."""
        fields = {}
        while (line := (await self.answer.content.readline()).decode()) != "\n":
            assert line, "the stream ended"
            name, _, value = line.rstrip("\n").partition(": ")
            fields[name.removesuffix(":")] = value
        self.place = fields.get("id", self.place)
        return fields

    async def event(self):
        """The next event, whatever ids come before it."""
        while "event" not in (fields := await self.block()):
            pass
        return fields["event"], fields.get("id"), json.loads(fields["data"])


@pytest.fixture
def read(aiohttp_client, make_state, source):
    """A function that begins to read a stream."""
    clients = []

    async def read(query="", headers=(), most=32, keep_alive=60.0):
        if not clients:
            app = create_app(make_state(api=source))
            app[READERS] = Readers(most, keep_alive)
            clients.append(await aiohttp_client(app))
        answer = await clients[0].get(STREAM + query, headers=dict(headers))
        reader = Reader(answer)
        if answer.status == 200:
            assert (await reader.block()).keys() == {"retry", "id"}
        return reader

    return read


def happens(events, n, target="chat"):
    events.record(Event("engine_reset", {"n": n}), 1_790_000_100.0, target, ("llama", "0"))


async def test_events_come_as_they_happen(read, events):
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
async def test_who_connects_again_gets_what_it_missed(read, query, headers):
    reader = await read(query, headers)
    assert [(await reader.event())[1] for _ in range(2)] == ["a1-5", "a1-6"]


async def test_only_what_is_asked_for_comes(read, events):
    reader = await read("?target=code&since=a1-0")
    assert (await reader.event())[1] == "a1-6"
    happens(events, 10)
    happens(events, 11, "code")
    assert (await reader.event())[1] == "a1-8"


async def test_who_asks_for_few_events_keeps_its_place_among_all_the_others(read, events):
    """Without it, a reader that connects again would be told of a gap where it missed nothing."""
    reader = await read("?target=code")
    assert reader.place == "a1-6"
    for n in range(100):  # more than are kept
        happens(events, n)
        assert await reader.block() == {"id": f"a1-{7 + n}"}
    reader.answer.close()
    happens(events, 100, "code")
    again = await read("?target=code", {"Last-Event-ID": reader.place})
    assert (await again.block())["id"] == "a1-107"


async def test_noise_that_a_reader_does_not_ask_for_is_no_silence(read, events):
    """Each event wakes the stream before it is silent for long enough: something is sent all the same."""
    reader = await read("?target=nobody", keep_alive=60.0)
    happens(events, 1)
    assert await reader.block() == {"id": "a1-7"}


async def test_who_connects_again_before_the_first_event_misses_none(read, events):
    reader = await read()
    reader.answer.close()
    happens(events, 1)
    again = await read("", {"Last-Event-ID": reader.place})
    assert (await again.event())[1] == "a1-7"


async def test_whose_run_is_over_has_a_place_in_the_new_one_even_if_nothing_happened(read):
    reader = await read("?target=nobody", {"Last-Event-ID": "99-3"})
    assert reader.place == "99-3"
    assert (await reader.block())["event"] == "gap"
    assert await reader.block() == {"id": "a1-6"}


async def test_who_fell_behind_is_told_of_the_gap_first(read, events):
    for n in range(60):
        happens(events, n)
    reader = await read("?since=a1-3")
    fields = await reader.block()
    assert (fields["event"], json.loads(fields["data"])) == ("gap", {"since": "a1-3"})
    assert "id" not in fields
    assert (await reader.event())[1] == "a1-17"


async def test_a_silent_stream_is_kept_alive(read):
    reader = await read(keep_alive=0.01)
    assert await reader.block() == {"": "nothing happened"}


async def test_the_stream_ends_when_the_exporter_does(read, events):
    reader = await read()
    events.close()
    assert await reader.answer.content.read() == b""


async def test_one_client_address_has_only_so_many_streams(read):
    for _ in range(MOST_PER_CLIENT):
        assert (await read()).answer.status == 200
    assert (await read()).answer.status == 503


async def test_there_are_only_so_many_readers(read, events, until):
    first = await read(most=1)
    refused = await read()
    assert (refused.answer.status, refused.answer.headers["Retry-After"]) == (503, "30")
    assert (await refused.answer.json(content_type=None))["title"] == "Service Unavailable"
    first.answer.close()
    happens(events, 1)  # what is written to a client that went away shows that it did
    for n in range(20):
        happens(events, n)
        again = await read()
        if again.answer.status == 200:
            break
    assert again.answer.status == 200


async def test_head_takes_no_place(client):
    answer = await client.head(STREAM)
    assert (answer.status, answer.content_type) == (200, "text/event-stream")


async def test_an_id_that_is_none_is_a_problem(read):
    reader = await read(headers={"Last-Event-ID": "nonsense"})
    assert reader.answer.status == 400
    assert (await reader.answer.json(content_type=None))["parameters"][0]["name"] == "Last-Event-ID"


async def test_an_event_that_cannot_be_written_is_omitted_and_the_next_is_read(read, events):
    reader = await read()
    happens(events, 10, "\ud800")  # half a character, which JSON cannot hold
    happens(events, 11)
    _, identifier, data = await reader.event()
    assert (identifier, data["fields"]) == (events.last, {"n": 11})
