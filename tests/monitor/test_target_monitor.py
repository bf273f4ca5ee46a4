from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from spec_decode_exporter.config.schema import Config
from spec_decode_exporter.core.capacity import Capacity
from spec_decode_exporter.discovery.target import Target
from spec_decode_exporter.monitor.engine_monitor import EngineMonitor
from spec_decode_exporter.monitor.event_budget import BURST, EVERY
from spec_decode_exporter.monitor.event_log import EventLog
from spec_decode_exporter.monitor.persistence.remembered_engines import RememberedEngines
from spec_decode_exporter.monitor.target_engines import EVICTED_AFTER
from spec_decode_exporter.monitor.target_monitor import TargetMonitor
from spec_decode_exporter.scrape.http.client import HttpResponse
from spec_decode_exporter.scrape.page.layout_map import (
    MAX_ENGINES,
    MAX_NAME,
    MAX_NAMES_TOTAL,
    MAX_POSITIONS,
)
from spec_decode_exporter.scrape.poll.server_info import ServedSpeculation
from spec_decode_exporter.scrape.poll_errors import PollError
from spec_decode_exporter.views.fleet_view import target_view

URL = "http://user@vllm:8000/metrics?token=secret"


class Server:
    """A server with engines that each gain 10 drafts, 20 draft tokens and 7 accepted tokens a page."""

    def __init__(self):
        self.engines = {("m", "0"): 0}
        self.created = 1_789_000_000.0
        self.failure = None
        self.extra = ""
        self.draft_tokens = 20
        self.prefix = "vllm:"
        self.asked = []
        self.closed = 0
        self.spent = 0.0

    async def get(self, url, *, max_body=None):
        self.asked.append(url)
        if self.failure:
            raise self.failure
        if "metrics" not in url:
            return HttpResponse(b'{"version":"0.32.0"}', "application/json", 0.001)
        return HttpResponse(self.page().encode(), "text/plain", 0.001)

    async def close(self):
        self.closed += 1

    def page(self):
        lines = ["# a page"]
        for name, pages in self.engines.items():
            self.engines[name] = pages + 1
            labels = ",".join(
                f'{label}="{value}"'
                for label, value in zip(("model_name", "engine"), name, strict=True)
                if value is not None
            )
            for counter, gain in (
                ("drafts", 10),
                ("draft_tokens", self.draft_tokens),
                ("accepted_tokens", 7),
            ):
                stem = f"{self.prefix}spec_decode_num_{counter}"
                lines += [f"{stem}_total{{{labels}}} {self.engines[name] * gain}"]
            lines += [f"{self.prefix}generation_tokens_total{{{labels}}} {self.engines[name] * 17}"]
            lines += [f"{self.prefix}generation_tokens_created{{{labels}}} {self.created}"]
        return "\n".join([*lines, self.extra, ""])


@pytest.fixture
def server(monkeypatch):
    server = Server()
    monkeypatch.setattr("spec_decode_exporter.monitor.target_monitor.Client", lambda *_, **__: server)
    return server


@pytest.fixture
def watch(server, clock):
    return TargetMonitor(target(), config(), clock, RememberedEngines(), EventLog("1"))


def target(**more) -> Target:
    return Target(**{"url": URL, "name": "one", "labels": (("team", "a"),)} | more)


def config(*windows: str, **poll) -> Config:
    return Config.model_validate({"windows": windows or ("30s", "5m"), "poll": {"filter": "off"} | poll})


async def polls(watch, clock, number: int, interval: float = 1) -> None:
    """Poll and let the time pass; at the end it is the moment of the last poll."""
    for poll in range(number):
        if poll:
            await clock.advance(interval)
        await watch.poll()


def findings(watch, clock):
    """The findings of each engine, by model and number."""
    return {
        (labels["model_name"], labels["engine"]): found
        for labels, found in watch.snapshots(clock.monotonic())
    }


def drafts(found) -> list[int]:
    return [its.total.drafts for its in found.evaluation.windows]


