"""One of two engines leaves the page and comes back: log, API, page and metrics tell it alike."""

from __future__ import annotations

import json
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
    snapshot = json.loads(await told.get("api/v1/snapshot"))
    page = await told.get("metrics")
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
    network.servers["vllm:8000"].hidden = {"1"}
    left = told.clock.wall()
    await told.clock.advance(30.0)
    assert [await state_of(told, number) for number in "01"] == ["active", "unreachable"]
    network.servers["vllm:8000"].hidden = set()
    came = told.clock.wall()
    await told.clock.advance(10.0)
    assert [await state_of(told, number) for number in "01"] == ["active", "active"]

    logged = told.told("state_changed")
    assert [(one["log_level"], one["engine"], one["state"], one["before"]) for one in logged] == [
        ("warning", "1", "unreachable", "active"),
        ("info", "1", "active", "unreachable"),
    ]
    everything = json.loads(await told.get("api/v1/events?limit=1000"))["events"]
    events = [event for event in everything if event["type"] == "state_changed"]
    assert [event["id"] for event in events] == [one["event_id"] for one in logged]
    assert [event["bad"] for event in events] == [True, False]
    assert [event["fields"] for event in events] == [
        {"state": "unreachable", "before": "active"},
        {"state": "active", "before": "unreachable"},
    ]
    assert left + 10 <= events[0]["time"] <= left + 12
    assert came <= events[1]["time"] <= came + 1
    page = await told.get(f"?engine={events[0]['engine_id']}")
    items = {
        event["id"]: re.search(rf'data-key="{event["id"]}".*?</li>', page, re.DOTALL) for event in events
    }
    assert all("unreachable" in item[0].lower() for item in items.values())


async def test_engines_of_a_server_that_is_down_are_gone_without_a_warning(told, network):
    network.servers["vllm:8000"].server.away = True
    await told.clock.advance(30.0)
    network.servers["vllm:8000"].server.away = False
    await told.clock.advance(10.0)
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
