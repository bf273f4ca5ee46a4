from __future__ import annotations

import asyncio
import json
from collections import Counter as Counts

import pytest
from structlog.testing import capture_logs

from spec_decode_exporter.config.schema import Config
from spec_decode_exporter.core.capacity import Capacity
from spec_decode_exporter.discovery.target import Target
from spec_decode_exporter.monitor.engine_monitor import EngineMonitor
from spec_decode_exporter.monitor.evaluation_pace import SHORTEST, evaluation_interval
from spec_decode_exporter.monitor.evaluator import Evaluator
from spec_decode_exporter.monitor.event_budget import BURST, EVERY
from spec_decode_exporter.monitor.event_log import EventLog
from spec_decode_exporter.monitor.persistence.remembered_engines import EngineKey, RememberedEngines
from spec_decode_exporter.monitor.target_engines import EVICTED_AFTER
from spec_decode_exporter.monitor.target_monitor import ENGINES_SLICE, TargetMonitor
from spec_decode_exporter.scrape.http.client import HttpResponse
from spec_decode_exporter.scrape.page.engine_table import Counter
from spec_decode_exporter.scrape.page.layout_map import (
    MAX_ENGINES,
    MAX_NAME,
    MAX_NAMES_TOTAL,
    MAX_POSITIONS,
)
from spec_decode_exporter.scrape.poll.server_info import ServedSpeculation
from spec_decode_exporter.scrape.poll_errors import REASONS, PollError, StatusError
from spec_decode_exporter.views.engine_view import engine_id
from spec_decode_exporter.views.target_view import target_view

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
    return [window[Counter.DRAFTS] for window in found.windows]


# Labels.


async def test_an_engine_has_the_labels_of_its_target_and_its_own(watch, clock, server):
    server.engines = {("m", "0"): 0, ("m", "1"): 0}
    await polls(watch, clock, 1)
    assert watch.labels == {"target": "one", "team": "a"}
    assert [labels for labels, _ in watch.snapshots(clock.monotonic())] == [
        {"target": "one", "model_name": "m", "engine": "0", "team": "a"},
        {"target": "one", "model_name": "m", "engine": "1", "team": "a"},
    ]


async def test_an_engine_that_does_not_name_itself_is_called_after_its_target(watch, clock, server):
    server.prefix, server.engines = "llamacpp:", {(None, None): 0}
    await polls(watch, clock, 1)
    assert list(findings(watch, clock)) == [("one", "0")]


async def test_an_engine_that_begins_to_say_its_number_is_the_same_one(watch, clock, server):
    server.engines = {("m", None): 0}
    await polls(watch, clock, 2)
    server.engines = {("m", "0"): 2}
    await clock.advance(1)
    await polls(watch, clock, 1)
    assert drafts(findings(watch, clock)["m", "0"]) == [20, 20]


# Windows.


async def test_windows_hold_what_was_counted_between_the_polls(watch, clock):
    await polls(watch, clock, 61)
    found = findings(watch, clock)["m", "0"]
    assert [(window.length, window.polls) for window in found.windows] == [(30, 30), (300, 60)]
    assert drafts(found) == [300, 600]
    assert found.totals.counters[Counter.ACCEPTED_TOKENS] == 420


@pytest.mark.parametrize(("interval", "gone"), [(1, 10), (3, 10), (5, 15), (10, 30)])
async def test_windows_vanish_three_intervals_after_the_last_poll_and_not_within_ten_seconds(
    server, clock, interval, gone
):
    watch = TargetMonitor(
        target(), config(interval=f"{interval}s"), clock, RememberedEngines(), EventLog("1")
    )
    await polls(watch, clock, 5, interval)
    server.failure = PollError("refused", "no")
    await clock.advance(gone - 0.1)
    await polls(watch, clock, 1)
    assert len(findings(watch, clock)["m", "0"].windows) == 2
    await clock.advance(0.2)
    found = findings(watch, clock)["m", "0"]
    assert (found.windows, found.latencies, found.reported) == ((), {}, None)
    assert found.totals.counters[Counter.DRAFTS] == 40


