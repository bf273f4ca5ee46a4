"""Cost of a draft token from regressions over step times whose truth is known."""

from dataclasses import dataclass, field
from math import inf, isfinite, log
from random import Random
from statistics import mean

import pytest

from spec_decode_exporter.costs import measured_cost
from spec_decode_exporter.costs.cost import CostAtLoad, CostSource, fixed_tokens
from spec_decode_exporter.costs.measured_cost import (
    ANOTHER_DAY,
    DRAFTING_PREFILLS,
    LEAST_ERROR,
    MIN_SECONDS,
    MIN_SECONDS_BESIDE,
    UNSURE,
    USUAL_GROWTH,
    StepsWithoutSpeculation,
    costs,
    step_ratio,
)
from spec_decode_exporter.costs.methods import LAYER, MODEL, PASS, Interval
from spec_decode_exporter.costs.steps import StepSums, StepTimes, total
from spec_decode_exporter.window.engine_windows import NANO
from tests.fakes.windows import increment

WALL = 1_790_000_000.0
KAPPA = 1.25
TOKENS = 3


@dataclass
class Server:
    """A server whose steps take 20 ms at a load of 24, longer with the load, with drafts, and with prefills."""

    growth: float = 0.4
    kappa: float = KAPPA
    noise: float = 0.02
    prefill: float = 0.0
    random: Random = field(default_factory=lambda: Random(1))

    def poll(self, load, share, *, uncached=0.0, context=2000.0, seconds=1.0, prefills_of=1.0, slower=1.0):
        decode = 0.02 * (1 + self.growth * log(load / 24)) * (1 + (self.kappa - 1) * share)
        time = decode / (1 - self.prefill * uncached * prefills_of) * self.random.gauss(1, self.noise)
        number = load * seconds / (slower * time)
        drafting = share * number
        observed = increment(
            0.0, seconds, load=load, decode_steps=number, decode_nanoseconds=load * seconds * NANO,
            drafts=drafting, draft_tokens=TOKENS * drafting, prompt_tokens=context, first_tokens=1.0,
        )  # fmt: skip
        return StepSums.of(observed, uncached, WALL)

    def polls(self, polls, **changed):
        """Return the sums of polls with these loads and shares, one after the other."""
        return [self.poll(*each, **changed)._replace(wall=WALL + second) for second, each in enumerate(polls)]

    def times(self, polls, **changed):
        times = StepTimes()
        for sums in self.polls(polls, **changed):
            times.add(sums)
        return times


ALWAYS, NEVER = ([(24.0, share)] * 600 for share in (1.0, 0.0))
"""Loads and shares of polls in which every step drafts, and none does."""


def mixed(number=600, low=20.0, high=28.0, seed=2):
    """Loads and shares that are independent of each other."""
    random = Random(seed)
    return [(random.uniform(low, high), float(random.random() < 0.5)) for _ in range(number)]


def with_prompts(server, low, high, number):
    """Polls with random prompts, in tokens a second, which take somewhat longer in drafting steps."""
    random = Random(3)
    return [
        server.poll(
            load, share, uncached=random.uniform(low, high), prefills_of=1 + DRAFTING_PREFILLS * share
        )
        for load, share in mixed(number)
    ]


def paused(number=600, threshold=24.0, seed=2):
    """Loads around a threshold above which nothing drafts."""
    random = Random(seed)
    return [(load, float(load < threshold)) for load in (random.uniform(20.0, 28.0) for _ in range(number))]


def banded(number=900, band=(23.5, 24.5), seed=2, low=18.0, high=30.0):
    """Loads around a band of one request without drafts, which a poll may be in for a part of its time."""
    random = Random(seed)
    loads = [random.uniform(low, high) for _ in range(number)]
    inside = [max(0.0, min(load + 0.5, band[1]) - max(load - 0.5, band[0])) for load in loads]
    return [(load, 1 - share) for load, share in zip(loads, inside, strict=True)]


