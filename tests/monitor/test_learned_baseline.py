"""Baseline of a model on a target: learned without speculation, used while it drafts."""

from __future__ import annotations

import json
from math import inf

import pytest

from spec_decode_exporter.analysis.cost import CostSource
from spec_decode_exporter.analysis.knowledge import Assumptions
from spec_decode_exporter.analysis.speculation import Speculation
from spec_decode_exporter.monitor.engine_monitor import EngineMonitor
from spec_decode_exporter.monitor.learned_baseline import (
    MIN_REQUESTS,
    MIN_SECONDS,
    SAME_DAY_SECONDS,
    LearnedBaseline,
)
from spec_decode_exporter.scrape.page.engine_table import Latency
from spec_decode_exporter.scrape.page.sample import Buckets
from tests.fixtures.windows import increment

WALL = 1_794_484_800.0
"""12 November 2026, noon (UTC)."""
HOUR = 3600.0
COUNTS = {
    "first_tokens": 5,
    "first_token_nanoseconds": 5 * 51_000_000,
    "prompt_tokens": 5 * 800,
    "prefix_cache_queries": 5 * 800,
    "prefix_cache_hits": 5 * 680,
    "decode_steps": 4000,
    "decode_nanoseconds": 4000 * 20_000_000,
}


class Target:
    """A target whose increments take ten seconds, with 8 running requests."""

    def __init__(self, baseline=None):
        self.baseline = baseline or LearnedBaseline()
        self.wall = WALL

    def plain(self, seconds, running=8.0, **changed):
        for _ in range(round(seconds / 10)):
            self.wall += 10
            observed = increment(self.wall - 10, self.wall, load=running, **(COUNTS | changed))
            self.baseline.plain(observed, running, self.wall, knows_steps=True)
        return self

    def drafting(self, seconds=0.0):
        self.baseline.drafting()
        self.wall += seconds
        return self

    @property
    def period(self):
        return self.baseline.period(self.wall)

    @property
    def request(self):
        return self.period.request


class TestPeriod:
    def test_it_has_its_length_its_end_and_a_name(self):
        target = Target().plain(3 * HOUR).drafting(HOUR)
        assert target.period.seconds == pytest.approx(3 * HOUR)
        assert (target.period.end, target.period.age_seconds) == (WALL + 3 * HOUR, HOUR)
        assert target.period.name == "3 h without speculation on 12 November"

    @pytest.mark.parametrize(
        ("seconds", "name"),
        [(90, "90 s"), (600, "10 min"), (100 * 60, "100 min"), (40 * HOUR, "40 h"), (60 * HOUR, "2 days")],
    )
    def test_its_length_is_written_in_a_fitting_unit(self, seconds, name):
        assert Target().plain(seconds).period.name.startswith(f"{name} without")

    def test_less_than_a_minute_is_none(self):
        assert Target().plain(MIN_SECONDS - 10).drafting().period is None
        assert Target().plain(MIN_SECONDS).drafting().period is not None

    def test_time_without_requests_does_not_count(self):
        target = Target().plain(MIN_SECONDS - 10).plain(HOUR, first_tokens=0, decode_steps=0)
        assert target.period is None

    def test_a_new_period_replaces_the_earlier_one_once_it_is_long_enough(self):
        target = Target().plain(HOUR).drafting(7 * 24 * HOUR).plain(MIN_SECONDS - 10)
        assert target.period.seconds == HOUR
        assert target.plain(10).period.seconds == MIN_SECONDS
        target.plain(600 - MIN_SECONDS).drafting(HOUR)
        assert target.period.name == "10 min without speculation on 19 November"

    def test_a_short_pause_does_not_extend_the_earlier_period(self):
        target = Target().plain(HOUR).drafting(HOUR).plain(20).drafting(HOUR).plain(20).drafting()
        assert (target.period.seconds, target.period.end) == (HOUR, WALL + HOUR)


