"""What is learned about an engine: cost, drops, its resets and its persisted state."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pydantic import TypeAdapter

from spec_decode_exporter.analysis.knowledge import Assumptions
from spec_decode_exporter.analysis.speculation import Speculation
from spec_decode_exporter.drops.drops import DropState
from spec_decode_exporter.drops.sums import DropKind, Transition
from spec_decode_exporter.learned.learned import Drafter, Learned, LearnedState
from spec_decode_exporter.window.history import History

SAVED = TypeAdapter(LearnedState)
WALL = 1_790_000_000.0
EAGLE = Assumptions(Speculation("eagle3"))


class Fed:
    """An engine that drafts K tokens 40 times a second, or pauses, at 8 running requests."""

    def __init__(self, make_sample, assumptions=EAGLE):
        self.make_sample = make_sample
        self.history = History(300.0)
        self.learned = Learned(assumptions)
        self.moment = 0.0
        self.created = WALL
        self.counts = dict.fromkeys(("drafts", "tokens", "accepted", "steps", "seconds"), 0)
        self.positions = ()
        self.shows_positions = True
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
        counts, steps = self.counts, round(8 / step)
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
            positions=self.positions if self.shows_positions else (),
            decode_steps=counts["steps"],
            decode_nanoseconds=counts["seconds"],
            running_requests=8.0,
            created=self.created,
        )
        taken = self.history.observe(sample, self.moment, WALL + self.moment, 1.0)
        if taken.increment:
            self.changes += self.learned.observe(taken.increment, sample, self.history)

    @property
    def baseline(self):
        return self.learned.drops.status().baseline_length


@pytest.fixture(name="fed")
def fed_fixture(make_sample):
    return Fed(make_sample)


def test_a_sudden_drop_is_returned_at_its_begin_and_at_its_end(fed):
    fed.run(300)
    assert fed.baseline == pytest.approx(3.0, abs=0.02)
    fed.run(30, length=1.8)
    assert [(change.kind, change.transition) for change in fed.changes] == [
        (DropKind.SUDDEN, Transition.BEGAN)
    ]
    assert fed.learned.drops.status().dropped[DropKind.SUDDEN]
    fed.run(120)
    assert [(change.kind, change.transition) for change in fed.changes[1:]] == [
        (DropKind.SUDDEN, Transition.ENDED)
    ]
    assert fed.learned.drops.status().drops == {DropKind.SUDDEN: 1, DropKind.SLOW: 0}


def test_a_pause_of_drafting_under_load_yields_the_cost(fed):
    fed.run(200, drafts=286, step=0.028)
    fed.run(200, drafts=0, step=0.02)
    ((cost,),) = (curve.points for curve in fed.learned.costs())
    # 0.4 plain steps more for 4 tokens, and for what eagle3 pays in any case: 0.10 / 0.07 tokens.
    assert cost.running_requests == pytest.approx(8.0)
    assert cost.token.guess == pytest.approx(0.4 / (4 + 0.10 / 0.07))


def test_another_k_begins_the_baseline_again(fed):
    fed.run(200)
    fed.restart()
    fed.run(30, tokens=5)
    assert fed.baseline is None


def test_a_restart_with_the_same_k_goes_on_with_the_baseline(fed):
    fed.run(200)
    fed.restart()
    fed.run(30)
    assert fed.baseline == pytest.approx(3.0, abs=0.02)


@pytest.mark.parametrize(
    "other", [Speculation("mtp"), Speculation("eagle3", draft_model="other"), Speculation("mtp", "", "one")]
)
def test_another_drafter_begins_everything_again(make_sample, other):
    fed = Fed(make_sample, Assumptions(Speculation("eagle3", draft_model="one")))
    fed.run(200)
    fed.learned.assume(Assumptions(other))
    assert fed.baseline is None


class TestADrafterThatIsNotKnown:
    """A drafter that is unknown for a while, or becomes known later, is the same."""

    @pytest.mark.parametrize(
        "others",
        [
            [Speculation()],
            [Speculation(), Speculation("eagle3")],
            [Speculation("eagle3", draft_model="one"), Speculation(), Speculation(draft_model="one")],
        ],
    )
    def test_begins_nothing_again(self, fed, others):
        fed.run(200)
        for other in others:
            fed.learned.assume(Assumptions(other))
        assert fed.baseline is not None

    def test_is_compared_with_the_last_known_one(self, fed):
        fed.run(200)
        fed.learned.assume(Assumptions(Speculation()))
        fed.learned.assume(Assumptions(Speculation("mtp")))
        assert fed.baseline is None

    def test_was_the_one_that_is_remembered(self, fed, make_sample):
        fed.run(300)
        again = Fed(make_sample, Assumptions())
        again.learned.remember(fed.learned.state)
        again.run(2)
        assert again.baseline is not None
        assert again.learned.state.drafter.method == "eagle3"
        again.learned.assume(EAGLE)
        assert again.baseline is not None
        again.learned.assume(Assumptions(Speculation("mtp")))
        assert again.baseline is None


def test_other_thresholds_do_not(fed):
    fed.run(200)
    policy = EAGLE.policy.model_copy(update={"min_drafts": 7})
    fed.learned.assume(replace(EAGLE, policy=policy))
    assert fed.baseline is not None


class TestWhatIsSaved:
    @pytest.fixture(name="saved")
    def saved_fixture(self, fed):
        fed.run(300)
        return SAVED.validate_json(SAVED.dump_json(fed.learned.state))

    @pytest.fixture(name="again")
    def again_fixture(self, saved, make_sample):
        """The same engine after a restart of the exporter."""
        again = Fed(make_sample)
        again.learned.remember(saved)
        return again

    def test_is_there_at_once_after_a_restart_of_the_exporter(self, fed, again):
        assert again.baseline is None  # it is not known yet whether the engine is the same
        again.run(2)
        assert again.baseline == pytest.approx(fed.baseline, abs=0.002)

    @pytest.mark.parametrize(
        "changed", [{"tokens": 3}, {"tokens": 0}, {"drafter": Drafter("mtp")}, {"drops": DropState()}]
    )
    def test_of_another_drafter_or_k_or_without_drops_is_ignored(self, saved, again, changed):
        again.learned.remember(replace(saved, **changed))
        again.run(2)
        assert again.baseline is None

    @pytest.mark.parametrize("drafter", [Drafter(), Drafter("eagle3"), Drafter("", "one")])
    def test_with_an_unknown_drafter_is_of_any(self, saved, again, drafter):
        again.learned.remember(replace(saved, drafter=drafter))
        again.run(2)
        assert again.baseline is not None

    def test_is_nothing_before_anything_was_drafted(self, fed):
        assert fed.learned.state is None
        fed.run(100, drafts=0)
        assert fed.learned.state is None
        fed.run(1)
        assert fed.learned.state is not None

    def test_is_what_was_remembered_until_the_engine_is_known(self, saved, again):
        assert again.learned.state == saved
        again.run(1)  # a first poll has no increment
        assert again.learned.state == saved

    def test_stays_while_a_server_that_shows_no_positions_yet_is_idle(self, fed, saved, again):
        again.run(1000, tokens=0, drafts=0)
        assert again.learned.state == saved
        again.run(2)
        assert again.baseline == pytest.approx(fed.baseline, abs=0.002)

    def test_is_with_the_k_it_was_learned_of_while_a_restarted_server_is_idle(self, fed):
        fed.run(300)
        fed.restart()
        fed.run(30, tokens=0, drafts=0)
        assert fed.history.tokens == 0
        assert fed.learned.state.tokens == 4
        assert fed.learned.state.drops.sudden.baseline.units > 1000

    def test_is_nothing_of_an_engine_that_came_to_have_another_k(self, fed):
        fed.run(300)
        fed.restart()
        fed.run(2, tokens=5, drafts=0)
        assert fed.learned.state is None

    def test_waits_for_positions_that_are_created_one_by_one(self, fed, again):
        again.run(20, tokens=3)
        assert again.baseline is None
        again.positions += (0,)
        again.run(1)
        assert again.baseline == pytest.approx(fed.baseline, abs=0.05)

    def test_is_ignored_if_the_engine_keeps_drafting_with_fewer_positions(self, saved, again):
        again.run(60, tokens=3)
        assert again.learned.state == saved
        again.run(1, tokens=3)
        assert again.learned.state.tokens == 3
        again.run(60, tokens=3)
        assert again.baseline == pytest.approx(3.0, abs=0.05)

    def test_of_an_engine_that_shows_no_positions_is_recalled_by_its_draft_tokens(self, again):
        again.shows_positions = False
        again.run(20, drafts=0)
        assert again.baseline is None
        again.run(1)
        assert again.baseline is not None
