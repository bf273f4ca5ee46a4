from __future__ import annotations

from collections import Counter

import pytest
from structlog.testing import capture_logs

from exporter.analysis.engine import JUDGED_EVERY
from exporter.baselines import Baselines
from exporter.config.schema import Config
from exporter.event_log import EventLog
from exporter.fleet import JUDGED_ANEW, Fleet
from exporter.targets.target import Target
from tests.conftest import until


class Watch:
    """Stands in for the watch over a target, and keeps what it is asked."""

    def __init__(self):
        self.asked = []

    def findings(self, now, most_behind):
        self.asked.append((now, most_behind))
        return iter(())


@pytest.mark.parametrize(
    ("targets", "most_behind"), [(1, 0.0), (JUDGED_ANEW, 0.0), (JUDGED_ANEW + 1, JUDGED_EVERY)]
)
def test_only_a_large_fleet_is_not_judged_anew_for_every_question(clock, targets, most_behind):
    fleet = Fleet(Config(), clock, Baselines(), EventLog("1"))
    watches = {(f"http://{number}", ""): Watch() for number in range(targets)}
    fleet._watches = watches
    assert not list(fleet.engines())
    assert {asked for watch in watches.values() for asked in watch.asked} == {
        (clock.monotonic(), most_behind)
    }


def found(way: str, number: int) -> list[Target]:
    return [
        Target(f"http://{way}-{place}:8000/metrics", f"{way}-{place}", discovery=way)
        for place in range(number)
    ]


async def watched(fleet, *targets: list[Target]) -> Counter[str]:
    """Follow the targets; return how many of them are watched, by way of discovery."""
    fleet.follow([target for some in targets for target in some])
    await until(lambda: not fleet._background._tasks)
    return Counter(watch.target.discovery for watch in fleet)


@pytest.fixture
async def small(clock):
    fleet = Fleet(Config.model_validate({"limits": {"engines": 20}}), clock, Baselines(), EventLog("1"))
    yield fleet
    await fleet.stop()
    await fleet.close()


async def test_a_long_list_takes_no_place_from_configured_targets_and_other_ways_of_discovery(small):
    with capture_logs() as logs:
        for _ in range(2):
            by_way = await watched(small, found("static", 9), found("http", 5_000), found("kubernetes", 3))
    assert by_way == {"static": 9, "http": 8, "kubernetes": 3}
    assert small.not_watched == 4_992
    assert [log["targets"] for log in logs if log["event"] == "targets_not_watched"] == [4_992]


async def test_more_configured_targets_than_the_limit_leave_no_place_for_others(small):
    assert await watched(small, found("static", 30), found("http", 3)) == {"static": 20}
    assert small.not_watched == 13


async def test_a_limit_that_is_reached_again_is_logged_again(small):
    with capture_logs() as logs:
        for number in (21, 20, 22):
            await watched(small, found("http", number))
    assert [log["targets"] for log in logs if log["event"] == "targets_not_watched"] == [1, 2]
