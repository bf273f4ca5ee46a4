from __future__ import annotations

from collections import Counter

import pytest
from structlog.testing import capture_logs

from spec_decode_exporter.config.http_settings import HttpSettings
from spec_decode_exporter.config.schema import Config
from spec_decode_exporter.core.event import Event
from spec_decode_exporter.discovery.target import Target
from spec_decode_exporter.monitor.events import EVENTS
from spec_decode_exporter.monitor.fleet import MANY_TARGETS, QUIET_SECONDS, Fleet
from spec_decode_exporter.monitor.target_monitor import (
    MIN_ENGINES,
    WITHOUT_LIMIT,
    Shared,
    container_memory,
    engines_that_fit,
)
from tests.conftest import settle, until
from tests.fakes.simulated import Server


@pytest.fixture
async def fleet(clock, network):
    for name in "abc":
        network.servers[f"{name}:1"] = Server(clock, "steady", running=60)
    fleet = Fleet(Config.model_validate({}), Shared(clock))
    yield fleet
    await fleet.stop()
    await fleet.close()


def targets(*names, **more):
    return [Target(f"http://{name}:1/metrics", name, **more) for name in names]


def up(fleet):
    return {watch.target.name for watch in fleet if watch.status().record.up}


async def follow(fleet, clock, found):
    fleet.follow(found)
    await settle(100)
    await clock.advance(3.0)


async def test_a_target_that_cannot_be_watched_keeps_no_other_from_being_watched(
    fleet, clock, network, monkeypatch
):
    settings = HttpSettings()

    def client(http, **_):
        if http is settings:
            raise OSError("no such file: ca.pem")
        return network

    monkeypatch.setattr("spec_decode_exporter.monitor.target_monitor.Client", client)
    bad = targets("b", http=settings)
    with capture_logs() as logs:
        for _ in range(3):
            await follow(fleet, clock, [*targets("a"), *bad, *targets("c")])
    assert up(fleet) == {"a", "c"}
    assert [(log["part"], log["target"]) for log in logs if log["event"] == "internal_error"] == [
        ("target", "b")
    ]
    await follow(fleet, clock, targets("a", "b"))
    assert up(fleet) == {"a", "b"}


# Removed targets


async def test_a_list_that_a_later_one_replaces_at_once_is_not_followed(fleet, clock):
    fleet.follow(targets("a"))
    with capture_logs() as logs:
        await follow(fleet, clock, targets("b", "c"))
    assert up(fleet) == {"b", "c"}
    assert [log["added"] for log in logs if log["event"] == "targets_changed"] == [2]


# The limit on engines of all targets


@pytest.mark.parametrize(
    ("numbers", "kept"),
    [
        ({"http": 20}, {"http": 20}),
        ({"static": 30, "http": 3}, {"static": 20}),
        ({"http": 30, "static": 15}, {"static": 15, "http": 5}),
        ({"http": 15, "dns": 15}, {"http": 15, "dns": 5}),
    ],
)
async def test_beyond_the_limit_configured_targets_come_first(fleet, numbers, kept):
    fleet.adopt(Config.model_validate({"limits": {"engines": 20}}))
    found = []
    for way, number in numbers.items():
        names, key = [f"{way}-{place}" for place in range(number)], "" if way == "static" else way
        found += targets(*names, discovery=way, found_by=key)
    fleet.follow(found)
    await until(lambda: not fleet._background._tasks)
    assert Counter(watch.target.discovery for watch in fleet) == kept
    assert fleet.not_monitored == len(found) - 20


@pytest.mark.parametrize(("number", "level"), [(MANY_TARGETS, "info"), (MANY_TARGETS + 1, "debug")])
async def test_many_targets_start_in_one_line_and_their_news_are_debug_lines_for_a_minute(
    fleet, clock, number, level
):
    with capture_logs() as logs:
        await follow(fleet, clock, targets(*(f"n{place}" for place in range(number))))
        await fleet.stop()
        for seconds in (0.0, QUIET_SECONDS):
            await clock.advance(seconds)
            for name in ("engine_found", "target_failing"):
                event = Event(name, dict.fromkeys(EVENTS[name].fields.split(), ""))
                fleet.shared.events.record(event, clock.wall(), {"target": "n1"})
    levels = [entry["log_level"] for entry in logs if entry["event"] == "engine_found"]
    assert levels == [level, "info"]
    assert {entry["log_level"] for entry in logs if entry["event"] == "target_failing"} == {"warning"}
    assert sum(entry["event"] == "targets_changed" for entry in logs) == 1


# The limit by the memory of the container

MIB = 2**20


@pytest.mark.parametrize(
    ("text", "memory"), [("134217728\n", 134217728), ("max\n", None), ("", None), ("²", None)]
)
def test_the_limit_of_the_container_is_read(tmp_path, text, memory):
    (tmp_path / "memory.max").write_text(text, encoding="utf-8")
    assert container_memory([tmp_path / "none", tmp_path / "memory.max"]) == memory


@pytest.mark.parametrize(
    ("memory", "engines"), [(0, MIN_ENGINES), (128 * MIB, 192), (2**62, WITHOUT_LIMIT), (None, WITHOUT_LIMIT)]
)
def test_a_container_has_room_for_engines_by_its_memory(memory, engines):
    assert engines_that_fit(memory) == engines
