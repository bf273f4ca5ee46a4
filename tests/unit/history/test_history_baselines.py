"""Baselines of running targets from a history: at the start, once a day, and after a failure each hour."""

from dataclasses import dataclass

import pytest
from structlog.testing import capture_logs

from spec_decode_exporter.config.schema import Config
from spec_decode_exporter.core.tasks import cancel, spawn
from spec_decode_exporter.costs.cost import CostSource
from spec_decode_exporter.discovery.target import static_targets
from spec_decode_exporter.history.history_baselines import (
    CHECK_SECONDS,
    READ_AGAIN_SECONDS,
    TRY_AGAIN_SECONDS,
    HistoryBaselines,
)
from spec_decode_exporter.monitor.fleet import Fleet
from spec_decode_exporter.monitor.target_monitor import Shared
from spec_decode_exporter.scrape.errors import PollError
from tests.conftest import FakeClock, settle
from tests.fakes.simulated import Server
from tests.fakes.simulated_history import StoredHistory
from tests.unit.history.conftest import DRAFTING, PLAIN

A, B = ({"url": f"http://{name}:1/metrics", "name": name} for name in "ab")
HISTORY = {"prometheus": {"url": "http://prometheus:9090", "lookback": "1h"}}


@pytest.fixture
def stored(clock):
    """Return the history of half an hour in which a server had no speculation."""
    stored = StoredHistory(start=clock.wall() - 1800)
    stored.simulate(PLAIN, 1780, job="vllm", instance="a:1")
    return stored


@dataclass
class Exporter:
    """A fleet, and what reads the histories of its targets."""

    clock: FakeClock
    fleet: Fleet
    baselines: HistoryBaselines

    async def follow(self, *targets, seconds=20.0):
        """Follow targets, and move the clock."""
        self.fleet.follow(static_targets(Config.model_validate({"targets": targets})))
        await settle(100)
        await self.advance(seconds)

    async def advance(self, seconds):
        """Move the clock; a reading gets all turns that it needs."""
        await self.clock.advance(seconds, turns=100)

    def make_due(self, seconds):
        """Move the next reading of target a to now; it is planned ``seconds`` after the last one."""
        (plan,) = (plan for (key, _), plan in self.baselines._plans.items() if key[0] == "a")
        plan.moment -= seconds

    def baseline(self, target):
        return self.fleet.shared.remembered.baseline((target, DRAFTING.model_name))


@pytest.fixture
async def exporter(clock, network, stored):
    for name in "ab":
        network.servers[f"{name}:1"] = Server(clock, DRAFTING, running=60)
    fleet = Fleet(Config.model_validate({"baseline": HISTORY}), Shared(clock))
    baselines = HistoryBaselines(fleet, connect=lambda _: stored)
    reading = spawn(baselines.run())
    yield Exporter(clock, fleet, baselines)
    await cancel([reading])
    await fleet.stop()
    await fleet.close()


async def test_the_cost_of_a_server_that_always_drafts_comes_from_its_history(exporter):
    with capture_logs() as logs:
        await exporter.follow(A, seconds=180.0)
    (event,) = [log for log in logs if log["event"] == "baseline_read"]
    assert event["target"] == "a"
    assert event["source"] == "http://prometheus:9090"
    assert event["period"].endswith("without speculation on 21 September")
    ((_, snapshot),) = exporter.fleet.engines()
    cost = snapshot.evaluation.longest.cost
    assert cost.source is CostSource.BASELINE
    exact = DRAFTING.draft_cost_ratio(8)
    assert cost.guess.token == pytest.approx(exact, rel=0.35)
    low, high = (price.step + 4 * price.token for price in (cost.low, cost.high))
    assert low <= 4 * exact <= high


async def test_the_own_history_of_a_target_replaces_the_general_one(exporter, stored):
    target = {"url": "http://a:1/metrics", "baseline": {"prometheus": {"url": "http://other:9090"}}}
    asked = []
    exporter.baselines._connect = lambda settings: asked.append(settings.url) or stored
    await exporter.follow(target)
    assert asked == ["http://other:9090"]


def not_read(logs):
    """Return target and reason of each reading that failed."""
    return [(log["target"], log["reason"]) for log in logs if log["event"] == "baseline_not_read"]


async def test_it_is_read_once_a_day(exporter, stored):
    await exporter.follow(A)
    number = len(stored.queries)
    await exporter.advance(6 * CHECK_SECONDS)
    assert len(stored.queries) == number
    exporter.make_due(READ_AGAIN_SECONDS)
    await exporter.advance(CHECK_SECONDS)
    assert len(stored.queries) > number


async def test_a_history_that_fails_is_tried_again_after_an_hour_and_logged_once(exporter, stored):
    stored.refuse = lambda _: PollError("refused", "connection refused")
    with capture_logs() as logs:
        await exporter.follow(A)
        exporter.make_due(TRY_AGAIN_SECONDS)
        await exporter.advance(20.0)
    assert not_read(logs) == [("a", "connection refused")]
    assert len(stored.queries) == 2
    assert next(exporter.fleet.engines())
    stored.refuse = None
    exporter.make_due(TRY_AGAIN_SECONDS)
    await exporter.advance(20.0)
    assert exporter.baseline("a").end


async def test_each_target_gets_the_baseline_of_its_own_server(exporter, stored):
    with capture_logs() as logs:
        await exporter.follow(A, B)
    assert exporter.baseline("a").end
    assert not exporter.baseline("b").end
    ((target, reason),) = not_read(logs)
    assert target == "b"
    assert reason.startswith("none of the 1 servers there is this target: a:1")


async def test_a_reading_that_takes_too_long_ends(exporter, monkeypatch):
    monkeypatch.setattr("spec_decode_exporter.history.history_baselines.MAX_READING_SECONDS", 0.0)
    with capture_logs() as logs:
        await exporter.follow(A)
    assert any("shorten `lookback`" in reason for _, reason in not_read(logs))
