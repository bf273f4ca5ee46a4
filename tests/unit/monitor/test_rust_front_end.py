"""vLLM's Rust front end: recorded pages of 0.32 and 0.33, and simulated ones."""

from __future__ import annotations

import gzip
import json

import pytest

from spec_decode_exporter.analysis.verdict import State
from spec_decode_exporter.monitor.engine_monitor import EngineMonitor
from spec_decode_exporter.scrape.engines import Counter
from spec_decode_exporter.scrape.sample import SampleReader
from spec_decode_exporter.simulator.scenario import Scenario
from spec_decode_exporter.simulator.simulation import Simulation
from spec_decode_exporter.simulator.vllm_page import metrics_page
from tests.fakes.engines import poll
from tests.paths import DATA

TRACES = DATA / "traces"
WINDOWS = (10.0, 30.0, 300.0)
WALL = 1_795_000_000.0


class Watched:
    """Monitor of the only engine of pages of the Rust front end."""

    def __init__(self):
        self.monitor = EngineMonitor(WINDOWS)
        self.monitor.history.always_counts_drafts = True
        self.reader = SampleReader()
        self.moment = 0.0

    def poll(self, page, moment):
        reading = self.reader.read(page, with_latencies=False)
        assert reading.front_end == "rust"
        [sample] = reading.samples.values()
        self.moment = moment
        poll(self.monitor, sample, moment, WALL, 10.0)
        return sample

    def snapshot(self):
        return self.monitor.snapshot


def recorded(name):
    """Yield the monitor, and the sample, after every poll of a recording."""
    watched = Watched()
    with gzip.open(TRACES / f"{name}.jsonl.gz", "rt") as lines:
        for row in map(json.loads, lines):
            yield watched, watched.poll(row["page"].encode(), row["t"])


def simulated(seconds, **keys):
    """Yield the monitor after every poll of a simulated server."""
    simulation = Simulation(Scenario.model_validate({"front_end": "rust", **keys}), seed=1)
    watched = Watched()
    for second in range(1, seconds + 1):
        simulation.advance(1.0)
        watched.poll(metrics_page(simulation), float(second))
        yield watched


@pytest.mark.parametrize("name", ["rust32_tiny", "rust33_tiny"])
def test_the_steps_of_a_recording_do_not_lag_and_are_used_on_every_window(name):
    for watched, sample in recorded(name):
        drafts, steps = sample[Counter.DRAFTS] or 0, sample[Counter.DECODE_STEPS] or 0
        assert abs(drafts - steps) <= 3
        for window in watched.snapshot().evaluation.windows:
            if sample[Counter.DECODE_STEPS] is not None:
                assert None not in (window.total.decode_steps, window.total.decode_nanoseconds)
    for window in watched.snapshot().evaluation.windows[1:]:
        assert window.coverage_ratio == pytest.approx(1.0, abs=0.01)
        assert window.effective_tokens_per_step > 1.0


@pytest.mark.parametrize("name", ["rust32_tiny", "rust33_tiny"])
def test_positions_in_random_order_give_the_sums_of_the_recording(name):
    *_, (watched, sample) = recorded(name)
    assert len(sample.positions) == 4
    assert sum(sample.positions) == sample[Counter.ACCEPTED_TOKENS]
    assert sorted(sample.positions, reverse=True) == list(sample.positions)
    assert watched.snapshot().broken == frozenset()


def test_a_fresh_server_is_not_known_yet_until_its_first_draft():
    states = [watched.snapshot().evaluation.state for watched, _ in recorded("rust32_tiny")]
    assert states[0] is State.UNKNOWN
    assert set(states[1:]) == {State.ACTIVE}


def test_a_server_that_decodes_without_drafts_is_disabled():
    states = [
        watched.snapshot().evaluation.state
        for watched in simulated(
            60,
            speculation={"tokens": 0},
            load={"concurrency": 0},
            phases=[{"at": "30s", "load": {"concurrency": 4}}],
        )
    ]
    assert set(states[:30]) == {State.UNKNOWN}
    assert set(states[35:]) == {State.DISABLED}
