"""Monitor of one engine: events, checks that two polls confirm, and snapshots."""

from __future__ import annotations

from collections import Counter as Counts
from dataclasses import replace
from math import inf

import pytest

from spec_decode_exporter.analysis.drops.drop import DropChange, DropKind, DropStatus
from spec_decode_exporter.analysis.evaluation_inputs import Assumptions
from spec_decode_exporter.analysis.evaluation_result import UNREACHABLE, Evaluation
from spec_decode_exporter.analysis.experiments.experiment import Member, compare
from spec_decode_exporter.analysis.integrity import Check
from spec_decode_exporter.analysis.speculation import Speculation
from spec_decode_exporter.analysis.speculation_state import State
from spec_decode_exporter.analysis.verdict import Verdict
from spec_decode_exporter.config.cost_settings import CostSettings
from spec_decode_exporter.config.experiment_settings import ExperimentSettings
from spec_decode_exporter.monitor.engine_monitor import EngineMonitor
from spec_decode_exporter.monitor.step_times import StepTimes
from spec_decode_exporter.scrape.page.engine_table import Counter, Latency
from spec_decode_exporter.scrape.page.sample import Buckets
from spec_decode_exporter.window.increments import Reset

WALL = 1_790_000_000.0


class Watched:
    """Engine monitor that is polled every second, with histograms each time."""

    def __init__(self, windows=(30.0, 300.0)) -> None:
        self.watch = EngineMonitor(windows)
        self.moment = 0.0

    def poll(self, sample, after=1.0):
        self.moment += after
        return self.watch.observe(sample, self.moment, WALL + self.moment, 1.0, 1.0)

    def snapshot(self, later=0.0):
        return self.watch.snapshot(self.moment + later)


@pytest.fixture(name="watched")
def watched_fixture():
    return Watched()


@pytest.fixture(name="good")
def good_fixture(make_sample):
    def good(n, *, created=None):
        return make_sample(10 * n, 40 * n, 15 * n, positions=(9 * n, 4 * n, 2 * n, 0), created=created)

    return good


@pytest.fixture(name="torn")
def torn_fixture(make_sample):
    """A page whose positions were read before its accepted tokens."""
    return lambda n: make_sample(10 * n, 40 * n, 15 * n + 3, positions=(9 * n, 4 * n, 2 * n, 0))


class TestChecks:
    def test_a_single_page_that_breaks_a_check_may_be_torn(self, watched, good, torn):
        for n, page in enumerate((good, torn, good, torn, good)):
            assert watched.poll(page(n)) == []
        assert watched.snapshot().broken == frozenset()

    def test_two_successive_polls_break_it_with_an_event_of_the_numbers(self, watched, good, torn):
        watched.poll(good(1))
        watched.poll(torn(2))
        (event,) = watched.poll(torn(3))
        assert (event.name, event.is_bad) == ("check_broken", True)
        assert event.fields == {
            "check": "positions_add_up",
            "drafts": 30,
            "draft_tokens": 120,
            "accepted_tokens": 48,
            "accepted_by_position": [27, 12, 6, 0],
        }
        assert watched.snapshot().broken == {Check.POSITIONS_ADD_UP}

    def test_it_has_one_event_and_one_when_it_holds_again(self, watched, good, torn):
        for n in (1, 2):
            watched.poll(torn(n))
        assert watched.poll(torn(3)) == []
        (event,) = watched.poll(good(4))
        assert (event.name, event.fields["check"], event.is_bad) == (
            "check_holds_again",
            "positions_add_up",
            False,
        )
        assert watched.snapshot().broken == frozenset()

    def test_two_polls_that_break_different_checks_confirm_neither(self, watched, make_sample):
        watched.poll(make_sample(10, 40, 20, positions=(9, 5, 2, 0)))
        watched.poll(make_sample(10, 40, 20, positions=(9, 5, 5, 6)))
        assert watched.snapshot().broken == {Check.POSITIONS_ADD_UP}
        watched.poll(make_sample(11, 44, 25, positions=(9, 5, 5, 6)))
        assert watched.snapshot().broken == {Check.POSITIONS_DECREASE}

    def test_alternating_creation_times_are_several_servers_at_once(self, watched, good):
        for n in range(2):
            watched.poll(good(n, created=WALL - 5 - n))
        events = watched.poll(good(2, created=WALL - 5))
        assert [event.name for event in events] == ["engine_reset", "check_broken"]
        assert watched.snapshot().broken == {Check.ONE_SERVER}

    def test_nothing_is_repaired(self, watched, torn):
        for n in (1, 2, 3):
            watched.poll(torn(n))
        window = watched.snapshot().windows[0]
        assert window[Counter.ACCEPTED_TOKENS] == 30
        assert window.positions == (18, 8, 4, 0)


