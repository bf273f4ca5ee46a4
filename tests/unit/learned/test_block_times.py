"""Cost of a draft token, from step times with and without drafts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.analysis.cost import CostSource
from spec_decode_exporter.analysis.typical_costs import fixed_tokens
from spec_decode_exporter.learned.block_times import BlockTimes, PlainTimes, times_by_load
from spec_decode_exporter.learned.step_blocks import HALF_LIFE_SECONDS
from spec_decode_exporter.learned.step_time_cost import MIN_BATCHES
from tests.fixtures.windows import increment


class Engine:
    """An engine whose plain steps take 20 ms, observed every second."""

    def __init__(self, draft_cost=0.1, fixed_cost=0.0):
        self.draft_cost, self.fixed_cost = draft_cost, fixed_cost
        self.times = BlockTimes()
        self.now = 1000.0

    def run(self, seconds, running=8, tokens=4, *, plain=True, step_seconds=0.02, rate=50):
        """Run with ``tokens`` draft tokens per step; 0 is without drafts."""
        for _ in range(seconds):
            steps = round(rate * running) if running else 40
            factor = 1 + self.fixed_cost + self.draft_cost * tokens if tokens else 1
            self.observe(
                running,
                plain=plain,
                decode_steps=steps,
                decode_nanoseconds=round(steps * step_seconds * factor * 1e9),
                drafts=steps if tokens else 0,
                draft_tokens=steps * tokens,
            )
        return self

    def observe(self, running, *, plain=True, **counters):
        self.times.observe(increment(self.now, self.now + 1.0, **counters), running, plain=plain)
        self.now += 1.0

    def rest(self, seconds):
        self.now += seconds
        return self

    def found(self, method=""):
        """Return c by load."""
        curves = self.times.costs(method=method)
        return {
            round(each.running_requests, 6): each.token.guess for curve in curves for each in curve.points
        }


def plain_of(*engines):
    """Return the steps without drafts of several engines, as costs take them."""
    now = max(engine.times.now for engine in engines)
    return [PlainTimes(times_by_load([engine.times.plain for engine in engines], now), CostSource.EXPERIMENT)]


def only(curves):
    """Return the source and the point of the only cost."""
    ((point,),) = (curve.points for curve in curves)
    return curves[0].source, point


def test_a_pause_in_drafting_shows_what_it_costs():
    assert Engine(0.1).run(60).run(60, tokens=0).found() == {8: pytest.approx(0.1)}


def test_so_does_a_restart_without_speculation_or_with_another_number_of_tokens():
    engine = Engine(0.1).run(60, tokens=0).run(60, tokens=2).run(60, tokens=5)
    assert engine.found() == {8: pytest.approx(0.1)}


@given(
    draft_cost=st.floats(0, 2),
    method=st.sampled_from(["", "eagle3", "mtp", "draft_model"]),
    tokens=st.integers(1, 16),
    running=st.integers(1, 500),
    step_seconds=st.floats(0.001, 0.5),
)
def test_a_known_cost_is_recovered(draft_cost, method, tokens, running, step_seconds):
    engine = Engine(draft_cost, fixed_cost=fixed_tokens(method) * draft_cost)
    engine.run(30, running, tokens, step_seconds=step_seconds)
    engine.run(30, running, 0, step_seconds=step_seconds)
    assert engine.found(method) == {running: pytest.approx(draft_cost, rel=1e-6, abs=1e-6)}


def test_the_whole_overhead_is_exact_however_it_is_split():
    engine = Engine(0.05, fixed_cost=0.2).run(60, tokens=4).run(60, tokens=0)
    for method in ("", "eagle3", "mtp"):
        (ratio,) = engine.found(method).values()
        assert ratio * (fixed_tokens(method) + 4) == pytest.approx(0.4)


def test_steps_that_are_no_longer_with_drafts_cost_nothing():
    engine = Engine(0.0).run(60, step_seconds=0.019).run(60, tokens=0)
    assert engine.found() == {8: 0.0}


class TestByLoad:
    def test_each_load_has_its_own_cost(self):
        engine = Engine(0.1).run(60, 8).run(60, 8, tokens=0)
        engine.draft_cost = 0.4
        engine.run(60, 64, step_seconds=0.05).run(60, 64, tokens=0, step_seconds=0.05)
        assert engine.found() == {8: pytest.approx(0.1), 64: pytest.approx(0.4)}

    def test_a_load_that_was_seen_on_one_side_only_has_none(self):
        assert Engine().run(60, 8).run(60, 64, tokens=0).found() == {}

    def test_loads_near_each_other_are_one(self):
        engine = Engine(0.1).run(30, 7).run(30, 9).run(60, 8, tokens=0)
        ((load, ratio),) = engine.found().items()
        # Weighted by steps: as many for each request.
        assert load == pytest.approx((7 * 7 + 9 * 9) / (7 + 9), rel=1e-3)
        assert ratio == pytest.approx(0.1)

    @pytest.mark.parametrize("running", [None, 0])
    def test_steps_at_an_unknown_load_are_omitted(self, running):
        assert Engine().run(60, 1).run(60, running, tokens=0).found() == {}
        assert Engine().run(60, running).run(60, 1, tokens=0).found() == {}
        engine = Engine(0.1).run(60, 1).run(60, 1, tokens=0)
        engine.run(60, running, step_seconds=0.2).run(60, running, tokens=0, step_seconds=0.1)
        assert engine.found() == {1: pytest.approx(0.1)}

    def test_loads_of_any_size_take_bounded_memory(self):
        engine = Engine()
        for power in range(-60, 200):
            engine.run(1, 2.0**power, rate=2.0**-power * 1000)
        assert len(engine.times._drafting.buckets) <= 33


class TestHowMuchMustBeSeen:
    def test_a_short_pause_is_none(self):
        engine = Engine().run(60)
        for _ in range(20):
            engine.run(9, tokens=0).run(1)
        assert engine.found() == {}
        for _ in range(3):
            engine.run(10, tokens=0).run(1)
        assert engine.found() == {8: pytest.approx(0.1)}

    def test_a_pause_counts_from_its_beginning(self):
        # 50 steps of the batch a second, of which a little is forgotten already.
        enough = int(MIN_BATCHES) // 50 + 1
        assert Engine().run(60).run(enough, tokens=0).found()
        assert not Engine().run(60).run(enough - 1, tokens=0).found()

    def test_drafting_needs_as_many_steps(self):
        enough = int(MIN_BATCHES) // 50 + 1
        assert Engine().run(60, tokens=0).run(enough).found()
        assert not Engine().run(60, tokens=0).run(enough - 1).found()

    def test_steps_of_a_batch_count_once_however_many_requests_it_has(self):
        enough = int(MIN_BATCHES) // 50 + 1
        assert not Engine().run(60, 256).run(enough - 1, 256, tokens=0).found()

    def test_idle_seconds_neither_count_nor_end_a_pause(self):
        engine = Engine().run(60)
        for _ in range(3):
            engine.run(9, tokens=0)
            for _ in range(60):
                engine.observe(0)
        assert engine.found() == {8: pytest.approx(0.1)}

    def test_idle_time_alone_is_no_pause(self):
        engine = Engine().run(60)
        for _ in range(60):
            engine.run(5, tokens=0).run(1)
            for _ in range(20):
                engine.observe(0)
        assert engine.found() == {}

    def test_steps_that_search_in_vain_are_not_plain(self):
        assert Engine().run(60).run(60, tokens=0, plain=False).found() == {}


class TestForgetting:
    def test_the_newer_outweighs_the_older(self):
        # 60 s at 0.1 count for half beside 60 s at 0.4.
        engine = Engine(0.1).run(60).rest(HALF_LIFE_SECONDS - 60)
        engine.draft_cost = 0.4
        engine.run(60).run(600, tokens=0)
        assert engine.found() == {8: pytest.approx(0.3, abs=1e-3)}

    def test_an_old_baseline_fades(self):
        engine = Engine().run(80, tokens=0).rest(HALF_LIFE_SECONDS).run(60)
        assert engine.found() == {8: pytest.approx(0.1)}
        engine.rest(2 * HALF_LIFE_SECONDS).run(60)
        assert engine.found() == {}

    def test_another_method_keeps_the_plain_steps(self):
        engine = Engine(0.1).run(60, tokens=0).run(60)
        engine.times.forget_drafting()
        assert engine.found() == {}
        engine.draft_cost = 0.3
        assert engine.run(60).found() == {8: pytest.approx(0.3)}


def test_an_engine_that_shows_no_times_has_no_cost():
    assert Engine().run(60, step_seconds=0).run(60, tokens=0, step_seconds=0).found() == {}


def test_drafts_without_draft_tokens_have_no_cost():
    engine = Engine().run(60, tokens=0)
    for _ in range(60):
        engine.observe(8, drafts=400, decode_steps=400, decode_nanoseconds=10**10)
    assert engine.found() == {}


class TestPartlyDraftedPolls:
    """Under a schedule, some steps of a poll may have drafts and others not, at different loads."""

    @staticmethod
    def mixed(engine, seconds, share, running=8, factor=1.4):
        """Run with drafts of 4 tokens in a share of the steps only."""
        for _ in range(seconds):
            engine.observe(
                running,
                decode_steps=1000,
                drafts=round(1000 * share),
                draft_tokens=round(4000 * share),
                decode_nanoseconds=round(1000 * 0.02 * factor * 1e9),
            )

    @pytest.mark.parametrize("share", [0.001, 0.5, 0.94])
    def test_are_not_used(self, share):
        engine = Engine(0.1).run(60).run(60, tokens=0)
        self.mixed(engine, 300, share)
        assert engine.found() == {8: pytest.approx(0.1)}

    def test_nearly_whole_ones_are_used(self):
        engine = Engine().run(60, tokens=0)
        self.mixed(engine, 60, 0.96)
        ((cost),) = engine.found().values()
        assert cost == pytest.approx(0.4 / (0.96 * 4))

    def test_the_fixed_cost_counts_for_steps_with_drafts_only(self):
        # 1 + c0·D/S + c·T/S with c = 0.1, c0 in its typical ratio to c, and D/S = 0.96.
        engine, fixed = Engine().run(60, tokens=0), fixed_tokens("eagle3")
        self.mixed(engine, 60, 0.96, factor=1 + 0.1 * fixed * 0.96 + 0.1 * 4 * 0.96)
        assert engine.found("eagle3") == {8: pytest.approx(0.1)}

    def test_are_used_of_a_method_whose_every_step_pays(self):
        engine, fixed = Engine().run(60, tokens=0), fixed_tokens("ngram")
        spent = round(400 * 0.02 * (1 + 0.1 * fixed + 0.1) * 1e9)
        for _ in range(60):
            engine.observe(
                8, plain=False, decode_steps=400, drafts=100, draft_tokens=400, decode_nanoseconds=spent
            )
        assert fixed > 0
        assert engine.found("ngram") == {8: pytest.approx(0.1)}

    def test_a_schedule_yields_the_cost_at_its_edge(self):
        """3 tokens up to 24 running, none above, and a load that wanders across the edge within polls.

        Truth 0.176, with steps that take longer at higher loads.
        """
        engine = Engine(0.176)
        step = {load: 0.020 + 0.0001 * load for load in range(20, 30)}
        for _ in range(20):
            for load in (22, 23, 24):
                engine.run(5, load, 3, step_seconds=step[load])
            self.mixed(engine, 2, 0.5, running=24, factor=1.1)
            for load in (25, 26, 27, 26):
                engine.run(5, load, 0, step_seconds=step[load])
            self.mixed(engine, 2, 0.3, running=25, factor=1.0)
        source, cost = only(engine.times.costs())
        assert cost.token.guess == pytest.approx(0.176, abs=0.01)
        assert cost.token.low < 0.176 < cost.token.high
        assert 22 < cost.running_requests < 24
        assert source is CostSource.MEASURED


class TestAgainstTheBaselineOfAnExperiment:
    def test_its_steps_stand_for_those_that_an_engine_never_takes_without_a_draft(self):
        drafting, plain = Engine(0.1).run(60), Engine().run(60, tokens=0)
        assert drafting.times.costs() == ()
        source, cost = only(drafting.times.costs(plain_of(plain)))
        assert cost.token.guess == pytest.approx(0.1)
        assert source is CostSource.EXPERIMENT

    def test_the_steps_of_several_add_up(self):
        # Each has 2400 steps at 8 requests, 300 batches, and it takes 1000.
        few = [Engine().run(12, tokens=0, rate=25) for _ in range(4)]
        drafting = Engine(0.1).run(60)
        assert drafting.times.costs(plain_of(*few[:3])) == ()
        _, cost = only(drafting.times.costs(plain_of(*few)))
        assert cost.token.guess == pytest.approx(0.1)

    def test_only_steps_at_the_same_load_count(self):
        elsewhere = Engine().run(60, running=32, tokens=0)
        assert Engine(0.1).run(60).times.costs(plain_of(elsewhere)) == ()

    def test_an_engines_own_steps_precede_those_of_the_baseline(self):
        own = Engine(0.1).run(60).run(60, tokens=0)
        slower = Engine().run(60, tokens=0, step_seconds=0.025)
        _, cost = only(own.times.costs(plain_of(slower)))
        assert cost.token.guess == pytest.approx(0.1)

    def test_a_baseline_that_drafts_has_no_effect(self):
        assert Engine(0.1).run(60).times.costs(plain_of(Engine().run(60))) == ()
