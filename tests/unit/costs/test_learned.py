"""What is learned about an engine: cost, drops, its resets and its persisted state."""

from dataclasses import replace
from math import inf

import pytest
from pydantic import TypeAdapter

from spec_decode_exporter.analysis.speculation import Speculation
from spec_decode_exporter.config.policy import DropPolicy
from spec_decode_exporter.costs.baseline import COMPARED
from spec_decode_exporter.costs.cost import CostSource
from spec_decode_exporter.costs.learned import DraftingMethod, Learned, LearnedState
from spec_decode_exporter.costs.methods import undrafted_pass
from spec_decode_exporter.drops.drops import DropState, drafts_of
from spec_decode_exporter.monitor.draft_counters import DraftCounters
from spec_decode_exporter.scrape.engines import Counter
from spec_decode_exporter.scrape.sample import Buckets
from spec_decode_exporter.window.engine_windows import History
from tests.conftest import make_sample

SAVED = TypeAdapter(LearnedState)
WALL = 1_790_000_000.0
EAGLE, DRAFT_MODEL, POLICY = DraftingMethod("eagle3"), DraftingMethod("draft_model"), DropPolicy()


class Engine:
    """An engine that is polled every second, with 8 requests, and drafts in every step, or pauses.

    A step that drafts takes 1.4 plain ones; a request has its first token after 50 ms.
    """

    def __init__(self, method=EAGLE, moment=0.0):
        self.history, self.learned, self.counters = History(300.0), Learned(), DraftCounters()
        self.learned.assume(method, POLICY)
        self.moment = self.begin = moment
        self.counts, self.positions = [0] * 7, []

    def restart(self, later=20.0):
        self.moment += later
        self.begin, self.counts, self.positions = self.moment, [0] * 7, []
        return self

    def run(self, seconds, *, drafts=True, pause=0.0, tokens=4, length=3.0, step=0.02, lacking=None):
        """``drafts``: there are counters of speculation, but for ``lacking``. ``pause``: share of the steps."""
        for _ in range(seconds):
            self.moment += 1.0
            share = 1 - pause if drafts else 0.0
            time = (1 + 0.4 * share) * step
            steps = round(8 / time)
            number = round(share * steps)
            # Every other second a little more and less, so that there is chance.
            accepted = round((length - 1 + (0.1 if self.moment % 2 else -0.1)) * number)
            grown = (number, tokens * number, accepted, steps, round(steps * time * 1e9), 5, 250_000_000)
            self.counts = [old + new for old, new in zip(self.counts, grown, strict=True)]
            self.positions += [0] * (tokens - len(self.positions))
            for place in range(tokens):
                self.positions[place] += accepted // tokens + (place < accepted % tokens)
            self._observe(drafts, lacking)
        return self

    def _observe(self, drafts, lacking):
        *counts, steps, nanoseconds, first, first_time = self.counts
        accepted = counts[Counter.ACCEPTED_TOKENS]
        if lacking is not None:
            counts[lacking] = None
        sample = make_sample(
            *(counts if drafts else ()),
            positions=tuple(self.positions) if drafts else (),
            generation_tokens=steps + accepted + first,
            first_tokens=first,
            first_token_nanoseconds=first_time,
            prefix_cache_queries=20 * first,
            prefix_cache_hits=17 * first,
            prompt_tokens=20_000 * first,
            decode_steps=steps,
            decode_nanoseconds=nanoseconds,
            running_requests=8.0,
            created=WALL + self.begin,
            latencies={latency: Buckets((0.3, inf), (first, first)) for latency in COMPARED},
        )
        sample = self.counters.complete(sample, Speculation(), "")
        taken = self.history.observe(sample, self.moment, WALL + self.moment, 1.0)
        if taken.increment:
            speculates = self.counters.drafting.speculates
            self.learned.observe(taken.increment, sample, self.history, speculates=speculates)
            self.learned.drops.observe(drafts_of(taken.increment))

    @property
    def baseline(self):
        return self.learned.drops.status().baseline_acceptance_length_tokens

    def cost(self, *arms):
        ((curve),) = self.learned.costs([arm.learned for arm in arms])
        return curve.source, curve.points[0].token


@pytest.mark.parametrize(("tokens", "baseline"), [(5, None), (4, pytest.approx(3.0, abs=0.02))])
def test_only_another_k_begins_the_baseline_again_after_a_restart(tokens, baseline):
    fed = Engine().run(200).restart().run(30, tokens=tokens)
    assert fed.baseline == baseline


