"""Monitor of one engine: its last evaluation, what makes another one urgent, events, and internal errors."""

import weakref
from dataclasses import replace

import pytest

from spec_decode_exporter.analysis.evaluation import Basis, Evaluation, FallbackEvaluation
from spec_decode_exporter.analysis.knowledge import Assumptions
from spec_decode_exporter.analysis.speculation import Speculation
from spec_decode_exporter.analysis.verdict import PAYING, Action, State, Verdict
from spec_decode_exporter.config.batch_schedule import BatchSchedule
from spec_decode_exporter.config.comparison_settings import CostSettings
from spec_decode_exporter.costs.learned import Learned
from spec_decode_exporter.drops.drops import Drops
from spec_decode_exporter.drops.sums import Drop, DropKind, Transition
from spec_decode_exporter.monitor.engine_monitor import COSTS_SECONDS, EngineMonitor
from spec_decode_exporter.scrape.engines import Counter
from spec_decode_exporter.window.poll import Check
from tests.conftest import make_sample
from tests.fakes.engines import WALL, poll
from tests.fakes.evaluations import curve


class Watched:
    """Engine monitor that is polled every second, with histograms each time, and evaluated."""

    def __init__(self, windows=(30.0, 300.0), *more):
        self.watch = EngineMonitor(windows, *more)
        self.moment = 0.0

    def poll(self, sample, after=1.0):
        self.moment += after
        return poll(self.watch, sample, self.moment)

    def polls(self, samples):
        return [event for sample in samples for event in self.poll(sample)]

    def observe(self, sample):
        """Take a poll without an evaluation."""
        self.moment += 1.0
        return self.watch.observe(sample, self.moment, WALL + self.moment, 1.0, 1.0)

    def is_urgent_after(self, sample):
        self.observe(sample)
        return self.watch.is_urgent

    snapshot = property(lambda self: self.watch.snapshot)
    its = property(lambda self: self.watch.snapshot.evaluation)

    def gone(self, later=60.0, *, is_bad=True):
        return self.watch.gone(self.moment + later, is_bad=is_bad)


@pytest.fixture(name="watched")
def watched_fixture():
    return Watched()


def good(n, **more):
    return make_sample(10 * n, 40 * n, 15 * n, positions=(9 * n, 4 * n, 2 * n, 0), **more)


def torn(n):
    """A page whose positions were read before its accepted tokens."""
    return changed(good(n), accepted_tokens=15 * n + 3)


def names_of(events):
    return [event.name for event in events]


def test_a_removed_monitor_is_freed_without_a_garbage_collection(watched):
    watched.polls(map(good, range(40)))
    kept = weakref.ref(vars(watched).pop("watch"))
    assert kept() is None


def changed(sample, add=0, **counters):
    """The page with other counters by name, or with these more of them."""
    values = list(sample.counters)
    for name, value in counters.items():
        counter = Counter[name.upper()]
        values[counter] = value + add * values[counter]
    return replace(sample, counters=tuple(values))


def silent(sample, n, decoding=0):
    """The page after ``n`` more seconds of decode steps without a draft."""
    steps = {"decode_steps": 400 * n, "generation_tokens": 400 * n}
    return changed(sample, add=1, decode_nanoseconds=decoding * 10**9, **steps)


class TestChecks:
    def test_need_two_successive_polls(self, watched):
        pages = good(1), torn(2), good(3), torn(4), torn(5), good(6)
        events = [names_of(watched.poll(page)) for page in pages]
        assert events == [*[[]] * 4, ["check_broken"], ["check_holds_again"]]
        watched.polls([torn(7), torn(8)])
        assert watched.snapshot.broken == {Check.POSITIONS_ADD_UP}
        assert watched.snapshot.findings[0].name == "broken_positions_add_up"


