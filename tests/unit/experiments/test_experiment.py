"""Comparison of the arms of an experiment, and the winner."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spec_decode_exporter.experiments.arm import SpeedupBasis, TypeTimes
from spec_decode_exporter.experiments.arm_first_token import ArmFirstToken
from spec_decode_exporter.experiments.arm_speedup import ArmSpeedup
from spec_decode_exporter.experiments.comparability import Condition
from spec_decode_exporter.experiments.experiment import ArmWindow, Member, arm_of, compare, winner
from spec_decode_exporter.config.experiment_settings import ExperimentSettings
from spec_decode_exporter.figures.estimate import Estimate
from tests.fixtures.arms import (
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
        settings = ExperimentSettings.model_validate(
            {
                "name": "x",
                "arms": {"a": {"match": {"zone": "a", "name": "t"}}, "b": {"match": {"zone": "b"}}},
                "baseline": "a",
            }
        )
        assert arm_of(settings, member("", zone="a")) == "a"
        assert arm_of(settings, member("", zone="b")) == "b"
        assert arm_of(settings, member("", zone="c")) is None
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

    def test_the_baseline_has_no_speedup_and_an_empty_arm_nothing(self):
        found = compared(member("off", window_of(PLAIN)))
        assert found.arms["off"].windows == (ArmWindow(300.0, 1, 600, None, first_token=ArmFirstToken(0.0)),)
        assert found.arms["ngram"].windows[-1].speedups == {}
        assert (found.arms["ngram"].windows[-1].engines, found.arms["ngram"].windows[-1].requests) == (
            0,
            None,
        )

    def test_an_incomparable_arm_has_no_speedup_and_names_the_condition(self):
        busy = window_of(times(EAGLE, 4), running=24.0)
        found = compared(member("off", window_of(PLAIN)), member("eagle", busy)).arms["eagle"].windows[-1]
        assert found.speedups == {}
        assert [condition for condition, held in found.conditions.items() if not held] == [Condition.LOAD]

    def test_an_engine_that_is_gone_is_in_no_arm(self):
        found = compared(member("off", window_of(PLAIN)), member("off"), member("eagle"))
        assert found.arms["off"].windows[-1].engines == 1
        assert found.arms["eagle"].windows[-1].engines == 0

    def test_while_windows_change_an_engine_is_in_those_that_it_has(self):
        found = compare(SETTINGS, [member("off", window_of(PLAIN))], (30.0, 300.0), NOW).arms["off"].windows
        assert [(window.length, window.engines) for window in found] == [(30.0, 0), (300.0, 1)]

    def test_an_arm_of_two_engines_is_as_fast_as_one(self):
        one = compared(member("off", window_of(PLAIN)), member("eagle", window_of(EAGLE)))
        two = compared(member("off", window_of(PLAIN)), *[member("eagle", window_of(EAGLE))] * 2)
        assert two.arms["eagle"].windows[-1].engines == 2
        for basis, speedup in one.arms["eagle"].windows[-1].speedups.items():
            assert two.arms["eagle"].windows[-1].speedups[basis].value == pytest.approx(speedup.value)


def types_of(easy, pace=0.025):
    """Return per-request data of 144 000 tokens: easy requests take half of the time per token of hard ones."""
    parts = {"easy": (easy, pace / 2), "hard": (1 - easy, pace)}
    return lambda _begin, _end: {
        name: TypeTimes([3600 * share * seconds] * 40, [3600 * share] * 40)
        for name, (share, seconds) in parts.items()
    }


class TestDifferentTraffic:
    """One drafter in two arms: 25 and 75 % easy requests, of equal lengths."""

    FAST = EAGLE | {"decode_nanoseconds": 5 * NANO}

    def arms(self, *, types=True, method="eagle", positions=((90, 40, 20), (150, 100, 60))):
        settings = ExperimentSettings.model_validate(
            {"name": "x", "arms": {arm: {"match": {"zone": arm}} for arm in "ab"}, "baseline": "a"}
        )
        a, b = (
            replace(
                member(own, window_of(every, positions=accepted), zone=zone, name=zone),
                **({"types": types_of(easy)} if types else {}),
            )
            for zone, own, every, accepted, easy in (
                ("a", "eagle", EAGLE, positions[0], 0.25),
                ("b", method, self.FAST, positions[1], 0.75),
            )
        )
        return compare(settings, (a, b), (300.0,), NOW).arms["b"]

    def test_without_types_the_acceptance_of_one_method_prevents_a_winner(self):
        found = self.arms(types=False)
        assert found.windows[-1].speedups[TIME].estimate.lower > 1
        assert found.windows[-1].conditions[Condition.ACCEPTANCE] is False
        assert Condition.REQUEST_TYPES not in found.windows[-1].conditions
        assert found.wins == dict.fromkeys(SpeedupBasis, False)

    def test_with_alike_acceptance_it_wins(self):
        assert self.arms(types=False, positions=[(150, 100, 60)] * 2).wins[TIME]

    def test_with_types_the_time_per_token_is_that_at_one_mix(self):
        (window,) = self.arms().windows
        assert window.standardised
        assert window.speedups[TIME].value == pytest.approx(1.0)
        assert window.conditions[Condition.REQUEST_TYPES] is False

    def test_another_mix_prevents_a_winner_by_the_other_bases(self):
        found = self.arms(method="mtp")
        assert found.windows[-1].speedups[END].value == pytest.approx(1.0)
        assert found.windows[-1].speedups[THROUGHPUT].value == pytest.approx(1.0)
        assert not any(found.wins.values())
        assert not found.windows[-1].may_win(END)
        assert found.windows[-1].may_win(TIME)

    def test_requests_of_a_small_part_of_the_tokens_do_not_count(self):
        settings = SETTINGS.model_copy()
        few = {"types": lambda begin, end: {"easy": TypeTimes([1.0] * 40, [100.0] * 40)}}
        off = replace(member("off", window_of(PLAIN)), **few)
        eagle = replace(member("eagle", window_of(EAGLE)), **few)
        found = compare(settings, (off, eagle), (300.0,), NOW).arms["eagle"].windows[-1]
        assert not found.standardised
        assert found.speedups[TIME].value == pytest.approx(2.0)


def bounded(lower, upper, requests=100, engines=1):
    estimate = None if lower is None else Estimate((lower + upper) / 2, lower, upper, 0.1)
    return ArmWindow(300.0, engines, requests, None, {}, {TIME: ArmSpeedup(1.0, estimate)})


OFF = ArmWindow(300.0, 1, 100, None)


@pytest.mark.parametrize(
    ("eagle", "ngram", "won"),
    [
        (bounded(1.5, 1.7), bounded(1.1, 1.4), "eagle"),
        (bounded(1.3, 1.7), bounded(1.1, 1.4), None),
        (bounded(1.1, 1.2), bounded(1.3, 1.4), "ngram"),
        (bounded(0.9, 1.7), bounded(0.5, 0.8), None),
        (bounded(0.9, 0.99), bounded(0.5, 0.8), "off"),
        (bounded(0.9, 1.0), bounded(0.5, 0.8), None),
        # The other arm has no requests, or no engines.
        (bounded(1.5, 1.7), ArmWindow(300.0, 1, 0, None), "eagle"),
        (bounded(1.5, 1.7), ArmWindow(300.0, 0, None, None), "eagle"),
        # It is asked, and cannot be compared, or not surely: it may be the fastest.
        (bounded(1.5, 1.7), ArmWindow(300.0, 1, 100, None), None),
        (bounded(1.5, 1.7), bounded(None, None), None),
        (ArmWindow(300.0, 1, 100, None), ArmWindow(300.0, 1, 100, None), None),
    ],
)
def test_the_winner_is_significantly_faster(eagle, ngram, won):
    assert winner("off", {"off": OFF, "eagle": eagle, "ngram": ngram}, TIME) == won
