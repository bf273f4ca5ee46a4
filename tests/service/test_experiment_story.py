"""Experiment with simulated servers, from their pages to /metrics, compared with the ground truth."""

from __future__ import annotations

from collections import defaultdict

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from spec_decode_exporter.app.service import Options, Service
from spec_decode_exporter.config.load import load
from spec_decode_exporter.monitor.target_monitor import TargetMonitor
from spec_decode_exporter.simulator.scenario import Scenario
from spec_decode_exporter.simulator.simulated_server import SimulatedServer
from spec_decode_exporter.simulator.simulation import Simulation
from spec_decode_exporter.web.server import parse_listen_address
from tests.fakes.scenarios import speedup

SECONDS = 150
WINDOW = "2m"
STOOD = 260
"""Seconds after which an arm that is faster was so for the whole of a window."""
ADVISED = 900
"""Seconds within which the advice to switch to it has stood for three minutes: bounds may interrupt it."""
COMPARED = 10
"""Seconds after which arms are compared, and engines are evaluated with the results."""
EXPERIMENT = """\
experiments:
  - name: drafter
    arms:
      off: {match: {spec: off}}
      eagle: {match: {spec: eagle}}
      ngram: {match: {spec: ngram}}
    baseline: off
"""
SEEDS = {"off": 1, "eagle": 2, "ngram": 3}


def scenario(load=None, **speculation):
    return Scenario.model_validate(
        {"speculation": speculation, "load": load or {"concurrency": 8}, "outputs": {"mean": 120}}
    )


EAGLE = scenario(method="draft_model", tokens=4)
NGRAM = scenario(method="ngram", tokens=4, coverage=0.2)
SERVERS = {"off": scenario(tokens=0), "eagle": EAGLE, "ngram": NGRAM}
METHODS = {"eagle": "eagle3", "ngram": "ngram"}


def target(name, url, model_name=None):
    method = METHODS.get(name)
    speculative = f", speculative: {{method: {method}}}" if method else ""
    return f"  - {{url: '{url}', name: {name}, labels: {{spec: {name}}}{speculative}}}\n"


class Fleet:
    """Simulated servers on loopback that live by the exporter's clock, and an exporter that polls them."""

    def __init__(self, file, clock, until):
        self.file, self.clock, self.until = file, clock, until
        self.taken = 0
        self.service = None

    async def polled(self, seconds):
        for _ in range(seconds):
            before, asleep = self.taken, self.clock.asleep
            await self.clock.advance(1.0)
            # Not only asked, but waiting for their next beats again.
            await self.until(
                lambda: self.taken >= before + 3 and self.clock.asleep >= asleep  # noqa: B023  waited for here
            )

    async def reload(self, text):
        self.file.write_text(text)
        await self.service.reload()

    async def json(self):
        """Return the only experiment of the API."""
        async with aiohttp.ClientSession() as session:
            answer = await session.get(self.service.urls[0] + "api/v1/snapshot")
            (experiment,) = (await answer.json())["experiments"]
        return experiment

    async def samples(self):
        """Return samples of experiments and engines by metric: label values to number."""
        async with aiohttp.ClientSession() as session:
            answer = await session.get(self.service.urls[0] + "metrics")
            text = await answer.text()
        found = defaultdict(list)
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                found[sample.name].append((sample.labels, sample.value))
        return found


def of(samples, **labels):
    """The values of the samples that have these labels."""
    return [value for its, value in samples if labels.items() <= its.items()]


@pytest.fixture
async def fleet_of(aiohttp_server, tmp_path, clock, until, monkeypatch):
    started = []

    async def start(servers, experiment=EXPERIMENT):
        text = "windows: [30s, 2m]\npoll: {max_duty_cycle: 1}\ntargets:\n"
        for name, each in servers.items():
            app = SimulatedServer(Simulation(each, SEEDS[name]), clock=clock).application()
            text += target(name, (await aiohttp_server(app)).make_url("/metrics"))
        file = tmp_path / "exporter.yml"
        file.write_text(text + experiment)
        fleet = Fleet(file, clock, until)
        receive = TargetMonitor._receive

        def taken(watch, page):
            fleet.taken += 1
            return receive(watch, page)

        monkeypatch.setattr(TargetMonitor, "_receive", taken)
        fleet.service = Service(
            lambda: load(file, environ={}), Options([parse_listen_address("127.0.0.1:0")]), clock
        )
        started.append(fleet.service)
        await fleet.service.start()
        return fleet

    yield start
    for service in started:
        await service.close()