class TestResets:
    @pytest.mark.parametrize(
        ("created", "cause", "counted"),
        [
            (WALL + 5.5, "restart", True),  # since the last poll
            (WALL - 900.0, "restart", False),  # another server's
            (WALL - 100.0, "decrease", False),  # the same process
        ],
    )
    def test_a_reset_is_an_event_with_its_cause(self, watched, good, created, cause, counted):
        for _ in range(5):
            watched.poll(good(9, created=WALL - 100.0))
        (event,) = watched.poll(good(1, created=created))
        assert (event.name, event.is_bad) == ("engine_reset", False)
        assert event.fields == {"cause": cause, "counted_since_restart": counted}
        assert watched.snapshot().totals.resets[Reset(cause)] == 1

    def test_an_ordinary_poll_is_no_event(self, watched, good):
        assert [watched.poll(good(n, created=WALL)) for n in range(20)] == [[]] * 20


class TestFindings:
    def test_they_have_every_window_ascending(self, watched, good):
        for n in range(400):
            watched.poll(good(n))
        short, long = watched.snapshot().windows
        assert (short.length, short[Counter.DRAFTS]) == (30.0, 300)
        assert (long.length, long[Counter.DRAFTS]) == (300.0, 3000)

    def test_later_polls_do_not_change_them(self, watched, good):
        for n in range(5):
            watched.poll(good(n))
        snapshot = watched.snapshot()
        before = (snapshot.windows, snapshot.totals.counters, dict(snapshot.totals.resets))
        watched.poll(good(0))
        assert (snapshot.windows, snapshot.totals.counters, snapshot.totals.resets) == before

    def test_after_too_long_without_a_poll_only_counters_and_checks_stay(self, watched, torn):
        for n in range(4):
            watched.poll(torn(n))
        assert watched.snapshot(later=10.0).windows
        gone = watched.snapshot(later=10.5)
        assert (gone.windows, gone.latencies, gone.reported) == ((), {}, None)
        assert gone.totals.counters[Counter.DRAFTS] == 30
        assert gone.broken == {Check.POSITIONS_ADD_UP}

    def test_the_increments_of_single_polls_are_in_the_windows(self, watched, good):
        for n in range(3):
            watched.poll(good(n))
        increments = watched.snapshot().windows[0].increments
        assert increments.counter(Counter.DRAFT_TOKENS) == [40, 40]
        assert increments.counter(Counter.ACCEPTED_TOKENS) == [15, 15]

    def test_other_windows_hold_from_now_on(self, watched, good):
        for n in range(100):
            watched.poll(good(n))
        watched.watch.keep((10.0,))
        (window,) = watched.snapshot().windows
        assert (window.length, window[Counter.DRAFTS]) == (10.0, 100)

    def test_histograms_are_over_the_longest_window(self, watched, make_sample):
        for n in range(400):
            buckets = Buckets((1.0, inf), (n, 2 * n))
            watched.poll(make_sample(latencies={Latency.QUEUE: buckets}))
        assert watched.snapshot().latencies == {Latency.QUEUE: Buckets((1.0, inf), (300, 600))}

    def test_a_poll_without_histograms_changes_nothing_of_them(self, watched, make_sample):
        for n in range(3):
            watched.poll(make_sample(latencies={Latency.QUEUE: Buckets((inf,), (n,))}))
        watched.poll(make_sample())
        assert watched.snapshot().latencies[Latency.QUEUE].counts == (2,)

    def test_histograms_come_no_faster_than_polls(self, make_sample):
        # Every 20 s, though they were wanted every 10: half of *that* is what a window allows for.
        watch = EngineMonitor((120.0, 300.0))
        for n in range(20):
            sample = make_sample(latencies={Latency.QUEUE: Buckets((inf,), (n,))})
            moment = 20.0 * n - (6.0 if n == 4 else 0.0)
            watch.observe(sample, moment, WALL + moment, 20.0, 10.0)
        assert watch.snapshot(380.0).latencies[Latency.QUEUE].counts == (15,)