class TestAdopting:
    """The baseline of a history, beside the one that was learned."""

    def test_without_a_baseline_it_is_taken(self):
        target = Target()
        assert target.baseline.adopt(Target().plain(HOUR).drafting().baseline)
        assert (target.period.seconds, target.period.end) == (HOUR, WALL + HOUR)
        assert target.baseline.plain_times(target.wall).times

    def test_the_newer_period_counts(self):
        older, newer = (
            Target().plain(3 * HOUR).drafting(),
            Target().drafting(24 * HOUR).plain(HOUR).drafting(),
        )
        assert not newer.baseline.adopt(older.baseline)
        assert newer.period.seconds == HOUR
        assert older.baseline.adopt(newer.baseline)
        assert older.period.end == WALL + 25 * HOUR

    def test_less_than_a_minute_is_not_enough(self):
        target = Target().plain(HOUR).drafting()
        later = Target().drafting(24 * HOUR).plain(MIN_SECONDS - 10).drafting()
        assert not target.baseline.adopt(later.baseline)
        assert target.period.seconds == HOUR

    @pytest.mark.parametrize("seconds", [30, 120])
    def test_of_the_present_period_the_longer_view_counts_and_goes_on(self, seconds):
        target = Target().drafting(HOUR - seconds).plain(seconds)
        target.baseline._ended = False
        assert target.baseline.adopt(Target().plain(HOUR).baseline)
        assert target.period.seconds == HOUR
        assert target.plain(HOUR).period.seconds == 2 * HOUR

    def test_a_shorter_view_of_the_present_period_does_not(self):
        target = Target().plain(HOUR)
        assert not target.baseline.adopt(Target().plain(HOUR - 60).baseline)
        assert target.plain(60).period.seconds == HOUR + 60

    def test_a_history_that_ends_with_drafts_does_not_go_on(self):
        target = Target()
        target.baseline.adopt(Target().plain(HOUR).drafting().baseline)
        target.wall += HOUR
        assert target.plain(600).period.seconds == 600

    def test_a_history_is_not_continued_by_a_target_that_drafts(self):
        target = Target().drafting()
        target.baseline.adopt(Target().plain(HOUR).baseline)
        target.wall += HOUR
        assert target.plain(600).period.seconds == 600

    def test_a_new_period_goes_on_beside_an_older_one_of_the_history(self):
        target = Target().drafting(24 * HOUR).plain(30)
        target.baseline.adopt(Target().plain(HOUR).drafting().baseline)
        assert target.period.seconds == HOUR
        assert target.plain(30).period.seconds == 60


class TestRequests:
    def test_they_have_means_of_the_period(self):
        period = Target().plain(HOUR).drafting().period
        request = period.request
        assert request.first_token_seconds == pytest.approx(0.051)
        assert request.prefix_hit_ratio == pytest.approx(0.85)
        assert request.prompt_tokens == pytest.approx(800)
        assert request.running_requests == pytest.approx(8)
        assert (period.seconds, period.end) == (HOUR, WALL + HOUR)
        assert period.name == "60 min without speculation on 12 November"
        assert request.queue_seconds is None

    def test_too_few_of_them_have_no_mean(self):
        few = int(MIN_REQUESTS) - 1
        target = Target().plain(600, first_tokens=0).plain(10, first_tokens=few, decode_steps=1)
        assert target.request is None
        assert target.plain(10, first_tokens=2).request is not None

    def test_unknown_sums_are_absent(self):
        request = Target().plain(HOUR, prefix_cache_queries=0, prompt_tokens=0).request
        assert (request.prefix_hit_ratio, request.prompt_tokens) == (None, None)
        assert Target().plain(HOUR, first_token_nanoseconds=0).request is None

    def test_newer_ones_have_more_weight(self):
        target = Target().plain(600).drafting(0.0)
        target.baseline._ended = False
        target.wall += SAME_DAY_SECONDS - 600
        target.plain(600, first_token_nanoseconds=5 * 81_000_000)
        assert target.request.first_token_seconds == pytest.approx((0.051 + 2 * 0.081) / 3, rel=1e-2)

    def test_the_queue_time_is_the_median_of_its_histogram(self):
        target = Target().plain(HOUR)
        before = Buckets((0.1, 1.0, inf), (100, 200, 200))
        target.baseline.queue(before, Buckets((0.1, 1.0, inf), (100, 300, 300)))
        assert target.request.queue_seconds == pytest.approx(0.55)
        target.baseline.queue(before, Buckets((0.1, 1.0, inf), (90, 300, 300)))
        target.baseline.queue(before, Buckets((0.2, 1.0, inf), (200, 300, 300)))
        assert target.request.queue_seconds == pytest.approx(0.55), "a reset and other buckets are omitted"


