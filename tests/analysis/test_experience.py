"""What is learnt of an engine over hours, and when it starts anew."""

from __future__ import annotations

from dataclasses import replace

import pytest

from exporter.analysis.drop import DropKind
from exporter.analysis.experience import Experience
from exporter.analysis.judgement import Assumptions
from exporter.analysis.speculation import Speculation
from exporter.window.engine import EngineHistory

WALL = 1_790_000_000.0
EAGLE = Assumptions(Speculation("eagle3"))


class Fed:
    """An engine that drafts K tokens 40 times a second, or pauses, at 8 running requests."""

    def __init__(self, make_sample, assumptions=EAGLE):
        self.make_sample = make_sample
        self.history = EngineHistory(300.0)
        self.experience = Experience(assumptions)
        self.moment = 0.0
        self.created = WALL
        self.counts = dict.fromkeys(("drafts", "tokens", "accepted", "steps", "seconds"), 0)
        self.positions = ()
        self.changes = []

    def run(self, seconds, *, length=3.0, tokens=4, drafts=40, step=0.02):
        for _ in range(seconds):
            self._second(length, tokens, drafts, step)

    def restart(self):
        self.created = WALL + self.moment + 0.5
        self.counts = dict.fromkeys(self.counts, 0)
        self.positions = ()

    def _second(self, length, tokens, drafts, step):
        self.moment += 1.0
        counts, steps = self.counts, 400
        # Every other second a little more and less, so that there is chance.
        accepted = round((length - 1 + (0.1 if self.moment % 2 else -0.1)) * drafts)
        counts["drafts"] += drafts
        counts["tokens"] += tokens * drafts
        counts["accepted"] += accepted
        counts["steps"] += steps
        counts["seconds"] += round(steps * step * 1e9)
        share, rest = divmod(accepted, tokens) if tokens else (0, 0)
        grown = [share + (place < rest) for place in range(tokens)]
        before = self.positions or (0,) * tokens
        self.positions = tuple(old + new for old, new in zip(before, grown, strict=True))
        sample = self.make_sample(
            counts["drafts"],
            counts["tokens"],
            counts["accepted"],
            positions=self.positions,
            decode_steps=counts["steps"],
            decode_nanoseconds=counts["seconds"],
            running_requests=8.0,
            created=self.created,
        )
        taken = self.history.observe(sample, self.moment, WALL + self.moment, 1.0)
        if taken.increment:
            self.changes += self.experience.observe(taken.increment, sample, self.history)

    @property
    def baseline(self):
        return self.experience.drops().baseline_length


@pytest.fixture(name="fed")
def fed_fixture(make_sample):
    return Fed(make_sample)


def test_a_sudden_drop_is_told_when_it_begins_and_when_it_ends(fed):
    fed.run(300)
    assert fed.baseline == pytest.approx(3.0, abs=0.02)
    fed.run(30, length=1.8)
    assert [(change.kind, change.dropped) for change in fed.changes] == [(DropKind.SUDDEN, True)]
    assert fed.experience.drops().dropped[DropKind.SUDDEN]
    fed.run(120)
    assert [(change.kind, change.dropped) for change in fed.changes][1:] == [(DropKind.SUDDEN, False)]
    assert fed.experience.drops().drops == {DropKind.SUDDEN: 1, DropKind.SLOW: 0}


def test_a_pause_of_drafting_under_load_tells_what_drafting_costs(fed):
    fed.run(200, step=0.028)
    fed.run(200, drafts=0, step=0.02)
    ((load, cost),) = [(known.running_requests, known.draft_cost_ratio) for known in fed.experience.costs()]
    # 0.4 plain steps more for 40 drafts of 4 tokens on 400 steps; part of it is what eagle3 pays in any case.
    assert load == pytest.approx(8.0)
    assert 0 < cost < 0.4 / 0.4


def test_another_k_begins_the_baseline_anew(fed):
    fed.run(200)
    fed.restart()
    fed.run(30, tokens=5)
    assert fed.baseline is None


def test_a_restart_with_the_same_k_goes_on_with_the_baseline(fed):
    fed.run(200)
    fed.restart()
    fed.run(30)
    assert fed.baseline == pytest.approx(3.0, abs=0.02)


@pytest.mark.parametrize("other", [Speculation("mtp"), Speculation("eagle3", draft_model="other")])
def test_another_drafter_begins_everything_anew(fed, other):
    fed.run(200)
    fed.experience.assume(Assumptions(other))
    assert fed.baseline is None


def test_other_thresholds_do_not(fed):
    fed.run(200)
    policy = EAGLE.policy.model_copy(update={"min_drafts": 7})
    fed.experience.assume(replace(EAGLE, policy=policy))
    assert fed.baseline is not None


class TestWhatIsSaved:
    def test_is_there_at_once_after_a_restart_of_the_exporter(self, fed, make_sample):
        fed.run(300)
        again = Fed(make_sample)
        again.experience.remember(fed.experience.saved(fed.history.tokens))
        assert again.baseline is None  # nobody knows yet whether the engine is the same
        again.run(2)
        assert again.baseline == pytest.approx(fed.baseline, abs=0.002)

    @pytest.mark.parametrize(
        "changed",
        [{"tokens": 3}, {"method": "mtp"}, {"drops": {"sudden": 7}}, {"drops": None}, {"drops": {}}],
    )
    def test_of_an_engine_that_drafts_otherwise_or_that_is_not_understood_is_left_aside(
        self, fed, make_sample, changed
    ):
        fed.run(300)
        again = Fed(make_sample)
        again.experience.remember({**fed.experience.saved(4), **changed})
        again.run(2)
        assert again.baseline is None
