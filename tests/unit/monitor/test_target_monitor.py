from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from math import ceil
from unittest.mock import AsyncMock, Mock

import pytest

from spec_decode_exporter.config.schema import Config
from spec_decode_exporter.config.types import MAX_LABEL_VALUE
from spec_decode_exporter.discovery.target import Target
from spec_decode_exporter.monitor.target_monitor import EVICTED_AFTER, PLACE_LABELS, Shared, TargetMonitor
from spec_decode_exporter.scrape.poll_record import Polled
from spec_decode_exporter.scrape.sample import MAX_ENGINES, MAX_NAMES_TOTAL, EngineName, PageReading
from spec_decode_exporter.scrape.server_info import ServedSpeculation
from tests.conftest import make_sample

URL = "http://vllm:8000/metrics?token=secret"


TARGET = Target(URL, "one", labels=(("team", "a"),))


@dataclass
class Server:
    """A server with engines that each gain 10 drafts, 20 draft tokens and 7 accepted tokens a page."""

    shared: Shared  # of its monitors
    engines: dict[tuple[str, str], int] = field(default_factory=lambda: {("m", "0"): 0})
    created: float = 1_789_000_000.0
    close: AsyncMock = field(default_factory=AsyncMock)

    def page(self):
        self.engines = {name: pages + 1 for name, pages in self.engines.items()}
        samples = {
            EngineName(*name): make_sample(
                10 * n, 20 * n, 7 * n, generation_tokens=17 * n, created=self.created
            )
            for name, n in self.engines.items()
        }
        return PageReading("vllm", "python", samples)


class Watch:
    """A monitor that takes the pages of a server, and its events."""

    def __init__(self, server, target=TARGET, limit=MAX_ENGINES):
        config = Config.model_validate({"windows": ("30s", "5m"), "limits": {"engines": limit}})
        self.server, self.clock = server, server.shared.clock
        self.monitor = TargetMonitor(target, config, server.shared)
        self.speculation = None

    async def polls(self, number=1, *, after=0.0):
        """Take a page each second; at the end it is the moment of the last one."""
        for poll in range(number):
            await self.clock.advance(1.0 if poll else after)
            polled = Polled(self.server.page(), self.clock.monotonic(), self.clock.wall(), 1.0)
            self.monitor.take(polled, 1, self.speculation)

    @property
    def snapshots(self):
        """Snapshot of each engine by model and number."""
        return {
            (labels["model_name"], labels["engine"]): snapshot
            for labels, snapshot in self.monitor.snapshots()
        }

    @property
    def events(self):
        return [(event.type, event.engine) for event in self.server.shared.events.kept]


@pytest.fixture
def server(monkeypatch, clock):
    server = Server(Shared(clock))
    monkeypatch.setattr("spec_decode_exporter.monitor.target_monitor.Client", lambda *_, **__: server)
    return server


@pytest.fixture
def watch(server):
    return Watch(server)


def names(number):
    """Return so many engines, without a page."""
    return {("m", str(engine)): 0 for engine in range(number)}


# Names


@pytest.mark.parametrize(
    ("query", "named", "model"), [("&model=org%2Fb", "", "org/b"), ("&model=b", "m", "m"), ("", "", "one")]
)
async def test_an_engine_without_a_model_has_that_of_the_routers_url_else_the_targets_name(
    server, query, named, model
):
    server.engines = {(named, "0"): 0}
    watch = Watch(server, replace(TARGET, url=f"{URL}{query}"))
    await watch.polls(2)
    assert set(watch.snapshots) == {(model, "0")}


# Engines that come and go


async def test_an_engine_that_vanishes_loses_its_windows_keeps_its_counters_and_is_evicted_later(
    watch, server
):
    server.engines = names(2)
    await watch.polls(5)
    del server.engines["m", "1"]
    await watch.polls(11, after=1)
    found = watch.snapshots
    assert found["m", "1"].evaluation.windows == ()
    assert found["m", "1"].totals.counters.drafts == 40
    assert [each.total.drafts for each in found["m", "0"].evaluation.windows] == [150, 150]
    assert watch.events.count(("state_changed", "1")) == 1
    await watch.polls(after=EVICTED_AFTER - 11)
    assert set(watch.snapshots) == {("m", "0"), ("m", "1")}
    await watch.polls(after=1)
    assert set(watch.snapshots) == {("m", "0")}


async def test_the_oldest_engines_are_evicted_where_ever_new_names_need_their_places(server):
    most = MAX_NAMES_TOTAL // MAX_LABEL_VALUE
    watch = Watch(server, limit=most * ceil(MAX_LABEL_VALUE / PLACE_LABELS + 0.01))
    for batch in range(4):
        server.engines = {
            (f"{batch}-{number:03}".ljust(MAX_LABEL_VALUE - 1, "m"), "0"): 0 for number in range(most)
        }
        await watch.polls(1)
        await watch.clock.advance(1)
        assert {name.split("-")[0] for name, _ in watch.snapshots} == {str(batch)}
    await watch.clock.advance(EVICTED_AFTER)
    server.engines = names(1)
    await watch.polls(1)
    assert watch.events[-1] == ("engine_found", "0")