# Labels.


# Windows.


async def test_an_engine_that_vanishes_from_the_page_loses_its_windows_and_keeps_its_counters(
    watch, clock, server
):
    server.engines = {("m", "0"): 0, ("m", "1"): 0}
    await polls(watch, clock, 5)
    del server.engines["m", "1"]
    await clock.advance(1)
    await polls(watch, clock, 11)
    found = findings(watch, clock)
    assert found["m", "1"].evaluation.windows == ()
    assert found["m", "1"].totals.counters.drafts == 40
    assert drafts(found["m", "0"]) == [150, 150]


async def test_engines_that_are_long_gone_are_forgotten(watch, clock, server):
    server.engines = {("m", "0"): 0, ("m", "1"): 0}
    await polls(watch, clock, 2)
    del server.engines["m", "1"]
    await clock.advance(EVICTED_AFTER)
    await polls(watch, clock, 1)
    assert set(findings(watch, clock)) == {("m", "0"), ("m", "1")}
    await clock.advance(1)
    await polls(watch, clock, 1)
    assert set(findings(watch, clock)) == {("m", "0")}


async def test_a_server_that_invents_long_names_has_them_forgotten_sooner(watch, clock, server):
    most = MAX_NAMES_TOTAL // MAX_NAME
    for batch in range(4):
        server.engines = {(f"{batch}-{number:03}".ljust(MAX_NAME - 1, "m"), "0"): 0 for number in range(most)}
        await polls(watch, clock, 1)
        await clock.advance(1)
        assert len(findings(watch, clock)) == most
    assert {name.split("-")[0] for name, _ in findings(watch, clock)} == {"3"}


async def test_a_schedule_of_a_pod_that_is_not_used_is_logged_once(clock, server):
    problem = "num_speculative_tokens_per_batch_size has more than 64 ranges"
    pod = ServedSpeculation("mtp", 3, problem=problem)
    target = Target("http://a:1/metrics", "a:1", pod_arguments=pod)
    with capture_logs() as logs:
        watch = TargetMonitor(target, Config(), clock, RememberedEngines())
        await watch.change(target, Config())
    await watch.close()
    told = [(log["event"], log["source"], log["reason"]) for log in logs]
    assert told == [("server_details_not_used", "pod_arguments", problem)]


@pytest.mark.parametrize(("engines", "several"), [(1, False), (2, True)])
async def test_engines_know_whether_their_server_has_several(watch, clock, server, engines, several):
    server.engines = {("m", str(number)): 0 for number in range(engines)}
    await polls(watch, clock, 1)
    members = [each.engine for each in watch.members(clock.monotonic())]
    assert [engine.history.data_parallel for engine in members] == [several] * engines


async def test_counters_that_restart_with_every_poll_do_not_fill_the_log(watch, clock, server):
    server.engines = {("m", str(number)): 0 for number in range(MAX_ENGINES)}
    with capture_logs() as logs:
        for poll in range(20):
            server.created = clock.wall() + poll
            await polls(watch, clock, 1)
    assert len(logs) <= BURST + 20 / EVERY + 2
    assert [log["event"] for log in logs].count("events_omitted") == 1


# What the server is.


# A changed configuration.


async def test_a_change_of_the_configuration_keeps_windows_and_counters(watch, clock, server):
    await polls(watch, clock, 61)
    await watch.change(target(labels=(("team", "b"),)), config("10s", "1m", timeout="1s"))
    assert server.closed == 1
    await clock.advance(1)
    await polls(watch, clock, 1)
    [(labels, found)] = watch.snapshots(clock.monotonic())
    assert labels["team"] == "b"
    assert [its.window.length for its in found.evaluation.windows] == [10, 60]
    assert drafts(found) == [100, 600]
    assert found.totals.counters.drafts == 610
    assert watch.status().polls == 62


