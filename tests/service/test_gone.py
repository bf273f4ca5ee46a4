"""One of two engines leaves the page and comes back: log, API, page and metrics tell it alike."""

import re

import pytest

SCENARIO = "acceptance: {mean: 0.85}\nengines: 2\nload: {concurrency: 16}"


class Hiding:
    """A simulated server that leaves the lines of some engines out of its page."""

    def __init__(self, server):
        self.server = server
        self.hidden = set()

    def answer(self, url):
        lines = self.server.answer(url).decode().splitlines(keepends=True)
        marks = [f'engine="{number}"' for number in self.hidden]
        return "".join(line for line in lines if not any(mark in line for mark in marks)).encode()


async def state_of(told, number):
    snapshot, page = await told.json("api/v1/snapshot"), await told.get("metrics")
    (engine,) = [each for each in snapshot["engines"] if each["engine"] == number]
    (shown,) = re.findall(rf'spec_decode_state{{[^}}]*engine="{number}"[^}}]*state="(\w+)"[^}}]*}} 1', page)
    assert shown == engine["state"]
    return shown


@pytest.fixture
async def told(story, network):
    async with story(SCENARIO) as told:
        network.servers["vllm:8000"] = Hiding(network.servers["vllm:8000"])
        await told.clock.advance(60.5)
        yield told


async def test_an_engine_that_leaves_the_page_and_comes_back_is_the_same_story_everywhere(told, network):
    moments = []
    for hidden, seconds, state in (({"1"}, 30.0, "unreachable"), (set(), 10.0, "active")):
        network.servers["vllm:8000"].hidden = hidden
        moments.append(told.clock.wall())
        await told.clock.advance(seconds)
        assert [await state_of(told, number) for number in "01"] == ["active", state]
    logged = told.told("state_changed")
    assert [(one["log_level"], one["engine"], one["state"], one["before"]) for one in logged] == [
        ("warning", "1", "unreachable", "active"),
        ("info", "1", "active", "unreachable"),
    ]
    everything = (await told.json("api/v1/events?limit=1000"))["events"]
    events = [event for event in everything if event["type"] == "state_changed"]
    assert [event["id"] for event in events] == [one["event_id"] for one in logged]
    assert moments[0] + 10 <= events[0]["time"] <= moments[0] + 12
    assert moments[1] <= events[1]["time"] <= moments[1] + 1
    page = await told.get(f"?engine={events[0]['engine_id']}")
    for event in events:
        item = re.search(rf'data-key="{event["id"]}".*?</li>', page, re.DOTALL)
        assert "unreachable" in item[0].lower()


async def test_engines_of_a_server_that_is_down_are_gone_without_a_warning(told, network):
    for away, seconds in ((True, 30.0), (False, 10.0)):
        network.servers["vllm:8000"].server.away = away
        await told.clock.advance(seconds)
    words = [
        (one["event"], one["log_level"], one.get("engine"), one.get("state"))
        for one in told.told("target_failing", "target_recovered", "state_changed")
    ]
    assert words == [
        ("target_failing", "warning", None, None),
        ("state_changed", "info", "0", "unreachable"),
        ("state_changed", "info", "1", "unreachable"),
        ("state_changed", "info", "0", "active"),
        ("state_changed", "info", "1", "active"),
        ("target_recovered", "info", None, None),
    ]