class TestServersThatCountTokensAsSteps:
    """Recognised once a process was watched for a whole long window; held until it restarts."""

    @pytest.fixture(name="page")
    def page_fixture(self, make_sample):
        def page(n, *, per_token, created):
            return make_sample(
                10 * n,
                40 * n,
                20 * n,
                positions=(10 * n, 10 * n, 0, 0),
                generation_tokens=30 * n,
                first_tokens=0,
                decode_steps=(30 if per_token else 10) * n,
                decode_nanoseconds=10**9 * n,
                created=created,
                latencies={Latency.DECODE_STEP: Buckets((1.0, inf), (n, n))},
            )

        return page

    @staticmethod
    def steps(watched):
        return watched.snapshot().windows[-1][Counter.DECODE_STEPS]

    def test_one_is_recognised_after_a_whole_long_window(self, page):
        watched = Watched((10.0, 60.0))
        for n in range(60):
            watched.poll(page(n, per_token=True, created=WALL - 9))
            assert self.steps(watched) == 30 * n
        watched.poll(page(60, per_token=True, created=WALL - 9))
        assert self.steps(watched) is None
        assert watched.snapshot().windows[-1][Counter.DECODE_NANOSECONDS] == 60 * 10**9
        assert watched.snapshot().latencies == {}

    def test_a_server_that_counts_steps_never_is(self, page):
        watched = Watched((10.0, 60.0))
        for n in range(200):
            watched.poll(page(n, per_token=False, created=WALL - 9))
            assert self.steps(watched) == 10 * min(n, 60)

    def test_one_that_publishes_its_steps_late_is_not_evaluated(self, page):
        watched = Watched((10.0, 60.0))
        watched.watch.history.always_counts_drafts = True
        for n in range(200):
            late = page(n, per_token=True, created=WALL - 9)
            counters = list(late.counters)
            # Six polls behind, all published every twelve polls.
            counters[Counter.DECODE_STEPS] = 30 * (n - n % 12)
            watched.poll(replace(late, counters=tuple(counters)))
        assert self.steps(watched) == 30 * 60

    def test_it_stays_so_while_nothing_runs(self, page):
        watched = Watched((10.0, 60.0))
        for n in range(70):
            watched.poll(page(n, per_token=True, created=WALL - 9))
        for _ in range(100):
            watched.poll(page(69, per_token=True, created=WALL - 9))
        assert self.steps(watched) is None

    def test_after_a_restart_the_server_is_evaluated_by_what_it_does_itself(self, page):
        watched = Watched((10.0, 60.0))
        for n in range(70):
            watched.poll(page(n, per_token=True, created=WALL - 9))
        for n in range(1, 200):
            watched.poll(page(n, per_token=False, created=WALL + 70.5))
            assert self.steps(watched) is not None
        assert self.steps(watched) == 600


