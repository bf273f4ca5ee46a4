"""Monitor of one engine: its last evaluation, what makes another one urgent, events, and internal errors."""

import weakref
from dataclasses import dataclass, field, replace

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
from tests.fakes.engines import WALL
from tests.fakes.evaluations import curve

WINDOWS = (30.0, 300.0)


@dataclass
class Watched:
    """Engine monitor that is polled every second, with histograms each time."""

    monitor: EngineMonitor = field(default_factory=lambda: EngineMonitor(WINDOWS))
    moment: float = 0.0

    def poll(self, *samples):
        """Take polls, each with an evaluation; return the events."""
        return [event for sample in samples for event in (*self.observe(sample), *self.monitor.evaluate())]

    def observe(self, sample):
        """Take a poll without an evaluation."""
        self.moment += 1.0
        return self.monitor.observe(sample, self.moment, WALL + self.moment, 1.0, 1.0)

    snapshot = property(lambda self: self.monitor.snapshot)
    evaluation = property(lambda self: self.monitor.snapshot.evaluation)


@pytest.fixture(name="watched")
def watched_fixture():
    return Watched()


def good(n, torn=0, **more):
    """A page of good drafts; ``torn`` accepted tokens were counted after its positions were read."""
    return make_sample(10 * n, 40 * n, 15 * n + torn, positions=(9 * n, 4 * n, 2 * n, 0), **more)


def test_a_removed_monitor_is_freed_without_a_garbage_collection(watched):
    watched.poll(*map(good, range(40)))
    kept = weakref.ref(vars(watched).pop("monitor"))
    assert kept() is None


def silent(sample, n, decoding=0):
    """The page after ``n`` more seconds of decode steps without a draft."""
    counters = list(sample.counters)
    counters[Counter.DECODE_STEPS] += 400 * n
    counters[Counter.GENERATION_TOKENS] += 400 * n
    counters[Counter.DECODE_NANOSECONDS] += decoding * 10**9
    return replace(sample, counters=tuple(counters))


class TestChecks:
    def test_need_two_successive_polls(self, watched):
        pages = good(1), good(2, torn=3), good(3), good(4, torn=3), good(5, torn=3), good(6)
        events = [[event.name for event in watched.poll(page)] for page in pages]
        assert events == [*[[]] * 4, ["check_broken"], ["check_holds_again"]]
        watched.poll(good(7, torn=3), good(8, torn=3))
        assert watched.snapshot.broken == {Check.POSITIONS_ADD_UP}
        assert watched.snapshot.findings[0].name == "broken_positions_add_up"


def test_a_sudden_drop_begins_the_evaluated_window(watched, monkeypatch):
    """It is reported at the 40th of 60 polls, 6 s after its begin."""
    drop = Drop(DropKind.SUDDEN, Transition.BEGAN, 2.50004, 1.8, 6.04, age=6.0)
    watched.poll(*map(good, range(40)))
    with monkeypatch.context() as reporting:
        reporting.setattr(Drops, "observe", lambda *_: (drop,))
        [event] = watched.poll(good(40))
    watched.poll(*map(good, range(41, 60)))
    its = watched.evaluation
    assert (its.basis, its.since) == (Basis.CHANGE, WALL + 41 - 6)
    assert its.verdict_window.window.length == pytest.approx(25.0)
    fields = {"kind": "sudden", "baseline_length": 2.5, "length": 1.8, "seconds": 6.0}
    fields["since"] = "2026-09-21T14:13:55Z"
    assert (event.name, event.fields) == ("acceptance_dropped", fields)


def test_the_drafts_of_a_schedule_that_pauses_count_until_the_number_of_tokens_changes():
    speculation = Speculation("eagle3", tokens=4, schedule=BatchSchedule((1, 8), (4, 0)))
    watched = Watched(EngineMonitor(WINDOWS, Assumptions(speculation)))
    watched.poll(*map(good, range(1, 290)))
    window, wall = watched.evaluation.known.last_drafts
    assert (window.total.drafts, wall) == (2870, WALL + 288)
    watched.observe(make_sample(2900, 8700, 4350, positions=(2610, 1160, 580)))
    watched.monitor.use(WINDOWS, Assumptions(replace(speculation, tokens=3)))
    watched.poll(make_sample(2910, 8730, 4365, positions=(2619, 1164, 582)))
    assert watched.evaluation.known.last_drafts is None


