"""Arms of an experiment: added up, held against each other, and who wins."""

from __future__ import annotations

from functools import partial
from math import exp, log, sqrt
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.analysis.arm import Arm, Basis, Measured
from exporter.analysis.arm_speedup import ArmSpeedup, arm_speedup
from exporter.analysis.bounds import T_QUANTILES
from exporter.analysis.comparability import Condition, comparable, conditions
from exporter.analysis.estimate import Estimate
from exporter.analysis.experiment import ArmWindow, Member, arm_of, compare, winner
from exporter.analysis.rival import Rival, rival
from exporter.config.experiment_settings import ExperimentSettings
from exporter.scrape.engines import Counter
from exporter.window.counts import Increment
from exporter.window.ledger import Known, Ledger

NANO = 10**9
NOW = 1000.0
TIME, END, THROUGHPUT = Basis.TIME_PER_OUTPUT_TOKEN, Basis.END_TO_END, Basis.THROUGHPUT_PER_REQUEST

# An engine with 6 requests at a time. A step takes 25 ms, so 240 steps a second give as many tokens; a request
# has 121, the first of which no step gives: 2 begin a second, and one takes 3 s and 0.2 s for its prompt.
PLAIN = {
    "generation_tokens": 242,
    "first_tokens": 2,
    "decode_steps": 240,
    "decode_nanoseconds": 6 * NANO,
    "prompt_tokens": 800,
    "finished_requests": 2,
    "end_to_end_nanoseconds": 6_400_000_000,
}
# Steps of 30 ms that give 2.4 tokens each: 200 a second, 480 tokens, so four requests. 1.5 s and 0.2 s each.
EAGLE = {
    "drafts": 200,
    "draft_tokens": 600,
    "accepted_tokens": 280,
    "generation_tokens": 484,
    "first_tokens": 4,
    "decode_steps": 200,
    "decode_nanoseconds": 6 * NANO,
    "prompt_tokens": 1600,
    "finished_requests": 4,
    "end_to_end_nanoseconds": 6_800_000_000,
}


def window_of(every, length=300.0, *, seconds=None, running=6.0, hidden=()):
    """A window of increments of a second, each with the counters that ``every`` gives or returns for it."""
    ledger, number = Ledger(length), int(seconds or length)
    for second in range(number):
        moved = every(second) if callable(every) else every
        counters = tuple(moved.get(counter.name.lower(), 0) for counter in Counter)
        begin = NOW - number + second
        ledger.add(Increment(begin, begin + 1.0, counters, ()), (running, 0.0, 0.0), 1.0)
    known = Known(tuple(counter not in hidden for counter in Counter), (running is not None, True, True), 0)
    return ledger.window(length, 1.0, NOW, known)


def arm_with(*windows, length=300.0):
    return Arm(length, NOW, windows)


def times(counters, factor):
    return {name: round(count * factor) for name, count in counters.items()}


