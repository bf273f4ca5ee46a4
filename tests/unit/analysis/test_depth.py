"""Speed-up at other numbers of draft tokens: the worked examples of docs/explanation/semantics.md."""

from __future__ import annotations

import random
from itertools import pairwise
from math import sqrt
from statistics import mean, stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.analysis.depth import Depth
from spec_decode_exporter.analysis.knowledge import Knowledge
from spec_decode_exporter.analysis.window_evaluation import WindowEvaluation
from spec_decode_exporter.figures.window_figures import Price, WindowFigures
from tests.fakes.windows import summed, window

TOLERANCE = 0.03
CHEAP = Price(0.1, 0.0)


def depths_of(its):
    return WindowEvaluation(its, Knowledge()).depths


def drafted(*positions, drafts=100, length=None, **more):
    """Depths of drafts that are as long as there are positions, or of ``length`` tokens."""
    tokens = len(positions) if length is None else length
    return depths_of(window(drafts, round(drafts * tokens), sum(positions), positions=positions, **more))


def speedups(depths, price):
    return [depth.speedup for depth in depths.each(price)]


def estimated(its, price):
    return WindowFigures(its).work.speedup(price)


GOOD = drafted(80, 65, 50, 35)
POOR = drafted(40, 15, 5, 1)


class TestWorkedExamples:
    def test_a_good_drafter(self):
        known = GOOD.each(CHEAP)
        assert [depth.tokens for depth in known] == [1, 2, 3, 4, 5, 6]
        assert [depth.basis for depth in known] == ["measured"] * 4 + ["extrapolated"] * 2
        assert speedups(GOOD, CHEAP) == pytest.approx([1.636, 2.042, 2.269, 2.357, 2.379, 2.360], abs=5e-4)
        benefits = [depth.marginal_benefit for depth in known]
        assert benefits == pytest.approx([8.0, 3.97, 2.45, 1.54, 1.14, 0.87], abs=5e-3)
        assert GOOD.recommended(CHEAP, TOLERANCE) == 4  # 5 gains 0.9 %

    @pytest.mark.parametrize(
        ("token", "expected", "tokens"),
        [
            (0.1, [1.273, 1.292, 1.231, 1.150], 1),  # 2 gains 1.5 %
            (0.3, [1.077, 0.969, 0.842, 0.732], 1),
            (0.5, [0.933, 0.775, 0.640, 0.537], 0),
        ],
    )
    def test_a_poor_drafter(self, token, expected, tokens):
        assert speedups(POOR, Price(token, 0.0))[:4] == pytest.approx(expected, abs=5e-4)
        assert POOR.recommended(Price(token, 0.0), TOLERANCE) == tokens

    def test_without_a_tolerance_the_best_is_recommended(self):
        assert GOOD.recommended(CHEAP, 0.0) == 5
        assert POOR.recommended(CHEAP, 0.0) == 2

    def test_a_drafter_that_costs_nothing_has_no_marginal_benefit(self):
        for price in (Price(0.0, 0.1), Price(1e-320, 0.1)):  # p over the second exceeds a float
            assert {depth.marginal_benefit for depth in GOOD.each(price)} == {None}
        assert GOOD.recommended(Price(0.0, 0.1), 0.0) == 6

    def test_a_depth_that_does_not_pay_is_not_recommended_although_it_is_near_the_best(self):
        # S = .991, 1.010: the first is within 3 %, and slower than no speculation.
        depths, price = drafted(289, 125, drafts=1000, length=1.8), Price(0.1, 0.2)
        assert speedups(depths, price)[0] < 1 < speedups(depths, price)[1]
        assert depths.recommended(price, TOLERANCE) == 2


class TestWhetherAChangeIsWorthIt:
    """S(1) … S(4) at c = .1 and p = .8 .6 .4 .2: 1.636 2.000 2.154 2.143."""

    @pytest.mark.parametrize(
        ("tokens", "tolerance", "expected"),
        [
            (3, 0.03, False),
            (3, 0.005, True),
            (2, 0.0, False),
            (4, 0.0, False),
            (0, 0.0, False),
            (7, 0.0, False),
        ],
    )
    def test_only_if_it_is_faster_than_the_present_one(self, tokens, tolerance, expected):
        assert drafted(80, 60, 40, 20).is_faster(CHEAP, tokens, tolerance) is expected

    @pytest.mark.parametrize(("swing", "expected"), [(0, True), (30, False)])
    def test_not_if_the_difference_may_be_chance(self, swing, expected):
        # 1.8 / 1.3 = 1.385 with one token, 1.8 / 1.6 = 1.125 with two; the second is never accepted,
        # or in half of the window for a time.
        depths = varying(
            *((32, swing if second < 150 else 0) for second in range(300)), drafts=40, running=4.0
        )
        price = Price(0.3, 0.0)
        assert depths.speedup(price, 2) < depths.speedup(price, 1)
        assert depths.is_faster(price, 1, 0.0) is expected

    @pytest.mark.parametrize(("tokens", "expected"), [(0, False), (1, True), (2, False), (9, False)])
    def test_it_pays_if_it_is_no_slower_than_no_speculation(self, tokens, expected):
        assert POOR.pays(Price(0.3, 0.0), tokens) is expected


