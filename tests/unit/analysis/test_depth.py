"""Speed-up at other numbers of draft tokens: the worked examples of docs/explanation/semantics.md."""

import pytest

from spec_decode_exporter.analysis.knowledge import Knowledge
from spec_decode_exporter.analysis.window_evaluation import WindowEvaluation
from spec_decode_exporter.costs.cost import StepCost
from tests.fakes.windows import summed, window

TOLERANCE = 0.03
CHEAP, FREE = StepCost(0.1, 0.0), StepCost(0.0, 0.0)


def drafted(*positions, drafts=100, length=None, **more):
    """Depths of drafts that are as long as there are positions, or of ``length`` tokens."""
    tokens = len(positions) if length is None else length
    its = window(drafts, round(drafts * tokens), sum(positions), positions=positions, **more)
    return WindowEvaluation(its, Knowledge()).depths


def speedups(depths, price):
    return [depth.speedup for depth in depths.each(price)]


GOOD = drafted(80, 65, 50, 35)
POOR = drafted(40, 15, 5, 1)
HALF_COVERED = drafted(80, 65, 50, 35, decode_steps=200, generation_tokens=440, first_tokens=10)
"""Half of the steps have a draft."""


def test_a_good_drafter():
    known = GOOD.each(CHEAP)
    assert [depth.tokens for depth in known] == [1, 2, 3, 4, 5, 6]
    assert [depth.basis for depth in known] == ["measured"] * 4 + ["extrapolated"] * 2
    assert speedups(GOOD, CHEAP) == pytest.approx([1.636, 2.042, 2.269, 2.357, 2.379, 2.360], abs=5e-4)
    benefits = [depth.marginal_benefit for depth in known]
    assert benefits == pytest.approx([8.0, 3.97, 2.45, 1.54, 1.14, 0.87], abs=5e-3)


@pytest.mark.parametrize(
    ("depths", "price", "tolerance", "tokens"),
    [
        (GOOD, CHEAP, TOLERANCE, 4),  # 5 gains 0.9 %
        (GOOD, CHEAP, 0.0, 5),
        (GOOD, StepCost(0.0, 0.1), 0.0, 6),
        (POOR, CHEAP, TOLERANCE, 1),  # S = 1.273, 1.292: 2 gains 1.5 %
        (POOR, CHEAP, 0.0, 2),
        (POOR, StepCost(0.3, 0.0), TOLERANCE, 1),
        (POOR, StepCost(0.5, 0.0), TOLERANCE, 0),
        # S = .991, 1.010: the first is within 3 %, and slower than no speculation.
        (drafted(289, 125, drafts=1000, length=1.8), StepCost(0.1, 0.2), TOLERANCE, 2),
    ],
)
def test_the_fewest_tokens_that_are_nearly_the_best_and_pay_are_recommended(depths, price, tolerance, tokens):
    assert depths.recommended(price, tolerance) == tokens


class TestChangeOfDepth:
    """S(1) … S(4) at c = .1 and p = .8 .6 .4 .2: 1.636 2.000 2.154 2.143."""

    @pytest.mark.parametrize(
        ("tokens", "tolerance", "expected"),
        [(3, 0.03, False), (3, 0.005, True), (2, 0.0, False), (4, 0.0, False), (0, 0.0, False), (7, 0.0, False)],
    )  # fmt: skip
    def test_is_worth_it_only_if_it_is_faster_than_the_present_one(self, tokens, tolerance, expected):
        assert drafted(80, 60, 40, 20).is_faster(CHEAP, tokens, tolerance) is expected

    @pytest.mark.parametrize(("swing", "expected"), [(0, True), (30, False)])
    def test_is_not_worth_it_if_the_difference_may_be_chance(self, swing, expected):
        # 1.8 / 1.3 = 1.385 with one token, 1.8 / 1.6 = 1.125 with two; the second is never accepted,
        # or in half of the window for a time.
        seconds = ((32, swing if second < 150 else 0) for second in range(300))
        depths, price = varying(*seconds, drafts=40, running=4.0), StepCost(0.3, 0.0)
        assert depths.speedup(price, 2) < depths.speedup(price, 1)
        assert depths.is_faster(price, 1, 0.0) is expected

    @pytest.mark.parametrize(("tokens", "expected"), [(0, False), (1, True), (2, False), (9, False)])
    def test_pays_if_it_is_no_slower_than_no_speculation(self, tokens, expected):
        assert POOR.pays(StepCost(0.3, 0.0), tokens) is expected


@pytest.mark.parametrize(("generated", "expected"), [(330, 4), (141, 4), (139, 5), (138, 0), (0, 0)])
def test_a_depth_must_pay_without_the_tokens_past_the_end_of_an_answer(generated, expected):
    # S(4) = 330 / 140, and the best, S(5), is 0.9 % more.
    depths = drafted(80, 65, 50, 35, decode_steps=100, generation_tokens=generated, first_tokens=0)
    assert depths.recommended(CHEAP, TOLERANCE) == expected