class TestEvaluation:
    def test_is_the_last_one_for_all_readers_and_only_totals_are_of_the_newest_poll(self, watched):
        assert watched.snapshot is None
        watched.poll(*map(good, range(1, 40)))
        first = watched.snapshot
        watched.observe(good(40))
        later = watched.snapshot
        assert later.evaluation == first.evaluation
        assert later.findings is first.findings
        assert (later.evaluation.known.wall, watched.monitor.evaluated_at) == (WALL + 39.0, 39.0)
        assert [each.totals.counters.drafts for each in (first, later)] == [380, 390]

    @pytest.mark.parametrize("in_full", [True, False])
    def test_of_a_poll_does_not_change_with_later_ones_even_if_it_is_read_later(self, busy_sample, in_full):
        early, late = Watched(), Watched()
        for its in (early, late):
            for n in range(1, 60):
                its.observe(busy_sample(n))
            its.monitor.evaluate(in_full=in_full)
        read_late, own = late.snapshot, early.evaluation.longest
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
        watched.observe(good(2))
        assert watched.monitor.is_urgent
        watched.poll(*map(good, range(3, 20)))
        for n in range(20, 60):
            watched.observe(good(n))
            assert not watched.monitor.is_urgent

    @pytest.mark.parametrize("change", ["reset", "state", "drop"])
    def test_a_change_is(self, watched, monkeypatch, change):
        watched.poll(*(make_sample() if change == "state" else good(n) for n in range(1, 20)))
        after = good(20)
        if change == "reset":
            after = good(1, created=WALL + 19)
        elif change == "drop":
            drop = Drop(DropKind.SUDDEN, Transition.LEARNED_AGAIN, 2.5, 2.1, 1800.0)
            monkeypatch.setattr(Drops, "observe", lambda *_: (drop,))
        watched.observe(after)
        assert watched.monitor.is_urgent


class TestNoGain:
    def test_pays_is_gone_at_once_even_if_no_drop_is_found(self, monkeypatch):
        """A drop needs a baseline of a minute, and many requests; what a step gives is known before."""
        cost = CostSettings(draft_cost_ratio=0.1, running_requests=4)
        watched = Watched(EngineMonitor(WINDOWS, Assumptions(Speculation("ngram", tokens=4), cost)))
        pages = [
            make_sample(
                100 * n, 400 * n, 200 * n,
                positions=(90 * n, 60 * n, 40 * n, 10 * n),
                generation_tokens=320 * n, first_tokens=10 * n, decode_steps=110 * n, running_requests=4.0,
            )
            for n in range(1, 51)
        ]  # fmt: skip
        watched.poll(*pages[:-1])
        assert watched.evaluation.verdict in PAYING
        monkeypatch.setattr(Evaluation, "gains_nothing", True)
        watched.poll(pages[-1])
        assert watched.evaluation.computed_decision.verdict in PAYING
        assert watched.evaluation.verdict is Verdict.INSUFFICIENT
        assert not watched.snapshot.drops.live


class TestGone:
    def test_it_has_its_totals_alone(self, watched):
        watched.poll(*map(good, range(1, 100)))
        watched.monitor.gone(watched.moment + 60.0, is_bad=True)
        gone, its = watched.snapshot, watched.evaluation
        assert (its.state, its.windows, gone.reported) == (State.UNREACHABLE, (), None)
        assert (gone.totals.counters.drafts, gone.tokens, gone.findings) == (980, 4, ())
        assert watched.monitor.windows(watched.moment + 60.0) == ()
        assert (gone.drops.baseline_acceptance_length_tokens, gone.drops.total["sudden"]) == (None, 0)
        watched.poll(good(100))
        assert watched.snapshot.drops.baseline_acceptance_length_tokens is not None
        assert watched.evaluation.state is State.ACTIVE


def test_after_an_internal_error_in_the_analysis_there_are_counts_and_the_state_by_them(watched, monkeypatch):
    monkeypatch.setattr(Evaluation, "verdict_window", property(lambda _: 1 / 0))
    for n in range(1, 100):
        watched.observe(good(n))
    with pytest.raises(ZeroDivisionError):
        watched.monitor.evaluate()
    its = watched.evaluation
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
        kept = Watched(EngineMonitor(WINDOWS, Assumptions(Speculation("eagle3", tokens=4), self.COSTS)))
        for n in range(1, 290):
            kept.observe(working(n))
        kept.monitor.evaluate()
        assert (kept.evaluation.verdict, kept.evaluation.action) == (Verdict.OPTIMAL, Action.KEEP)
        return kept

    def test_another_number_of_tokens_resets_it_and_is_an_event(self, kept):
        kept.monitor.use(WINDOWS, Assumptions(Speculation("eagle3", tokens=6), self.COSTS))
        [event] = [each for each in kept.poll(good(1)) if each.name == "configured_tokens_changed"]
        assert event.fields == {"configured_tokens": 6, "before": 4}
        assert (kept.evaluation.verdict, kept.evaluation.action) == (Verdict.INSUFFICIENT, Action.COLLECT)

    def test_a_stall_and_its_end_reset_it(self, kept):
        last, seen = working(289), []
        for n in range(1, 130):
            kept.poll(silent(last, n))
            seen.append((kept.evaluation.state, kept.evaluation.verdict))
        assert list(dict.fromkeys(seen)) == [
            (State.ACTIVE, Verdict.OPTIMAL),
            (State.STALLED, Verdict.INSUFFICIENT),
        ]
        kept.poll(silent(working(290), 129))
        assert kept.evaluation.state is State.ACTIVE
        assert kept.evaluation.computed_decision.verdict is Verdict.HEALTHY
        assert kept.evaluation.verdict is Verdict.INSUFFICIENT, "from now on it is about the time since"

    def test_a_change_resets_it_unless_two_others_came_in_the_longest_window(self, kept, monkeypatch):
        seen = []
        for second in range(290, 1000):
            at = second in (300, 400, 500, 900)
            drop = Drop(DropKind.SUDDEN, Transition.BEGAN, 2.5, 1.8, 6.0, age=6.0)
            monkeypatch.setattr(Drops, "observe", lambda *_, at=at, drop=drop: (drop,) if at else ())
            kept.observe(working(second))
            if at:
                kept.monitor.evaluate()
                seen.append(kept.evaluation.verdict)
            elif second % 50 == 49:
                kept.monitor.evaluate()
        assert seen == [*[Verdict.INSUFFICIENT] * 2, Verdict.OPTIMAL, Verdict.INSUFFICIENT]


