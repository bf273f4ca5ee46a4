"""A recording of a draft model that speeds up its server, replayed with a clock moved by hand.

The truth was measured beside the recording: the same traffic with and without speculation.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from spec_decode_exporter.analysis.cost_source import CostSource
from spec_decode_exporter.analysis.end_to_end import EndToEndBasis
from spec_decode_exporter.analysis.evaluation import Assumptions
from spec_decode_exporter.analysis.speculation import Speculation
from spec_decode_exporter.analysis.verdict import Verdict
from spec_decode_exporter.config.cost_settings import Architecture, CostSettings
from spec_decode_exporter.core.cooperative_yield import finish
from spec_decode_exporter.monitor.engine_monitor import EngineMonitor
from spec_decode_exporter.scrape.page.sample_reader import SampleReader

TRACE = Path(__file__).parents[1] / "traces" / "draft_deep.jsonl.gz"
WALL = 1_795_330_939.9
"""Unix time of its beginning."""
TOKEN, REQUEST = 2.37, 2.28
"""True speed-ups of its greedy requests, three at a time, with K = 4."""
GREEDY_ENDS, MIXED_ENDS = 84.0, 148.0
SIZES = CostSettings(draft_parameters=5_769_728, target_parameters=63_463_936)


def evaluated_at(moment, *, architecture=None, cost=SIZES):
    """The evaluation at a moment of the trace."""
    speculation = Speculation(method="draft_model", architecture=architecture)
    monitor = EngineMonitor((30.0, 60.0, 120.0), Assumptions(speculation, cost))
    reader = SampleReader()
    with gzip.open(TRACE, "rt") as lines:
        rows = [row for row in map(json.loads, lines) if "page" in row and row["t"] <= moment]
    for row in rows:
        page = finish(reader.read(row["page"].encode(), with_latencies=row["histograms"]))
        [sample] = page.samples.values()
        monitor.observe(sample, row["t"], WALL + row["t"], 1.0, 10.0)
    return monitor.snapshot(rows[-1]["t"]).evaluation


@pytest.mark.parametrize("architecture", [None, Architecture.DENSE])
@pytest.mark.parametrize("moment", [70.0, 75.0, GREEDY_ENDS])
def test_bounds_by_the_sizes_of_the_models_contain_the_truth(architecture, moment):
    evaluation = evaluated_at(moment, architecture=architecture)
    assert evaluation.cost.source is CostSource.SIZES
    for bounds in evaluation.bounds:
        assert bounds.speedup.lower <= TOKEN <= bounds.speedup.upper
    request = evaluation.request
    assert request.basis is EndToEndBasis.SAME_FIRST_TOKEN
    assert request.bounds.lower <= REQUEST <= request.bounds.upper


def test_that_it_pays_is_certain_only_with_a_known_architecture():
    assert evaluated_at(GREEDY_ENDS).verdict is Verdict.UNCLEAR
    assert evaluated_at(GREEDY_ENDS, architecture=Architecture.DENSE).verdict is Verdict.MARGINAL


def test_without_sizes_there_is_no_speedup_and_no_claim():
    evaluation = evaluated_at(GREEDY_ENDS, cost=None)
    assert evaluation.verdict is Verdict.UNCLEAR
    assert evaluation.cost is None
    assert evaluation.request is None


def test_requests_of_mixed_temperatures_that_lose_are_found_within_the_window_since_the_change():
    """A step with drafts took 66.6 ms for 1.06 tokens, a plain one at this load 40 to 53 ms."""
    evaluation = evaluated_at(MIXED_ENDS)
    lower, upper = 40 / 66.6 * 1.06, 53 / 66.6 * 1.06
    estimate = evaluation.evaluated.bounds.speedup
    assert evaluation.verdict is Verdict.HARMFUL
    assert estimate.lower <= lower
    assert upper <= estimate.upper < 1