class TestTheRatio:
    @pytest.mark.parametrize("growth", [0.0, 0.4, 1.0])
    @pytest.mark.parametrize("polls", [mixed(), paused()], ids=["independent", "threshold"])
    def test_the_truth_is_inside(self, growth, polls):
        found = step_ratio(total(Server(growth).polls(polls)))
        assert found.low < KAPPA < found.high

    @pytest.mark.parametrize(
        ("server", "prompts", "number", "within"),
        [
            ({"prefill": 0.0001}, (0, 3000), 600, 0.02),
            ({"prefill": 0.0001, "noise": 0.1}, (1300, 1700), 3000, 0.04),
            ({"prefill": 0.00005, "noise": 0.005}, (1000, 3500), 900, 0.01),
        ],
        ids=["that share the steps", "beside noise that is not theirs", "that are short"],
    )
    def test_prefills_are_left_out(self, server, prompts, number, within):
        found = step_ratio(total(with_prompts(Server(**server), *prompts, number)))
        assert found.guess == pytest.approx(KAPPA, rel=within)
        assert found.low < KAPPA < found.high

    @pytest.mark.parametrize(
        "polls",
        [
            ALWAYS,
            NEVER,
            [(20.0, 0.95), (28.0, 1.0)] * 300,
            [(24.0, 0.5)] * 300 + [(24.0, 0.55)] * 300,
        ],
    )
    def test_without_plain_and_drafting_polls_it_is_unknown(self, polls):
        assert step_ratio(total(Server().polls(polls))) is None

    def test_where_a_schedule_pauses_by_load_alone_both_extremes_of_growth_are_possible(self):
        found = step_ratio(total(Server(noise=0.002).polls(paused())))
        flat = step_ratio(total(Server(growth=0.0, noise=0.002).polls(paused())))
        for each in (found, flat):
            assert each.high - each.low > 3 * LEAST_ERROR * KAPPA

    def test_plain_steps_may_take_prefills_for_free(self):
        server, random = Server(prefill=0.0001, noise=0.005), Random(3)
        polls = [
            server.poll(load, share, uncached=random.uniform(1000, 3000), prefills_of=share)
            for load, share in mixed()
        ]
        found = step_ratio(total(polls))
        assert found.low < KAPPA < found.high

    def test_prefills_that_take_longer_than_a_plain_step_leave_nothing_known(self):
        long = step_ratio(total(with_prompts(Server(prefill=0.00015, noise=0.005), 1000, 3500, 900)))
        assert long.low < KAPPA < long.high
        longer = with_prompts(Server(prefill=0.0002, noise=0.005), 2500, 3500, 900)
        assert step_ratio(total(longer)) is None

    def test_what_is_usual_decides_what_the_polls_do_not_tell(self):
        usual, _ = USUAL_GROWTH
        server = Server(usual / (1 + usual * log(24 / 20)), noise=0.0)
        found = step_ratio(total(server.polls([(20.0, 1.0)] * 300 + [(26.0, 0.0)] * 300)))
        assert found.guess == pytest.approx(KAPPA, rel=0.001)

    def test_noise_does_not_pass_for_growth(self):
        few = (Server(0.3, noise=0.1, random=Random(seed)).polls(paused(60, seed=seed)) for seed in range(8))
        assert mean(abs(step_ratio(total(polls)).guess - KAPPA) for polls in few) < 0.06 * KAPPA

    def test_slow_steps_that_admit_fewer_prompts_do_not_make_prefills_shorten_steps(self):
        server, random, polls = Server(kappa=3.0, noise=0.0), Random(3), []
        for _, share in mixed(600):
            slower = random.choice([1.0, 1.0, 2.0])
            prompts = random.uniform(20, 180) * (1.0 if slower == 1 else 0.6)
            polls.append(server.poll(24.0, share, uncached=prompts, slower=slower))
        found = step_ratio(total(polls))
        assert found.guess == pytest.approx(3.0, rel=0.1)
        assert found.high - found.low < 0.8

    def test_growth_beyond_that_of_the_load_is_not_believed(self):
        found = step_ratio(total(Server(growth=2.5, noise=0.002).polls(paused())))
        possible = step_ratio(total(Server(growth=0.8, noise=0.002).polls(paused())))
        assert found.guess < KAPPA - 0.05
        assert possible.guess == pytest.approx(KAPPA, abs=0.03)