@pytest.mark.parametrize(
    "other", [DraftingMethod("mtp"), DraftingMethod("eagle3", "other"), DraftingMethod("mtp", "one")]
)
def test_another_drafter_begins_everything_again(other):
    fed = Engine(DraftingMethod("eagle3", "one")).run(200)
    fed.learned.assume(other, POLICY)
    assert fed.baseline is None


class TestADrafterThatIsNotKnown:
    """A drafter that is unknown for a while, or becomes known later, is the same."""

    @pytest.mark.parametrize(
        "others",
        [
            [DraftingMethod()],
            [DraftingMethod(), DraftingMethod("eagle3")],
            [DraftingMethod("eagle3", "one"), DraftingMethod(), DraftingMethod(draft_model="one")],
        ],
    )
    def test_begins_nothing_again(self, others):
        fed = Engine().run(200)
        for other in others:
            fed.learned.assume(other, POLICY)
        assert fed.baseline is not None


class TestWhatIsSaved:
    @pytest.fixture(name="servers")
    def servers_fixture(self):
        """One that ran for five minutes, and one that remembers what was saved of it."""
        fed, again = Engine().run(300), Engine()
        again.learned.remember(SAVED.validate_json(SAVED.dump_json(fed.learned.state)))
        return fed, again

    def test_is_there_at_once_after_a_restart_of_the_exporter(self, servers):
        fed, again = servers
        assert again.baseline is None  # it is not known yet whether the engine is the same
        again.run(2)
        assert again.baseline == pytest.approx(fed.baseline, abs=0.002)

    @pytest.mark.parametrize(
        "changed", [{"tokens": 3}, {"tokens": 0}, {"drafter": DraftingMethod("mtp")}, {"drops": DropState()}]
    )
    def test_of_another_drafter_or_k_or_without_drops_is_ignored(self, servers, changed):
        fed, again = servers
        again.learned.remember(replace(fed.learned.state, **changed))
        again.run(2)
        assert again.baseline is None

    def test_stays_while_a_server_that_shows_no_positions_yet_is_idle(self, servers):
        fed, again = servers
        again.run(1000, tokens=0, pause=1)
        assert again.learned.state == fed.learned.state
        again.run(2)
        assert again.baseline == pytest.approx(fed.baseline, abs=0.002)

    def test_is_with_the_k_it_was_learned_of_while_a_restarted_server_is_idle(self):
        fed = Engine().run(300).restart().run(30, tokens=0, pause=1)
        assert fed.history.tokens == 0
        assert fed.learned.state.tokens == 4
        assert fed.learned.state.drops.sudden.baseline.units > 1000

    def test_is_ignored_if_the_engine_keeps_drafting_with_fewer_positions(self, servers):
        fed, again = servers
        again.run(60, tokens=3)
        assert again.learned.state == fed.learned.state
        again.run(1, tokens=3)
        assert again.learned.state.tokens == 3
        again.run(60, tokens=3)
        assert again.baseline == pytest.approx(3.0, abs=0.05)


class TestTheBaseline:
    def test_speculation_that_is_enabled_later_has_one(self):
        server = Engine(DRAFT_MODEL).run(600, drafts=False)
        assert server.learned.costs() == ()
        source, token = server.restart().run(120).cost()
        assert source is CostSource.BASELINE
        assert token.guess == pytest.approx(0.1, rel=0.01)
        request = server.learned.baseline.summary(WALL + server.moment)
        assert request.name == "10 min without speculation on 21 September"
        assert request.age_seconds == pytest.approx(140)
        assert request.first_token_seconds == pytest.approx(0.05)
        assert request.prefix_hit_ratio == pytest.approx(0.85)
        histograms = server.learned.baseline.kept.histograms
        assert histograms.keys() == set(COMPARED)
        assert [each.counts[1] for each in histograms.values()] == pytest.approx([5 * 599] * 2, rel=0.02)

    def test_latencies_are_compared_with_the_newest_requests_without_speculation(self):
        server = Engine(DRAFT_MODEL).run(600, drafts=False)
        arm = Engine().run(1200, drafts=False)
        server.restart().run(120)
        own, others = server.learned.latency_baseline(), server.learned.latency_baseline([arm.learned])
        assert own.name == "10 min without speculation on 21 September"
        assert others.name == "20 min without speculation on 21 September"
        assert own.histograms[COMPARED[0]].counts == pytest.approx([5 * 599] * 2, rel=0.02)
        assert Engine().run(120).learned.latency_baseline() is None


