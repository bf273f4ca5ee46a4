import asyncio
import subprocess
import sys
from functools import partial
from types import SimpleNamespace
from unittest.mock import AsyncMock, Mock

import pytest

import spec_decode_exporter
from spec_decode_exporter.analysis.verdict import Action, Verdict
from spec_decode_exporter.config.mistakes import ConfigError
from spec_decode_exporter.costs.cost import CostSource
from spec_decode_exporter.reports import observation as module
from spec_decode_exporter.reports.observation import Observation, observed_config, watch
from spec_decode_exporter.reports.observation_report import report
from spec_decode_exporter.reports.text import TextStyle
from spec_decode_exporter.scrape.errors import PollError, StatusError
from spec_decode_exporter.simulator.scenario import load_scenario
from tests.conftest import settle
from tests.fakes.simulated import Server
from tests.fakes.simulated_history import StoredHistory
from tests.unit.history.conftest import DRAFTING, PLAIN


async def finished(clock, seconds, work):
    """Advance the clock until ``work`` is done, and return its result."""
    task = asyncio.ensure_future(work)
    await clock.advance(seconds)
    await settle(100)
    assert task.done()
    return task.result()


async def test_thirty_seconds_from_the_first_poll_to_the_last_are_enough_for_a_verdict_and_advice(
    network, clock
):
    server = network.servers["a:1"] = Server(clock, "steady", running=60)
    before = server.simulation.engines[0].counts.drafts
    target = {"url": "http://a:1", **load_scenario("steady").target_settings()}
    config = observed_config([target], 30)
    seen = await finished(clock, 30, watch(config, 30, clock))
    (engine,) = seen.engines
    evaluation = engine.snapshot.evaluation
    assert evaluation.verdict in {Verdict.HEALTHY, Verdict.OPTIMAL}
    assert evaluation.action in {Action.KEEP, Action.INCREASE, Action.DECREASE}
    assert evaluation.decision.advice.tokens is not None
    (its,) = evaluation.windows
    assert (its.window.length, its.window.seconds) == (30, pytest.approx(30))
    assert its.total.drafts == server.simulation.engines[0].counts.drafts - before


@pytest.mark.parametrize(("seconds", "running"), [(15, 60), (15, 90), (60, 60)])
async def test_at_an_unknown_cost_a_harmful_drafter_may_pay_or_not_and_the_report_says_how_to_know(
    network, clock, seconds, running
):
    network.servers["a:1"] = Server(clock, "harmful", running=running)
    config = observed_config(["http://a:1"], seconds)
    seen = await finished(clock, seconds, watch(config, seconds, clock))
    (engine,) = seen.engines
    assert engine.snapshot.evaluation.verdict in {Verdict.UNCLEAR, Verdict.INSUFFICIENT}
    headline, _, rest = report(seen, TextStyle()).partition("\n")
    assert "peculation may pay or not." in headline
    assert "times as fast" not in headline, "a number at an unknown cost"
    assert "### How to find out\n\n1. " in rest
    assert "`--baseline.prometheus.url http://PROMETHEUS:9090`" in rest


async def seen_with(history, network, clock, monkeypatch, url="http://p:9090"):
    """Observe a server whose cost only a history knows, for a minute."""
    network.servers["a:1"] = Server(clock, DRAFTING, running=60)
    connected = partial(module.HistoryBaselines, connect=lambda _: history)
    monkeypatch.setattr(module, "HistoryBaselines", connected)
    overrides = {"baseline.prometheus.url": url, "baseline.prometheus.lookback": "1h"}
    config = observed_config(["http://a:1"], 60, overrides=overrides)
    return await finished(clock, 60, watch(config, 60, clock))