def test_a_sudden_drop_begins_the_evaluated_window(watched, monkeypatch):
    """It is reported at the 40th of 60 polls, 6 s after its begin."""
    drop = Drop(DropKind.SUDDEN, Transition.BEGAN, 2.50004, 1.8, 6.04, age=6.0)
    watched.polls(map(good, range(40)))
    with monkeypatch.context() as reporting:
        reporting.setattr(Drops, "observe", lambda *_: (drop,))
        [event] = watched.poll(good(40))
    watched.polls(map(good, range(41, 60)))
    its = watched.its
    assert (its.basis, its.since) == (Basis.CHANGE, WALL + 41 - 6)
    assert its.verdict_window.window.length == pytest.approx(25.0)
    fields = {"kind": "sudden", "baseline_length": 2.5, "length": 1.8, "seconds": 6.0}
    fields["since"] = "2026-09-21T14:13:55Z"
    assert (event.name, event.fields) == ("acceptance_dropped", fields)


def test_the_drafts_of_a_schedule_that_pauses_count_until_the_number_of_tokens_changes():
    speculation = Speculation("eagle3", tokens=4, schedule=BatchSchedule((1, 8), (4, 0)))
    watched = Watched((30.0, 300.0), Assumptions(speculation))
    watched.polls(map(good, range(1, 290)))
    window, wall = watched.its.known.last_drafts
    assert (window.total.drafts, wall) == (2870, WALL + 288)
    watched.observe(make_sample(2900, 8700, 4350, positions=(2610, 1160, 580)))
    watched.watch.use((30.0, 300.0), Assumptions(replace(speculation, tokens=3)))
    watched.poll(make_sample(2910, 8730, 4365, positions=(2619, 1164, 582)))
    assert watched.its.known.last_drafts is None


class TestEvaluation:
    def test_is_the_last_one_for_all_readers_and_only_totals_are_of_the_newest_poll(self, watched):
        assert watched.snapshot is None
        watched.polls(map(good, range(1, 40)))
        first = watched.snapshot
        watched.observe(good(40))
        later = watched.snapshot
        assert later.evaluation == first.evaluation
        assert later.findings is first.findings
        assert (later.evaluation.known.wall, watched.watch.evaluated_at) == (WALL + 39.0, 39.0)
        assert [each.totals.counters.drafts for each in (first, later)] == [380, 390]

    @pytest.mark.parametrize("in_full", [True, False])
    def test_of_a_poll_does_not_change_with_later_ones_even_if_it_is_read_later(self, busy_sample, in_full):
        early, late = Watched(), Watched()
        for its in (early, late):
            for n in range(1, 60):
                its.observe(busy_sample(n))
            its.watch.evaluate(in_full=in_full)
        read_late, own = late.snapshot, early.its.longest
        expected = (own.positions.conditional, own.poll_rates, own.speedup_range, own.request)
        for n in range(100):
            late.observe(replace(busy_sample(n), created=WALL + 60))
        its = read_late.evaluation.longest
        assert (its.positions.conditional, its.poll_rates, its.speedup_range, its.request) == expected
        assert its.conditional_bounds(1) == own.conditional_bounds(1)
        assert read_late.evaluation.windows[0].draft_acceptance_bounds is not None
        assert read_late.findings == early.snapshot.findings


class TestUrgent:
    """Changes that are evaluated at once, whatever the pace is."""

    def test_the_first_increment_is_and_nothing_on_steady_traffic(self, watched):
        watched.poll(good(1))
        assert watched.is_urgent_after(good(2))
        watched.polls(map(good, range(3, 20)))
        assert not any(watched.is_urgent_after(good(n)) for n in range(20, 60))

    @pytest.mark.parametrize("change", ["reset", "state", "drop"])
    def test_a_change_is(self, watched, monkeypatch, change):
        watched.polls(make_sample() if change == "state" else good(n) for n in range(1, 20))
        after = good(20)
        if change == "reset":
            after = good(1, created=WALL + 19)
        elif change == "drop":
            drop = Drop(DropKind.SUDDEN, Transition.LEARNED_AGAIN, 2.5, 2.1, 1800.0)
            monkeypatch.setattr(Drops, "observe", lambda *_: (drop,))
        assert watched.is_urgent_after(after)


