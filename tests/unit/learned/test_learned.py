"""What is learned about an engine: cost, drops, its resets and its persisted state."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest
from pydantic import TypeAdapter

from spec_decode_exporter.analysis.cost import CostSource
from spec_decode_exporter.analysis.knowledge import Assumptions
from spec_decode_exporter.analysis.speculation import Speculation
from spec_decode_exporter.drops.drops import DropState
from spec_decode_exporter.drops.sums import DropKind, Transition
from spec_decode_exporter.learned.baseline import LEARNED
from spec_decode_exporter.learned.learned import Drafter, Learned, LearnedState
from spec_decode_exporter.scrape.sample import Buckets
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
        return self.learned.drops.status().baseline_acceptance_length_tokens


@pytest.fixture(name="fed")
def fed_fixture(make_sample):
    return Fed(make_sample)


def test_a_sudden_drop_is_returned_at_its_begin_and_at_its_end(fed):
    fed.run(300)
    assert fed.baseline == pytest.approx(3.0, abs=0.02)
    fed.run(30, length=1.8)
    fed.run(120)
    assert [(change.kind, change.transition) for change in fed.changes] == [
        (DropKind.SUDDEN, Transition.BEGAN),
        (DropKind.SUDDEN, Transition.ENDED),
    ]


@pytest.mark.parametrize(("tokens", "baseline"), [(5, None), (4, pytest.approx(3.0, abs=0.02))])
def test_only_another_k_begins_the_baseline_again_after_a_restart(fed, tokens, baseline):
    fed.run(200)
    fed.restart()
    fed.run(30, tokens=tokens)
    assert fed.baseline == baseline


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


class Server:
    """A server that is polled every second, with 8 requests: without speculation, or with 4 draft tokens.

    A step that drafts takes 1.4 plain ones; a request has its first token after 50 ms.
    """

    def __init__(self, make_sample, baseline=None, moment=0.0, assumptions=None):
        self.make_sample = make_sample
        assumptions = assumptions or Assumptions(Speculation("draft_model"))
        self.history, self.learned = History(300.0), Learned(assumptions, baseline)
        self.moment = self.begin = moment
        self.counts = [0] * 9

    def restart(self, later=20.0):
        self.moment += later
        self.begin, self.counts = self.moment, [0] * 9
        return self

    def run(self, seconds, *, drafts, pause=False, step=0.02, first_token=0.05, tokens=4):
        for _ in range(seconds):
            self.moment += 1.0
            time = step * (1.4 if drafts and not pause else 1.0)
            steps = round(8 / time)
            number = steps * (drafts and not pause)
            grown = (number, tokens * number, 2 * number, steps, round(steps * time * 1e9))
            more = (5, round(5 * first_token * 1e9), 100, 85)
            self.counts = [old + new for old, new in zip(self.counts, (*grown, *more), strict=True)]
            self._observe(drafts, tokens)
        return self

    def _observe(self, drafts, tokens):
        drafted, drafted_tokens, accepted, steps, nanoseconds, first, first_time, queries, hits = self.counts
        speculation = (drafted, drafted_tokens, accepted) if drafts else (None, None, None)
        buckets = {latency: Buckets((0.3, inf), (first, first)) for latency in LEARNED}
        sample = self.make_sample(
            *speculation,
            positions=(drafted, drafted, *[0] * (tokens - 2)) if drafts else (),
            generation_tokens=steps + accepted + first,
            first_tokens=first,
            first_token_nanoseconds=first_time,
            prefix_cache_queries=queries,
            prefix_cache_hits=hits,
            prompt_tokens=20_000 * first,
            decode_steps=steps,
            decode_nanoseconds=nanoseconds,
            running_requests=8.0,
            created=WALL + self.begin,
            latencies=buckets,
        )
        taken = self.history.observe(sample, self.moment, WALL + self.moment, 1.0)
        if taken.increment:
            self.learned.observe(taken.increment, sample, self.history)

    def cost(self, *arms):
        """Return source and range of the cost at the only load."""
        ((curve),) = self.learned.costs([arm.learned for arm in arms])
        return curve.source, curve.points[0].token

    @property
    def period(self):
        return self.learned.baseline.period(WALL + self.moment)


class TestTheBaseline:
    def test_speculation_that_is_enabled_later_has_one(self, make_sample):
        server = Server(make_sample).run(600, drafts=False)
        assert server.learned.costs() == ()
        source, token = server.restart().run(120, drafts=True).cost()
        assert source is CostSource.BASELINE
        assert token.guess == pytest.approx(0.1, rel=0.01)
        assert server.period.name == "10 min without speculation on 21 September"
        assert server.period.age_seconds == pytest.approx(140)
        request = server.period.request
        assert request.first_token_seconds == pytest.approx(0.05)
        assert request.prefix_hit_ratio == pytest.approx(0.85)
        histograms = server.learned.baseline.kept.histograms
        assert histograms.keys() == set(LEARNED)
        assert [each.counts[1] for each in histograms.values()] == pytest.approx([5 * 599] * 2, rel=0.02)


class TestPlainSteps:
    def test_pauses_of_the_same_process_are_measured(self, make_sample):
        server = Server(make_sample).run(600, drafts=False, step=0.04)
        server.restart().run(120, drafts=True).run(120, drafts=True, pause=True).run(60, drafts=True)
        source, token = server.cost()
        assert source is CostSource.MEASURED
        assert token.guess == pytest.approx(0.1, rel=0.01)

    def test_those_of_an_arm_without_speculation_are_an_experiment(self, make_sample):
        arm = Server(make_sample).run(300, drafts=False)
        server = Server(make_sample).run(120, drafts=True)
        assert server.learned.costs() == ()
        source, token = server.cost(arm)
        assert source is CostSource.EXPERIMENT
        assert token.guess == pytest.approx(0.1, rel=0.01)

    def test_they_survive_a_restart_of_the_exporter_even_with_another_k(self, make_sample):
        server = Server(make_sample).run(120, drafts=True, pause=True).run(120, drafts=True)
        saved = SAVED.validate_json(SAVED.dump_json(server.learned.state))
        again = Server(make_sample, moment=1000.0)
        again.learned.remember(saved)
        assert again.run(120, drafts=True, tokens=3).cost()[0] is CostSource.MEASURED

    def test_steps_that_search_in_vain_are_not_plain(self, make_sample):
        ngram = Assumptions(Speculation("ngram"))
        server = Server(make_sample, assumptions=ngram).run(120, drafts=True)
        assert server.run(120, drafts=True, pause=True).learned.costs() == ()


class TestSumsByDraftTokens:
    def test_each_number_has_its_own(self, make_sample):
        server = Server(make_sample).run(61, drafts=True).run(30, drafts=True, pause=True)
        server.restart().run(31, drafts=True, tokens=3)
        depths = server.learned.state.depths
        assert depths.keys() == {0, 3, 4}
        seconds, steps, tokens, drafts, accepted, wall = depths[4]
        assert seconds / steps == pytest.approx(0.028)
        assert steps == pytest.approx(60 * 286, rel=0.01)
        assert (tokens / steps, drafts / steps, accepted / steps) == pytest.approx((3, 1, 2))
        assert wall == WALL + 61
        assert depths[0].drafts == 0

    def test_polls_before_a_saved_state_is_recalled_are_added_to_its_sums(self, make_sample):
        server = Server(make_sample).run(61, drafts=True).run(30, drafts=True, pause=True)
        saved = SAVED.validate_json(SAVED.dump_json(server.learned.state))
        steps = {depth: sums.steps for depth, sums in saved.depths.items()}
        again = Server(make_sample, moment=server.moment)
        again.learned.remember(replace(saved, tokens=5))
        again.run(30, drafts=True).run(60, drafts=True)
        depths = again.learned.state.depths
        assert depths[4].steps == pytest.approx(steps[4] + 89 * 286, rel=0.01)
        assert depths[0].steps == pytest.approx(steps[0], rel=0.01)