class TestEvaluation:
    @pytest.fixture(name="evaluated")
    def evaluated_fixture(self, watched, monkeypatch):
        """The moments of the evaluations."""
        moments = []
        evaluator = watched.watch._evaluator.evaluate

        def noted(windows, inputs, now):
            moments.append(now)
            return evaluator(windows, inputs, now)

        monkeypatch.setattr(watched.watch._evaluator, "evaluate", noted)
        return moments

    def test_is_made_every_five_seconds(self, watched, good, evaluated):
        for n in range(12):
            watched.poll(good(n))
        assert evaluated == [1.0, 6.0, 11.0]

    def test_is_computed_once_a_poll_for_all_readers(self, watched, good, evaluated):
        for n in range(3):
            watched.poll(good(n))
        assert watched.snapshot().evaluation is watched.snapshot().evaluation
        assert evaluated == [1.0, 3.0]
        watched.poll(good(4))
        assert evaluated == [1.0, 3.0]

    def test_is_whole_only_for_readers(self, watched, good, monkeypatch):
        moments = []

        def noted(context):
            moments.append(watched.moment)
            return ()

        monkeypatch.setattr("spec_decode_exporter.analysis.evaluation.findings", noted)
        for n in range(12):
            watched.poll(good(n))
        assert moments == []
        watched.snapshot()
        watched.snapshot()
        assert moments == [12.0]

    def test_is_that_of_the_conclusion_before(self, watched, good):
        for n in range(6):
            watched.poll(good(n))
        conclusion = watched.watch._concluded()
        evaluation = watched.watch.evaluate()
        for name in ("state", "verdict", "action", "recommended", "cost"):
            assert getattr(evaluation, name) == getattr(conclusion, name)
        assert evaluation.completed() is evaluation == conclusion.completed()

    def test_frees_what_the_windows_kept_for_it(self, watched, good):
        for n in range(60):
            watched.poll(good(n))
            if n % 3 == 0:
                watched.snapshot()
            assert all(not window.results for window in watched.watch.windows(watched.moment))

    @pytest.fixture(name="noted")
    def noted_fixture(self, watched):
        """The moments of the evaluations whose changes became events."""
        changes, moments = watched.watch._notifier.changes, []
        watched.watch._notifier.changes = lambda evaluation, now, *more: (
            moments.append(now) or changes(evaluation, now, *more)
        )
        return moments

    def test_emits_events_without_readers(self, watched, good, noted):
        for n in range(12):
            watched.poll(good(n))
        assert noted == [6.0, 11.0], "the empty window after the first poll has no events"

    def test_for_a_reader_counts_as_one_in_time(self, watched, good, evaluated, noted):
        for n in range(16):
            watched.poll(good(n))
            if n + 1 in (3, 8):
                watched.snapshot()
                watched.snapshot()
        assert evaluated == [1.0, 3.0, 8.0, 16.0], "6 and 11 are near a reading"
        assert noted == [3.0, 8.0, 16.0]

    def test_for_a_reader_before_an_outage_is_noted_before_the_outage(self, watched, good):
        for n in range(4):
            watched.poll(good(n))
        watched.snapshot()
        gone = watched.watch.gone_events(watched.moment + 100.0, is_bad=True)
        assert [event.fields["state"] for event in gone] == [State.UNREACHABLE]
        returned = watched.poll(good(5), after=400.0)
        assert [event for event in returned if event.name == "state_changed"] == []

    def test_is_rarer_from_the_next_one_on(self, watched, good, evaluated):
        watched.poll(good(0))
        watched.watch.evaluate_every(8.0)
        for n in range(1, 20):
            watched.poll(good(n))
        assert evaluated == [1.0, 6.0, 14.0]

    def test_emits_events_of_another_state_and_another_number_of_draft_tokens(
        self, watched, good, make_sample
    ):
        events = [event for n in range(12) for event in watched.poll(good(n))]
        assert {event.name for event in events}.isdisjoint({"state_changed", "configured_tokens_changed"})
        restarted = [make_sample(0, 0, 0, positions=(0, 0)) for _ in range(60)]
        events = [event for page in restarted for event in watched.poll(page)]
        fields = {event.name: event.fields for event in events}
        assert fields["configured_tokens_changed"] == {"configured_tokens": 2, "before": 4}
        assert fields["state_changed"] == {"state": "idle", "before": "active"}

    def test_of_an_engine_that_is_gone_is_unreachable(self, watched, good):
        watched.poll(good(1))
        watched.poll(good(1))
        assert watched.snapshot().evaluation.state is State.IDLE
        assert watched.snapshot(later=11.0).evaluation == UNREACHABLE

    def test_of_an_engine_with_one_poll_is_unknown_however_busy_it_is(self, watched, good):
        watched.poll(good(1))
        assert watched.snapshot().evaluation.state is State.UNKNOWN
        watched.poll(good(2))
        assert watched.snapshot().evaluation.state is State.ACTIVE

    def test_uses_the_present_assumptions(self, watched, good):
        for n in range(20):
            watched.poll(good(n))
        assert watched.snapshot().evaluation.cost is None
        watched.watch.assume(Assumptions(cost=CostSettings(draft_cost_ratio=0.1)))
        watched.poll(good(20))
        assert watched.snapshot().evaluation.cost.draft_cost_ratio == 0.1

    def test_uses_the_configured_tokens(self, watched, good):
        watched.watch.assume(Assumptions(Speculation(tokens=6)))
        for n in range(5):
            watched.poll(good(n))
        assert watched.snapshot().tokens == 6
        assert watched.snapshot().windows[0].positions == (36, 16, 8, 0, 0, 0)


