"""Baseline of a model on a target: learned without speculation, used while it drafts."""

from dataclasses import dataclass, field
from math import inf

import pytest
from pydantic import TypeAdapter

from spec_decode_exporter.costs.baseline import MIN_REQUESTS, MIN_SECONDS, Baseline
from spec_decode_exporter.costs.steps import HALF_LIFE_SECONDS, StepReader
from spec_decode_exporter.scrape.engines import Latency
from spec_decode_exporter.scrape.sample import Buckets
from tests.fakes.windows import increment

WALL = 1_794_484_800.0  # 12 November 2026, noon (UTC)
HOUR = 3600.0
COUNTS = {
    "first_tokens": 5,
    "first_token_nanoseconds": 5 * 51_000_000,
    "prompt_tokens": 5 * 800,
    "generation_tokens": 5 * 200,
    "prefix_cache_queries": 5 * 800,
    "prefix_cache_hits": 5 * 680,
    "decode_steps": 4000,
    "decode_nanoseconds": 4000 * 20_000_000,
}


@dataclass
class Target:
    """A target whose increments take ten seconds, with 8 running requests."""

    baseline: Baseline = field(default_factory=Baseline)
    wall: float = WALL
    reader: StepReader = field(default_factory=StepReader)

    def plain(self, seconds, running=8.0, **changed):
        for _ in range(round(seconds / 10)):
            self.wall += 10
            observed = increment(self.wall - 10, self.wall, load=running, **(COUNTS | changed))
            period = self.baseline.plain(observed, running, self.wall)
            if steps := self.reader.read(observed, self.wall):
                period.steps.add(steps)
        return self

    def drafting(self, seconds=0.0):
        self.baseline.drafting()
        self.wall += seconds
        return self

    @property
    def period(self):
        return self.baseline.summary(self.wall)


class TestPeriod:
    @pytest.mark.parametrize(
        ("seconds", "name"),
        [
            (90, "90 s without speculation on 12 November"),
            (600, "10 min without speculation on 12 November"),
            (6000, "100 min without speculation on 12 November"),
            (40 * HOUR, "40 h without speculation on 14 November"),
            (60 * HOUR, "2 days without speculation on 15 November"),
        ],
    )
    def test_its_name_has_its_length_in_a_fitting_unit_and_its_day(self, seconds, name):
        assert Target().plain(seconds).period.name == name

    def test_time_without_requests_does_not_count(self):
        target = Target().plain(MIN_SECONDS - 10).plain(HOUR, first_tokens=0, decode_steps=0)
        assert target.period is None

    def test_a_new_period_replaces_the_earlier_one_once_it_is_long_enough(self):
        target = Target().plain(HOUR).drafting(7 * 24 * HOUR).plain(MIN_SECONDS - 10)
        assert target.period.seconds == HOUR
        assert target.plain(10).period.seconds == MIN_SECONDS


class TestAdopting:
    """The baseline of a history, beside the one that was learned."""

    def test_the_newer_period_counts_if_it_is_long_enough(self):
        older = Target().plain(3 * HOUR).drafting()
        newer = Target().drafting(24 * HOUR).plain(HOUR).drafting()
        short = Target().drafting(24 * HOUR).plain(MIN_SECONDS - 10).drafting()
        assert not newer.baseline.adopt(older.baseline)
        assert newer.period.seconds == HOUR
        assert not older.baseline.adopt(short.baseline)
        assert older.baseline.adopt(newer.baseline)
        assert older.period.end == WALL + 25 * HOUR

    @pytest.mark.parametrize("seconds", [30, 120])
    def test_of_the_present_period_the_longer_view_counts_and_goes_on(self, seconds):
        target = Target().drafting(HOUR - seconds).plain(seconds)
        target.baseline.ended = False
        assert target.baseline.adopt(Target().plain(HOUR).baseline)
        assert target.period.seconds == HOUR
        assert target.plain(HOUR).period.seconds == 2 * HOUR

    @pytest.mark.parametrize(
        ("target", "history"),
        [(Target(), Target().plain(HOUR).drafting()), (Target().drafting(), Target().plain(HOUR))],
        ids=["a history that ends with drafts", "a target that drafts"],
    )
    def test_a_period_that_ended_does_not_go_on(self, target, history):
        target.baseline.adopt(history.baseline)
        target.wall += HOUR
        assert target.plain(600).period.seconds == 600


class TestRequests:
    def test_they_have_means_of_the_period(self):
        request = Target().plain(HOUR).drafting().period
        assert request.first_token_seconds == pytest.approx(0.051)
        assert request.prefix_hit_ratio == pytest.approx(0.85)
        assert request.prompt_tokens == pytest.approx(800)
        assert request.running_requests == pytest.approx(8)
        assert request.requests_per_second == pytest.approx(0.5)
        assert request.context_tokens == pytest.approx(900)
        assert request.token_seconds == pytest.approx(4000 * 0.02 / (5 * 199))

    def test_too_few_of_them_have_no_mean(self):
        few = int(MIN_REQUESTS) - 1
        target = Target().plain(600, first_tokens=0).plain(10, first_tokens=few, decode_steps=1)
        assert target.period.first_token_seconds is None
        assert target.plain(10, first_tokens=2).period.first_token_seconds is not None