def exact(polls, **changed):
    """Return the sums of polls in which each step takes exactly its time."""
    return total(Server(noise=0.0).polls(polls, **changed))


class TestPlainStepsOfOthers:
    def test_they_are_added_to_the_same_sums(self):
        found = step_ratio(exact(ALWAYS), exact(NEVER))
        assert found.guess == pytest.approx(KAPPA)
        assert found.high - KAPPA == pytest.approx(KAPPA - found.low)

    def test_a_day_of_them_does_not_hide_a_minute_of_drafts(self):
        found = step_ratio(exact(ALWAYS[:60]), exact(NEVER, seconds=144.0))
        assert found.guess == pytest.approx(KAPPA)

    def test_those_of_another_day_are_less_certain(self):
        drafting, plain = exact(ALWAYS), exact(NEVER)
        same, other = (step_ratio(drafting, plain, another_day=day) for day in (False, True))
        assert other.guess == same.guess
        assert other.low == pytest.approx(same.low / (1 + ANOTHER_DAY))
        assert other.high == pytest.approx(same.high / (1 - ANOTHER_DAY))

    @pytest.mark.parametrize("ratio", [0.25, 0.5, 2.0, 4.0])
    def test_longer_contexts_take_longer_plain_steps(self, ratio):
        plain = exact(NEVER)
        same = step_ratio(exact(ALWAYS), plain)
        found = step_ratio(exact(ALWAYS, context=2000.0 * ratio), plain)
        assert found.guess == pytest.approx(1 + (KAPPA * ratio**-0.25 - 1), rel=1e-6)
        ends = sorted((1.0, ratio**0.75))
        assert found.low == pytest.approx(same.low / ends[1], rel=1e-6)
        assert found.high == pytest.approx(same.high / ends[0], rel=1e-6)