async def test_an_engine_that_vanishes_from_the_page_loses_its_windows_and_keeps_its_counters(
    watch, clock, server
):
    server.engines = {("m", "0"): 0, ("m", "1"): 0}
    await polls(watch, clock, 5)
    del server.engines["m", "1"]
    await clock.advance(1)
    await polls(watch, clock, 11)
    found = findings(watch, clock)
    assert found["m", "1"].windows == ()
    assert found["m", "1"].totals.counters[Counter.DRAFTS] == 40
    assert drafts(found["m", "0"]) == [150, 150]


async def test_an_engine_that_comes_back_has_its_windows_again(watch, clock, server):
    await polls(watch, clock, 5)
    server.failure = StatusError(503)
    await clock.advance(40)
    await polls(watch, clock, 1)
    server.failure = None
    await clock.advance(1)
    await polls(watch, clock, 5)
    found = findings(watch, clock)["m", "0"]
    assert found.totals.counters[Counter.DRAFTS] == 90
    assert [window.polls for window in found.windows] == [4, 9]


async def test_an_engine_that_appears_starts_with_its_first_page(watch, clock, server):
    await polls(watch, clock, 3)
    server.engines["m", "1"] = 1_000_000
    await clock.advance(1)
    await polls(watch, clock, 3)
    found = findings(watch, clock)
    assert drafts(found["m", "1"]) == [20, 20]
    assert found["m", "1"].totals.counters[Counter.DRAFTS] == 20


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


async def test_a_target_that_is_down_for_long_keeps_its_counters(watch, clock, server):
    await polls(watch, clock, 3)
    server.failure = PollError("timeout", "late")
    await clock.advance(EVICTED_AFTER * 10)
    await polls(watch, clock, 1)
    assert findings(watch, clock)["m", "0"].totals.counters[Counter.DRAFTS] == 20


async def test_a_server_that_invents_engines_costs_no_more_than_the_most_that_are_watched(
    watch, clock, server
):
    for batch in range(3):
        server.engines = {("m", f"{batch}-{number}"): 0 for number in range(MAX_ENGINES)}
        await polls(watch, clock, 1)
        await clock.advance(1)
    assert {number.split("-")[0] for _, number in findings(watch, clock)} == {"2"}
    assert len(findings(watch, clock)) == MAX_ENGINES


async def test_a_server_that_invents_long_names_has_them_forgotten_sooner(watch, clock, server):
    most = MAX_NAMES_TOTAL // MAX_NAME
    for batch in range(4):
        server.engines = {(f"{batch}-{number:03}".ljust(MAX_NAME - 1, "m"), "0"): 0 for number in range(most)}
        await polls(watch, clock, 1)
        await clock.advance(1)
        assert len(findings(watch, clock)) == most
    assert {name.split("-")[0] for name, _ in findings(watch, clock)} == {"3"}