class TestChanges:
    """Changes that the detectors report, as inputs of evaluations."""

    @pytest.fixture(name="inputs_after")
    def inputs_after_fixture(self, watched, good, monkeypatch):
        """Return a function that reports changes, and returns inputs of evaluations and events."""

        def inputs_after(change):
            used, evaluate = [], watched.watch._evaluator.evaluate
            detector = watched.watch._learned._drops
            monkeypatch.setattr(
                watched.watch._evaluator,
                "evaluate",
                lambda windows, inputs, now: used.append(inputs) or evaluate(windows, inputs, now),
            )
            for n in range(60):
                reported = (change,) if n == 40 else ()
                monkeypatch.setattr(detector, "observe", lambda *_, found=reported, **__: found)
                events = watched.poll(good(n))
                if n == 40:
                    names = [event.name for event in events]
            watched.snapshot()
            return used[-1], names

        return inputs_after

    def test_a_sudden_drop_begins_the_evaluated_window(self, inputs_after):
        drop = DropChange(DropKind.SUDDEN, True, 2.5, 1.8, 6.0, age=6.0)
        inputs, names = inputs_after(drop)
        assert inputs.changes == 1
        assert inputs.change.window.length == pytest.approx(25.0)
        assert names == ["acceptance_dropped"]

    @pytest.mark.parametrize(
        ("change", "name"),
        [
            (DropChange(DropKind.SLOW, False, 2.5, 2.1, 7200.0, traffic=True), "traffic_changed"),
            (DropChange(DropKind.SLOW, True, 2.5, 2.1, 7200.0), "acceptance_dropped"),
        ],
    )
    def test_other_traffic_and_a_slow_drop_leave_the_evaluated_window(self, inputs_after, change, name):
        inputs, names = inputs_after(change)
        assert (inputs.change, inputs.changes) == (None, 0)
        assert names == [name]