async def test_an_engine_whose_server_now_names_its_model_replaces_the_one_without(server):
    watch = Watch(server, replace(TARGET, url=f"{URL}&model=m"))
    for model in ("", "m"):
        server.engines = {(model, "0"): 0}
        await watch.polls(2)
        await watch.clock.advance(1)
        assert [labels["model_name"] for labels, _ in watch.monitor.snapshots()] == ["m"]


async def test_a_restart_ends_what_the_server_said_about_k_before(watch, server, clock):
    watch.speculation = ServedSpeculation("eagle3", 3, "head")
    await watch.polls(3)
    assert watch.monitor.status().record.speculation.tokens == 3
    server.engines, server.created = names(1), clock.wall()
    await watch.polls(after=1)
    assert watch.monitor.status().record.speculation == ServedSpeculation("eagle3", None, "head")


# Places


async def test_engines_without_a_place_are_recorded_once_and_take_the_places_of_engines_that_left(server):
    watch = Watch(server, limit=3)
    server.engines = names(5)
    await watch.polls(3)
    assert set(watch.snapshots) == set(names(3))
    assert watch.monitor.status().engines_not_monitored == 2
    assert watch.events.count(("engines_not_monitored", None)) == 1
    del server.engines["m", "0"]
    await watch.polls(after=1)
    assert len(watch.snapshots) == 3
    assert ("m", "0") not in watch.snapshots
    assert watch.monitor.status().engines_not_monitored == 1


async def test_places_are_shared_and_come_back_when_a_target_is_closed(server):
    first = Watch(server, limit=3)
    server.engines = names(2)
    await first.polls(1)
    second = Watch(server, replace(TARGET, name="two"), limit=3)
    await second.polls(1)
    assert (len(first.snapshots), len(second.snapshots)) == (2, 1)
    await first.monitor.close()
    await second.polls(after=1)
    assert len(second.snapshots) == 2


@pytest.mark.parametrize(("length", "monitored"), [(PLACE_LABELS - 30, 6), (PLACE_LABELS, 3), (1_000, 1)])
async def test_engines_with_long_labels_take_several_places(server, length, monitored):
    watch = Watch(server, replace(TARGET, labels=(("team", "x" * length),)), limit=6)
    server.engines = names(10)
    await watch.polls(1)
    assert len(watch.snapshots) == monitored


# Pace


@pytest.mark.parametrize(
    ("engines", "seconds"),
    [(1, 1), (10, 1), (11, 1.1), (100, 10), (150, 15), (151, 15), (990, 15), (1_320, 20)],
)
def test_up_to_a_thousand_engines_are_evaluated_once_in_a_usual_scrape_interval(clock, engines, seconds):
    shared = Shared(clock)
    shared.take_places(engines)
    assert shared.pace == pytest.approx(seconds)


@pytest.mark.parametrize(("number", "interval"), [(1, 1), (10, 1), (20, 2), (100, 10)])
async def test_the_pace_depends_on_the_engines_of_the_fleet(watch, server, number, interval):
    server.engines = names(number)
    await watch.polls(11)
    evaluations = Counter()  # by the wall time of each: one that was skipped has an old time
    server.shared.after_evaluation.append(
        lambda _, snapshot, __: evaluations.update([snapshot.evaluation.known.wall])
    )
    await watch.polls(20, after=1)
    assert evaluations.total() == pytest.approx(20 * number / interval, rel=0.1)
    assert max(evaluations.values()) <= 2 * number / interval


async def test_a_reset_is_evaluated_at_once(watch, clock, server):
    server.engines = names(20)
    await watch.polls(4)
    await clock.advance(1)
    evaluated = Mock()
    server.shared.after_evaluation.append(evaluated)
    server.engines, server.created = names(20), clock.wall()
    await watch.polls(1)
    walls = [call.args[1].evaluation.known.wall for call in evaluated.call_args_list]
    assert walls == [clock.wall()] * 20


# A changed configuration


async def test_a_change_of_the_configuration_keeps_windows_and_counters(watch, server):
    await watch.polls(61)
    await watch.monitor.change(
        replace(TARGET, labels=(("team", "b"),)), Config.model_validate({"windows": ("10s", "1m")})
    )
    server.close.assert_awaited_once()
    await watch.polls(after=1)
    [(labels, found)] = watch.monitor.snapshots()
    assert labels["team"] == "b"
    windows = [(each.window.length, each.total.drafts) for each in found.evaluation.windows]
    assert windows == [(10, 100), (60, 600)]
    assert found.totals.counters.drafts == 610
    assert watch.monitor.status().record.polls == 62