class TestNoGain:
    def test_pays_is_gone_at_once_even_if_no_drop_is_found(self, monkeypatch):
        """A drop needs a baseline of a minute, and many requests; what a step gives is known before."""
        cost = CostSettings(draft_cost_ratio=0.1, running_requests=4)
        watched = Watched((30.0, 300.0), Assumptions(Speculation("ngram", tokens=4), cost))

        def page(n):
            return make_sample(
                100 * n, 400 * n, 200 * n,
                positions=(90 * n, 60 * n, 40 * n, 10 * n),
                generation_tokens=320 * n, first_tokens=10 * n, decode_steps=110 * n, running_requests=4.0,
            )  # fmt: skip

        watched.polls(map(page, range(1, 50)))
        assert watched.its.verdict in PAYING
        monkeypatch.setattr(Evaluation, "gains_nothing", True)
        watched.poll(page(50))
        assert watched.its.computed_decision.verdict in PAYING
        assert watched.its.verdict is Verdict.INSUFFICIENT
        assert not watched.snapshot.drops.live


class TestGone:
    def test_it_has_its_totals_alone(self, watched):
        watched.polls(map(good, range(1, 100)))
        watched.gone()
        gone, its = watched.snapshot, watched.its
        assert (its.state, its.windows, gone.reported) == (State.UNREACHABLE, (), None)
        assert (gone.totals.counters.drafts, gone.tokens, gone.findings) == (980, 4, ())
        assert watched.watch.windows(watched.moment + 60.0) == ()
        assert (gone.drops.baseline_acceptance_length_tokens, gone.drops.total["sudden"]) == (None, 0)
        watched.poll(good(100))
        assert watched.snapshot.drops.baseline_acceptance_length_tokens is not None
        assert watched.its.state is State.ACTIVE


def test_after_an_internal_error_in_the_analysis_there_are_counts_and_the_state_by_them(watched, monkeypatch):
    monkeypatch.setattr(Evaluation, "verdict_window", property(lambda _: 1 / 0))
    for n in range(1, 100):
        watched.observe(good(n))
    with pytest.raises(ZeroDivisionError):
        watched.watch.evaluate()
    its = watched.its
    assert isinstance(its, FallbackEvaluation)
    assert (its.state, its.verdict) == (State.ACTIVE, Verdict.INSUFFICIENT)
    assert watched.snapshot.totals.counters.drafts == its.longest.total.drafts == 980
    assert (watched.snapshot.findings, watched.snapshot.drops.total) == ((), {})
    assert its.known.wall == WALL + watched.moment  # of the times in its findings


def working(n, positions=(340, 260, 170, 100)):
    """The page after ``n`` seconds of 8 running requests."""
    accepted = sum(positions)
    return make_sample(
        400 * n,
        1600 * n,
        accepted * n,
        positions=[each * n for each in positions],
        generation_tokens=(408 + accepted) * n,
        first_tokens=8 * n,
        decode_steps=400 * n,
        decode_nanoseconds=8 * 10**9 * n,
        running_requests=8.0,
    )