class TestTokensPastTheEndOfAnAnswer:
    @pytest.mark.parametrize(("generated", "expected"), [(330, 4), (141, 4), (139, 5), (138, 0), (0, 0)])
    def test_a_depth_must_pay_without_them(self, generated, expected):
        # S(4) = 330 / 140, and the best, S(5), is 0.9 % more.
        depths = drafted(80, 65, 50, 35, decode_steps=100, generation_tokens=generated, first_tokens=0)
        assert depths.recommended(CHEAP, TOLERANCE) == expected

    def test_more_tokens_than_were_counted_make_no_depth_pay(self):
        depths = drafted(40, 15, 5, 1, decode_steps=100, generation_tokens=400, first_tokens=0)
        assert depths.recommended(Price(0.5, 0.0), TOLERANCE) == 0


class TestCoverage:
    # Half of the steps have a draft of four tokens.
    COUNTERS = {"decode_steps": 200, "generation_tokens": 440, "first_tokens": 10}  # noqa: RUF012

    @pytest.mark.parametrize(
        ("price", "expected"),
        [
            (Price(0.1, 0.05), [1.4 / 1.075, 1.725 / 1.125, 1.975 / 1.175, 2.15 / 1.225]),
            (Price(0.1, 0.05, every_step=True), [1.4 / 1.10, 1.725 / 1.15, 1.975 / 1.2, 2.15 / 1.25]),
        ],
        ids=["steps without a draft cost nothing", "every step searches"],
    )
    def test_steps_without_a_draft_give_one_token(self, price, expected):
        assert speedups(drafted(80, 65, 50, 35, **self.COUNTERS), price)[:4] == pytest.approx(expected)

    @pytest.mark.parametrize("every_step", [False, True])
    def test_the_present_depth_has_the_estimated_speedup(self, every_step):
        its = window(
            100,
            400,
            230,
            positions=(80, 65, 50, 35),
            decode_steps=200,
            generation_tokens=440,
            first_tokens=10,
        )
        price = Price(0.1, 0.05, every_step)
        assert depths_of(its).speedup(price, 4) == pytest.approx(estimated(its, price))


class TestDraftsThatDifferInLength:
    def test_a_depth_costs_no_more_tokens_than_drafts_have(self):
        depths = drafted(60, 40, 20, 10, length=2.5)
        assert speedups(depths, CHEAP) == pytest.approx([1.6 / 1.1, 2.0 / 1.2, 2.2 / 1.25, 2.3 / 1.25])

    @pytest.mark.parametrize(("length", "beyond"), [(4, 2), (3.8, 2), (3.79, 0), (2.5, 0), (4.02, 2)])
    def test_short_drafts_prevent_extrapolation(self, length, beyond):
        assert len(drafted(80, 65, 50, 35, length=length)) == 4 + beyond

    def test_a_depth_beyond_costs_all_of_its_tokens(self):
        depths = drafted(50, 50, length=1.95)
        assert speedups(depths, CHEAP) == pytest.approx([1.5 / 1.1, 2 / 1.195, 2.5 / 1.3, 3 / 1.4])

    def test_with_unknown_draft_tokens_drafts_have_k_tokens(self):
        depths = depths_of(window(100, None, 145, positions=(80, 65)))
        assert speedups(depths, CHEAP) == pytest.approx([1.8 / 1.1, 2.45 / 1.2])


class TestBeyondTheKnownPositions:
    @pytest.mark.parametrize(
        ("positions", "expected"),
        [
            ((80,), [1.8, 2.44]),  # one position has no decay: its own p stands in for it, once
            ((80, 80), [1.8, 2.6, 3.4, 4.2]),
            ((80, 82), [1.8, 2.62, 3.44, 4.26]),  # a torn page: they do not grow
            ((0, 0), [1.0, 1.0, 1.0, 1.0]),
        ],
    )
    def test_the_decay_of_the_known_ones_continues(self, positions, expected):
        assert speedups(drafted(*positions), Price(0.0, 0.0)) == pytest.approx(expected)

    def test_the_only_position_has_the_marginal_benefit_of_its_own(self):
        assert drafted(80).each(CHEAP) == [
            Depth(1, 1.8 / 1.1, "measured", pytest.approx(8.0)),
            Depth(2, pytest.approx(2.44 / 1.2), "extrapolated", pytest.approx(0.64 / (0.1 * 1.8 / 1.1))),
        ]