class TestSnapshot:
    @pytest.fixture(name="counted")
    def counted_fixture(self, watched, monkeypatch):
        """Count the calls of everything that a snapshot is computed of."""
        calls = Counts()

        def count(owner, name):
            method = getattr(owner, name)
            monkeypatch.setattr(owner, name, lambda *args: calls.update([name]) or method(*args))

        history = watched.watch.history
        for owner, names in (
            (history, ("window", "totals", "latencies")),
            (watched.watch._evaluator, ("evaluate",)),
            (watched.watch._learned, ("drops", "costs")),
        ):
            for name in names:
                count(owner, name)
        return calls

    def test_is_computed_once_a_poll_and_shared_by_all_readers(self, watched, good, counted):
        for n in range(3):
            watched.poll(good(n))
        counted.clear()
        snapshots = {id(watched.snapshot(later=second)) for second in (0.0, 0.1, 0.9) for _ in range(5)}
        assert len(snapshots) == 1
        assert watched.snapshot().windows is watched.watch.windows(watched.moment)
        # Of two windows; latencies and drops are inputs of the evaluation, and parts of the snapshot.
        assert counted == {
            "window": 2,
            "totals": 1,
            "latencies": 2,
            "evaluate": 1,
            "drops": 2,
            "costs": 1,
        }

    def test_is_not_computed_without_a_reader(self, watched, good, counted):
        for n in range(5):
            watched.poll(good(n))
        counted.clear()
        watched.poll(good(5))  # the next evaluation of the schedule is due at 6 s, which is this poll
        assert (counted["evaluate"], counted["totals"]) == (1, 0)
        counted.clear()
        watched.poll(good(6))
        assert not counted

    def test_uses_the_evaluation_of_the_schedule(self, watched, good, counted):
        for n in range(6):
            watched.poll(good(n))
        counted.clear()
        watched.snapshot()
        assert (counted["evaluate"], counted["window"]) == (0, 0)

    def test_of_a_later_poll_is_another_and_leaves_the_earlier_one_unchanged(self, watched, good):
        for n in range(3):
            watched.poll(good(n))
        before = watched.snapshot()
        watched.poll(good(3))
        assert watched.snapshot() is not before
        assert before.windows[0][Counter.DRAFTS] == 20
        assert watched.snapshot().windows[0][Counter.DRAFTS] == 30

    def test_of_an_engine_that_is_gone_is_computed_once_too(self, watched, good, counted):
        watched.poll(good(1))
        counted.clear()
        assert watched.snapshot(later=11.0) is watched.snapshot(later=60.0)
        assert counted == {"totals": 1, "drops": 1}

    def test_has_new_windows_and_assumptions_at_once(self, watched, good):
        for n in range(3):
            watched.poll(good(n))
        assert watched.snapshot().speculation.method == ""
        watched.watch.assume(Assumptions(Speculation("mtp")))
        assert watched.snapshot().speculation.method == "mtp"
        watched.watch.keep((60.0, 600.0))
        assert [window.length for window in watched.snapshot().windows] == [60.0, 600.0]

    def test_is_not_computed_again_for_the_same_results_of_experiments(self, watched, good, counted):
        steps = [StepTimes()]
        watched.watch.use_experiments(steps, None)
        watched.poll(good(1))
        watched.snapshot()
        counted.clear()
        watched.watch.use_experiments(steps, None)
        watched.snapshot()
        assert not counted