class TestDecision:
    """Events that reset the decision to show; ``tests/unit/monitor/test_decision.py`` has its rule."""

    COSTS = CostSettings(draft_cost_ratio=0.1, running_requests=8)

    @pytest.fixture(name="kept")
    def kept_fixture(self):
        """An engine that pays, with advice."""
        its = Watched((30.0, 300.0), Assumptions(Speculation("eagle3", tokens=4), self.COSTS))
        for n in range(1, 290):
            its.observe(working(n))
        its.watch.evaluate()
        assert (its.its.verdict, its.its.action) == (Verdict.OPTIMAL, Action.KEEP)
        return its

    def test_another_number_of_tokens_resets_it_and_is_an_event(self, kept):
        kept.watch.use((30.0, 300.0), Assumptions(Speculation("eagle3", tokens=6), self.COSTS))
        [event] = [each for each in kept.poll(good(1)) if each.name == "configured_tokens_changed"]
        assert event.fields == {"configured_tokens": 6, "before": 4}
        assert (kept.its.verdict, kept.its.action) == (Verdict.INSUFFICIENT, Action.COLLECT)

    def test_a_stall_and_its_end_reset_it(self, kept):
        last, seen = working(289), []
        for n in range(1, 130):
            kept.poll(silent(last, n))
            seen.append((kept.its.state, kept.its.verdict))
        assert list(dict.fromkeys(seen)) == [
            (State.ACTIVE, Verdict.OPTIMAL),
            (State.STALLED, Verdict.INSUFFICIENT),
        ]
        kept.poll(silent(working(290), 129))
        assert (kept.its.state, kept.its.computed_decision.verdict) == (State.ACTIVE, Verdict.HEALTHY)
        assert kept.its.verdict is Verdict.INSUFFICIENT, "from now on it is about the time since"

    def test_a_change_resets_it_unless_two_others_came_in_the_longest_window(self, kept, monkeypatch):
        seen = []
        for second in range(290, 1000):
            at = second in (300, 400, 500, 900)
            drop = Drop(DropKind.SUDDEN, Transition.BEGAN, 2.5, 1.8, 6.0, age=6.0)
            monkeypatch.setattr(Drops, "observe", lambda *_, at=at, drop=drop: (drop,) if at else ())
            kept.observe(working(second))
            if at:
                kept.watch.evaluate()
                seen.append(kept.its.verdict)
            elif second % 50 == 49:
                kept.watch.evaluate()
        assert seen == [*[Verdict.INSUFFICIENT] * 2, Verdict.OPTIMAL, Verdict.INSUFFICIENT]


def test_costs_are_learned_each_half_minute_once_they_are_known(watched, monkeypatch):
    learned = []
    monkeypatch.setattr(Learned, "costs", lambda *_: learned.append(watched.moment) or (curve((8.0, 0.1)),))
    watched.polls(map(good, range(1, 70)))
    assert learned == [1.0, 1.0 + COSTS_SECONDS, 1.0 + 2 * COSTS_SECONDS]


def test_an_engine_that_counts_no_drafts_shows_the_length_that_it_reports():
    its = Watched((30.0, 60.0), Assumptions(engine_kind="sglang"))
    for second in range(40):
        length = 2.35 if second < 20 else 1.48
        ratio = {"reported_acceptance_ratio": 0.2, "reported_acceptance_length": length}
        its.poll(make_sample(generation_tokens=900 * second, first_tokens=3 * second, **ratio))
    [finding] = [each for each in its.snapshot.findings if each.name == "counts_no_drafts"]
    assert finding.values == {"length": 1.48}


def test_a_prefill_server_decodes_nothing_and_is_not_disabled():
    its, found = Watched(), []
    for second in range(5):
        served = {"generation_tokens": 20 * second, "first_tokens": 20 * second, "decode_steps": 0}
        its.poll(make_sample(0, 0, 0, positions=(0, 0, 0), **served))
        found.append("decodes_nothing" in {each.name for each in its.snapshot.findings})
    assert its.its.state is State.IDLE
    assert found == [False, False, False, True, True]  # a burst may have its first tokens alone for a moment