async def test_a_history_gives_the_cost_that_the_verdict_needs(network, clock, monkeypatch):
    stored = StoredHistory(start=clock.wall() - 1800)
    stored.simulate(PLAIN, 1780, job="vllm", instance="a:1")
    seen = await seen_with(stored, network, clock, monkeypatch)
    assert "baseline_read" in {event.type for event in seen.events}
    (engine,) = seen.engines
    evaluation = engine.snapshot.evaluation
    assert evaluation.longest.cost.source is CostSource.BASELINE
    assert evaluation.verdict in {Verdict.OPTIMAL, Verdict.HEALTHY}


async def test_a_history_that_does_not_answer_delays_the_report_for_a_while_only(network, clock, monkeypatch):
    monkeypatch.setattr(module, "BASELINE_SECONDS", 0.0)
    loop = asyncio.get_running_loop()
    never = Mock(side_effect=lambda *_, **__: loop.create_future())
    silent = SimpleNamespace(get=never, close=AsyncMock())
    seen = await seen_with(silent, network, clock, monkeypatch, "http://p:9090?key=x")
    (event,) = [each for each in seen.events if each.type == "baseline_not_read"]
    assert event.target == "a:1"
    assert "no more time" in event.fields["reason"]
    assert "key=x" not in event.fields["source"]


def test_short_runs_are_polled_more_often():
    config = observed_config([{"url": "http://a:1"}], 3)
    assert (config.poll.interval, config.windows) == (0.5, (3.0,))


# The Python API.


def test_observe_returns_the_observation(monkeypatch):
    watched = AsyncMock(return_value="what was seen")
    monkeypatch.setattr(module, "watch", watched)
    assert spec_decode_exporter.observe("a:1", {"url": "b:1"}, seconds=30) == "what was seen"
    config, seconds, _ = watched.await_args.args
    assert [str(target.url) for target in config.targets] == ["http://a:1/metrics", "http://b:1/metrics"]
    assert seconds == 30


@pytest.mark.parametrize(("targets", "seconds"), [((), 30), (("a:1",), 0)])
def test_observe_needs_a_target_and_a_positive_length(targets, seconds):
    with pytest.raises(ValueError, match="at least"):
        spec_decode_exporter.observe(*targets, seconds=seconds)


def test_importing_the_package_imports_no_dependency():
    code = "import sys, spec_decode_exporter; print('pydantic' in sys.modules); spec_decode_exporter.observe"
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert found.stdout == "False\n"


def test_observe_reports_an_invalid_target():
    with pytest.raises(ConfigError, match=r"targets\[0\]\.foo is not a known key"):
        spec_decode_exporter.observe({"url": "a:1", "foo": 1})


# Servers that do not answer.


@pytest.mark.parametrize(("seconds", "gives_up", "expected"), [(60, True, 10), (60, False, 60), (8, True, 8)])
async def test_an_observation_of_servers_that_never_answer_ends_early(
    network, clock, seconds, gives_up, expected
):
    observation = Observation(observed_config(["a:1", "b:1"], seconds), clock)
    end = clock.sleep_until(clock.monotonic() + seconds)
    await finished(clock, seconds, observation.poll(end, gives_up=gives_up))
    assert observation.observed().seconds == expected


@pytest.mark.parametrize(
    ("errors", "expected"),
    [
        (["dns", "tls"], 1),
        ([StatusError(404), StatusError(401)], 1),
        (["malformed", StatusError(307)], 1),
        (["dns", "timeout"], 10),
        ([StatusError(503), StatusError(404)], 10),
    ],
)
async def test_failures_that_waiting_cannot_cure_end_it_at_once(network, clock, errors, expected):
    for host, error in zip(("a:1", "b:1"), errors, strict=True):
        failure = PollError(error, "it fails") if isinstance(error, str) else error
        network.servers[host] = SimpleNamespace(answer=Mock(side_effect=failure))
    observation = Observation(observed_config(["a:1", "b:1"], 60), clock)
    await finished(clock, 60, observation.poll(clock.sleep_until(clock.monotonic() + 60)))
    assert observation.observed().seconds == expected
