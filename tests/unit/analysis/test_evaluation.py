"""Evaluation of one engine: its parts combined, and the window that a verdict is about."""

from dataclasses import replace
from math import log

import pytest

from spec_decode_exporter.analysis.evaluation import Basis, Evaluation, FallbackEvaluation
from spec_decode_exporter.analysis.knowledge import Drafting, Knowledge
from spec_decode_exporter.analysis.verdict import Action, Advice, Decision, SpeedupRange, State, Verdict
from spec_decode_exporter.analysis.window_evaluation import PROBABLY_PAYS, WindowEvaluation, probably_pays
from spec_decode_exporter.config.comparison_settings import Architecture, CostSettings
from spec_decode_exporter.config.policy import Policy, SpeedupPolicy
from spec_decode_exporter.figures.estimate import Estimate
from tests.fakes.costs import make_cost
from tests.fakes.evaluations import GOOD, POOR, busy_window, evaluation, knowledge
from tests.fakes.windows import window

WALL = 1_790_000_000.0


def at(cost, method="eagle3", **more):
    """Knowledge of an engine whose draft token costs ``cost`` at four running requests."""
    settings = None if cost is None else CostSettings(draft_cost_ratio=cost, running_requests=4)
    return knowledge(method=method, cost=settings, **more)


class TestWorkedExamples:
    @pytest.mark.parametrize(
        ("known", "survival", "more", "verdict", "action", "tokens"),
        [
            (at(0.1), GOOD, {}, Verdict.OPTIMAL, Action.KEEP, 4),
            # A long draft of a poor drafter is to be shortened.
            (at(0.3, ""), POOR, {}, Verdict.HARMFUL, Action.DECREASE, 1),
            (at(0.7), POOR, {}, Verdict.HARMFUL, Action.DISABLE, 0),
            # One token is 1.077 times as fast at the best guess; at 16 requests it may cost four times as much.
            (at(0.3, architecture=Architecture.DENSE), POOR, {"running": 16.0}, Verdict.HARMFUL, Action.DISABLE, 0),
            # A dead drafter that costs anything.
            (at(None, "dspark"), (0.005,), {}, Verdict.HARMFUL, Action.DISABLE, 0),
            # 1.61 tokens a step at c = .1, which pays; at a quarter or at four times of it, it may not.
            (at(0.1, ""), POOR, {"running": 16.0}, Verdict.UNCLEAR, Action.MEASURE_COST, None),
            # Whether a good drafter pays depends on its cost.
            (at(None, ""), GOOD, {}, Verdict.UNCLEAR, Action.MEASURE_COST, None),
            # 1 % of the steps draft 3.3 tokens: at most 1.023 times as fast.
            (at(None, "suffix"), GOOD, {"coverage": 0.01}, Verdict.POOR, Action.MEASURE_COST, None),
        ],
    )  # fmt: skip
    def test_have_verdict_and_advice(self, known, survival, more, verdict, action, tokens):
        its = evaluation(known, survival, **more)
        assert its.decision == Decision(verdict, Advice(action, tokens))
        sure = {Verdict.OPTIMAL: 1.0, Verdict.POOR: 0.0, Verdict.HARMFUL: 0.0}
        assert its.pays_share_ratio == sure.get(verdict, its.verdict_window.pays_share_ratio)


