"""Estimates from a server's pages, compared with the simulated ground truth."""

import pytest

from spec_decode_exporter.analysis.evaluation import Basis
from spec_decode_exporter.analysis.knowledge import Assumptions
from spec_decode_exporter.analysis.speculation import Speculation
from spec_decode_exporter.analysis.verdict import Advice, Decision, Verdict
from spec_decode_exporter.config.cost_settings import CostSettings
from spec_decode_exporter.costs.cost import CostSource
from spec_decode_exporter.monitor.engine_monitor import EngineMonitor
from spec_decode_exporter.scrape.sample import SampleReader
from spec_decode_exporter.simulator.simulation import Simulation
from spec_decode_exporter.simulator.vllm_page import metrics_page
from tests.fakes.scenarios import scenario as load_scenario
from tests.fakes.scenarios import speedup

START = 1_790_000_000.0


def watched(scenario, seconds, *, cost):
    """A watch that has polled a simulated server for some seconds, and evaluated it each ten and where it is urgent."""
    simulation, reader = Simulation(scenario, seed=3), SampleReader()
    settings = None if cost is None else CostSettings.model_validate(cost)
    assumptions = Assumptions(Speculation("draft_model", "configured"), settings)
    watch = EngineMonitor((30.0, 300.0), assumptions)
    for second in range(1, seconds + 1):
        simulation.advance(1.0)
        if not simulation.serving:
            continue
        histograms = second % 10 == 0
        page = metrics_page(simulation, start=START)
        (sample,) = reader.read(page, with_latencies=histograms).samples.values()
        watch.observe(sample, float(second), START + second, 1.0, 10.0)
        if histograms or watch.is_urgent:
            watch.evaluate()
    return watch


def test_the_speedup_of_an_overload_is_estimated_and_the_verdict_is_about_the_time_after_it():
    # From 210 s on one request a second arrives: drafting pays again, and did not over five minutes.
    scenario, seconds = load_scenario("overload"), 330
    evaluation = watched(scenario, seconds, cost=scenario.target_settings()["cost"]).snapshot.evaluation
    for its in evaluation.windows:
        true = speedup(scenario, seconds - its.window.length, seconds, seed=3)
        # What is left is the time for prompts, which a step with drafts shares with one without.
        assert its.estimated_speedup_ratio == pytest.approx(true, rel=0.1)
    assert evaluation.longest.speedup_bounds.value < 1 < evaluation.windows[0].speedup_bounds.lower
    assert evaluation.basis is Basis.SHORTER
    assert evaluation.computed_decision == Decision(Verdict.HEALTHY, Advice())


def test_a_server_that_enables_speculation_is_compared_with_its_time_without():
    scenario = load_scenario("enable")
    watch = watched(scenario, 640, cost=None)
    findings = watch.snapshot
    assert findings.evaluation.known.baseline.name == "5 min without speculation on 21 September"
    assert findings.evaluation.longest.cost.source is CostSource.BASELINE
    # Steps with drafts share more prompts, since requests end sooner: the cost contains that, as the truth does.
    true = speedup(load_scenario("steady"), 0, 600, seed=3)
    its = findings.evaluation.longest
    gained, (measured,) = its.speedup_ceiling_ratio, its.known.cost.measured
    for _, (low, _, high) in measured.points:
        assert gained / (1 + 4 * high) < true < gained / (1 + 4 * low)
        assert high - low < 0.09
    request = its.known.baseline
    assert request.prefix_hit_ratio == pytest.approx(0.25, abs=0.03)
