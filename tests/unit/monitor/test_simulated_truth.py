"""Estimates from a server's pages, compared with the simulated ground truth."""

import pytest

from spec_decode_exporter.analysis.evaluation import Basis
from spec_decode_exporter.analysis.knowledge import Assumptions
from spec_decode_exporter.analysis.speculation import Speculation
from spec_decode_exporter.analysis.verdict import Advice, Decision, Verdict
from spec_decode_exporter.config.comparison_settings import CostSettings
from spec_decode_exporter.monitor.engine_monitor import EngineMonitor
from spec_decode_exporter.scrape.sample import SampleReader
from spec_decode_exporter.simulator.simulation import Simulation
from spec_decode_exporter.simulator.vllm_page import metrics_page
from tests.fakes.scenarios import scenario as load_scenario
from tests.fakes.scenarios import speedup

START = 1_790_000_000.0


def evaluated(scenario, seconds):
    """The evaluation of a simulated server that was polled for some seconds, and evaluated each ten or where it is urgent."""
    simulation, reader = Simulation(scenario, seed=3), SampleReader()
    cost = CostSettings.model_validate(scenario.target_settings()["cost"])
    watch = EngineMonitor((30.0, 300.0), Assumptions(Speculation("draft_model", "configured"), cost))
    for second in range(1, seconds + 1):
        simulation.advance(1.0)
        histograms = second % 10 == 0
        page = metrics_page(simulation, start=START)
        (sample,) = reader.read(page, with_latencies=histograms).samples.values()
        watch.observe(sample, float(second), START + second, 1.0, 10.0)
        if histograms or watch.is_urgent:
            watch.evaluate()
    return watch.snapshot.evaluation


def test_the_speedup_of_an_overload_is_estimated_and_the_verdict_is_about_the_time_after_it():
    # From 210 s on one request a second arrives: drafting pays again, and did not over five minutes.
    scenario, seconds = load_scenario("overload"), 330
    evaluation = evaluated(scenario, seconds)
    for its in evaluation.windows:
        true = speedup(scenario, seconds - its.window.length, seconds, seed=3)
        # What is left is the time for prompts, which a step with drafts shares with one without.
        assert its.estimated_speedup_ratio == pytest.approx(true, rel=0.1)
    assert evaluation.longest.speedup_bounds.value < 1 < evaluation.windows[0].speedup_bounds.lower
    assert evaluation.basis is Basis.SHORTER
    assert evaluation.computed_decision == Decision(Verdict.HEALTHY, Advice())
