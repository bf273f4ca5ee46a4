"""Monitor of one engine: events, checks that two polls confirm, and snapshots."""

from __future__ import annotations

from collections import Counter as Counts
from dataclasses import replace
from math import inf

import pytest

from spec_decode_exporter.drops.drop import DropChange, DropKind
from spec_decode_exporter.analysis.evaluation_inputs import Assumptions
from spec_decode_exporter.analysis.evaluation_result import Evaluation
from spec_decode_exporter.experiments.experiment import Member, compare
from spec_decode_exporter.analysis.integrity import Check
from spec_decode_exporter.analysis.speculation import Speculation
from spec_decode_exporter.analysis.speculation_state import State
from spec_decode_exporter.config.experiment_settings import ExperimentSettings
from spec_decode_exporter.monitor.engine_monitor import EngineMonitor
from spec_decode_exporter.monitor.step_times import StepTimes
from spec_decode_exporter.scrape.page.engine_table import Counter, Latency
from spec_decode_exporter.scrape.page.sample import Buckets

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
    def test_alternating_creation_times_are_several_servers_at_once(self, watched, good):
        for n in range(2):
            watched.poll(good(n, created=WALL - 5 - n))
        events = watched.poll(good(2, created=WALL - 5))
        assert [event.name for event in events] == ["engine_reset", "check_broken"]
        assert watched.snapshot().broken == {Check.ONE_SERVER}


class TestFindings:
    def test_histograms_are_over_the_longest_window(self, watched, make_sample):
        for n in range(400):
            buckets = Buckets((1.0, inf), (n, 2 * n))
            watched.poll(make_sample(latencies={Latency.QUEUE: buckets}))
        assert watched.snapshot().latencies == {Latency.QUEUE: Buckets((1.0, inf), (300, 600))}


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

    def test_the_state_without_an_evaluation_follows_from_the_counters(self, good, make_sample, broken):
        for page, state in ((good(1), State.IDLE), (make_sample(), State.DISABLED)):
            watched = Watched()
            broken(watched.watch._evaluator, "evaluate")
            watched.poll(page)
            watched.poll(page)
            assert watched.snapshot().evaluation == Evaluation(state)

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


def _with_accepted(sample, accepted):
    counters = list(sample.counters)
    counters[Counter.ACCEPTED_TOKENS] = accepted
    return tuple(counters)


class TestExperimentInputs:
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