def test_costs_are_learned_each_half_minute_once_they_are_known(watched, monkeypatch):
    learned = []
    monkeypatch.setattr(Learned, "costs", lambda *_: learned.append(watched.moment) or (curve((8.0, 0.1)),))
    watched.poll(*map(good, range(1, 70)))
    assert learned == [1.0, 1.0 + COSTS_SECONDS, 1.0 + 2 * COSTS_SECONDS]


def test_an_engine_that_counts_no_drafts_shows_the_length_that_it_reports():
    its = Watched(EngineMonitor((30.0, 60.0), Assumptions(engine_kind="sglang")))
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
    assert its.evaluation.state is State.IDLE
    assert found == [False, False, False, True, True]  # a burst may have its first tokens alone for a moment


class TestTimeSaved:
    """Decode time of polls with bounds of the speed-up, beside that without speculation."""

    KNOWN = Assumptions(Speculation("eagle3"), CostSettings(running_requests=20, draft_cost_ratio=0.05))

    @pytest.mark.parametrize(("cost", "sign"), [(0.05, 1), (2.0, -1)])
    def test_is_counted_from_the_first_bounds_on_and_negative_where_drafts_cost(
        self, busy_sample, cost, sign
    ):
        costs = CostSettings(running_requests=20, draft_cost_ratio=cost)
        its = Watched(EngineMonitor(WINDOWS, Assumptions(Speculation("eagle3"), costs)))
        its.poll(*(busy_sample(n, 4) for n in range(25)))
        assert its.snapshot.decode_time.actual == 0
        its.poll(*(busy_sample(n, 4) for n in range(25, 100)))
        time = its.snapshot.decode_time
        # 20 s of decoding a second, without the first 26 to 30 polls
        assert 20 * 70 <= time.actual <= 20 * 75
        value, lower, upper = time.saved
        assert lower <= value <= upper
        assert sign * lower > 0 < sign * upper
        assert its.snapshot.today.time == time

    def test_is_not_counted_once_the_shortest_window_has_no_draft(self, busy_sample):
        its = Watched(EngineMonitor((10.0, 100.0), self.KNOWN))
        its.poll(*(busy_sample(n, 4) for n in range(90)))
        its.poll(*(silent(busy_sample(89, 4), n) for n in range(1, 12)))
        paused = its.snapshot.decode_time
        its.poll(*(silent(busy_sample(89, 4), n, decoding=n) for n in range(12, 30)))
        assert its.evaluation.verdict_window.speedup_bounds is not None
        assert its.snapshot.decode_time == paused

    @pytest.mark.parametrize(("tenths", "is_counted"), [(2, True), (3, False)])
    def test_is_not_counted_while_more_than_one_request_in_20_is_preempted(
        self, busy_sample, tenths, is_counted
    ):
        its = Watched(EngineMonitor(WINDOWS, self.KNOWN))  # five requests a second
        samples = []
        for n in range(90):
            counters = list(busy_sample(n, 4).counters)
            counters[Counter.PREEMPTIONS] = n * tenths // 10
            samples.append(replace(busy_sample(n, 4), counters=tuple(counters)))
        its.poll(*samples[:60])
        before = its.snapshot.decode_time.actual
        its.poll(*samples[60:])
        assert its.evaluation.verdict_window.speedup_bounds is not None
        assert its.snapshot.decode_time.actual == before + 20 * 30 * is_counted

    def test_is_not_counted_in_an_evaluation_that_fails(self, busy_sample, monkeypatch):
        its = Watched(EngineMonitor(WINDOWS, self.KNOWN))
        its.poll(*(busy_sample(n, 4) for n in range(60)))
        before = its.snapshot.decode_time.actual
        with monkeypatch.context() as broken:
            broken.setattr(Evaluation, "computed_decision", property(lambda _: 1 / 0))
            with pytest.raises(ZeroDivisionError):
                its.poll(busy_sample(60, 4))
        its.poll(busy_sample(61, 4))
        assert its.snapshot.decode_time.actual == pytest.approx(before + 20)

    def test_of_the_day_goes_on_after_a_restart_of_the_exporter(self, busy_sample):
        before, after = (Watched(EngineMonitor(WINDOWS, self.KNOWN)) for _ in range(2))
        before.poll(*(busy_sample(n, 4) for n in range(60)))
        after.monitor.learned.remember(before.monitor.learned.state)
        after.moment = 60.0
        after.poll(*(busy_sample(n, 4) for n in range(60, 120)))
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