class TestEvaluatedWindow:
    @pytest.mark.parametrize(
        ("seconds", "requests", "is_enough"),
        [
            (14, None, False),
            (15, None, True),
            (15, 2, False),  # too few requests for bounds
            (149, 2, False),
            (150, 2, True),
        ],
    )
    def test_has_bounds_or_half_of_the_longest(self, seconds, requests, is_enough):
        filling = busy_window(seconds=seconds)
        if requests is not None:
            total = filling.total._replace(first_tokens=requests * 4)  # four run at a time
            filling = replace(filling, total=total)
        its = Evaluation([filling], at(0.1))
        assert (its.verdict_window.is_partial, its.is_advisable) == (not is_enough, False)
        assert (its.verdict is not Verdict.INSUFFICIENT) == is_enough
        assert bool(its.missing) != is_enough

    @pytest.mark.parametrize(("seconds", "is_early"), [(34, True), (160, False), (250, False)])
    def test_gives_a_verdict_before_it_gives_advice(self, seconds, is_early):
        its = evaluation(at(0.1), seconds=seconds)
        assert its.decision == Decision(Verdict.OPTIMAL)
        assert (its.is_early, its.is_whole, its.verdict_window.window.seconds) == (is_early, False, seconds)
        assert (its.longest.acceptance_length_bounds is None) == is_early  # the window of 300 s stays partial

    @pytest.mark.parametrize(
        ("since_change", "verdict", "action", "basis", "is_early"),
        [
            (busy_window(POOR, length=60.0), Verdict.HARMFUL, Action.DECREASE, Basis.CHANGE, True),
            (busy_window(POOR, length=20.0), Verdict.INSUFFICIENT, Action.COLLECT, Basis.CHANGE, True),
            (busy_window(POOR), Verdict.HARMFUL, Action.DECREASE, Basis.LONGEST, False),
        ],
        ids=["within the longest window", "too short", "before the longest window"],
    )
    def test_begins_at_the_last_change(self, since_change, verdict, action, basis, is_early):
        its = evaluation(at(0.3, since_change=since_change, change_wall=WALL), POOR)
        assert (its.verdict, its.action, its.basis, its.is_early) == (verdict, action, basis, is_early)
        assert its.since == (WALL if basis is Basis.CHANGE else None)

    @pytest.mark.parametrize("seconds", [30.0, 280.0])
    def test_a_shorter_one_overrules_a_longer_one_that_it_contradicts(self, seconds):
        its = Evaluation((busy_window(POOR, length=seconds), busy_window()), at(0.3))
        assert (its.basis, its.verdict, its.action) == (Basis.SHORTER, Verdict.HARMFUL, Action.COLLECT)
        assert evaluation(at(0.3)).basis is Basis.LONGEST

    def test_a_shorter_one_without_drafts_overrules_nothing(self):
        silent = busy_window((0.0,) * 4, drafts=0, length=30.0)
        assert Evaluation((silent, busy_window()), at(0.1)).basis is Basis.LONGEST


def bounded(length=None, per_step=None, speedup=None, verdict=Verdict.INSUFFICIENT):
    """A window with these bounds, each a pair, and this verdict."""
    its = WindowEvaluation(window(), Knowledge())
    bounds = (
        None if pair is None else Estimate(sum(pair) / 2, *pair, 0.05) for pair in (length, per_step, speedup)
    )
    its.acceptance_length_bounds, its.tokens_per_step_bounds, its.speedup_bounds = bounds
    its.verdict = verdict
    return its


class TestNoGain:
    @pytest.mark.parametrize(("per_step", "is_so"), [((1.0, 1.09), True), ((1.0, 1.1), False), (None, False)])
    def test_few_tokens_a_step_pay_at_no_cost(self, per_step, is_so):
        """By the shortest window alone, and 10 % are the least that pays."""
        its = Evaluation((busy_window(length=30.0), busy_window()), at(0.1))
        shortest, longest = bounded(per_step=per_step), bounded(per_step=(2.0, 3.0))
        its.windows = (shortest, longest)
        assert its.gains_nothing is is_so

    def test_an_engine_that_is_gone_has_no_window(self):
        assert not Evaluation((), at(0.1)).gains_nothing


class TestContradiction:
    @pytest.mark.parametrize(
        ("verdict", "speedup", "is_so"),
        [
            (Verdict.OPTIMAL, (0.9, 0.99), True),
            (Verdict.OPTIMAL, (1.0, 1.2), False),
            (Verdict.MARGINAL, (0.9, 0.99), True),
            (Verdict.MARGINAL, (0.9, 1.0), False),
            (Verdict.POOR, (1.11, 1.5), True),
            (Verdict.HARMFUL, (1.01, 1.5), True),
            (Verdict.HARMFUL, (0.99, 1.5), False),
            (Verdict.INSUFFICIENT, (0.1, 0.2), False),
        ],
    )
    def test_bounds_of_the_speed_up_exclude_a_verdict(self, verdict, speedup, is_so):
        assert bounded(speedup=speedup).contradicts(bounded(verdict=verdict)) is is_so