class TestPersistence:
    def test_it_survives_being_written_as_json(self):
        target = Target().plain(HOUR).plain(600, 32.0, decode_steps=16_000)
        target.baseline.queue(Buckets((0.1, inf), (0, 0)), Buckets((0.1, inf), (5, 8)))
        target.drafting()
        again = LearnedBaseline()
        assert again.restore(json.loads(json.dumps(target.baseline.saved())))
        assert again.saved() == target.baseline.saved()
        assert again.period(target.wall) == target.period
        loads = [each.running_requests for each in again.plain_times(target.wall).times]
        assert loads == pytest.approx([8, 32], rel=1e-6)

    def test_the_period_goes_on_after_a_restart_of_the_exporter(self):
        target = Target().plain(HOUR)
        again = Target()
        again.baseline.restore(target.baseline.saved())
        again.wall = target.wall
        assert again.plain(HOUR).period.seconds == 2 * HOUR

    def test_a_period_that_had_ended_does_not(self):
        target = Target().plain(HOUR).drafting(HOUR)
        again = Target()
        again.baseline.restore(target.baseline.saved())
        again.wall = target.wall
        assert again.plain(600).period.seconds == 600

    def test_nor_one_that_had_ended_before_a_short_pause(self):
        target = Target().plain(HOUR).drafting(HOUR).plain(20)
        again = Target()
        again.baseline.restore(target.baseline.saved())
        again.wall = target.wall
        assert again.plain(600).period.seconds == 600

    @pytest.mark.parametrize(
        "changed",
        [
            {"seconds": -1},
            {"seconds": "long"},
            {"end": 1e300},
            {"end": float("nan")},
            {"requests": None},
            {"requests": {"first_tokens": float("inf")}},
            {"queue": {"bounds": [1.0], "counts": [1.0]}},
            {"queue": {"bounds": [float("inf")], "counts": [1.0, 2.0]}},
            {"queue": {"bounds": [1.0] * 100, "counts": [1.0] * 101}},
            {"steps": [{"polls_per_block": 1, "rows": [[1.0, 1.0, 1.0, 2.0], [1.0, 1.0, 1.0, 1.0]]}]},
            {"steps": [{"polls_per_block": 1, "rows": [[1.0, 0.0, 0.0, 2.0]]}]},
            {"steps": [{"polls_per_block": 0, "rows": [[1.0, 1.0, 1.0, 2.0]]}]},
            {"steps": [{"polls_per_block": 1, "rows": [[1.0, 1.0, 1.0]]}]},
            {"steps": [{"polls_per_block": 1, "rows": [[1e30, 1.0, 1.0, 2.0]]}]},
            {"steps": [{"polls_per_block": 1, "rows": []}] * 13},
        ],
    )
    def test_an_invalid_form_changes_nothing(self, changed):
        saved = Target().plain(HOUR).drafting().baseline.saved()
        target = Target().plain(600)
        before = target.baseline.saved()
        assert not target.baseline.restore({**saved, **changed})
        assert target.baseline.saved() == before

    @pytest.mark.parametrize("saved", [None, 7, "text", [], {}])
    def test_neither_does_something_else(self, saved):
        assert not LearnedBaseline().restore(saved)


class Server:
    """A server that is polled every second: without speculation or with 4 draft tokens for 0.1 step each."""

    STEPS = 400

    def __init__(self, make_sample, baseline=None, moment=0.0):
        self.make_sample = make_sample
        assumptions = Assumptions(Speculation("draft_model"))
        self.watch = EngineMonitor((30.0, 300.0), assumptions, baseline=baseline)
        self.moment = moment
        self.begin = moment
        self.counts = [0] * 9

    def restart(self):
        self.moment += 20.0
        self.begin, self.counts = self.moment, [0] * 9
        return self

    def run(self, seconds, *, drafts, pause=False, step=0.020, first_token=0.05, hits=85):
        for _ in range(seconds):
            self.moment += 1.0
            number = self.STEPS * (drafts and not pause)
            time = step * (1.4 if number else 1.0)
            grown = (number, 4 * number, 2 * number, self.STEPS, round(self.STEPS * time * 1e9))
            more = (5, round(5 * first_token * 1e9), 100, hits)
            self.counts = [old + new for old, new in zip(self.counts, (*grown, *more), strict=True)]
            self.observe(drafts)
        return self

    def observe(self, drafts):
        drafted, tokens, accepted, steps, nanoseconds, first, first_time, queries, hits = self.counts
        speculation = (drafted, tokens, accepted) if drafts else (None, None, None)
        sample = self.make_sample(
            *speculation,
            positions=(drafted, drafted, 0, 0) if drafts else (),
            generation_tokens=steps + accepted + first,
            first_tokens=first,
            first_token_nanoseconds=first_time,
            prefix_cache_queries=queries,
            prefix_cache_hits=hits,
            decode_steps=steps,
            decode_nanoseconds=nanoseconds,
            running_requests=8.0,
            created=WALL + self.begin,
            latencies={Latency.QUEUE: Buckets((0.3, inf), (first, first))},
        )
        self.watch.observe(sample, self.moment, WALL + self.moment, 1.0, 1.0)

    @property
    def known(self):
        return self.watch.evaluate().known

    @property
    def cost(self):
        return self.watch.evaluate().cost