class TestTheCost:
    def test_it_is_per_draft_token_with_what_the_method_costs_in_any_case(self):
        for kind in ("", LAYER, PASS):
            ((curve),) = costs([Server(noise=0.0).times(mixed())], [], kind)
            assert curve.source is CostSource.MEASURED
            fixed = fixed_tokens(kind, TOKENS)
            assert curve.step_tokens == pytest.approx(fixed)
            tokens = TOKENS + fixed
            for point in curve.points:
                assert point.token.guess == pytest.approx((KAPPA - 1) / tokens, rel=0.05)

    def test_a_minute_is_enough_or_half_a_minute_beside_plain_steps_of_others(self):
        near = {"low": 23.9, "high": 24.1}
        assert costs([Server().times(mixed(int(MIN_SECONDS) - 1, **near))], [], "") == ()
        assert costs([Server().times(mixed(200, **near))], [], "") != ()
        others = [StepsWithoutSpeculation(CostSource.BASELINE, [Server().times(NEVER)])]
        seconds = int(MIN_SECONDS_BESIDE)
        assert costs([Server().times(ALWAYS[: seconds - 1])], others, "") == ()
        assert costs([Server().times(ALWAYS[: seconds + 1])], others, "") != ()

    def test_the_engine_s_own_plain_steps_precede_those_of_others(self):
        plain = Server(noise=0.0).times(NEVER)
        others = [
            StepsWithoutSpeculation(CostSource.EXPERIMENT, [plain]),
            StepsWithoutSpeculation(CostSource.BASELINE, [plain]),
        ]
        assert [each.source for each in costs([Server().times(mixed())], others, "")] == [CostSource.MEASURED]
        drafting = Server(noise=0.0).times(ALWAYS)
        assert [each.source for each in costs([drafting], others, "")] == [CostSource.EXPERIMENT]
        assert [each.source for each in costs([drafting], others[1:], "")] == [CostSource.BASELINE]
        assert costs([drafting], [], "") == ()

    def test_steps_at_loads_a_little_apart_show_the_cost_if_none_are_near(self):
        levels = Server(noise=0.0).times([(16.0, 1.0)] * 300 + [(23.0, 0.0)] * 300)
        ((curve),) = costs([levels], [], "")
        assert {each.running_requests for each in curve.points} == {16.0}
        apart = Server(noise=0.0).times([(8.0, 1.0)] * 300 + [(23.0, 0.0)] * 300)
        assert costs([apart], [], "") == ()

    def test_a_narrow_band_of_loads_without_drafts_shows_it(self):
        ((curve),) = costs([Server(0.3).times(banded())], [], "")
        for point in curve.points:
            kappa = [1 + TOKENS * each for each in point.token]
            assert kappa[0] < KAPPA < kappa[2]
            assert kappa[2] - kappa[0] < 0.6
            assert 20 < point.running_requests < 28

    def test_a_cost_that_is_much_less_certain_than_one_near_it_is_left_out(self, monkeypatch):
        times = Server(0.3).times(banded(low=14.0, high=36.0))
        ((kept),) = costs([times], [], "")
        monkeypatch.setattr(measured_cost, "UNSURE", inf)
        ((every),) = costs([times], [], "")
        left_out = {*every.points} - {*kept.points}
        surest = min(each.token.high - each.token.low for each in kept.points)
        assert [each.token.high - each.token.low > UNSURE * surest for each in left_out] == [True]

    @pytest.mark.parametrize(
        ("wide", "is_kept"),
        [((0.04, 0.18, 0.24), False), ((0.05, 0.18, 0.24), True), ((0.0, 0.03, 0.06), True)],
    )
    def test_a_cost_that_contradicts_a_surer_one_near_it_remains(self, wide, is_kept):
        sure, other = (
            CostAtLoad(load, Interval(*token)) for load, token in ((60.0, (0.04, 0.05, 0.07)), (110.0, wide))
        )
        assert measured_cost._surest([sure, other]) == (sure, other)[: 1 + is_kept]

    def test_the_drafter_runs_in_own_steps_without_drafts_too(self):
        times, passed = [Server(noise=0.0).times(mixed())], Interval(0.02, 0.05, 0.1)
        ((plain),), ((longer),) = costs(times, [], ""), costs(times, [], "", undrafted=passed)
        for point, other in zip(plain.points, longer.points, strict=True):
            for before, after, share in zip(point.token, other.token, passed, strict=True):
                assert 1 + TOKENS * after == pytest.approx((1 + TOKENS * before) * (1 + share))

    @pytest.mark.parametrize(("kind", "is_limited"), [(LAYER, True), (MODEL, False), ("", False)])
    def test_a_layer_that_runs_for_each_token_cost_no_more_than_drafting_took_longer(self, kind, is_limited):
        times = [Server(noise=0.0).times(mixed())]
        ((plain),) = costs(times, [], kind)
        ((longer),) = costs(times, [], kind, undrafted=Interval(0.0, 0.0, 5.0))
        tokens = TOKENS + fixed_tokens(kind, TOKENS)
        for before, after in zip(plain.points, longer.points, strict=True):
            kappa, highest = (1 + tokens * point.token.high for point in (before, after))
            share = (kappa - 1) / (TOKENS - 1)
            assert highest == pytest.approx(kappa * (1 + (share / (1 - share) if is_limited else 5.0)))

    def test_sums_of_a_restored_state_that_contradict_each_other_give_finite_costs_or_none(self):
        others = [StepsWithoutSpeculation(CostSource.BASELINE, [Server().times(NEVER)])]
        ((place, sums),) = Server().times(ALWAYS).places.items()
        changes = [{name: value} for name in sums._fields[1:-1] for value in (0.0, 5e-324, 1e30)]
        for number in range(len(sums.triangle)):
            before, after = sums.triangle[:number], sums.triangle[number + 1 :]
            changes += [{"triangle": (*before, value, *after)} for value in (0.0, 5e-324, 1e30)]
        for change in changes:
            for curve in costs([StepTimes({place: sums._replace(**change)})], others, ""):
                for point in curve.points:
                    assert isfinite(point.running_requests), change
                    assert 0 <= point.token.low <= point.token.guess <= point.token.high < inf, change