class TestSharePaying:
    """Share of the possible speed-ups at which speculation pays."""

    @pytest.mark.parametrize(
        ("verdict", "lower", "upper", "even", "share"),
        [
            (Verdict.UNCLEAR, 0.5, 2.0, 1.0, 0.5),
            (Verdict.UNCLEAR, 0.9, 2.1, 1.0, log(2.1) / log(2.1 / 0.9)),
            (Verdict.UNCLEAR, 1.0, 1.5, 1.0, 1.0),
            (Verdict.UNCLEAR, 0.81, 1.0, 1.0, 0.0),
            (Verdict.UNCLEAR, 0.9, 1.6, 1.2, 0.5),  # it pays from 1.2 on, by the policy
            (Verdict.UNCLEAR, 0.0, 2.0, 1.0, None),  # an upper limit alone
            (Verdict.MARGINAL, 0.9, 2.1, 1.0, 1.0),
            (Verdict.POOR, 0.9, 2.1, 1.0, 0.0),
            (Verdict.INSUFFICIENT, 0.9, 2.1, 1.0, None),
        ],
    )
    def test_is_that_of_the_logarithms_above_break_even_unless_the_verdict_is_sure(
        self, verdict, lower, upper, even, share
    ):
        its = WindowEvaluation(
            window(drafts=100), Knowledge(policy=Policy(speedup=SpeedupPolicy(harmful=even)))
        )
        its.cost = make_cost()
        its.verdict = verdict
        its.speedup_range = SpeedupRange(Estimate(1.4, lower, upper, 0.1), lower, upper)
        assert its.pays_share_ratio == pytest.approx(share)

    @pytest.mark.parametrize(
        ("lower", "upper", "drafts", "share"),
        [
            (0.5, 2.0, 100, 0.5),
            (1.2, 2.0, 100, 1.0),  # more than 1 on this scale
            (0.5, 0.9, 100, 0.0),
            (0.5, 2.0, 99, None),  # fewer than a verdict needs
            (1.5, 1.5, 100, None),
        ],
    )
    def test_is_likely_before_a_verdict(self, lower, upper, drafts, share):
        its = WindowEvaluation(window(drafts=drafts), Knowledge())
        its.verdict, its.cost = Verdict.INSUFFICIENT, make_cost()
        its.speedup_range = SpeedupRange(Estimate(1.5, lower, upper, 0.1), lower, upper)
        assert its.pays_share_ratio is None
        assert its.likely_share_ratio == (None if share is None else pytest.approx(share))

    def test_at_the_cost_of_others_it_is_that_of_the_published_costs(self):
        """92 rows of layers are within a factor of 8 of 4 requests; a good drafter pays at most of them."""
        its = WindowEvaluation(busy_window(), at(None, "eagle3"))
        assert its.verdict is Verdict.UNCLEAR
        assert its.published_share.costs > 80
        assert its.pays_share_ratio == its.published_share.ratio == its.likely_share_ratio > PROBABLY_PAYS

    def test_of_an_unknown_method_it_is_that_of_all_drafters_and_of_too_few_published_ones_none(self):
        unknown, ngram = (WindowEvaluation(busy_window(), at(None, method)) for method in ("", "ngram"))
        assert unknown.published_share.costs > 100
        assert unknown.pays_share_ratio == unknown.published_share.ratio
        assert (ngram.cost, ngram.published_share, ngram.pays_share_ratio) == (None, None, None)

    @pytest.mark.parametrize(("is_bounded", "pays"), [(True, False), (False, True)])
    def test_the_range_of_costs_alone_says_what_is_likely_only_without_bounds(self, is_bounded, pays):
        its = WindowEvaluation(window(drafts=100), Knowledge())
        its.verdict, its.cost = Verdict.INSUFFICIENT, make_cost()
        its.speedup_range = SpeedupRange(Estimate(1.12, 0.9, 1.4, 0.1), 1.08, 1.15, is_bounded)
        assert its.probably_pays is pays


def test_of_an_engine_that_is_gone_has_no_value():
    its = Evaluation((), at(0.1))
    assert (its.state, its.verdict, its.action) == (State.UNREACHABLE, Verdict.INSUFFICIENT, Action.COLLECT)
    assert (its.longest.cost, its.longest.request, its.crossover, its.decision.advice.tokens, its.since) == (
        None,
    ) * 5
    assert (its.depths, its.missing, its.setting.tokens, its.pays_share_ratio) == ([], (), None, None)
    assert (its.verdict_window.work, its.longest.speedup_ceiling_ratio) == (None, None)


@pytest.mark.parametrize(
    ("known", "counts", "state"),
    [
        (at(0.1), {}, State.ACTIVE),
        (at(0.1, has_drafted=False), {"drafts": 0}, State.ACTIVE),  # requests run
        (at(0.1, drafting=Drafting.OFF), {}, State.DISABLED),
        (at(0.1, drafting=Drafting.UNDECIDED), {}, State.UNKNOWN),
    ],
)
def test_after_an_internal_error_it_has_the_state_and_the_figures_of_counts_alone(known, counts, state):
    busy = busy_window()
    its = FallbackEvaluation([replace(busy, total=busy.total._replace(**counts))], known)
    assert (its.state, its.verdict, its.action) == (state, Verdict.INSUFFICIENT, Action.COLLECT)
    assert (its.longest.cost, its.missing, its.longest.speedup_bounds) == (None, (), None)
    assert its.longest.acceptance_length_bounds is None
    assert its.longest.total.accepted_tokens == 300 * 230


@pytest.mark.parametrize(("share", "pays"), [(0.9, True), (0.89, False), (0.01, False), (None, False)])
def test_what_is_likely_follows_from_the_share_alone_and_no_share_says_that_it_does_not_pay(share, pays):
    assert probably_pays(share) is pays
