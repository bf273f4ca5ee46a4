"""Comparison of the arms of an experiment, the winner, and the better method."""

from dataclasses import dataclass, replace

import pytest

from spec_decode_exporter.config.comparison_settings import ExperimentSettings
from spec_decode_exporter.experiments.arm import SpeedupBasis
from spec_decode_exporter.experiments.experiment import Member, arm_of, compare, winner
from spec_decode_exporter.experiments.pace import ArmSpeedup, TypeTimes
from spec_decode_exporter.experiments.traffic import Traffic
from spec_decode_exporter.figures.estimate import Estimate
from tests.fakes.arms import (
    EAGLE,
    END,
    NANO,
    NOW,
    PLAIN,
    SETTINGS,
    THROUGHPUT,
    TIME,
    member,
    times,
    window_of,
)


def compared(*members):
    return compare(SETTINGS, members, (300.0,), NOW)


class TestExperiment:
    def test_an_engine_is_in_the_arm_whose_labels_it_has_all_of(self):
        arms = {"a": {"match": {"zone": "a", "name": "t"}}, "b": {"match": {"zone": "b"}}}
        settings = ExperimentSettings.model_validate({"name": "x", "arms": arms, "baseline": "a"})
        zones = {zone: arm_of(settings, member("", zone=zone)) for zone in "abc"}
        assert zones == {"a": "a", "b": "b", "c": None}
        assert arm_of(settings, member("")) is None
        assert arm_of(settings, Member({"name": "u", "zone": "a"}, ())) is None

    def test_the_speedup_is_the_baselines_time_over_the_arms(self):
        found = compared(member("off", window_of(PLAIN)), member("eagle", window_of(EAGLE)))
        eagle = found.arms["eagle"].windows[-1]
        assert (eagle.engines, eagle.requests) == (1, 1200)
        assert eagle.acceptance_length == pytest.approx(2.4)
        assert {basis: each.value for basis, each in eagle.speedups.items()} == {
            TIME: pytest.approx(2.0),
            END: pytest.approx(3.2 / 1.7),
            THROUGHPUT: pytest.approx(2.0),
        }
        assert found.arms["eagle"].wins == dict.fromkeys(SpeedupBasis, True)
        assert found.arms["off"].wins == dict.fromkeys(SpeedupBasis, False)

    def test_a_busy_arm_has_bounds_that_allow_for_its_load(self):
        busy = window_of(times(EAGLE, 4), running=24.0)
        found = compared(member("off", window_of(PLAIN)), member("eagle", busy)).arms["eagle"]
        speedup, load = found.windows[-1].speedups[TIME], found.windows[-1].traffic[Traffic.LOAD]
        assert (speedup.value, load) == (pytest.approx(2.0), pytest.approx(4.0))
        assert speedup.estimate.lower == pytest.approx(2.0)
        assert speedup.estimate.upper == pytest.approx(8.0 * 4 / 1.05)

    @pytest.mark.parametrize(("share", "wins"), [(0.7, True), (0.68, False)])
    def test_a_light_arm_wins_only_if_its_load_does_not_explain_all_of_it(self, share, wins):
        plain = times(PLAIN, 50)
        fast = {"decode_nanoseconds": round(plain["decode_nanoseconds"] * share / 2)}
        light = window_of(times(plain, share) | fast, running=6 * share)
        found = compared(member("off", window_of(plain)), member("eagle", light)).arms["eagle"]
        assert found.wins[TIME] is wins
        assert found.windows[-1].speedups[TIME].reason == (None if wins else Traffic.LOAD)


def types_of(easy, pace=0.025):
    """Return per-request data of 144 000 tokens: easy requests take half of the time per token of hard ones."""
    parts = {"easy": (144_000 * easy, pace / 2), "hard": (144_000 * (1 - easy), pace)}
    return lambda _begin, _end: {
        name: TypeTimes(tokens * seconds, tokens) for name, (tokens, seconds) in parts.items()
    }


@dataclass
class Speed:
    """An arm whose speed is between two bounds."""

    lower: float | None
    upper: float | None
    requests: int | None = 100
    engines: int = 1
    baseline: None = None

    def speedups_over(self, other):
        if self.lower is None or other.lower is None:
            return {TIME: ArmSpeedup(1.0, None)}
        bounds = Estimate(1.0, self.lower / other.upper, self.upper / other.lower, 0.1)
        return {TIME: ArmSpeedup(1.0, bounds)}


UNCLEAR = Speed(None, None)
OFF = Speed(1.0, 1.0)


@pytest.mark.parametrize(
    ("eagle", "ngram", "won"),
    [
        (Speed(1.5, 1.7), Speed(1.1, 1.4), "eagle"),
        (Speed(1.3, 1.7), Speed(1.1, 1.4), None),
        (Speed(1.1, 1.2), Speed(1.3, 1.4), "ngram"),
        (Speed(0.9, 1.7), Speed(0.5, 0.8), None),
        (Speed(0.9, 0.99), Speed(0.5, 0.8), "off"),
        (Speed(0.9, 1.0), Speed(0.5, 0.8), None),
        # The other arm has no requests, or no engines.
        (Speed(1.5, 1.7), Speed(None, None, requests=0), "eagle"),
        (Speed(1.5, 1.7), Speed(None, None, requests=None, engines=0), "eagle"),
        # It has requests, but cannot be compared, or has no bounds: it may be the fastest.
        (Speed(1.5, 1.7), UNCLEAR, None),
        (UNCLEAR, UNCLEAR, None),
    ],
)
def test_the_winner_is_significantly_faster(eagle, ngram, won):
    assert winner("off", {"off": OFF, "eagle": eagle, "ngram": ngram}, TIME) == won


