"""Drops of drafting: fewer steps have a draft."""

from dataclasses import dataclass, field

import pytest

from spec_decode_exporter.config.policy import DropPolicy
from spec_decode_exporter.drops.detector import DecodeSteps
from spec_decode_exporter.drops.drops import Drops
from spec_decode_exporter.drops.sums import DropKind, LiveDrop, Sums, Transition
from tests.unit.drops.conftest import thresholds

HOUR = 3600
BEGAN, ENDED = Transition.BEGAN, Transition.ENDED
DRAFTING = DropKind.DRAFTING


@dataclass
class Engine:
    """Detectors that are fed second by second, at 20 decode steps a second with alike drafts."""

    drops: Drops = field(default_factory=lambda: Drops(DropPolicy()))
    searches: bool = True
    drafts_always: bool = False
    now: int = 0
    found: list = field(default_factory=list)

    def run(self, seconds, *, drafts=10, accepted=20, steps=20, requests=1):
        """Count for some seconds; ``accepted`` of 4 drafted tokens each are those of all drafts."""
        for _ in range(seconds):
            method = self.searches, self.drafts_always
            counted = None if steps is None else DecodeSteps(steps, *method, requests=requests)
            self.now += 1
            increment = Sums(1.0, drafts, accepted, 2 * accepted)
            self.found += [(self.now, drop) for drop in self.drops.observe(increment, counted)]
        return self

    @property
    def kinds(self):
        return [(drop.kind, drop.transition) for _, drop in self.found]


def test_a_drafter_that_finds_almost_nothing_and_its_end_are_found_within_seconds():
    engine = Engine().run(HOUR).run(300, drafts=0, accepted=0)
    [(moment, drop)] = engine.found
    assert (drop.kind, drop.transition, drop.baseline_length, drop.length) == (DRAFTING, BEGAN, 2.0, 1.0)
    assert moment - HOUR <= 5
    assert drop.age == drop.seconds
    assert engine.drops.status().live == {DRAFTING: LiveDrop(2.0, 1.0, 300.0)}
    engine.run(60)
    assert engine.kinds == [(DRAFTING, BEGAN), (DRAFTING, ENDED)]
    assert engine.found[1][0] - HOUR - 300 <= 36
    assert engine.drops.status().live == {}


@pytest.mark.parametrize(("requests", "found"), [(0, False), (1, True)])
def test_two_minutes_of_drafts_are_enough_if_many_requests_were_seen(requests, found):
    """A minute without drafts may be one request of 1200 tokens; none of 40 tokens takes that long."""
    engine = Engine().run(120, requests=requests).run(60, drafts=0, accepted=0, requests=requests)
    assert bool(engine.found) is found
    assert engine.drops.state.drafting.time.elapsed == 180, "nothing started again"


def test_requests_that_last_a_minute_are_known_after_hours():
    engine = Engine().run(4 * HOUR, requests=0).run(300, drafts=0, accepted=0, requests=0)
    assert engine.kinds == [(DRAFTING, BEGAN)]


@pytest.mark.parametrize(
    "before", [{"drafts": 0, "accepted": 0, "steps": 0}, {"drafts": 50, "accepted": 100, "steps": 100}]
)
def test_neither_an_idle_server_nor_less_load_is_a_drop(before):
    assert Engine().run(HOUR, **before).run(HOUR).found == []


@pytest.mark.parametrize(
    ("parts", "kinds"),
    [
        ([(HOUR, 10)], [(DRAFTING, BEGAN)]),  # some steps draft
        ([(HOUR, 20)], []),  # every step drafts
        ([(240, 20), (120, 0)] * 10, []),  # it pauses, as by a schedule that the server does not report
    ],
)
def test_an_unknown_method_can_only_drop_if_some_steps_draft_and_some_do_not(parts, kinds):
    engine = Engine(searches=False)
    for seconds, drafts in [*parts, (600, 0)]:
        engine.run(seconds, drafts=drafts, accepted=2 * drafts)
    assert engine.kinds == kinds


@pytest.mark.parametrize(
    ("drafts", "kinds"), [(10, [(DRAFTING, BEGAN)]), (19, []), (0, [])]
)  # half of the steps lost their draft; nearly none; a stall or a pause
def test_a_method_that_always_drafts_drops_if_a_part_of_the_steps_has_no_draft_any_more(drafts, kinds):
    engine = Engine(searches=False, drafts_always=True).run(HOUR, drafts=20, accepted=40)
    assert engine.drops.status().total.keys() == {DropKind.SUDDEN}
    engine.run(60, drafts=drafts, accepted=2 * drafts)
    assert engine.kinds == kinds
    assert engine.drops.status().total.get(DRAFTING, 0) == len(kinds)


def test_steps_that_never_draft_have_nothing_to_lose():
    engine = Engine(searches=False).run(3600, drafts=0, accepted=0)
    assert engine.found == []
    assert engine.drops.state.drafting.time.elapsed == 3600, "nothing started again"


def test_a_few_seconds_without_drafts_are_no_drop_of_a_method_that_always_drafts():
    engine = Engine(searches=False, drafts_always=True)
    for seconds, drafts in ((HOUR, 20), (2, 5), (100, 20)):
        engine.run(seconds, drafts=drafts, accepted=2 * drafts)
    assert engine.found == []


def test_two_detectors_share_the_budget_of_false_alarms():
    both, alone = Engine().run(HOUR), Engine().run(HOUR, steps=None)
    twice = Engine(Drops(DropPolicy(false_alarm_period=14 * 86_400.0))).run(HOUR, steps=None)
    found = [thresholds(each.drops, each.drops.state.sudden) for each in (both, alone, twice)]
    assert found[1] < found[0] == found[2]
