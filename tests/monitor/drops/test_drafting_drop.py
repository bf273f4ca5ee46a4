"""Drops of drafting: fewer steps have a draft."""

from __future__ import annotations

from spec_decode_exporter.config.policy import DropPolicy
from spec_decode_exporter.drops.drop import DropKind
from spec_decode_exporter.monitor.drops.drop_detector import DecodeSteps, DropDetector
from tests.fixtures.windows import increment

HOUR = 3600


class Engine:
    """A detector that is fed second by second, at 20 decode steps a second with alike drafts."""

    def __init__(self, *, searches=True):
        self.detector = DropDetector(DropPolicy())
        self.searches = searches
        self.now = 0
        self.changes = []

    def run(self, seconds, *, drafts=10, accepted=20, steps=20):
        """Count for some seconds; ``accepted`` of 4 drafted tokens each are those of all drafts."""
        for _ in range(seconds):
            counted = None if steps is None else DecodeSteps(steps, self.searches)
            counts = {"drafts": drafts, "accepted_tokens": accepted}
            positions = (accepted // 2, accepted // 2)
            found = self.detector.observe(
                increment(self.now, self.now + 1, positions, **counts), steps=counted
            )
            self.now += 1
            self.changes += [(self.now, change) for change in found]

    @property
    def kinds(self):
        return [(change.kind, change.dropped) for _, change in self.changes]


def test_a_drafter_that_finds_almost_nothing_is_found_within_seconds():
    engine = Engine()
    engine.run(HOUR)
    engine.run(60, drafts=0, accepted=0)
    assert engine.kinds == [(DropKind.DRAFTING, True)]
    moment, change = engine.changes[0]
    assert moment - HOUR <= 5
    assert (change.baseline_length, change.length) == (2.0, 1.0)
    assert change.age == change.seconds
    live = engine.detector.status().live[DropKind.DRAFTING]
    assert (live.baseline_length, live.length, live.age) == (2.0, 1.0, 60.0)


def test_its_end_is_found_too():
    engine = Engine()
    engine.run(HOUR)
    engine.run(300, drafts=0, accepted=0)
    engine.run(60)
    assert engine.kinds == [(DropKind.DRAFTING, True), (DropKind.DRAFTING, False)]
    assert engine.changes[1][0] - HOUR - 300 <= 36
    assert engine.detector.status().live == {}


def test_drafts_that_are_accepted_less_are_a_sudden_drop_alone():
    engine = Engine()
    engine.run(HOUR)
    engine.run(300, accepted=6)
    assert engine.kinds == [(DropKind.SUDDEN, True)]


def test_an_idle_server_has_no_drop():
    engine = Engine()
    engine.run(HOUR)
    engine.run(HOUR, drafts=0, accepted=0, steps=0)
    engine.run(HOUR)
    assert engine.changes == []


def test_less_load_with_the_same_share_of_drafts_is_no_drop():
    engine = Engine()
    engine.run(HOUR, drafts=50, accepted=100, steps=100)
    engine.run(HOUR)
    assert engine.changes == []


def test_an_unknown_method_that_drafts_in_every_step_cannot_drop():
    engine = Engine(searches=False)
    engine.run(HOUR, drafts=20, accepted=40)
    engine.run(600, drafts=0, accepted=0)
    assert engine.changes == []


def test_an_unknown_method_that_pauses_cannot_drop():
    # As by a schedule for large batches that the server does not report.
    engine = Engine(searches=False)
    for _ in range(10):
        engine.run(240, drafts=20, accepted=40)
        engine.run(120, drafts=0, accepted=0)
    engine.run(1200, drafts=0, accepted=0)
    assert engine.changes == []


def test_an_unknown_method_that_drafts_in_some_steps_can():
    engine = Engine(searches=False)
    engine.run(HOUR)
    engine.run(60, drafts=0, accepted=0)
    assert engine.kinds == [(DropKind.DRAFTING, True)]


def test_without_decode_steps_it_is_off():
    engine = Engine()
    engine.run(HOUR, steps=None)
    assert DropKind.DRAFTING not in engine.detector.status().dropped
    assert DropKind.DRAFTING not in engine.detector.status().drops
    engine.run(HOUR)
    assert engine.detector.status().drops[DropKind.DRAFTING] == 0
    assert engine.detector.status().dropped[DropKind.DRAFTING] is False
    engine.run(1, steps=None)
    assert DropKind.DRAFTING not in engine.detector.status().dropped


def test_two_detectors_share_the_budget_of_false_alarms():
    one, two = Engine(), Engine()
    one.run(HOUR, steps=None)
    two.run(HOUR)
    assert (one.detector._sudden.shared_by, two.detector._sudden.shared_by) == (1, 2)
    alone, shared = (engine.detector._sudden._limits[0].threshold for engine in (one, two))
    weekly, twice = DropDetector(DropPolicy()), DropDetector(DropPolicy(false_alarm_period=14 * 86_400.0))
    for detector in (weekly, twice):
        for now in range(HOUR):
            detector.observe(increment(now, now + 1, (10, 10), drafts=10, accepted_tokens=20))
    assert alone == weekly._sudden._limits[0].threshold
    assert shared == twice._sudden._limits[0].threshold
    assert two.detector._drafting.shared_by == 2


def test_it_survives_a_restart_of_the_exporter():
    engine = Engine()
    engine.run(HOUR)
    other = Engine()
    assert other.detector.restore(engine.detector.saved())
    other.run(60, drafts=0, accepted=0)
    assert other.kinds == [(DropKind.DRAFTING, True)]


def test_a_state_of_an_earlier_version_has_no_such_drop():
    engine = Engine()
    engine.run(HOUR)
    saved = engine.detector.saved()
    del saved["drafting"]
    other = Engine()
    assert other.detector.restore(saved)
    assert set(other.detector.status().dropped) == {DropKind.SUDDEN}
