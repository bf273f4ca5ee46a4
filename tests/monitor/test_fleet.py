from __future__ import annotations

from collections import Counter

import pytest
from structlog.testing import capture_logs

from spec_decode_exporter.config.http_settings import HttpSettings
from spec_decode_exporter.config.schema import Config
from spec_decode_exporter.core.event import Event
from spec_decode_exporter.core.internal_errors import InternalErrors
from spec_decode_exporter.discovery.target import Target
from spec_decode_exporter.monitor.event_log import EventLog
from spec_decode_exporter.monitor.fleet import Fleet
from spec_decode_exporter.monitor.persistence.remembered_engines import RememberedEngines
from spec_decode_exporter.monitor.target_monitor import TargetMonitor
from tests.conftest import settle, until
from tests.fixtures.simulated import Server


@pytest.fixture
async def fleet(clock, network):
    for name in "abc":
        network.servers[f"{name}:1"] = Server(clock, "steady", running=60)
    fleet = Fleet(Config(), clock, RememberedEngines(), EventLog("1"), InternalErrors(clock.monotonic))
    yield fleet
    await fleet.stop()
    await fleet.close()


def targets(*names, **more):
    return [Target(f"http://{name}:1/metrics", name, **more) for name in names]


def up(fleet):
    return {watch.target.name for watch in fleet if watch.status().up}


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


async def test_a_target_that_cannot_be_changed_is_watched_again_when_it_can(fleet, clock, monkeypatch):
    await follow(fleet, clock, targets("a", "b"))
    change = TargetMonitor.change

    async def fails(watch, target, config):
        if watch.target.name == "b":
            raise OSError("no such file: ca.pem")
        await change(watch, target, config)

    with monkeypatch.context() as patch:
        patch.setattr(TargetMonitor, "change", fails)
        await follow(fleet, clock, targets("a", "b", method_label="eagle3"))
    polls = {watch.target.name: watch.status().polls for watch in fleet}
    await follow(fleet, clock, targets("a", "b", method_label="eagle3"))
    assert all(watch.status().polls > polls[watch.target.name] for watch in fleet)
    await follow(fleet, clock, targets("a"))
    assert up(fleet) == {"a"}


# The limit on engines of all targets.


def found(way: str, number: int, key: str = "") -> list[Target]:
    return [
        Target(
            f"http://{way}-{place}:8000/metrics",
            f"{way}-{place}",
            discovery=way,
            found_by="" if way == "static" else key or way,
        )
        for place in range(number)
    ]


async def watched(fleet, *targets: list[Target]) -> Counter[str]:
    """Follow the targets; return how many of them are watched, by way of discovery."""
    fleet.follow([target for some in targets for target in some])
    await until(lambda: not fleet._background._tasks)
    return Counter(watch.target.discovery for watch in fleet)


@pytest.fixture
async def small(clock):
    fleet = Fleet(
        Config.model_validate({"limits": {"engines": 20}}), clock, RememberedEngines(), EventLog("1")
    )
    yield fleet
    await fleet.stop()
    await fleet.close()


async def test_a_list_that_changes_all_its_targets_does_not_fill_the_log(small, clock, monkeypatch):
    def refused(target, config, *arguments, **keywords):
        watch = TargetMonitor(target, config, *arguments, **keywords)
        for _ in range(2):
            watch._events.record(Event("target_failing", {}, is_bad=True), 0.0, target.name)
        return watch

    monkeypatch.setattr("spec_decode_exporter.monitor.fleet.TargetMonitor", refused)
    with capture_logs() as logs:
        for number in range(1_000):
            target = Target(f"http://a:1/m?{number}", f"a#{number}", discovery="http", found_by="http x")
            await watched(small, found("static", 2), [target])
            await clock.advance(1.0, turns=0)
    words = Counter(log["event"] for log in logs)
    assert words["events_omitted"] == 2
    assert words["target_failing"] <= 4 * 20 + 1_000 + 10
    assert words["targets_changed"] <= 60 + 1_000 / 60
    changed = [log for log in logs if log["event"] == "targets_changed"]
    assert sum(log["added"] for log in changed) >= 900
    omitted = next(log for log in logs if log["event"] == "events_omitted")
    assert (omitted["discovery"], omitted["example"]) == ("http", "target_failing")


async def test_more_configured_targets_than_the_limit_leave_no_place_for_others(small):
    assert await watched(small, found("static", 30), found("http", 3)) == {"static": 20}
    assert small.not_monitored == 13


async def test_a_limit_that_is_reached_again_is_logged_again(small):
    with capture_logs() as logs:
        for number in (21, 20, 22):
            await watched(small, found("http", number))
    assert [log["targets"] for log in logs if log["event"] == "targets_not_monitored"] == [1, 2]