@pytest.mark.parametrize(
    "its",
    [window(), window(0, 0, 0), window(10, 40, 4), window(0, 0, 0, positions=(0, 0)), window(9, 18, 8, positions=(0, 0))],
    ids=["idle", "no drafts", "no positions", "K without drafts", "positions that are not counted"],
)  # fmt: skip
def test_without_drafts_or_positions_there_are_no_depths(its):
    assert depths_of(its) is None


def falling(drafts=1000, most=12):
    """Accepted tokens of every position, each at most those of the one before."""
    return st.lists(st.integers(0, drafts), min_size=1, max_size=most).map(
        lambda counts: sorted(counts, reverse=True)
    )


prices = st.builds(Price, st.floats(0, 2), st.floats(0, 1), st.booleans())


@given(positions=falling(), price=prices, steps=st.integers(1000, 5000))
def test_with_more_tokens_it_gets_better_until_it_gets_worse(positions, price, steps):
    known = speedups(drafted(*positions, drafts=1000, decode_steps=steps), price)
    changes = [later - earlier for earlier, later in pairwise(known) if abs(later - earlier) > 1e-12]
    signs = [change > 0 for change in changes]
    assert signs == sorted(signs, reverse=True)


@given(positions=falling(), price=prices)
def test_a_position_is_worth_drafting_while_its_marginal_benefit_is_above_1(positions, price):
    known = drafted(*positions, drafts=1000).each(price)
    before = [1 / (1 + price.step), *(depth.speedup for depth in known)]
    for depth, earlier in zip(known, before, strict=False):
        assert depth.marginal_benefit is not None or price.token < 1e-300
        if price.token > 1e-6 and abs(depth.marginal_benefit - 1) > 1e-9:
            assert (depth.marginal_benefit > 1) == (depth.speedup > earlier)


@given(positions=falling(), price=prices, tolerance=st.floats(0, 0.2), steps=st.integers(1000, 5000))
def test_the_recommended_depth_pays_and_is_nearly_the_best(positions, price, tolerance, steps):
    depths = drafted(*positions, drafts=1000, decode_steps=steps)
    known, found = depths.each(price), depths.recommended(price, tolerance)
    best = max(depth.speedup for depth in known)
    if best < 1:
        assert found == 0
        return
    assert known[found - 1].speedup >= max(1.0, (1 - tolerance) * best - 1e-12)
    fewer = known[: found - 1]
    assert not [depth for depth in fewer if 1 <= depth.speedup >= (1 - tolerance) * best + 1e-9]


def second(drafts, *positions):
    """Increment of one second."""
    counts = {"drafts": drafts, "draft_tokens": drafts * len(positions), "accepted_tokens": sum(positions)}
    return {**counts, "positions": positions, "first_tokens": 20}


def depths_over(seconds, *, running=20.0, **more):
    """Depths of a window of one increment a second."""
    length = float(len(seconds))
    return depths_of(summed(seconds, length=length, seconds=length, gauges=(running, 0.0, 0.5), **more))


def varying(*positions, drafts=100, **more):
    return depths_over([second(drafts, *each) for each in positions], **more)