class TestTimeSaved:
    """Decode time of polls with bounds of the speed-up, beside that without speculation."""

    @staticmethod
    def at_a_cost(cost=0.05):
        settings = CostSettings(running_requests=20, draft_cost_ratio=cost)
        return Watched((30.0, 300.0), Assumptions(Speculation("eagle3"), settings))

    @pytest.mark.parametrize(("cost", "sign"), [(0.05, 1), (2.0, -1)])
    def test_is_counted_from_the_first_bounds_on_and_negative_where_drafts_cost(
        self, busy_sample, cost, sign
    ):
        its = self.at_a_cost(cost)
        its.polls(busy_sample(n, 4) for n in range(25))
        assert its.snapshot.decode_time.actual == 0
        its.polls(busy_sample(n, 4) for n in range(25, 100))
        time = its.snapshot.decode_time
        # 20 s of decoding a second, without the first 26 to 30 polls
        assert 20 * 70 <= time.actual <= 20 * 75
        value, lower, upper = time.saved
        assert lower <= value <= upper
        assert sign * lower > 0 < sign * upper
        assert its.snapshot.today.time == time

    def test_is_not_counted_once_the_shortest_window_has_no_draft(self, busy_sample):
        settings = CostSettings(running_requests=20, draft_cost_ratio=0.05)
        its = Watched((10.0, 100.0), Assumptions(Speculation("eagle3"), settings))
        its.polls(busy_sample(n, 4) for n in range(90))
        its.polls(silent(busy_sample(89, 4), n) for n in range(1, 12))
        paused = its.snapshot.decode_time
        its.polls(silent(busy_sample(89, 4), n, decoding=n) for n in range(12, 30))
        assert its.its.verdict_window.speedup_bounds is not None
        assert its.snapshot.decode_time == paused

    @pytest.mark.parametrize(("tenths", "is_counted"), [(2, True), (3, False)])
    def test_is_not_counted_while_more_than_one_request_in_20_is_preempted(
        self, busy_sample, tenths, is_counted
    ):
        its = self.at_a_cost()  # five requests a second
        samples = [changed(busy_sample(n, 4), preemptions=n * tenths // 10) for n in range(90)]
        its.polls(samples[:60])
        before = its.snapshot.decode_time.actual
        its.polls(samples[60:])
        assert its.its.verdict_window.speedup_bounds is not None
        assert its.snapshot.decode_time.actual == before + 20 * 30 * is_counted

    def test_is_not_counted_in_an_evaluation_that_fails(self, busy_sample, monkeypatch):
        its = self.at_a_cost()
        its.polls(busy_sample(n, 4) for n in range(60))
        before = its.snapshot.decode_time.actual
        with monkeypatch.context() as broken:
            broken.setattr(Evaluation, "computed_decision", property(lambda _: 1 / 0))
            with pytest.raises(ZeroDivisionError):
                its.poll(busy_sample(60, 4))
        its.poll(busy_sample(61, 4))
        assert its.snapshot.decode_time.actual == pytest.approx(before + 20)

    def test_of_the_day_goes_on_after_a_restart_of_the_exporter(self, busy_sample):
        before, after = self.at_a_cost(), self.at_a_cost()
        before.polls(busy_sample(n, 4) for n in range(60))
        after.watch.learned.remember(before.watch.learned.state)
        after.moment = 60.0
        after.polls(busy_sample(n, 4) for n in range(60, 120))
        days = [each.snapshot.today for each in (before, after)]
        assert days[0].since == days[1].since
        assert days[1].time.actual == pytest.approx(days[0].time.actual + after.snapshot.decode_time.actual)


def test_verified_draft_tokens_bring_rates_back_under_adaptive_verification():
    """Without them T has drafts that vLLM did not verify: then no rate to T is known."""
    assumed = Assumptions(Speculation("dspark", tokens=7, is_adaptive=True))
    rates = []
    for counts_verified in (False, True):
        monitor = EngineMonitor((30.0,), assumed)
        for moment in range(40):
            page = make_sample(25 * moment, 100 * moment, 50 * moment, positions=(25 * moment, 25 * moment))
            page = replace(page, counts_verified=counts_verified)
            monitor.observe(page, float(moment), 1e9 + moment, 1.0, 10.0)
        monitor.evaluate()
        evaluation = monitor.snapshot.evaluation
        rates.append(evaluation.longest.draft_acceptance_ratio)
        assert evaluation.known.speculation.chooses_tokens is not counts_verified
    assert rates == [None, 0.5]
