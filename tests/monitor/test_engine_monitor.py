"""Monitor of one engine: checks that two polls confirm, changes, snapshots, and internal errors."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from weakref import ref

import pytest

from spec_decode_exporter.analysis.evaluation import Basis, Evaluation, PlainEvaluation
from spec_decode_exporter.analysis.knowledge import Assumptions, FasterMethod
from spec_decode_exporter.analysis.speculation import Speculation
from spec_decode_exporter.analysis.verdict import State, Verdict
from spec_decode_exporter.config.experiment_settings import ExperimentSettings
from spec_decode_exporter.drops.drop import DropChange, DropKind
from spec_decode_exporter.experiments.experiment import Member, compare
from spec_decode_exporter.figures.estimate import Estimate
from spec_decode_exporter.monitor.engine_monitor import EngineMonitor
from spec_decode_exporter.monitor.learned_state import LearnedState
from spec_decode_exporter.scrape.page.engine_table import Counter, Latency
from spec_decode_exporter.scrape.page.sample import Buckets
from spec_decode_exporter.window.poll import Check

WALL = 1_790_000_000.0


class Watched:
    """Engine monitor that is polled every second, with histograms each time."""

    def __init__(self, windows=(30.0, 300.0)) -> None:
        self.watch = EngineMonitor(windows)
        self.moment = 0.0

    def poll(self, sample, after=1.0):
        self.moment += after
        return self.watch.observe(sample, self.moment, WALL + self.moment, 1.0, 1.0)

    def polls(self, samples):
        return [event for sample in samples for event in self.poll(sample)]

    def snapshot(self, later=0.0):
        return self.watch.snapshot(self.moment + later)


@pytest.fixture(name="watched")
def watched_fixture():
    return Watched()


@pytest.fixture(name="good")
def good_fixture(make_sample):
    def good(n, *, created=None, **more):
        return make_sample(
            10 * n, 40 * n, 15 * n, positions=(9 * n, 4 * n, 2 * n, 0), created=created, **more
        )

    return good


def names_of(events):
    return [event.name for event in events]


class TestChecks:
    def test_need_two_successive_polls(self, watched, good):
        """A page whose positions were read before its accepted tokens is torn."""

        def torn(n):
            return replace(good(n), counters=_with_accepted(good(n), 15 * n + 3))

        events = [
            names_of(watched.poll(page)) for page in (good(1), torn(2), good(3), torn(4), torn(5), good(6))
        ]
        assert events == [[], [], [], [], ["check_broken"], ["check_holds_again"]]
        watched.polls([torn(7), torn(8)])
        assert watched.snapshot().broken == {Check.POSITIONS_ADD_UP}
        assert watched.snapshot().findings[0].name == "broken_positions_add_up"

    def test_alternating_creation_times_are_several_servers_at_once(self, watched, good):
        for n in range(2):
            watched.poll(good(n, created=WALL - 5 - n))
        events = watched.poll(good(2, created=WALL - 5))
        assert names_of(events) == ["engine_reset", "check_broken"]
        assert watched.snapshot().broken == {Check.ONE_SERVER}


class TestChanges:
    """Changes that the detectors report."""

    @pytest.fixture(name="after")
    def after_fixture(self, watched, good, monkeypatch):
        """Report a change at the 40th of 60 polls; return the evaluation, and the events of that poll."""

        def after(change):
            for n in range(60):
                reported = (change,) if n == 40 else ()
                monkeypatch.setattr(LearnedState, "observe", lambda *_, found=reported: found)
                events = watched.poll(good(n))
                if n == 40:
                    names = names_of(events)
            return watched.snapshot().evaluation, names

        return after

    def test_a_sudden_drop_begins_the_evaluated_window(self, after):
        evaluation, names = after(DropChange(DropKind.SUDDEN, True, 2.5, 1.8, 6.0, age=6.0))
        assert (evaluation.basis, evaluation.known.changes) == (Basis.CHANGE, 1)
        assert evaluation.since == WALL + 41 - 6
        assert evaluation.evaluated.window.length == pytest.approx(25.0)
        assert names == ["acceptance_dropped"]

    def test_a_slow_drop_leaves_the_evaluated_window(self, after):
        evaluation, names = after(DropChange(DropKind.SLOW, True, 2.5, 2.1, 7200.0))
        assert (evaluation.basis, evaluation.known.changes, evaluation.since) == (Basis.LONGEST, 0, None)
        assert names == ["acceptance_dropped"]


class TestSnapshot:
    @pytest.fixture(name="evaluated")
    def evaluated_fixture(self, monkeypatch):
        """Collect the moments of all evaluations."""
        moments, init = [], Evaluation.__init__

        def counted(self, windows, known, *latencies):
            if windows:
                moments.append(known.wall - WALL)
            init(self, windows, known, *latencies)

        monkeypatch.setattr(Evaluation, "__init__", counted)
        return moments

    def test_readers_of_a_poll_share_one_evaluation(self, watched, good, evaluated):
        watched.polls(map(good, range(1, 4)))
        evaluated.clear()
        first = watched.snapshot()
        assert watched.snapshot(0.5) is first
        assert watched.watch.evaluate() is first.evaluation
        assert evaluated == [3.0]

    def test_without_readers_it_is_evaluated_each_few_seconds(self, watched, good, evaluated):
        watched.watch.evaluate_every(20.0)
        watched.polls(map(good, range(1, 62)))
        assert evaluated == [1.0, 21.0, 41.0, 61.0]

    def test_a_reader_replaces_the_next_of_these_evaluations(self, watched, good, evaluated):
        watched.watch.evaluate_every(20.0)
        watched.polls(map(good, range(1, 16)))
        watched.snapshot()
        watched.polls(map(good, range(16, 62)))
        assert evaluated == [1.0, 15.0, 41.0, 61.0]

    def test_of_a_poll_does_not_change_with_later_ones(self, watched, good):
        """Nothing of it was read before."""
        early, late = Watched((10.0, 30.0)), Watched((10.0, 30.0))
        for monitor in (early, late):
            monitor.polls(
                good(n, generation_tokens=25 * n, first_tokens=n, running_requests=3.0) for n in range(40)
            )
        expected, read_late = early.watch.evaluate(), late.snapshot()
        late.polls(good(n, created=WALL + 40, running_requests=90.0) for n in range(100))
        its, own = read_late.evaluation.longest, expected.longest
        assert its.positions.conditional == own.positions.conditional
        assert (its.poll_rates, its.drafting_requests) == (own.poll_rates, own.drafting_requests)
        assert its.conditional_bounds(1) == own.conditional_bounds(1)
        assert read_late.findings == early.snapshot().findings

    def test_findings_leave_no_columns_of_increments(self, watched, good):
        """They need columns again, which the settled evaluation dropped."""
        watched.polls(map(good, range(1, 200)))
        snapshot = watched.snapshot()
        assert snapshot.findings
        assert snapshot.evaluation.longest.__dict__.keys().isdisjoint({"increments", "works", "depths"})

    def test_of_an_engine_that_is_gone_has_its_totals_alone(self, watched, good):
        watched.polls(map(good, range(1, 100)))
        gone = watched.snapshot(later=60.0)
        assert (gone.evaluation.state, gone.evaluation.windows, gone.reported) == (
            State.UNREACHABLE,
            (),
            None,
        )
        assert (gone.totals.counters.drafts, gone.tokens, gone.findings) == (980, 4, ())
        assert watched.watch.windows(watched.moment + 60.0) == ()
        assert (gone.drops.baseline_length, gone.drops.drops["sudden"]) == (None, 0)
        assert watched.snapshot().drops.baseline_length is not None
        assert watched.snapshot().evaluation.state is State.ACTIVE

    def test_events_of_what_a_reader_saw_last_come_before_that_of_an_engine_that_is_gone(
        self, watched, good, make_sample
    ):
        watched.polls([*[make_sample()] * 8, good(1), good(2)])
        assert watched.snapshot().evaluation.state is State.ACTIVE
        events = watched.watch.gone_events(watched.moment + 60.0, is_bad=True)
        seen = [(each.fields["state"], each.fields["before"], each.is_bad) for each in events]
        assert seen == [("active", "disabled", False), ("unreachable", "active", True)]
        assert watched.watch.gone_events(watched.moment + 60.0, is_bad=True) == []

    def test_of_before_is_freed_once_the_engine_is_gone(self, watched, good):
        watched.polls(map(good, range(1, 100)))
        present = watched.snapshot()
        freed = [ref(present), ref(present.evaluation), ref(present.evaluation.longest)]
        del present
        gone = watched.snapshot(later=60.0)
        assert None not in [each() for each in freed]
        watched.watch.gone_events(watched.moment + 60.0, is_bad=True)
        assert [each() for each in freed] == [None] * 3
        assert watched.snapshot(later=61.0) is gone

    def test_over_some_seconds_alone_covers_these_also_if_the_engine_is_gone(self, watched, good):
        watched.polls(map(good, range(1, 200)))
        for later, state in ((0.0, State.ACTIVE), (60.0, State.UNREACHABLE)):
            over = watched.watch.snapshot_over(60.0, watched.moment + later)
            assert [each.window.length for each in over.evaluation.windows] == [30.0, 60.0]
            assert (over.evaluation.state, over.evaluation.longest.total.drafts) == (state, 600)
            assert over.findings

    def test_histograms_are_over_the_longest_window(self, watched, make_sample):
        for n in range(400):
            watched.poll(make_sample(latencies={Latency.QUEUE: Buckets((1.0, inf), (n, 2 * n))}))
        latencies = watched.snapshot().evaluation.latencies
        assert latencies == {Latency.QUEUE: Buckets((1.0, inf), (300, 600))}

    def test_after_a_reload_has_the_new_windows_at_once(self, watched, good):
        watched.polls(map(good, range(1, 100)))
        watched.snapshot()
        watched.watch.keep((10.0, 60.0))
        assert [each.window.length for each in watched.snapshot().evaluation.windows] == [10.0, 60.0]


class TestInternalErrors:
    """After an internal error in the analysis the counters are still correct."""

    @pytest.fixture(name="broken")
    def broken_fixture(self, monkeypatch):
        """Make something of an evaluation raise."""

        def broken(name, patch=monkeypatch):
            def raises(*_args):
                raise ZeroDivisionError(name)

            patch.setattr(Evaluation, name, property(raises))

        return broken

    @pytest.mark.parametrize("name", ["evaluated", "state", "depths", "setting"])
    def test_without_an_evaluation_there_are_counts_and_the_state_by_them(self, watched, good, broken, name):
        broken(name)
        events = watched.polls(map(good, range(1, 100)))
        snapshot = watched.snapshot()
        assert isinstance(snapshot.evaluation, PlainEvaluation)
        assert (snapshot.evaluation.state, snapshot.evaluation.verdict) == (
            State.ACTIVE,
            Verdict.INSUFFICIENT,
        )
        assert snapshot.totals.counters.drafts == snapshot.evaluation.longest.total.drafts == 980
        assert snapshot.findings == ()
        assert snapshot.evaluation.known.wall == WALL + watched.moment  # of the times in its findings
        later = watched.polls(map(good, range(100, 110)))
        failed = [each for each in [*events, *later] if each.name == "analysis_failed"]
        assert [(each.fields["part"], each.is_bad) for each in failed] == [("evaluation", True)]

    def test_an_evaluation_that_works_again_is_shown_at_once(self, watched, good, monkeypatch, broken):
        watched.polls(map(good, range(2)))
        with monkeypatch.context() as patch:
            broken("evaluated", patch)
            watched.poll(good(2))
            assert isinstance(watched.snapshot().evaluation, PlainEvaluation)
        watched.poll(good(3))
        assert not isinstance(watched.snapshot().evaluation, PlainEvaluation)
        events = watched.polls(map(good, range(4, 100)))
        assert [name for name in names_of(events) if "analysis" in name] == ["analysis_works_again"]

    def test_findings_that_fail_leave_the_evaluation(self, watched, good, monkeypatch):
        monkeypatch.setattr("spec_decode_exporter.monitor.engine_monitor.findings", lambda: ())
        watched.polls(map(good, range(10)))
        assert (watched.snapshot().findings, watched.snapshot().evaluation.state) == ((), State.ACTIVE)
        events = watched.polls(map(good, range(10, 12)))
        failed = [each.fields["part"] for each in events if each.name == "analysis_failed"]
        assert failed == ["findings"]

    def test_learning_that_fails_leaves_counts_and_evaluation(self, watched, good, monkeypatch):
        monkeypatch.setattr(LearnedState, "observe", None)
        monkeypatch.setattr(LearnedState, "drops", None)
        events = watched.polls(map(good, range(1, 12)))
        snapshot = watched.snapshot()
        assert (snapshot.totals.counters.drafts, snapshot.drops.drops) == (100, {})
        assert snapshot.evaluation.state is State.ACTIVE
        events += watched.poll(good(12))
        failed = [event.fields["part"] for event in events if event.name == "analysis_failed"]
        assert failed == ["learning", "drops"]


def _with_accepted(sample, accepted):
    counters = list(sample.counters)
    counters[Counter.ACCEPTED_TOKENS] = accepted
    return tuple(counters)


class TestExperiments:
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
        watched.polls(map(good, range(10)))
        assert compared() == {"eagle3": 2.5, "mtp": None}
        watched.watch.assume(Assumptions(Speculation("mtp", tokens=4)))
        assert compared() == {"eagle3": None, "mtp": None}
        assert watched.snapshot().evaluation.known.changes == 1
        events = watched.poll(replace(good(10), counters=_with_accepted(good(10), 135 + 5)))
        assert compared() == {"eagle3": None, "mtp": 1.5}
        assert "configured_tokens_changed" not in names_of(events)

    def test_their_results_count_at_once(self, make_sample):
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
        speedups = Estimate(3.0, 2.8, 3.2, 0.1), Estimate(2.3, 2.1, 2.5, 0.1)
        faster = FasterMethod("drafter", "eagle", "eagle3", *speedups)
        assert drafting.watch.evaluate().cost is None
        drafting.watch.use_experiments([plain.watch.step_times], faster)
        its = drafting.watch.evaluate()
        # 28 ms a step against 20 ms, for four tokens.
        assert (its.cost.source, its.cost.token.guess) == ("experiment", pytest.approx(0.1))
        assert (drafting.watch.cost, its.known.faster_method) == (its.cost, faster)
        drafting.watch.use_experiments((), None)
        assert drafting.watch.evaluate().cost is None, "though nothing was polled since"
        drafting.poll(working(61, 400, 0.028))
        assert drafting.watch.evaluate().cost is None