class TestHowSure:
    """S(3) is 3.5 % below S(4), which is more than the tolerance."""

    STEADY = (80, 70, 70, 45)
    SLOW = ((80, 70, 70, 70),) * 15 + ((80, 70, 70, 20),) * 15
    SHARED = ((95, 85, 85, 45),) * 15 + ((65, 55, 55, 45),) * 15
    PRICE = Price(0.145, 0.0)

    @pytest.mark.parametrize(
        ("positions", "running", "expected"),
        [
            ((STEADY,) * 30, 20.0, 4),
            (SLOW, 20.0, 3),
            (SHARED, 20.0, 4),  # both depths vary together, so their difference does not
            (SLOW, None, 4),  # without bounds the tolerance alone counts
        ],
        ids=["steady", "uncertain", "common variation", "without bounds"],
    )
    def test_an_uncertain_gain_is_none(self, positions, running, expected):
        depths = varying(*positions, running=running)
        assert depths.speedup(self.PRICE, 3) < 0.97 * depths.speedup(self.PRICE, 4)
        shown = depths.recommended(self.PRICE, TOLERANCE)
        assert min(shown, 4) == expected

    def test_a_gain_must_exceed_one_standard_error(self):
        found = set()
        for swing in range(26):
            depths = varying(*((80, 70, 70, 45 + (swing if at < 15 else -swing)) for at in range(30)))
            best = max(depths.each(self.PRICE), key=lambda depth: depth.speedup)
            as_fast = [
                depth.tokens
                for depth in depths.each(self.PRICE)
                if depth.speedup >= best.speedup - depths.error(self.PRICE, depth.tokens, best.tokens)
            ]
            assert depths.recommended(self.PRICE, 0.0) == as_fast[0]
            found.add(as_fast[0])
        assert {3, 5} <= found

    @pytest.mark.parametrize(("coverage", "tokens", "other"), [(1, 2, 4), (0.5, 2, 4), (1, 2, 6)])
    def test_the_error_of_a_difference_is_its_standard_deviation_over_windows(self, coverage, tokens, other):
        chance = random.Random(1)

        def at_random():
            reached = drafts = chance.randrange(20, 180)
            positions = []
            for share in (0.8, 0.8, 0.75, 0.75):
                reached = sum(chance.random() < share for _ in range(reached))
                positions.append(reached)
            return second(drafts, *positions)

        differences, errors = [], []
        for _ in range(150):
            seconds = [at_random() for _ in range(30)]
            depths = depths_over(
                seconds, decode_steps=round(sum(one["drafts"] for one in seconds) / coverage)
            )
            differences.append(depths.speedup(self.PRICE, other) - depths.speedup(self.PRICE, tokens))
            errors.append(depths.error(self.PRICE, tokens, other))
        # Beyond K the decay is taken as exact, which makes the error smaller.
        error = sqrt(mean(error**2 for error in errors))
        assert error == pytest.approx(stdev(differences), rel=0.15 if other <= 4 else 0.3)


class TestChangingK:
    """A schedule drafts four tokens in half of the increments, and two in the others."""

    LONG, SHORT = (
        {"drafts": 50, "draft_tokens": 50 * tokens, "accepted_tokens": sum(positions), "positions": positions}
        for tokens, positions in ((4, (40, 32, 24, 16)), (2, (40, 32, 0, 0)))
    )
    WINDOW = window(1000, 3000, 1840, positions=(800, 640, 240, 160), increments=[LONG, SHORT] * 10)
    DEPTHS, PRICE = depths_of(WINDOW), Price(0.1, 0.2)

    def test_a_depth_is_the_schedule_limited_to_its_tokens(self):
        accepted, lengths = (0.8, 1.44, 1.68, 1.84), (1, 2, 2.5, 3)
        expected = [(1 + a) / (1 + 0.2 + 0.1 * t) for a, t in zip(accepted, lengths, strict=True)]
        assert speedups(self.DEPTHS, self.PRICE) == pytest.approx(expected)
        assert expected[3] == pytest.approx(estimated(self.WINDOW, self.PRICE))

    def test_a_position_s_benefit_is_of_the_drafts_that_had_it(self):
        known = self.DEPTHS.each(self.PRICE)
        reached, before = (0.8, 0.64, 0.48, 0.32), (1 / 1.2, *(depth.speedup for depth in known))
        expected = [p / (0.1 * speedup) for p, speedup in zip(reached, before, strict=False)]
        assert [depth.marginal_benefit for depth in known] == pytest.approx(expected)

    def test_alone_a_depth_does_not_depend_on_the_schedule(self):
        alone = self.DEPTHS.speedups_alone(self.PRICE, 4, searches=False)
        accepted = (0.0, 0.8, 1.44, 1.92, 2.24)
        assert alone[1:] == pytest.approx([(1 + accepted[k]) / (1 + 0.2 + 0.1 * k) for k in (1, 2, 3, 4)])


class TestSpeedupsAlone:
    def test_without_a_schedule_they_are_those_of_the_depths(self):
        price = Price(0.1, 0.05)
        assert GOOD.speedups_alone(price, 6, searches=False) == pytest.approx([1.0, *speedups(GOOD, price)])

    def test_there_are_no_more_than_can_be_extrapolated(self):
        assert len(GOOD.speedups_alone(CHEAP, 99, searches=False)) == 7

    def test_discarded_tokens_reduce_them(self):
        depths = drafted(
            320, 260, 200, 140, drafts=400, decode_steps=400, generation_tokens=1190, first_tokens=2
        )
        assert depths.speedups_alone(Price(0.0, 0.0), 4, searches=False)[4] == pytest.approx(1188 / 400)

    @pytest.mark.parametrize(("searches", "expected"), [(False, 3.3 / 1.4), (True, 2.15 / 1.2)])
    def test_every_step_has_a_draft_unless_the_method_searches(self, searches, expected):
        depths = drafted(80, 65, 50, 35, decode_steps=200)
        assert depths.speedups_alone(CHEAP, 4, searches=searches)[4] == pytest.approx(expected)