async def test_longer_windows_fill_up_from_the_change_on(watch, clock):
    await polls(watch, clock, 400)
    await watch.change(target(), config("30s", "10m"))
    # Up to 32 polls that were older than the longest window, and not removed yet, come back.
    assert drafts(findings(watch, clock)["m", "0"])[1] == pytest.approx(3160, abs=180)
    await clock.advance(1)
    await polls(watch, clock, 200)
    assert drafts(findings(watch, clock)["m", "0"])[1] == pytest.approx(5160, abs=180)


# How it goes.


async def test_the_view_shows_neither_user_nor_query(watch, clock, server):
    server.failure = PollError("refused", "no")
    await polls(watch, clock, 1)
    view = target_view(watch.status())
    assert (view.target, view.address, view.up, view.error, view.engines) == (
        "one",
        "vllm:8000/metrics",
        False,
        "refused: no",
        (),
    )


# Internal errors.


# What is remembered.


async def test_an_engine_that_never_drafted_is_not_saved(watch, clock, server):
    page = server.page
    server.page = lambda: page().replace("spec_decode", "other")
    await polls(watch, clock, 10)
    watch.remember()
    assert watch._remembered.saved(clock.wall())["engines"] == []


# Status of a target.


async def test_an_engine_that_is_gone_still_has_a_history(watch, clock, server):
    await polls(watch, clock, 5)
    await clock.advance(100)
    ((labels, window),) = watch.histories()
    assert (labels["model_name"], window.length, window.total.drafts) == ("m", 300.0, 40)
    assert findings(watch, clock)["m", "0"].evaluation.windows == ()


# The limit on engines of all targets.


def limited(clock, capacity, events, name="one"):
    return TargetMonitor(target(name=name), config(), clock, RememberedEngines(), events, capacity=capacity)


async def test_engines_with_alternating_positions_are_limited_as_at_once(clock, server):
    watch = limited(clock, Capacity(24), EventLog("1"))
    server.engines = {("m", str(number)): 0 for number in range(24)}
    for turn in range(24):
        server.extra = positions_of(str(turn))
        await polls(watch, clock, 1)
        await clock.advance(1)
        known = [len(found.totals.positions) for found in findings(watch, clock).values()]
        assert known.count(MAX_POSITIONS) in {1, 2, 3, 4}
    assert watch.status().up


async def test_an_engine_with_many_draft_tokens_takes_more_places(clock, server):
    watch = limited(clock, Capacity(10), EventLog("1"))
    server.engines = {("m", str(number)): 0 for number in range(10)}
    await polls(watch, clock, 2)
    assert len(findings(watch, clock)) == 10
    server.draft_tokens = 10 * MAX_POSITIONS
    await clock.advance(1)
    await polls(watch, clock, 2)
    assert [found.tokens for found in findings(watch, clock).values()] == [MAX_POSITIONS] * 2
    assert watch.status().engines_not_monitored == 8


def positions_of(engine):
    """The lines of an engine's accepted tokens by position, of as many positions as there may be."""
    stem = f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{model_name="m",engine="{engine}",position='
    return "\n".join(f'{stem}"{position}"}} 0' for position in range(MAX_POSITIONS))


# Internal errors.


async def test_an_engine_that_cannot_be_counted_does_not_affect_others(watch, clock, server, monkeypatch):
    server.engines = {("m", "0"): 0, ("m", "1"): 0}
    await polls(watch, clock, 3)
    bad, observe = watch._engines.monitors["m", "0"], EngineMonitor.observe

    def fails(engine, *args):
        if engine is bad:
            raise RuntimeError("injected")
        return observe(engine, *args)

    monkeypatch.setattr(EngineMonitor, "observe", fails)
    with capture_logs() as logs:
        for _ in range(5):
            await clock.advance(1)
            await polls(watch, clock, 1)
    assert watch.status().up
    assert drafts(findings(watch, clock)["m", "1"]) == [70, 70]
    assert drafts(findings(watch, clock)["m", "0"]) == [20, 20]
    assert [(log["event"], log["part"], log["engine"]) for log in logs] == [
        ("internal_error", "counting", "0")
    ]