async def test_the_speedups_of_simulated_servers_are_near_the_truth(fleet_of):
    fleet = await fleet_of(SERVERS)
    await fleet.polled(STOOD)
    found = await fleet.samples()
    name = "spec_decode_experiment_speedup_ratio"
    for arm in ("eagle", "ngram"):
        true = speedup(SERVERS[arm], STOOD - 120, STOOD, SEEDS[arm])
        for basis in ("time_per_output_token", "throughput_per_request", "end_to_end"):
            labels = {"arm": arm, "window": WINDOW, "basis": basis, "baseline": "off"}
            (value,) = of(found[name], **labels)
            (lower,), (upper,) = of(found[f"{name}_lower"], **labels), of(found[f"{name}_upper"], **labels)
            assert value == pytest.approx(true, rel=0.1)
            assert lower < value < upper
            assert upper / lower < 1.5
        (length,) = of(found["spec_decode_experiment_acceptance_length_tokens"], arm=arm, window=WINDOW)
        (own,) = of(found["spec_decode_acceptance_length_tokens"], target=arm, window=WINDOW)
        assert length == own
    ratios = of(found["spec_decode_experiment_traffic_ratio"], window=WINDOW)
    assert ratios
    assert all(0.8 < ratio < 1.25 for ratio in ratios)
    assert of(found["spec_decode_experiment_engines"], window=WINDOW) == [1.0] * 3
    won = {
        its["arm"]
        for its, value in found["spec_decode_experiment_winner"]
        if value and its["basis"] == "time_per_output_token"
    }
    assert won == {"eagle"}
    experiment_json = await fleet.json()
    assert [arm["arm"] for arm in experiment_json["arms"] if arm["winner"]["time_per_output_token"]] == [
        "eagle"
    ]
    (of_api,) = (arm["windows"][-1] for arm in experiment_json["arms"] if arm["arm"] == "ngram")
    (value,) = of(found[name], arm="ngram", window=WINDOW, basis="end_to_end")
    assert of_api["speedup_ratio"]["end_to_end"]["value"] == value


async def test_the_baseline_yields_the_cost_and_a_faster_arm_the_better_method(
    fleet_of,
):
    fleet, found = await fleet_of(SERVERS), {}
    for _ in range(0, ADVISED, 60):
        await fleet.polled(60)
        found = await fleet.samples()
        if of(found["spec_decode_recommendation"], target="ngram", action="switch_method") == [1.0]:
            break
    (cost,) = of(found["spec_decode_draft_cost_ratio"], target="eagle", source="experiment")
    # The draft model's own share and its start are split by the default of the method.
    usual = 1 + 0.10 / 0.07 / 4
    assert cost * usual == pytest.approx(EAGLE.draft_cost_ratio(8), rel=0.25)
    assert of(found["spec_decode_recommendation"], target="ngram", action="switch_method") == [1.0]
    assert of(found["spec_decode_recommendation"], target="eagle", action="switch_method") == [0.0]


async def test_bounds_allow_for_another_load_and_there_is_no_winner(fleet_of):
    light = scenario({"concurrency": 1}, method="draft_model", tokens=4)
    fleet = await fleet_of(SERVERS | {"eagle": light})
    await fleet.polled(STOOD)
    found = await fleet.samples()
    labels = {"arm": "eagle", "window": WINDOW, "basis": "time_per_output_token"}
    (lower,) = of(found["spec_decode_experiment_speedup_ratio_lower"], **labels)
    (load,) = of(found["spec_decode_experiment_traffic_ratio"], arm="eagle", window=WINDOW, kind="load")
    assert load < 0.6
    assert lower < 1
    assert set(of(found["spec_decode_experiment_winner"], basis="time_per_output_token")) == {0.0}
    experiment_json = await fleet.json()
    (longest,) = (arm["windows"][-1] for arm in experiment_json["arms"] if arm["arm"] == "eagle")
    assert longest["speedup_ratio"]["time_per_output_token"]["reason"] == "load"


async def test_a_reload_adds_an_experiment_and_takes_it_away(fleet_of):
    fleet = await fleet_of(SERVERS, experiment="")
    await fleet.polled(SECONDS)
    found = await fleet.samples()
    assert not [name for name in found if name.startswith("spec_decode_experiment_")]
    without = fleet.file.read_text()
    await fleet.reload(without + EXPERIMENT)
    found = await fleet.samples()
    # The windows were there all the time.
    assert of(found["spec_decode_experiment_speedup_ratio"], arm="eagle", window=WINDOW) != []
    await fleet.polled(COMPARED)
    found = await fleet.samples()
    assert of(found["spec_decode_draft_cost_ratio"], target="eagle", source="experiment") != []
    await fleet.reload(without)
    await fleet.polled(COMPARED)
    found = await fleet.samples()
    assert not [name for name in found if name.startswith("spec_decode_experiment_")]
    assert of(found["spec_decode_draft_cost_ratio"], target="eagle", source="experiment") == []
