"""Recordings of draft models of two layers for a target of 24, replayed with a clock moved by hand.

The truth was measured beside each recording: the same traffic with and without speculation.
"""

import pytest

from spec_decode_exporter.analysis.end_to_end import EndToEndBasis
from spec_decode_exporter.analysis.knowledge import Assumptions
from spec_decode_exporter.analysis.speculation import Speculation
from spec_decode_exporter.analysis.verdict import Verdict
from spec_decode_exporter.config.comparison_settings import Architecture, CostSettings
from spec_decode_exporter.costs.cost import CostSource
from spec_decode_exporter.monitor.engine_monitor import EngineMonitor
from spec_decode_exporter.scrape.sample import SampleReader
from tests.fakes.engines import poll, trace

WALLS = {"draft_deep": 1_795_330_939.9, "deep_baseline": 1_795_369_287.8}
"""Unix time of the beginning of each."""
TOKEN, REQUEST = 2.37, 2.28
"""True speed-ups of the greedy requests of ``draft_deep``, three at a time, with K = 4."""
GREEDY_ENDS, MIXED_ENDS = 84.0, 148.0
COST = CostSettings(draft_cost_ratio=0.11, running_requests=3)
"""By the step times beside the recording: 66.6 ms with drafts, 40 to 53 ms without."""
BUSY_TOKEN, BUSY_REQUEST = 1.054, 1.002
"""True speed-ups of ``deep_baseline``: other programs kept the processor busy while it drafted."""


def snapshot_at(moment, *, name="draft_deep", architecture=None, cost=COST):
    """The engine's state at a moment of a trace."""
    speculation = Speculation(method="draft_model", architecture=architecture)
    monitor = EngineMonitor((30.0, 60.0, 120.0), Assumptions(speculation, cost))
    reader = SampleReader()
    for row in [row for row in trace(name) if row["t"] <= moment]:
        page = reader.read(row["page"].encode(), with_latencies=row["histograms"])
        [sample] = page.samples.values()
        poll(monitor, sample, row["t"], WALLS[name], 10.0)
    return monitor.snapshot


@pytest.mark.parametrize("architecture", [None, Architecture.DENSE])
@pytest.mark.parametrize("moment", [70.0, 75.0, GREEDY_ENDS])
def test_bounds_by_the_configured_cost_contain_the_truth(architecture, moment):
    evaluation = snapshot_at(moment, architecture=architecture).evaluation
    assert evaluation.longest.cost.source is CostSource.CONFIGURED
    for window in evaluation.windows:
        assert window.speedup_bounds.lower <= TOKEN <= window.speedup_bounds.upper
    request = evaluation.longest.request
    assert request.basis is EndToEndBasis.SAME_FIRST_TOKEN
    assert request.value == pytest.approx(REQUEST, rel=0.1)
    assert evaluation.verdict is Verdict.OPTIMAL


def test_requests_of_mixed_temperatures_that_lose_are_found_within_the_window_since_the_change():
    """A step with drafts took 66.6 ms for 1.06 tokens, a plain one at this load 40 to 53 ms."""
    evaluation = snapshot_at(MIXED_ENDS).evaluation
    lower, upper = 40 / 66.6 * 1.06, 53 / 66.6 * 1.06
    estimate = evaluation.verdict_window.speedup_bounds
    assert evaluation.verdict is Verdict.HARMFUL
    assert estimate.lower <= lower
    assert upper <= estimate.upper < 1


def test_time_without_speculation_becomes_the_baseline_of_requests_after_the_restart():
    before = snapshot_at(80.0, name="deep_baseline", cost=None)
    assert before.evaluation.known.baseline.seconds == pytest.approx(78, abs=1)
    after = snapshot_at(300.0, name="deep_baseline", cost=None)
    assert after.evaluation.known.baseline.seconds == pytest.approx(84, abs=1)
    bounds = after.evaluation.longest.speedup_bounds
    assert bounds.lower <= BUSY_TOKEN <= bounds.upper
    request = after.evaluation.longest.request
    assert request.basis is EndToEndBasis.BASELINE
    assert request.bounds.lower <= BUSY_REQUEST <= request.bounds.upper
    assert after.evaluation.verdict is Verdict.UNCLEAR
