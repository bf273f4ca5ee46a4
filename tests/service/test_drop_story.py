"""Story of a drop: a simulated server whose acceptance falls for two minutes and recovers, with a moved clock.

At no time may the verdict be about the time before the last detected change.
"""

from __future__ import annotations

from itertools import pairwise

import pytest

from spec_decode_exporter.analysis.evaluation import Basis
from spec_decode_exporter.analysis.knowledge import Assumptions
from spec_decode_exporter.analysis.speculation import Speculation
from spec_decode_exporter.analysis.verdict import Action, Verdict
from spec_decode_exporter.config.cost_settings import CostSettings
from spec_decode_exporter.drops.sums import DropKind
from spec_decode_exporter.monitor.engine_monitor import EngineMonitor
from spec_decode_exporter.scrape.sample import SampleReader
from spec_decode_exporter.simulator.scenario import load_scenario
from spec_decode_exporter.simulator.simulation import Simulation
from spec_decode_exporter.simulator.vllm_page import metrics_page
from spec_decode_exporter.views.verdict_text import recommendation_text, verdict_text
from tests.fakes.engines import poll

START = 1_790_000_000.0
DROP, RECOVERY, END = 120, 240, 470
"""Seconds of the scenario; the next drop begins after 480."""
DETECTED = 15
"""Seconds in which the drop must be detected."""
RECOVERED = 40
"""Seconds in which the recovery must be detected: requests of before still run."""
PAYS = {Verdict.MARGINAL, Verdict.HEALTHY, Verdict.OPTIMAL}
ABOUT_THE_DRAFTER = {
    "low_first_position",
    "wasted_last_position",
    "low_rate",
    "cliff",
    "drafter_dead",
}


class Story:
    """All snapshots and events of a run."""

    def __init__(self):
        scenario = load_scenario("drop")
        simulation, reader = Simulation(scenario, seed=3), SampleReader()
        cost = CostSettings.model_validate(scenario.target_settings()["cost"])
        watch = EngineMonitor((30.0, 300.0), Assumptions(Speculation("draft_model", "configured"), cost))
        self.snapshots, self.events = {}, []
        for second in range(1, END + 1):
            simulation.advance(1.0)
            page = metrics_page(simulation, start=START)
            histograms = second % 10 == 0
            (sample,) = reader.read(page, with_latencies=histograms).samples.values()
            events = poll(watch, sample, float(second), START, 10.0)
            self.events += [(second, event) for event in events]
            self.snapshots[second] = watch.snapshot

    def between(self, first, last):
        """Yield the snapshots of some seconds."""
        return [self.snapshots[second] for second in range(first, last)]

    def of_type(self, name):
        return [(second, event) for second, event in self.events if event.name == name]


@pytest.fixture(name="story", scope="module")
def story_fixture():
    return Story()


def test_there_is_an_early_verdict_within_a_minute_which_stays(story):
    first = next(
        second
        for second, snapshot in story.snapshots.items()
        if snapshot.evaluation.verdict is not Verdict.INSUFFICIENT
    )
    assert first <= 40
    assert story.snapshots[first].evaluation.is_early
    assert f"(early, from {first - 1} s)" in verdict_text(story.snapshots[first])
    verdicts = [snapshot.evaluation.verdict for snapshot in story.between(40, DROP)]
    assert set(verdicts) == {Verdict.OPTIMAL}


def test_the_drop_and_its_end_are_detected_in_seconds_and_so_the_log_tells(story):
    ((second, dropped),) = story.of_type("acceptance_dropped")
    assert DROP < second <= DROP + DETECTED
    assert dropped.fields["since"] in {f"2026-09-21T14:15:{each:02}Z" for each in range(18, 25)}
    ((second, recovered),) = story.of_type("acceptance_recovered")
    assert RECOVERY < second <= RECOVERY + RECOVERED
    assert recovered.fields["length"] > 3
    logged = [(second, event.fields["verdict"]) for second, event in story.of_type("verdict_changed")]
    assert logged[0][1] == logged[-1][1] == "optimal"
    during = [verdict for second, verdict in logged if DROP + DETECTED < second < RECOVERY]
    assert not set(during) & {"optimal", "healthy"}
    assert all(one != other for (_, one), (_, other) in pairwise(logged))


def test_without_enough_evidence_since_the_drop_the_headline_is_the_drop(story):
    unsure = [
        snapshot
        for snapshot in story.between(DROP + DETECTED, DROP + 100)
        if snapshot.evaluation.verdict is Verdict.INSUFFICIENT
    ]
    assert unsure
    for snapshot in unsure:
        assert verdict_text(snapshot).startswith("Acceptance dropped at 14:15:2")
        assert "a verdict needs" in verdict_text(snapshot)
        assert snapshot.evaluation.action is Action.COLLECT
        assert recommendation_text(snapshot).startswith("No advice")


def test_during_the_drop_speculation_never_pays_well_and_is_not_kept_as_it_is(story):
    # Within the drop one draft gives 1.4 tokens and costs 1.28 steps.
    for snapshot in story.between(DROP + DETECTED, RECOVERY):
        assert snapshot.evaluation.verdict not in {Verdict.HEALTHY, Verdict.OPTIMAL}
        assert snapshot.evaluation.action is not Action.KEEP
    last = story.snapshots[RECOVERY - 1]
    assert last.evaluation.verdict not in PAYS | {Verdict.INSUFFICIENT}
    assert last.evaluation.basis is Basis.CHANGE
    (finding,) = (finding for finding in last.findings if finding.name == "sudden_drop")
    assert finding.text.startswith("Acceptance dropped at 14:15:2")
    assert "1 min 5" in finding.text
    assert finding.values["length"] < 1.6
    assert finding.values["baseline"] > 3


def test_after_the_recovery_nothing_is_about_the_drop_and_speculation_pays_again(story):
    ((recovered, _),) = story.of_type("acceptance_recovered")
    for snapshot in story.between(recovered, END):
        names = {finding.name for finding in snapshot.findings}
        assert not names & {"sudden_drop", *ABOUT_THE_DRAFTER}
        assert DropKind.SUDDEN not in snapshot.drops.live
    for snapshot in story.between(RECOVERY + RECOVERED, END):
        assert snapshot.evaluation.verdict is Verdict.OPTIMAL
        assert snapshot.evaluation.action in {Action.KEEP, Action.COLLECT}
        assert "since the change at 14:17:" in verdict_text(snapshot)


def test_no_shorter_window_excludes_a_verdict(story):
    for evaluation in (snapshot.evaluation for snapshot in story.between(60, END)):
        shortest, evaluated = evaluation.windows[0], evaluation.evaluated
        shorter = shortest.speedup_bounds
        if shorter is None or evaluated.window.seconds <= shortest.window.seconds:
            continue
        least = {Verdict.OPTIMAL: 2.0, **dict.fromkeys(PAYS - {Verdict.OPTIMAL}, 1.1)}
        assert shorter.upper >= least.get(evaluation.verdict, 0.0)