class TestWhileItDrafts:
    def test_speculation_that_is_enabled_later_has_a_baseline(self, make_sample):
        server = Server(make_sample).run(600, drafts=False)
        assert server.cost is None
        server.restart().run(120, drafts=True)
        assert server.cost.source is CostSource.BASELINE
        assert server.cost.token.guess == pytest.approx(0.1, rel=1e-3)
        period = server.watch.snapshot(server.moment).baseline
        assert period.name == "10 min without speculation on 12 November"
        assert period.age_seconds == pytest.approx(140)
        request = server.known.request_baseline
        assert request == period.request
        assert request.first_token_seconds == pytest.approx(0.05)
        assert request.prefix_hit_ratio == pytest.approx(0.85)
        assert request.queue_seconds == pytest.approx(0.15)

    def test_without_speculation_there_is_no_baseline_to_compare_with(self, make_sample):
        server = Server(make_sample).run(600, drafts=False)
        assert server.known.request_baseline is None
        assert server.watch.snapshot(server.moment).baseline.age_seconds == 0

    def test_a_weekly_restart_without_speculation_replaces_it(self, make_sample):
        server = Server(make_sample).run(600, drafts=False).restart().run(120, drafts=True)
        server.moment += 7 * 24 * HOUR
        server.restart().run(600, drafts=False, step=0.025, first_token=0.08)
        server.restart().run(120, drafts=True, step=0.025)
        assert server.cost.token.guess == pytest.approx(0.1, rel=1e-3)
        period = server.watch.snapshot(server.moment).baseline
        assert period.name == "10 min without speculation on 19 November"
        assert period.request.first_token_seconds == pytest.approx(0.08)

    def test_pauses_of_the_same_process_are_measured(self, make_sample):
        server = Server(make_sample).run(600, drafts=False, step=0.040)
        server.restart().run(120, drafts=True).run(120, drafts=True, pause=True).run(60, drafts=True)
        assert server.cost.source is CostSource.MEASURED
        assert server.cost.token.guess == pytest.approx(0.1, rel=1e-3)

    def test_plain_steps_of_another_process_are_not_measured(self, make_sample):
        server = Server(make_sample).run(600, drafts=False).restart().run(120, drafts=True)
        assert [curve.source for curve in server.known.cost.measured] == [CostSource.BASELINE]

    def test_another_day_has_wider_bounds(self, make_sample):
        same, other = (Server(make_sample).run(600, drafts=False).restart() for _ in range(2))
        other.moment += 24 * HOUR
        same, other = (each.run(120, drafts=True).cost.token for each in (same, other))
        assert other.high - other.low > same.high - same.low + 0.1 * 1.4 / 4

    def test_it_is_there_after_a_restart_of_the_exporter_and_the_server(self, make_sample):
        saved = Server(make_sample).run(600, drafts=False).watch.baseline.saved()
        baseline = LearnedBaseline()
        assert baseline.restore(json.loads(json.dumps(saved)))
        server = Server(make_sample, baseline, moment=10_000.0).run(120, drafts=True)
        assert server.cost.source is CostSource.BASELINE
        assert server.cost.token.guess == pytest.approx(0.1, rel=1e-3)
        assert server.known.request_baseline.first_token_seconds == pytest.approx(0.05)

    def test_engines_of_one_model_share_it(self, make_sample):
        baseline = LearnedBaseline()
        Server(make_sample, baseline).run(600, drafts=False)
        Server(make_sample, baseline).run(600, drafts=False)
        assert baseline.period(WALL).seconds == pytest.approx(2 * 600, rel=0.01)