@pytest.mark.parametrize(
    ("depths", "price", "expected"),
    [
        # Steps without a draft give one token, and cost nothing, or a search.
        (HALF_COVERED, StepCost(0.1, 0.05), [1.4 / 1.075, 1.725 / 1.125, 1.975 / 1.175, 2.15 / 1.225]),
        (HALF_COVERED, StepCost(0.1, 0.05, every_step=True), [1.4 / 1.10, 1.725 / 1.15, 1.975 / 1.2, 2.15 / 1.25]),
        # Drafts of 2.5 tokens: a depth costs no more tokens than drafts have.
        (drafted(60, 40, 20, 10, length=2.5), CHEAP, [1.6 / 1.1, 2.0 / 1.2, 2.2 / 1.25, 2.3 / 1.25]),
        # A depth beyond costs all of its tokens.
        (drafted(50, 50, length=1.95), CHEAP, [1.5 / 1.1, 2 / 1.195, 2.5 / 1.3, 3 / 1.4]),
        # With unknown draft tokens drafts have K tokens.
        (WindowEvaluation(window(100, None, 145, positions=(80, 65)), Knowledge()).depths, CHEAP, [1.8 / 1.1, 2.45 / 1.2]),
        # Beyond the known positions their decay continues; a single one stands in for it, once.
        (drafted(80), FREE, [1.8, 2.44]),
        (drafted(80, 80), FREE, [1.8, 2.6, 3.4, 4.2]),
        (drafted(80, 82), FREE, [1.8, 2.62, 3.44, 4.26]),  # a torn page: they do not grow
        (drafted(0, 0), FREE, [1.0, 1.0, 1.0, 1.0]),
    ],
)  # fmt: skip
def test_speed_ups_by_hand(depths, price, expected):
    assert speedups(depths, price)[:4] == pytest.approx(expected)


@pytest.mark.parametrize(("length", "beyond"), [(4, 2), (3.8, 2), (3.79, 0), (4.02, 2)])
def test_short_drafts_prevent_extrapolation(length, beyond):
    assert len(drafted(80, 65, 50, 35, length=length)) == 4 + beyond


@pytest.mark.parametrize(
    "its",
    [window(), window(0, 0, 0), window(10, 40, 4), window(0, 0, 0, positions=(0, 0)), window(9, 18, 8, positions=(0, 0))],
    ids=["idle", "no drafts", "no positions", "K without drafts", "positions that are not counted"],
)  # fmt: skip
def test_without_drafts_or_positions_there_are_no_depths(its):
    assert WindowEvaluation(its, Knowledge()).depths is None


def varying(*positions, drafts=100, running=20.0):
    """Depths of increments with these accepted tokens of each position."""
    rows = [
        {"drafts": drafts, "draft_tokens": drafts * len(each), "accepted_tokens": sum(each), "positions": each, "first_tokens": 20}
        for each in positions
    ]  # fmt: skip
    length = float(len(rows))
    its = summed(rows, length=length, seconds=length, gauges=(running, 0.0, 0.5))
    return WindowEvaluation(its, Knowledge()).depths


class TestUncertainty:
    """S(3) is 3.5 % below S(4), which is more than the tolerance."""

    STEADY = (80, 70, 70, 45)
    SLOW = ((80, 70, 70, 70),) * 15 + ((80, 70, 70, 20),) * 15
    SHARED = ((95, 85, 85, 45),) * 15 + ((65, 55, 55, 45),) * 15
    PRICE = StepCost(0.145, 0.0)

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
        assert min(depths.recommended(self.PRICE, TOLERANCE), 4) == expected


class TestChangingK:
    """A schedule drafts four tokens in half of the increments, and two in the others."""

    LONG, SHORT = (
        {"drafts": 50, "draft_tokens": 50 * tokens, "accepted_tokens": sum(positions), "positions": positions}
        for tokens, positions in ((4, (40, 32, 24, 16)), (2, (40, 32, 0, 0)))
    )
    WINDOW = window(1000, 3000, 1840, positions=(800, 640, 240, 160), increments=[LONG, SHORT] * 10)
    DEPTHS, PRICE = WindowEvaluation(WINDOW, Knowledge()).depths, StepCost(0.1, 0.2)

    def test_a_depth_is_the_schedule_limited_to_its_tokens(self):
        accepted, lengths = (0.8, 1.44, 1.68, 1.84), (1, 2, 2.5, 3)
        expected = [(1 + a) / (1 + 0.2 + 0.1 * t) for a, t in zip(accepted, lengths, strict=True)]
        assert speedups(self.DEPTHS, self.PRICE) == pytest.approx(expected)

    def test_alone_a_depth_does_not_depend_on_the_schedule(self):
        alone = self.DEPTHS.speedups_alone(self.PRICE, 4, searches=False)
        accepted = (0.0, 0.8, 1.44, 1.92, 2.24)
        assert alone[1:] == pytest.approx([(1 + accepted[k]) / (1 + 0.2 + 0.1 * k) for k in (1, 2, 3, 4)])


class TestSpeedupsAlone:
    def test_without_a_schedule_they_are_those_of_the_depths_as_far_as_can_be_extrapolated(self):
        price = StepCost(0.1, 0.05)
        assert GOOD.speedups_alone(price, 99, searches=False) == pytest.approx([1.0, *speedups(GOOD, price)])

    @pytest.mark.parametrize(("searches", "expected"), [(False, 3.3 / 1.4), (True, 2.15 / 1.2)])
    def test_every_step_has_a_draft_unless_the_method_searches(self, searches, expected):
        depths = drafted(80, 65, 50, 35, decode_steps=200)
        assert depths.speedups_alone(CHEAP, 4, searches=searches)[4] == pytest.approx(expected)