class TestInternalErrors:
    """After an internal error in the analysis the counters are still correct."""

    @pytest.fixture(name="broken")
    def broken_fixture(self, monkeypatch):
        """Make a method raise from now on, and count its calls."""

        def broken(owner, method):
            tried = []

            def raises(*_args):
                tried.append(method)
                raise ZeroDivisionError(method)

            monkeypatch.setattr(owner, method, raises)
            return tried

        return broken

    @staticmethod
    def polls(watched, pages):
        return [event for page in pages for event in watched.poll(page)]

    def test_an_evaluation_that_fails_leaves_the_state_and_has_one_event(self, watched, good, broken):
        self.polls(watched, map(good, range(3)))
        broken(watched.watch._evaluator, "evaluate")
        (event,) = self.polls(watched, map(good, range(3, 30)))
        assert (event.name, event.is_bad, event.fields["part"]) == ("analysis_failed", True, "evaluation")
        assert watched.snapshot().evaluation == Evaluation(State.ACTIVE)
        assert watched.snapshot().windows[0][Counter.DRAFTS] == 290

    def test_the_state_without_an_evaluation_follows_from_the_counters(self, good, make_sample, broken):
        for page, state in ((good(1), State.IDLE), (make_sample(), State.DISABLED)):
            watched = Watched()
            broken(watched.watch._evaluator, "evaluate")
            watched.poll(page)
            watched.poll(page)
            assert watched.snapshot().evaluation == Evaluation(state)

    def test_an_evaluation_that_fails_is_not_repeated_before_the_next_poll(self, watched, good, broken):
        watched.poll(good(0))
        tried = broken(watched.watch._evaluator, "evaluate")
        watched.poll(good(1))
        for _ in range(5):
            assert watched.snapshot().evaluation.verdict is Verdict.INSUFFICIENT
        assert len(tried) == 1
        watched.poll(good(2))
        watched.snapshot()
        assert len(tried) == 2

    def test_a_failure_during_a_read_has_its_event_at_the_next_poll(self, watched, good, broken):
        self.polls(watched, map(good, range(2)))
        broken(watched.watch._evaluator, "evaluate")
        watched.snapshot()
        assert [event.name for event in watched.poll(good(2))] == ["analysis_failed"]

    def test_an_evaluation_that_works_again_is_shown_at_once(self, watched, good, monkeypatch):
        self.polls(watched, map(good, range(2)))
        with monkeypatch.context() as patch:
            patch.setattr(watched.watch._evaluator, "evaluate", None)
            watched.poll(good(2))
            assert watched.snapshot().evaluation.bounds == ()
        watched.poll(good(3))
        assert len(watched.snapshot().evaluation.bounds) == 2
        events = self.polls(watched, map(good, range(4, 100)))
        assert [event.name for event in events if "analysis" in event.name] == ["analysis_works_again"]

    def test_a_whole_evaluation_that_fails_leaves_events_and_the_state(self, watched, good, monkeypatch):
        monkeypatch.setattr("spec_decode_exporter.analysis.evaluation.findings", None)
        assert self.polls(watched, map(good, range(3))) == []
        assert watched.snapshot().evaluation == Evaluation(State.ACTIVE)
        (event,) = self.polls(watched, map(good, range(3, 12)))
        assert (event.name, event.fields["part"]) == ("analysis_failed", "evaluation")

    def test_without_an_evaluation_no_stall_ends(self, watched, good, broken, monkeypatch):
        monkeypatch.setattr(watched.watch._evaluator, "evaluate", lambda *_: Evaluation(State.STALLED))
        names = [event.name for event in self.polls(watched, map(good, range(7)))]
        assert names == ["drafting_stalled"]
        broken(watched.watch._evaluator, "evaluate")
        assert [event.name for event in self.polls(watched, map(good, range(7, 20)))] == ["analysis_failed"]

    def test_a_drop_detector_that_fails_loses_no_other_event(self, watched, good, torn, broken):
        self.polls(watched, map(good, range(2)))
        broken(watched.watch._learned._drops, "observe")
        events = self.polls(watched, [torn(2), torn(3)])
        assert [event.name for event in events] == ["analysis_failed", "check_broken"]
        assert events[0].fields["part"] == "learning"
        assert watched.snapshot().windows[0][Counter.DRAFTS] == 30

    def test_a_drop_status_that_fails_is_absent_with_its_counts(self, watched, good, broken):
        self.polls(watched, map(good, range(2)))
        broken(watched.watch._learned._drops, "status")
        assert watched.snapshot().drops == DropStatus(drops={})
        assert watched.snapshot(later=60.0).drops == DropStatus(drops={})

    def test_state_that_cannot_be_saved_is_absent(self, watched, good, broken):
        self.polls(watched, map(good, range(5)))
        assert watched.watch.learned() is not None
        broken(watched.watch._learned._drops, "saved")
        assert watched.watch.learned() is None


def _with_accepted(sample, accepted):
    counters = list(sample.counters)
    counters[Counter.ACCEPTED_TOKENS] = accepted
    return tuple(counters)