LATENCY = Latency.TIME_PER_OUTPUT_TOKEN


def with_latencies(target, *counts, bounds=(0.1, inf)):
    """Return the baseline of a target that has answered requests with these cumulative counts."""
    before, after = ({LATENCY: Buckets(bounds, each)} for each in ((0,) * len(counts), counts))
    target.baseline.kept.add_latencies(before, after, target.wall)
    return target.baseline


class TestLatencies:
    def test_older_requests_have_less_weight(self):
        target = Target().plain(HOUR)
        with_latencies(target, 100, 100)
        target.wall += HALF_LIFE_SECONDS
        assert with_latencies(target, 0, 40).kept.histograms[LATENCY].counts == (50, 90)

    @pytest.mark.parametrize(("before", "counts"), [((50, 60), (5, 8)), ((2, 7), (5, 8)), ((0, 0), (12, 16))])
    def test_counts_that_fell_are_not_counted(self, before, counts):
        baseline = with_latencies(Target().plain(HOUR), 5, 8)
        old, new = ({LATENCY: Buckets((0.1, inf), each)} for each in (before, (7, 8)))
        baseline.kept.add_latencies(old, new, baseline.end)
        assert baseline.kept.histograms[LATENCY].counts == counts

    def test_other_buckets_start_again(self):
        target = Target().plain(HOUR)
        with_latencies(target, 5, 8)
        found = with_latencies(target, 1, 2, 3, bounds=(0.1, 0.2, inf)).kept.histograms[LATENCY]
        assert (found.bounds, found.counts) == ((0.1, 0.2), (1, 2, 3))


SAVED = TypeAdapter(Baseline)


class TestPersistence:
    def test_it_survives_being_written_as_json(self):
        target = Target().plain(HOUR).plain(600, 32.0, decode_steps=16_000)
        kept = with_latencies(target, 5, 8).kept
        target.drafting()
        again = SAVED.validate_json(SAVED.dump_json(target.baseline))
        assert SAVED.dump_json(again) == SAVED.dump_json(target.baseline)
        assert again.summary(target.wall) == target.period
        assert again.kept.steps == kept.steps
        assert again.kept.histograms[LATENCY].counts == (5, 8)

    def test_one_of_a_version_without_contexts_has_none(self):
        saved = SAVED.dump_python(Target().plain(HOUR).baseline, mode="json")
        saved["kept"]["requests"][7:] = []
        target = Target(SAVED.validate_python(saved))
        again = target.period
        assert (again.prompt_tokens, again.context_tokens, again.token_seconds) == (
            pytest.approx(800),
            None,
            None,
        )
        target.wall = WALL + HOUR
        after = target.plain(600, prompt_tokens=4000).period
        assert after.context_tokens == pytest.approx(900)
        assert after.token_seconds == pytest.approx(4000 * 0.02 / (5 * 199))

    def test_the_period_goes_on_after_a_restart_of_the_exporter(self):
        target = Target().plain(HOUR)
        again = Target(SAVED.validate_json(SAVED.dump_json(target.baseline)), target.wall)
        assert again.plain(HOUR).period.seconds == 2 * HOUR

    @pytest.mark.parametrize(
        ("bounds", "counts"),
        [((1.0, 2.0), (1.0, 2.0)), ((1.0, 2.0), (3.0, 2.0, 3.0)), ((2.0, 1.0), (1.0, 2.0, 3.0))],
    )
    def test_a_histogram_that_is_not_cumulative_is_forgotten_alone(self, bounds, counts):
        saved = SAVED.dump_python(Target().plain(HOUR).baseline, mode="json")
        each = {"time_to_first_token": (bounds, counts, WALL), LATENCY: ((0.1,), (5.0, 8.0), WALL)}
        kept = SAVED.validate_python({**saved, "kept": {**saved["kept"], "histograms": each}}).kept
        assert (kept.seconds, kept.histograms.keys()) == (HOUR, {LATENCY})

    @pytest.mark.parametrize(
        "changed",
        [
            {"seconds": -1},
            {"end": 1e300},
            {"end": float("nan")},
            {"requests": [10**400, *[1.0] * 6]},
            {"requests": [1.0] * 11},
            {"histograms": {"time_to_first_token": [[float("inf")], [1.0, 2.0], WALL]}},
            {"histograms": {"time_to_first_token": [[1.0] * 129, [1.0] * 130, WALL]}},
            {"steps": {"places": {"12": [[1.0] * 5, WALL]}}},
            {"steps": {"places": {"12": [[1e31] * 51, WALL]}}},
            {"steps": {"places": {"99": [[1.0] * 51, WALL]}}},
        ],
    )
    def test_impossible_numbers_are_rejected(self, changed):
        saved = SAVED.dump_python(Target().plain(HOUR).baseline, mode="json")
        SAVED.validate_python(saved)
        with pytest.raises(ValueError):
            SAVED.validate_python({**saved, "kept": {**saved["kept"], **changed}})