class TestSums:
    def test_what_an_arm_takes_is_a_ratio_of_sums_and_not_a_mean_of_ratios(self):
        slow = times(PLAIN, 1) | {"decode_nanoseconds": 12 * NANO}
        measures = arm_with(window_of(PLAIN), window_of(times(slow, 3))).measures()
        # (6 s + 36 s) / (240 + 720) tokens; the mean of the two would be 37.5 ms.
        assert measures[TIME].value == pytest.approx(42 * NANO / 960)

    def test_each_basis_by_hand(self):
        measures = arm_with(window_of(EAGLE)).measures()
        assert measures[TIME].value == pytest.approx(6 * NANO / 480)
        assert measures[END].value == pytest.approx(1.7 * NANO)
        assert measures[THROUGHPUT].value == pytest.approx(6.0 / 484)

    @given(st.lists(st.integers(0, 10**6), min_size=3, max_size=300), st.floats(-400, 400))
    def test_wherever_the_cells_lie_nothing_is_lost(self, tokens, shift):
        ledger = Ledger(300.0)
        for second, count in enumerate(tokens):
            moved = {"generation_tokens": count, "decode_nanoseconds": 7 * count}
            counters = tuple(moved.get(counter.name.lower(), 0) for counter in Counter)
            ledger.add(Increment(second, second + 1.0, counters, ()), (1.0, 0.0, 0.0), 1.0)
        known = Known((True,) * len(Counter), (True,) * 3, 0)
        window = ledger.window(300.0, 1.0, float(len(tokens)), known)
        found = Arm(300.0, len(tokens) + shift, (window,)).measures()
        if not sum(tokens):
            assert found == {}
        else:
            assert found[TIME].value == pytest.approx(7.0)
            assert found[THROUGHPUT].value == pytest.approx(len(tokens) / sum(tokens))

    def test_an_engine_that_does_not_tell_something_is_left_out_of_that_alone(self):
        known, unknown = (
            window_of(PLAIN),
            window_of(PLAIN, hidden={Counter.DECODE_NANOSECONDS, Counter.END_TO_END_NANOSECONDS}),
        )
        both = arm_with(known, unknown).measures()
        assert both[TIME] == arm_with(known).measures()[TIME]
        assert set(arm_with(unknown).measures()) == {THROUGHPUT}

    def test_an_arm_without_engines_or_work_takes_nothing(self):
        assert arm_with().measures() == {}
        assert arm_with(window_of({})).measures() == {}
        assert arm_with().total(Counter.DRAFTS) is None

    def test_the_acceptance_length_is_that_of_all_drafts_together(self):
        twice = times(EAGLE, 2) | {"accepted_tokens": 40}
        arm = arm_with(window_of(EAGLE), window_of(twice), window_of(PLAIN))
        assert arm.acceptance_length == pytest.approx(1 + 320 / 600)
        assert arm_with(window_of(PLAIN)).acceptance_length is None

    def test_load_is_by_engine_and_an_idle_one_does_not_count(self):
        arm = arm_with(window_of(PLAIN), window_of(PLAIN, running=12.0), window_of({}, running=0.0))
        assert arm.running_requests == pytest.approx(9.0)
        assert arm.requests_per_second == pytest.approx(2.0)

    def test_there_are_no_bounds_where_too_few_requests_pass_or_too_little_time(self):
        assert arm_with(window_of(EAGLE)).measures()[TIME].relative_error is not None
        few = window_of(EAGLE | {"first_tokens": 0})
        assert arm_with(few).measures()[TIME].relative_error is None
        short = window_of(EAGLE, seconds=149)
        assert arm_with(short).measures()[TIME].relative_error is None

    def test_engines_whose_troubles_come_together_are_less_sure_than_such_as_take_turns(self):
        def waves(sign):
            return lambda second: EAGLE | {"decode_nanoseconds": (6 + sign * (-1) ** (second // 75)) * NANO}

        together = arm_with(window_of(waves(1)), window_of(waves(1))).measures()[TIME]
        in_turn = arm_with(window_of(waves(1)), window_of(waves(-1))).measures()[TIME]
        assert together.value == in_turn.value
        assert together.relative_error > 0.04
        assert in_turn.relative_error == pytest.approx(0.0, abs=1e-12)


class TestSpeedup:
    def test_by_hand(self):
        found = arm_speedup(Measured(0.025, 0.03, 12), Measured(0.0125, 0.04, 12))
        # √(0.03² + 0.04²) = 0.05. Welch: 0.05⁴ / (0.03⁴ + 0.04⁴) · 12 = 22.3, of which 12 are believed.
        assert found.value == 2.0
        assert found.estimate.lower == pytest.approx(2.0 * exp(-2.179 * 0.05))
        assert found.estimate.upper == pytest.approx(2.0 * exp(2.179 * 0.05))
        assert found.estimate.standard_error == pytest.approx(0.1)

    def test_the_freedom_is_that_of_the_arm_that_makes_most_of_the_error(self):
        found = arm_speedup(Measured(1.0, 0.1, 2), Measured(1.0, 0.0, 12))
        assert log(found.estimate.upper) == pytest.approx(T_QUANTILES[2] * 0.1)

    def test_without_bounds_of_both_there_are_none(self):
        assert arm_speedup(Measured(2.0, None, 0), Measured(1.0, 0.1, 5)) == ArmSpeedup(2.0, None)
        assert arm_speedup(Measured(2.0, 0.1, 5), Measured(1.0, None, 0)) == ArmSpeedup(2.0, None)

    def test_what_never_varies_is_beyond_doubt(self):
        estimate = arm_speedup(Measured(3.0, 0.0, 12), Measured(1.0, 0.0, 12)).estimate
        assert (estimate.lower, estimate.upper) == (3.0, 3.0)

    @given(
        *[st.floats(1e-6, 1e6)] * 2,
        *[st.floats(0, 1)] * 2,
        *[st.integers(1, 12)] * 2,
    )
    def test_to_change_sides_inverts_it_and_its_bounds(self, mine, its, my_error, its_error, freedom, other):
        one, two = Measured(mine, my_error, freedom), Measured(its, its_error, other)
        there, back = arm_speedup(one, two).estimate, arm_speedup(two, one).estimate
        assert there.lower <= there.value <= there.upper
        assert there.value * back.value == pytest.approx(1.0)
        assert there.lower * back.upper == pytest.approx(1.0)
        assert there.upper * back.lower == pytest.approx(1.0)


KEPT = exp(-1 / 3)


def test_the_bounds_hold_the_truth_as_often_as_they_say():
    """Requests differ, and so does what each takes a token; the arms are independent, the truth is 2."""

    def second_of(random, per_token, state, _second):
        # Six requests run for 3 s each, so what a second is like has changed by then.
        state[0] = KEPT * state[0] + sqrt(1 - KEPT**2) * random.gauss(0, 0.3)
        tokens = max(1, round(random.gauss(240, 30)))
        seconds = tokens * per_token * (1 + state[0])
        return {
            "generation_tokens": tokens + 2,
            "first_tokens": 2,
            "decode_nanoseconds": round(seconds * NANO),
        }

    held = 0
    for seed in range(400):
        random = Random(seed)
        base, arm = (
            arm_with(window_of(partial(second_of, random, per_token, [0.0]))).measures()[TIME]
            for per_token in (0.02, 0.01)
        )
        estimate = arm_speedup(base, arm).estimate
        held += estimate.lower <= 2.0 <= estimate.upper
    # 95 % of 400, give or take three standard errors.
    assert 367 <= held <= 394


class TestConditions:
    def test_arms_at_the_same_concurrency_are_comparable_though_one_serves_twice_the_requests(self):
        found = conditions(arm_with(window_of(EAGLE)), arm_with(window_of(PLAIN)))
        assert found == dict.fromkeys(Condition, True)
        assert comparable(found)

    def test_arms_with_the_same_arrivals_are_comparable_though_one_has_twice_the_requests_at_a_time(self):
        slow = arm_with(window_of(PLAIN, running=12.0))
        assert conditions(arm_with(window_of(PLAIN)), slow)[Condition.LOAD]

    @pytest.mark.parametrize(("running", "held"), [(9.0, True), (9.1, False), (4.0, True), (3.9, False)])
    def test_load_differs_by_half_again_at_most(self, running, held):
        arm = arm_with(window_of(times(PLAIN, 4), running=running))
        assert conditions(arm, arm_with(window_of(PLAIN)))[Condition.LOAD] is held

    def test_load_that_nobody_tells_is_not_alike(self):
        blind = arm_with(window_of(PLAIN, running=None, hidden={Counter.FIRST_TOKENS}))
        assert not conditions(blind, blind)[Condition.LOAD]

    @pytest.mark.parametrize(("requests", "held"), [(30, True), (29, False)])
    def test_it_takes_requests_in_both(self, requests, held):
        few = arm_with(window_of(lambda second: PLAIN | {"first_tokens": int(second < requests)}))
        many = arm_with(window_of(PLAIN))
        assert conditions(few, many)[Condition.REQUESTS] is held
        assert conditions(many, few)[Condition.REQUESTS] is held

    def test_an_arm_that_was_seen_for_less_than_half_the_window_is_not_enough(self):
        whole, half, less = (arm_with(window_of(PLAIN, seconds=each)) for each in (300, 150, 149))
        assert conditions(half, whole)[Condition.REQUESTS]
        assert not conditions(less, whole)[Condition.REQUESTS]

    @pytest.mark.parametrize(("tokens", "held"), [(1000, True), (1001, False), (640, True), (639, False)])
    def test_prompts_are_as_long_but_for_a_quarter(self, tokens, held):
        arm = arm_with(window_of(PLAIN | {"prompt_tokens": tokens}))
        assert conditions(arm, arm_with(window_of(PLAIN)))[Condition.PROMPT_TOKENS] is held

    def test_so_are_answers(self):
        arm = arm_with(window_of(PLAIN | {"generation_tokens": 303}))
        assert not conditions(arm, arm_with(window_of(PLAIN)))[Condition.GENERATION_TOKENS]

    def test_lengths_that_nobody_tells_are_no_condition(self):
        silent = arm_with(window_of(PLAIN, hidden={Counter.PROMPT_TOKENS}))
        found = conditions(arm_with(window_of(PLAIN)), silent)
        assert Condition.PROMPT_TOKENS not in found
        assert comparable(found)


SETTINGS = ExperimentSettings.model_validate(
    {
        "name": "drafter",
        "arms": {name: {"match": {"method": name}} for name in ("off", "eagle", "ngram")},
        "baseline": "off",
    }
)


def member(method, *windows, model_name="m", **labels):
    return Member({"name": "t", "model_name": model_name, "method": method, **labels}, windows)


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
        assert found.arms["eagle"].wins == dict.fromkeys(Basis, True)
        assert found.arms["off"].wins == dict.fromkeys(Basis, False)

    def test_the_baseline_has_no_speedup_and_an_empty_arm_nothing(self):
        found = compared(member("off", window_of(PLAIN)))
        assert found.arms["off"].windows == (ArmWindow(300.0, 1, 600, None),)
        assert found.arms["ngram"].windows[-1].speedups == {}
        assert (found.arms["ngram"].windows[-1].engines, found.arms["ngram"].windows[-1].requests) == (
            0,
            None,
        )

    def test_what_is_not_comparable_has_no_speedup_and_says_why(self):
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
        # Nobody asks the other, or there is none.
        (bounded(1.5, 1.7), ArmWindow(300.0, 1, 0, None), "eagle"),
        (bounded(1.5, 1.7), ArmWindow(300.0, 0, None, None), "eagle"),
        # It is asked, and cannot be compared, or not surely: it may be the fastest.
        (bounded(1.5, 1.7), ArmWindow(300.0, 1, 100, None), None),
        (bounded(1.5, 1.7), bounded(None, None), None),
        (ArmWindow(300.0, 1, 100, None), ArmWindow(300.0, 1, 100, None), None),
    ],
)
def test_the_winner_is_beyond_doubt(eagle, ngram, won):
    assert winner("off", {"off": OFF, "eagle": eagle, "ngram": ngram}, TIME) == won


class TestRival:
    PLAIN_ENGINE = member("off", window_of(PLAIN))
    EAGLE_ENGINE = member("eagle", window_of(EAGLE))
    NGRAM = EAGLE | {"decode_nanoseconds": 8 * NANO}

    def rival_of(self, engine, *others):
        experiment = compare(SETTINGS, (engine, *others), (300.0,), NOW)
        return rival(experiment, arm_of(SETTINGS, engine), engine)

    def test_a_faster_method_for_the_same_model_is_one(self):
        ngram = member("ngram", window_of(self.NGRAM))
        found = self.rival_of(ngram, self.PLAIN_ENGINE, self.EAGLE_ENGINE)
        assert isinstance(found, Rival)
        assert found.speedup.value == pytest.approx(2.0)
        assert found.own.value == pytest.approx(1.5)
        assert self.rival_of(self.EAGLE_ENGINE, self.PLAIN_ENGINE, ngram) is None

    def test_one_for_another_model_is_none(self):
        ngram = member("ngram", window_of(self.NGRAM), model_name="n")
        assert self.rival_of(ngram, self.PLAIN_ENGINE, self.EAGLE_ENGINE) is None

    def test_an_engine_that_does_not_speculate_has_none(self):
        assert self.rival_of(self.PLAIN_ENGINE, self.EAGLE_ENGINE) is None

    def test_one_that_is_not_comparable_has_none(self):
        lone = member("ngram", window_of(times(self.NGRAM, 4), running=24.0))
        assert self.rival_of(lone, self.PLAIN_ENGINE, self.EAGLE_ENGINE) is None

    def test_the_same_method_with_other_settings_is_none(self):
        settings = ExperimentSettings.model_validate(
            {
                "name": "tokens",
                "arms": {name: {"match": {"k": name}} for name in ("zero", "three", "five")},
                "baseline": "zero",
            }
        )
        members = (
            member("off", window_of(PLAIN), k="zero"),
            member("eagle", window_of(self.NGRAM), k="three"),
        )
        for method, is_one in (("eagle", False), ("", False), ("off", False), ("mtp", True)):
            five = member(method, window_of(EAGLE), k="five")
            found = compare(settings, (*members, five), (300.0,), NOW)
            assert (rival(found, "three", members[1]) is not None) is is_one

    def test_an_arm_of_two_methods_is_none(self):
        settings = ExperimentSettings.model_validate(
            {
                "name": "x",
                "arms": {name: {"match": {"k": name}} for name in ("off", "fast", "slow")},
                "baseline": "off",
            }
        )
        slow = member("ngram", window_of(self.NGRAM), k="slow")
        fast = [member(method, window_of(EAGLE), k="fast") for method in ("eagle", "mtp")]
        members = (member("off", window_of(PLAIN), k="off"), slow, *fast)
        assert rival(compare(settings, members, (300.0,), NOW), "slow", slow) is None
        assert rival(compare(settings, members[:-1], (300.0,), NOW), "slow", slow) is not None

    def test_against_a_baseline_that_speculates_itself_it_needs_a_gain(self):
        settings = SETTINGS.model_copy(update={"baseline": "ngram"})
        ngram = member("ngram", window_of(self.NGRAM))
        members = (ngram, self.EAGLE_ENGINE)
        found = rival(compare(settings, members, (300.0,), NOW), "ngram", ngram)
        assert found.own == Estimate(1.0, 1.0, 1.0, 0.0)
        assert found.speedup.value == pytest.approx(4 / 3)