class TestStepsWithoutDrafts:
    def test_pauses_of_the_same_process_are_measured(self):
        server = Engine(DRAFT_MODEL).run(600, drafts=False, step=0.04)
        server.restart().run(120).run(120, pause=1).run(60)
        source, token = server.cost()
        assert source is CostSource.MEASURED
        # vLLM's drafter runs its first pass in steps without drafts too.
        first = undrafted_pass("draft_model").guess
        assert token.guess == pytest.approx(((1 + 4 * 0.1) * (1 + first) - 1) / 4, rel=0.01)

    def test_those_of_an_arm_without_speculation_are_an_experiment(self):
        arm = Engine(DRAFT_MODEL).run(300, drafts=False)
        server = Engine(DRAFT_MODEL).run(120)
        assert server.learned.costs() == ()
        source, token = server.cost(arm)
        assert source is CostSource.EXPERIMENT
        assert token.guess == pytest.approx(0.1, rel=0.01)

    def test_they_survive_a_restart_of_the_exporter_even_with_another_k(self):
        server = Engine(DRAFT_MODEL).run(120, pause=1).run(120)
        saved = SAVED.validate_json(SAVED.dump_json(server.learned.state))
        again = Engine(DRAFT_MODEL, moment=1000.0)
        again.learned.remember(saved)
        assert again.run(120, tokens=3).cost()[0] is CostSource.MEASURED

    def test_steps_that_search_in_vain_are_not_plain(self):
        ngram = DraftingMethod("ngram")
        server = Engine(ngram).run(120)
        assert server.run(120, pause=1).learned.costs() == ()


class TestUseByDraftTokens:
    def test_each_number_has_its_own(self):
        server = Engine(DRAFT_MODEL).run(121).run(120, pause=1)
        server.restart().run(250, tokens=3)
        used = server.learned.used.sums(server.history.wall)
        assert list(used) == [0, 3, 4]
        its = used[4].sums
        assert its.steps == pytest.approx(120 * 286, rel=0.01)
        assert (its.tokens / its.steps, its.drafts / its.steps, its.accepted / its.steps) == pytest.approx(
            (3, 1, 2)
        )
        assert (used[4].number, used[4].begin, used[4].end) == (1, WALL + 1, WALL + 121)
        assert (used[3].number, used[3].running_requests) == (2, 8.0)
        assert used[0].sums.drafts == 0

    @pytest.mark.parametrize("known", [DRAFT_MODEL, DraftingMethod("ngram")])
    def test_drafts_whose_tokens_are_unknown_count_for_no_number(self, known):
        server = Engine(known)
        server.history.configure_tokens(6)
        assert not server.run(250, tokens=0, lacking=Counter.DRAFT_TOKENS).learned.used.kept
        assert server.history.has_drafted

    def test_polls_of_which_half_the_steps_draft_count_for_no_number(self):
        assert not Engine(DRAFT_MODEL).run(250, pause=0.5).learned.used.kept

    def test_steps_of_a_server_whose_drafts_are_not_counted_are_not_plain(self):
        """Every other second it accepts no token, as a server without drafts does."""
        server = Engine(DRAFT_MODEL).run(250, length=1.1, lacking=Counter.DRAFTS)
        assert server.counters.drafting.speculates
        assert not server.learned.used.kept

    @pytest.mark.parametrize("method", ["ngram", "suffix"])
    def test_a_search_uses_the_number_that_it_may_draft(self, method):
        server = Engine(DraftingMethod(method))
        server.history.configure_tokens(6)
        assert server.run(300, tokens=4).learned.used.kept.keys() == {6}

    def test_they_survive_a_restart_of_the_exporter_and_another_number(self):
        server = Engine(DRAFT_MODEL).run(121).run(120, pause=1)
        saved = SAVED.validate_json(SAVED.dump_json(server.learned.state))
        again = Engine(DRAFT_MODEL, moment=server.moment)
        again.learned.remember(replace(saved, tokens=5))
        again.run(90).run(60)
        used = again.learned.used.sums(again.history.wall)
        assert (used[4].number, used[0].number, used[0].sums) == (2, 1, server.learned.used.kept[0][0].sums)