def test_a_baseline_without_requests_leaves_no_winner():
    for idle in (Speed(1.0, 1.0, requests=0), Speed(1.0, 1.0, requests=None, engines=0)):
        assert winner("off", {"off": idle, "eagle": Speed(1.5, 1.7), "ngram": Speed(1.1, 1.2)}, TIME) is None


SLOWER = EAGLE | {"decode_nanoseconds": 8 * NANO, "end_to_end_nanoseconds": 8_800_000_000}
"""An n-gram drafter that is 1.5 times as fast as the baseline, and an eagle twice as fast."""


def waving(second):
    return EAGLE | {"end_to_end_nanoseconds": (8 + 7 * (-1) ** (second // 75)) * NANO}


def faster_of(engine, *others):
    return compared(engine, *others).faster_method(arm_of(SETTINGS, engine), engine)


class TestFasterMethod:
    PLAIN_ENGINE = member("off", window_of(PLAIN))
    EAGLE_ENGINE = member("eagle", window_of(EAGLE))
    NGRAM_ENGINE = member("ngram", window_of(SLOWER))

    def test_a_faster_method_for_the_same_model_is_one(self):
        found = faster_of(self.NGRAM_ENGINE, self.PLAIN_ENGINE, self.EAGLE_ENGINE)
        assert (found.experiment, found.arm, found.method) == ("drafter", "eagle", "eagle")
        assert found.speedup.value == pytest.approx(2.0)
        assert found.own.value == pytest.approx(1.5)
        assert faster_of(self.EAGLE_ENGINE, self.PLAIN_ENGINE, self.NGRAM_ENGINE) is None
        assert faster_of(self.PLAIN_ENGINE, self.EAGLE_ENGINE) is None, "it does not speculate"

    @pytest.mark.parametrize(
        ("ngram", "eagle"),
        [
            pytest.param(member("ngram", window_of(SLOWER), model_name="n"), EAGLE_ENGINE, id="one for another model"),
            pytest.param(NGRAM_ENGINE, member("eagle", window_of(EAGLE | {"end_to_end_nanoseconds": 8_800_000_000})), id="one that decodes faster and answers later"),
            pytest.param(NGRAM_ENGINE, member("eagle", window_of(waving)), id="one whose whole requests are not surely faster"),
            pytest.param(NGRAM_ENGINE, member("eagle", window_of(EAGLE, hidden={"end_to_end_nanoseconds"})), id="one without times of whole requests"),
            pytest.param(member("ngram", window_of(times(SLOWER, 4), running=24.0)), EAGLE_ENGINE, id="one whose load explains the difference"),
        ],
    )  # fmt: skip
    def test_none_is(self, ngram, eagle):
        assert faster_of(ngram, self.PLAIN_ENGINE, eagle) is None

    def test_one_whose_mix_explains_the_difference_is_none_though_the_baseline_sends_no_data(self):
        ngram, eagle = (
            replace(member(name, window_of(every), name=name), types=types_of(easy))
            for name, every, easy in (("ngram", SLOWER, 0.1), ("eagle", EAGLE, 0.9))
        )
        assert faster_of(ngram, self.PLAIN_ENGINE, eagle) is None
        assert faster_of(ngram, self.PLAIN_ENGINE, replace(eagle, types=types_of(0.1))) is not None

    @pytest.mark.parametrize(
        ("methods", "is_one"),
        [(["mtp"], True), (["eagle"], False), ([""], False), (["off"], False), (["mtp", "medusa"], False)],
        ids=["another method", "the same method", "an unknown method", "no speculation", "two methods"],
    )
    def test_the_method_of_a_faster_arm_is_another_and_the_only_one(self, methods, is_one):
        zones = {zone: {"match": {"zone": zone}} for zone in ("zero", "three", "five")}
        settings = ExperimentSettings.model_validate({"name": "x", "arms": zones, "baseline": "zero"})
        three = member("eagle", window_of(SLOWER), zone="three")
        five = [member(method, window_of(EAGLE), zone="five") for method in methods]
        members = (member("off", window_of(PLAIN), zone="zero"), three, *five)
        found = compare(settings, members, (300.0,), NOW).faster_method("three", three)
        assert (found is not None) is is_one

    def test_one_whose_cached_prompts_explain_the_difference_is_none(self):
        cached = EAGLE | {"prefix_cache_queries": 1600, "prefix_cache_hits": 1600}
        ngram = member("ngram", window_of(SLOWER | {"prefix_cache_queries": 1600}))
        plain = member("off", window_of(PLAIN | {"prefix_cache_queries": 800}))
        assert faster_of(ngram, plain, member("eagle", window_of(cached))) is None
        assert faster_of(ngram, plain, self.EAGLE_ENGINE) is not None