class TestExperimentInputs:
    @pytest.mark.parametrize("method", ["eagle3", ""])
    def test_an_engine_that_speculates_has_its_method_as_far_as_it_is_known(self, watched, good, method):
        watched.watch.assume(Assumptions(Speculation(method)))
        watched.poll(good(1))
        assert watched.watch.method == method

    def test_one_that_does_not_is_off_whatever_is_configured_for_all(self, watched, make_sample):
        watched.watch.assume(Assumptions(Speculation("eagle3")))
        watched.poll(make_sample(generation_tokens=5))
        assert watched.watch.method == "off"

    def test_one_that_may_be_about_to_has_the_method_that_it_is_configured_with(self, watched, make_sample):
        watched.watch.history.always_counts_drafts = True
        watched.poll(make_sample(0, 0, 0))
        assert watched.watch.method == ""
        watched.poll(make_sample(0, 0, 0, generation_tokens=100))
        assert watched.watch.method == "off"
        watched.watch.assume(Assumptions(Speculation("eagle3")))
        assert watched.watch.method == "eagle3"

    def test_one_that_comes_to_draft_by_another_method_brings_nothing_of_the_old_one_into_its_arm(
        self, watched, good
    ):
        settings = ExperimentSettings.model_validate(
            {
                "name": "methods",
                "arms": {name: {"match": {"method": name}} for name in ("eagle3", "mtp")},
                "baseline": "eagle3",
            }
        )

        def compared():
            labels = {"name": "t", "model_name": "m", "method": watched.watch.method}
            member = Member(labels, watched.watch.windows(watched.moment))
            found = compare(settings, [member], (30.0, 300.0), watched.moment).arms
            return {name: arm.windows[-1].acceptance_length for name, arm in found.items()}

        watched.watch.assume(Assumptions(Speculation("eagle3", tokens=4)))
        for n in range(10):
            watched.poll(good(n))
        assert compared() == {"eagle3": 2.5, "mtp": None}
        watched.watch.assume(Assumptions(Speculation("mtp", tokens=4)))
        assert compared() == {"eagle3": None, "mtp": None}
        events = watched.poll(replace(good(10), counters=_with_accepted(good(10), 135 + 5)))
        assert compared() == {"eagle3": None, "mtp": 1.5}
        assert "configured_tokens_changed" not in {event.name for event in events}

    def test_one_whose_method_is_only_known_later_keeps_its_windows(self, watched, good):
        watched.poll(good(1))
        watched.poll(good(2))
        watched.watch.assume(Assumptions(Speculation("mtp")))
        (window, _) = watched.watch.windows(watched.moment)
        assert window[Counter.DRAFTS] == 10

    def test_one_that_was_not_seen_for_too_long_has_no_windows(self, watched, good):
        watched.poll(good(1))
        watched.poll(good(2))
        assert [window.length for window in watched.watch.windows(watched.moment)] == [30.0, 300.0]
        assert watched.watch.windows(watched.moment + 11.0) == ()

    def test_the_baseline_of_an_experiment_gives_the_cost_until_there_is_none(self, make_sample):
        def working(n, drafts, step):
            return make_sample(
                drafts * n,
                4 * drafts * n,
                2 * drafts * n,
                positions=(drafts * n, drafts * n, 0, 0),
                generation_tokens=n * 1200,
                first_tokens=8 * n,
                decode_steps=400 * n,
                decode_nanoseconds=round(400 * step * 1e9) * n,
                running_requests=8.0,
            )

        drafting, plain = Watched(), Watched()
        for n in range(60):
            drafting.poll(working(n, 400, 0.028))
            plain.poll(
                make_sample(
                    generation_tokens=408 * n,
                    first_tokens=8 * n,
                    decode_steps=400 * n,
                    decode_nanoseconds=8 * 10**9 * n,
                    running_requests=8.0,
                )
            )
        drafting.watch.use_experiments([plain.watch.step_times], None)
        drafting.poll(working(60, 400, 0.028))
        cost = drafting.watch.evaluate().cost
        # 28 ms a step against 20 ms, for four tokens.
        assert (cost.source, cost.draft_cost_ratio) == ("experiment", pytest.approx(0.1))
        drafting.watch.use_experiments((), None)
        assert drafting.watch.evaluate().cost is None, "though nothing was polled since"
        drafting.poll(working(61, 400, 0.028))
        assert drafting.watch.evaluate().cost is None