async def test_engine_churn_is_logged_once_and_new_engines_are_not_logged(watch, clock, server):
    with capture_logs() as logs:
        for batch in range(4):
            server.engines = {("m", f"{batch}-{number}"): 0 for number in range(MAX_ENGINES // 2)}
            await polls(watch, clock, 1)
    words = [log["event"] for log in logs]
    assert words.count("engine_found") == 3 * (MAX_ENGINES // 2)
    assert words.count("engines_evicted") == 1


async def test_a_page_of_many_engines_yields_to_the_event_loop(watch, clock, server, monkeypatch):
    order = []
    observe = EngineMonitor.observe

    def noted(engine, *arguments):
        order.append("engine")
        return observe(engine, *arguments)

    monkeypatch.setattr(EngineMonitor, "observe", noted)
    server.engines = {("m", str(number)): 0 for number in range(MAX_ENGINES)}
    poll = asyncio.ensure_future(watch.poll())
    while not poll.done():
        order.append("other")
        await asyncio.sleep(0)
    slices = "".join("e" if each == "engine" else " " for each in order).split()
    assert max(map(len, slices)) == ENGINES_SLICE
    assert len(slices) == MAX_ENGINES / ENGINES_SLICE


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


async def test_engines_of_a_churning_server_have_no_event_when_gone(watch, clock, server):
    with capture_logs() as logs:
        for batch in range(4):
            server.engines = {("m", f"{batch}-{number}"): 0 for number in range(MAX_ENGINES // 2)}
            await polls(watch, clock, 1)
            await clock.advance(1)
        await clock.advance(30)
        await polls(watch, clock, 1)
    assert "state_changed" not in [log["event"] for log in logs]


async def test_an_engine_whose_labels_belong_to_another_has_no_event_when_gone(watch, clock, server):
    server.engines = {("m", None): 0}
    await polls(watch, clock, 3)
    server.engines = {("m", "0"): 0}
    with capture_logs() as logs:
        await clock.advance(1)
        await polls(watch, clock, 20)
    assert "state_changed" not in [log["event"] for log in logs]


# What the server is.


async def test_after_a_restart_the_version_is_asked_for_again(watch, clock, server):
    await polls(watch, clock, 61)
    server.created = clock.wall() + 0.5
    server.engines = {("m", "0"): 0}
    await clock.advance(1)
    with capture_logs() as logs:
        await polls(watch, clock, 1)
    assert sum(url.endswith("/version") for url in server.asked) == 2
    assert [(log["event"], log["cause"], log["counted_since_restart"]) for log in logs] == [
        ("engine_reset", "restart", True)
    ]
    assert findings(watch, clock)["m", "0"].totals.counters[Counter.DRAFTS] == 610


async def test_another_model_has_the_same_effect(watch, clock, server):
    await polls(watch, clock, 61)
    server.engines = {("other", "0"): 0}
    await clock.advance(1)
    with capture_logs() as logs:
        await polls(watch, clock, 3)
    assert sum(url.endswith("/version") for url in server.asked) == 2
    assert [(log["event"], log["model_name"], log["kind"]) for log in logs] == [
        ("engine_found", "other", "vllm")
    ]


async def test_a_rust_front_end_whose_steps_lag_has_none_on_short_windows(watch, clock, server):
    server.extra = 'vllm:inter_token_latency_seconds_count{model_name="m"} 5\n# EOF'
    page = server.page
    server.page = lambda: page().replace("_created", "_other")
    await polls(watch, clock, 3)
    assert watch.status().front_end == "rust"
    assert [window[Counter.DECODE_STEPS] for window in findings(watch, clock)["m", "0"].windows] == [
        None,
        None,
    ]
    await polls(watch, clock, 60)
    assert [window[Counter.DECODE_STEPS] for window in findings(watch, clock)["m", "0"].windows] == [None, 0]


async def test_counters_that_contradict_each_other_twice_are_a_broken_check(watch, clock, server):
    page = server.page
    server.page = lambda: (
        page() + 'vllm:spec_decode_num_accepted_tokens_per_pos_total{model_name="m",position="0"} 3\n'
    )
    with capture_logs() as logs:
        await polls(watch, clock, 3)
    assert [(log["event"], log["log_level"]) for log in logs] == [
        ("engine_found", "info"),
        ("check_broken", "warning"),
    ]
    assert logs[1]["accepted_by_position"] == [3]
    assert len(findings(watch, clock)["m", "0"].broken) == 1


async def test_a_page_without_engines_leaves_everything_as_it_was(watch, clock, server):
    await polls(watch, clock, 3)
    server.engines = {}
    await clock.advance(1)
    await polls(watch, clock, 1)
    assert drafts(findings(watch, clock)["m", "0"]) == [20, 20]
    assert watch.status().engine_kind == ""


# A changed configuration.


async def test_a_change_of_the_configuration_keeps_windows_and_counters(watch, clock, server):
    await polls(watch, clock, 61)
    await watch.change(target(labels=(("team", "b"),)), config("10s", "1m", timeout="1s"))
    assert server.closed == 1
    await clock.advance(1)
    await polls(watch, clock, 1)
    [(labels, found)] = watch.snapshots(clock.monotonic())
    assert labels["team"] == "b"
    assert [window.length for window in found.windows] == [10, 60]
    assert drafts(found) == [100, 600]
    assert found.totals.counters[Counter.DRAFTS] == 610
    assert watch.status().polls == 62


async def test_longer_windows_fill_up_from_the_change_on(watch, clock):
    await polls(watch, clock, 400)
    await watch.change(target(), config("30s", "10m"))
    assert drafts(findings(watch, clock)["m", "0"])[1] == pytest.approx(3000, abs=20)
    await clock.advance(1)
    await polls(watch, clock, 200)
    assert drafts(findings(watch, clock)["m", "0"])[1] == pytest.approx(5000, abs=20)


async def test_only_other_windows_reset_the_advice(watch, clock, monkeypatch):
    await polls(watch, clock, 3)
    (engine,) = watch._engines.monitors.values()
    kept = []
    monkeypatch.setattr(engine, "keep", kept.append)
    await watch.change(target(labels=()), config(timeout="1s"))
    assert kept == []
    await watch.change(target(labels=()), config("1m"))
    assert kept == [(60.0,)]


@pytest.mark.parametrize(
    ("other", "configured", "fits"),
    [
        (target(), config(), True),
        (target(labels=()), config(), False),
        (target(discovery="file"), config(), False),
        (target(), config("1m"), False),
        (target(), config(interval="2s"), False),
    ],
)
def test_only_settings_of_a_target_make_a_change(watch, other, configured, fits):
    assert watch.fits(other, configured) is fits


# How it goes.


async def test_the_status_counts_the_polls(watch, clock, server):
    assert (watch.status().up, watch.status().engine_kind, watch.status().interval) == (None, "", 1)
    await polls(watch, clock, 2)
    status = watch.status()
    assert (status.up, status.engine_kind, status.front_end) == (True, "vllm", "python")
    assert (status.page, status.version, status.polls, status.failures) == ("whole", "0.32.0", 2, {})
    assert (status.poll_seconds, status.interval, status.last_success) == (0.001, 1, clock.wall())
    server.failure = PollError("refused", "no")
    await polls(watch, clock, 2)
    status = watch.status()
    assert (status.up, status.polls, status.failures) == (False, 4, {"refused": 2})
    assert status.last_success == clock.wall() - 1


async def test_the_status_counts_the_engines_of_the_newest_page_alone(watch, clock, server):
    assert watch.status().engines_on_page is None
    server.engines = {("m", "0"): 0, ("m", "1"): 0}
    await polls(watch, clock, 1)
    assert watch.status().engines_on_page == 2
    server.engines = {}
    await polls(watch, clock, 1)
    assert (watch.status().up, watch.status().engines_on_page) == (True, 0)
    assert len(watch.status().engines) == 2
    server.failure = PollError("refused", "no")
    await polls(watch, clock, 1)
    assert watch.status().engines_on_page is None


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


async def test_a_monitor_polls_by_itself_and_closes_its_connection(watch, clock, server):
    task = asyncio.create_task(watch.run())
    await clock.advance(5)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await watch.close()
    assert watch.status().polls == 5
    assert server.closed == 1


async def test_an_engine_that_comes_to_have_the_labels_of_another_takes_its_place(watch, clock, server):
    server.engines = {(None, "0"): 0}
    await polls(watch, clock, 3)
    server.engines = {("one", "0"): 100}
    await polls(watch, clock, 2)
    shown = [labels for labels, _ in watch.snapshots(clock.now)]
    assert shown == [{"target": "one", "model_name": "one", "engine": "0", "team": "a"}]
    assert findings(watch, clock)["one", "0"].windows[0].polls == 1


async def test_another_front_end_at_the_same_address_is_recognised(watch, clock, server):
    server.extra = 'vllm:inter_token_latency_seconds_count{model_name="m"} 5'
    await polls(watch, clock, 3)
    assert findings(watch, clock)["m", "0"].windows[0][Counter.DECODE_STEPS] == 0
    server.extra += "\n# EOF"
    page = server.page
    server.page = lambda: page().replace("_created", "_other")
    await polls(watch, clock, 3)  # its drafts have no steps
    assert findings(watch, clock)["m", "0"].windows[0][Counter.DECODE_STEPS] is None


# Internal errors.


async def test_an_engine_that_cannot_be_evaluated_does_not_affect_others(watch, clock, server, monkeypatch):
    server.engines = {("m", str(number)): 0 for number in range(3)}
    await polls(watch, clock, 3)
    spoilt = watch._engines.monitors["m", "1"]
    for owner, method in ((spoilt._evaluator, "evaluate"), (spoilt._learned._drops, "observe")):
        monkeypatch.setattr(owner, method, None)
    await clock.advance(1)
    with capture_logs() as logs:
        await polls(watch, clock, 20)
    assert [(log["event"], log["engine"], log["part"], log["log_level"]) for log in logs] == [
        ("analysis_failed", "1", "learning", "warning"),
        ("analysis_failed", "1", "evaluation", "warning"),
    ]
    found = findings(watch, clock)
    assert [drafts(one) for one in found.values()] == [[220, 220]] * 3
    assert [len(one.evaluation.bounds) for one in found.values()] == [2, 0, 2]
    assert watch.status().up is True
    assert watch.status().failures == {}


async def test_an_engine_that_cannot_be_saved_keeps_its_saved_state(server, clock, monkeypatch):
    baselines = RememberedEngines()
    watch = TargetMonitor(target(), config(), clock, baselines, EventLog("1"))
    server.engines = {("m", "0"): 0, ("m", "1"): 0}
    await polls(watch, clock, 3)
    watch.remember()
    before = {number: baselines.known(EngineKey("one", "m", number)) for number in ("0", "1")}
    await clock.advance(1)
    await polls(watch, clock, 3)
    monkeypatch.setattr(watch._engines.monitors["m", "0"]._learned, "saved", None)
    watch.remember()
    assert baselines.known(EngineKey("one", "m", "0")) == before["0"]
    assert baselines.known(EngineKey("one", "m", "1")) != before["1"]


# What is remembered.


async def test_a_restart_of_the_exporter_before_the_second_poll_loses_nothing(watch, clock, server):
    await polls(watch, clock, 100)
    baselines = watch._remembered
    watch.remember()
    learned = baselines.known(EngineKey("one", "m", "0"))
    again = TargetMonitor(target(), config(), clock, baselines, EventLog("1"))
    again.remember()
    await polls(again, clock, 1)
    again.remember()
    assert baselines.known(EngineKey("one", "m", "0")) == learned
    await clock.advance(1)
    await polls(again, clock, 2)
    again.remember()
    kept = baselines.known(EngineKey("one", "m", "0"))["drops"]["sudden"]["baseline"]["drafts"]
    assert kept >= learned["drops"]["sudden"]["baseline"]["drafts"] > 0


async def test_an_engine_that_is_evicted_continues_with_what_it_learned(watch, clock, server):
    server.engines = {("m", "0"): 0, ("m", "1"): 0}
    await polls(watch, clock, 100)
    learned = watch._engines.monitors["m", "1"].learned()
    del server.engines["m", "1"]
    await clock.advance(EVICTED_AFTER + 1)
    await polls(watch, clock, 2)
    assert watch._remembered.known(EngineKey("one", "m", "1")) == learned
    assert watch._remembered.known(EngineKey("one", "m", "0")) is None  # still monitored


async def test_an_engine_that_never_drafted_is_not_saved(watch, clock, server):
    page = server.page
    server.page = lambda: page().replace("spec_decode", "other")
    await polls(watch, clock, 10)
    watch.remember()
    assert watch._remembered.saved(clock.wall())["engines"] == []


async def test_a_restart_of_the_exporter_keeps_the_baseline_of_a_model(watch, clock, server):
    page = server.page
    steps = "vllm:inter_token_latency_seconds"

    def plain():
        text = page().replace("spec_decode", "other")
        number = server.engines["m", "0"]
        labels = 'model_name="m",engine="0"'
        return (
            f"{text}{steps}_count{{{labels}}} {400 * number}\n{steps}_sum{{{labels}}} {8 * number}\n"
            f"vllm:num_requests_running{{{labels}}} 8\n"
        )

    server.page = plain
    await polls(watch, clock, 70)
    assert findings(watch, clock)["m", "0"].baseline.seconds == 69
    watch.remember()
    remembered = RememberedEngines()
    remembered.recall(json.loads(json.dumps(watch._remembered.saved(clock.wall()))))
    again = TargetMonitor(target(), config(), clock, remembered, EventLog("1"))
    server.page = page
    server.created = clock.wall()
    await polls(again, clock, 5)
    kept = findings(again, clock)["m", "0"].baseline
    assert (kept.seconds, kept.age_seconds) == (69, 4)


# Status of a target.


async def test_a_target_is_shown_with_how_its_polls_go(watch, clock, server):
    view = target_view(watch.status())
    assert (view.up, view.polls, view.engines, view.last_success_timestamp_seconds) == (None, 0, (), None)
    await polls(watch, clock, 3)
    view = target_view(watch.status())
    assert (view.target, view.labels) == ("one", {"target": "one", "team": "a"})
    assert view.address == "vllm:8000/metrics", "no user, no password and no query"
    assert (view.up, view.error, view.polls, view.version) == (True, "", 3, "0.32.0")
    assert (view.engine_kind, view.front_end, view.discovery) == ("vllm", "python", "static")
    assert (view.poll_interval_seconds, view.last_success_timestamp_seconds) == (1, clock.wall())
    assert view.engines == (engine_id("one", "m", "0"),)


async def test_a_target_that_fails_is_shown_with_the_reason(watch, clock, server):
    server.failure = StatusError(503)
    await polls(watch, clock, 2)
    view = target_view(watch.status())
    assert (view.up, view.error) == (False, "status: status 503 Service Unavailable")
    assert view.poll_failures == {**dict.fromkeys(REASONS, 0), "status": 2}


async def test_an_engine_that_is_gone_still_has_a_history(watch, clock, server):
    await polls(watch, clock, 5)
    await clock.advance(100)
    ((labels, window),) = watch.histories()
    assert (labels["model_name"], window.length, window[Counter.DRAFTS]) == ("m", 300.0, 40)
    assert findings(watch, clock)["m", "0"].windows == ()


async def test_events_of_targets_and_engines_are_kept_once_each(clock, server):
    events = EventLog("1")
    watch = TargetMonitor(target(), config(), clock, RememberedEngines(), events)
    server.failure = StatusError(503)
    await polls(watch, clock, 2)
    server.failure = None
    with capture_logs() as logs:
        await clock.advance(1)
        await polls(watch, clock, 2)
    kept = [(event.type, event.target, event.model_name, event.engine) for event in events.since().events]
    assert kept == [
        ("target_failing", "one", None, None),
        ("engine_found", "one", "m", "0"),
        ("target_recovered", "one", None, None),
    ]
    assert [entry["event"] for entry in logs] == ["engine_found", "target_recovered"]
    assert [event.time for event in events.since().events] == [
        clock.wall() - 3,
        clock.wall() - 1,
        clock.wall() - 1,
    ]


async def test_engines_of_one_poll_are_evaluated_at_different_moments(watch, clock, server, monkeypatch):
    server.engines = {("m", str(number)): 0 for number in range(20)}
    evaluated, evaluator = [], Evaluator.evaluate

    def counted(self, windows, inputs, moment):
        evaluated.append(moment)
        return evaluator(self, windows, inputs, moment)

    monkeypatch.setattr(Evaluator, "evaluate", counted)
    await polls(watch, clock, 26)
    each = Counts(evaluated)
    assert each[min(each)] == 20  # at the first poll, all of them
    later = [each[moment] for moment in sorted(each) if moment > min(each) + SHORTEST]
    assert sum(later) == 20 * 20 / SHORTEST
    assert max(later) < 15


async def test_engines_of_a_large_fleet_are_evaluated_less_often(clock, server, monkeypatch):
    intervals = []
    monkeypatch.setattr(EngineMonitor, "evaluate_every", lambda _, seconds: intervals.append(seconds))
    capacity = Capacity(2000)
    capacity.places("the others", 499)
    watch = TargetMonitor(target(), config(), clock, RememberedEngines(), capacity=capacity)
    await polls(watch, clock, 1)
    assert set(intervals) == {evaluation_interval(500)}


def test_targets_of_one_moment_are_asked_for_histograms_at_different_moments(clock, monkeypatch):
    known = []
    monkeypatch.setattr(
        "spec_decode_exporter.monitor.target_monitor.Poller",
        lambda *_, settings, **__: known.append(settings),
    )
    for number in range(20):
        TargetMonitor(target(url=f"http://vllm-{number}:8000/metrics"), config(), clock, RememberedEngines())
    assert len({settings.histogram_phase for settings in known}) > 4


# The limit on engines of all targets.


def limited(clock, capacity, events, name="one"):
    return TargetMonitor(target(name=name), config(), clock, RememberedEngines(), events, capacity=capacity)


async def test_engines_beyond_the_limit_are_not_monitored_and_logged_once(clock, server):
    events, capacity = EventLog("1"), Capacity(3)
    watch = limited(clock, capacity, events)
    server.engines = {("m", str(number)): 0 for number in range(5)}
    await polls(watch, clock, 4)
    assert list(findings(watch, clock)) == [("m", "0"), ("m", "1"), ("m", "2")]
    assert watch.status().engines_not_monitored == 2
    words = [event.type for event in events.since().events]
    assert words.count("engines_not_monitored") == 1
    capacity.limit = 5
    await clock.advance(1)
    await polls(watch, clock, 2)
    assert len(findings(watch, clock)) == 5
    assert watch.status().engines_not_monitored == 0


async def test_a_target_with_many_engines_makes_room_for_another_target(clock, server):
    events, capacity = EventLog("1"), Capacity(6)
    greedy, modest = limited(clock, capacity, events), limited(clock, capacity, events, "two")
    server.engines = {("m", str(number)): 0 for number in range(6)}
    await polls(greedy, clock, 2)
    server.engines = {("other", "0"): 0, ("other", "1"): 0}
    await polls(modest, clock, 2)
    server.engines = {("m", str(number)): 2 for number in range(6)}
    await polls(greedy, clock, 2)
    assert len(findings(modest, clock)) == 2
    assert len(findings(greedy, clock)) == 4
    watched = findings(greedy, clock)
    await clock.advance(1)
    await polls(greedy, clock, 2)
    assert findings(greedy, clock).keys() == watched.keys()


async def test_new_engines_take_the_places_of_those_that_are_gone(clock, server):
    watch = limited(clock, Capacity(2), EventLog("1"))
    for generation in range(3):
        server.engines = {(f"m{generation}", "0"): 0, (f"m{generation}", "1"): 0}
        await polls(watch, clock, 2)
        assert set(findings(watch, clock)) == set(server.engines)
        await clock.advance(1)
    assert watch.status().engines_not_monitored == 0


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
