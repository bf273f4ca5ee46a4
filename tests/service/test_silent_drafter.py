"""Story of an n-gram drafter that finds nothing to draft any more: its few drafts are accepted as before."""

from __future__ import annotations

import pytest

from spec_decode_exporter.analysis.knowledge import Assumptions
from spec_decode_exporter.analysis.speculation import Speculation
from spec_decode_exporter.analysis.verdict import Action, Verdict
from spec_decode_exporter.config.batch_schedule import NO_SCHEDULE, BatchSchedule
from spec_decode_exporter.config.cost_settings import CostSettings
from spec_decode_exporter.monitor.engine_monitor import EngineMonitor
from spec_decode_exporter.views.verdict_text import verdict_text
from tests.fakes.engines import poll

WALL = 1_790_000_000.0
SILENT = 420
PAYS = {Verdict.MARGINAL, Verdict.HEALTHY, Verdict.OPTIMAL}


@pytest.fixture(name="run")
def run_fixture(make_sample):
    def run(seconds, method="ngram", schedule=NO_SCHEDULE):
        """Return the monitor, its events and its snapshots after ``SILENT``, of one poll a second."""
        speculation = Speculation(method, "configured", schedule=schedule)
        watch = EngineMonitor((30.0, 300.0), Assumptions(speculation, CostSettings(draft_cost_ratio=0.05)))
        drafts, steps, events, snapshots = 0, 0, [], {}
        for second in range(seconds):
            drafts += (40 + second % 3) if second < SILENT else second % 2
            steps += 80
            sample = make_sample(
                drafts,
                4 * drafts,
                2 * drafts,
                positions=(drafts, drafts, 0, 0),
                decode_steps=steps,
                generation_tokens=steps + 2 * drafts + second,
                first_tokens=second,
                running_requests=4.0,
            )
            found = poll(watch, sample, float(second), WALL, 10.0)
            events += [(second, event) for event in found]
            if second >= SILENT:
                snapshots[second] = watch.snapshot
        return events, snapshots

    return run


def test_it_is_found_within_seconds_and_the_verdict_does_not_say_that_it_pays(run):
    events, snapshots = run(SILENT + 290)
    ((second, event),) = [each for each in events if each[1].name == "drafting_dropped"]
    assert second < SILENT + 10
    assert event.fields["length"] < 1.2 < event.fields["baseline_length"]
    assert not [each for each in events if each[1].name == "acceptance_dropped"]
    for snapshot in (snapshots[each] for each in range(second, SILENT + 290)):
        evaluation = snapshot.evaluation
        assert evaluation.verdict not in PAYS
        assert "drafting_drop" in {finding.name for finding in snapshot.findings}
        if evaluation.verdict is Verdict.INSUFFICIENT:
            assert evaluation.action is Action.COLLECT
            assert verdict_text(snapshot).startswith("Drafting dropped at 14:20:")


def test_without_the_detector_the_short_window_overrules_the_long_one_after_three_minutes(run):
    # A method that is said to draft in every step has no such detector. The short window contradicts from 30 s on.
    events, snapshots = run(SILENT + 215, method="draft_model")
    assert not [each for each in events if each[1].name == "drafting_dropped"]
    for second in range(SILENT + 210, SILENT + 215):
        assert snapshots[second].evaluation.verdict is Verdict.INSUFFICIENT


def test_a_known_schedule_is_no_drop(run):
    events, _ = run(SILENT + 60, schedule=BatchSchedule((1, 4), (4, 0)))
    assert not [each for each in events if "drop" in each[1].name]
