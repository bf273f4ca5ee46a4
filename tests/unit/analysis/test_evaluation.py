"""Evaluation of one engine: its parts combined."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spec_decode_exporter.analysis.cost_source import CostSource
from spec_decode_exporter.analysis.end_to_end import EndToEndBasis
from spec_decode_exporter.analysis.evaluated_window import Basis, Change
from spec_decode_exporter.analysis.evaluation import evaluate
from spec_decode_exporter.analysis.evaluation_inputs import Assumptions
from spec_decode_exporter.experiments.faster_method import FasterMethod
from spec_decode_exporter.findings.finding import FindingName
from spec_decode_exporter.analysis.measured_cost import MeasuredCost
from spec_decode_exporter.analysis.recommendation import Action
from spec_decode_exporter.analysis.request_baseline import RequestBaseline
from spec_decode_exporter.analysis.speculation import Speculation
from spec_decode_exporter.analysis.speculation_state import State
from spec_decode_exporter.analysis.verdict import Verdict
from spec_decode_exporter.config.batch_schedule import NO_SCHEDULE, BatchSchedule
from spec_decode_exporter.config.cost_settings import Architecture, CostSettings, LoadCost
from spec_decode_exporter.config.policy import Policy
from spec_decode_exporter.figures.estimate import Estimate
from spec_decode_exporter.scrape.page.engine_table import Counter
from tests.fixtures.evaluations import POOR


def evaluated(case, cost=None, method="eagle3", policy=None, schedule=NO_SCHEDULE, architecture=None):
    settings = CostSettings(draft_cost_ratio=cost, running_requests=4) if isinstance(cost, float) else cost
    source = "configured" if method else ""
    speculation = Speculation(method, source, schedule=schedule, architecture=architecture)
    assumptions = Assumptions(speculation, settings, policy or Policy())
    return evaluate(case.windows, replace(case.inputs, assumptions=assumptions))


def with_inputs(case, **inputs):
    return case._replace(inputs=replace(case.inputs, **inputs))


def test_the_worked_example_is_optimal_and_to_be_kept(case):
    evaluation = evaluated(case(), 0.1)
    assert [round(depth.speedup, 3) for depth in evaluation.depths] == [
        1.636,
        2.042,
        2.269,
        2.357,
        2.379,
        2.36,
    ]
    assert (evaluation.state, evaluation.verdict, evaluation.action) == (
        State.ACTIVE,
        Verdict.OPTIMAL,
        Action.KEEP,
    )
    assert evaluation.recommended == evaluation.depths[3]
    assert [round(benefit, 2) for benefit in evaluation.marginal_benefits] == [
        8.0,
        3.97,
        2.45,
        1.54,
        1.14,
        0.87,
    ]


def test_a_long_draft_of_a_poor_drafter_is_harmful_and_to_be_shortened(case):
    evaluation = evaluated(case(POOR), 0.3, method="")
    assert (evaluation.verdict, evaluation.action) == (Verdict.HARMFUL, Action.DECREASE)
    assert evaluation.recommended.tokens == 1


def test_where_no_depth_pays_speculation_is_to_be_disabled(case):
    evaluation = evaluated(case(POOR), 0.7)
    assert (evaluation.verdict, evaluation.action) == (Verdict.HARMFUL, Action.DISABLE)
    assert evaluation.recommended.tokens == 0
    assert FindingName.NO_DEPTH_PAYS in {finding.name for finding in evaluation.findings}


def test_where_no_depth_is_known_to_pay_none_is_recommended(case):
    # One token is 1.077 times as fast at the best guess; at 16 requests it may cost four times as much.
    evaluation = evaluated(case(POOR, running=16.0), 0.3, architecture=Architecture.DENSE)
    assert evaluation.depths[0].speedup > 1
    assert (evaluation.verdict, evaluation.action) == (Verdict.HARMFUL, Action.DISABLE)
    assert evaluation.recommended.tokens == 0


@pytest.mark.parametrize("survival", [(0.01, 0.0, 0.0), (0.005,)])
def test_a_dead_drafter_that_costs_anything_is_to_be_disabled(case, survival):
    for method in ("dflash", "dspark"):  # at least 0.05 of a step
        evaluation = evaluated(case(survival), None, method=method)
        assert (evaluation.verdict, evaluation.action) == (Verdict.HARMFUL, Action.DISABLE)
        assert evaluation.recommended.tokens == 0


def test_a_cost_known_for_another_load_is_unclear_and_to_be_measured(case):
    # 1.61 tokens a step at c = .1, which pays; at a quarter or at four times of it, it may not.
    settings = CostSettings(draft_cost_ratio=0.1, running_requests=4)
    evaluation = evaluated(case(POOR, running=16.0), settings, method="")
    assert (evaluation.verdict, evaluation.action) == (Verdict.UNCLEAR, Action.MEASURE_COST)
    finding = next(each for each in evaluation.findings if each.name is FindingName.UNCLEAR_COST)
    assert finding.values["break_even"] == pytest.approx(0.61 / 4, abs=0.01)
    assert finding.values["highest_cost"] == pytest.approx(0.5)


def test_a_dense_model_has_a_narrower_interval_than_an_unknown_one(case):
    usual = case()
    found = [
        evaluate(
            usual.windows,
            replace(usual.inputs, assumptions=Assumptions(Speculation("eagle3", architecture=architecture))),
        ).bounds[-1]
        for architecture in (Architecture.DENSE, None)
    ]
    assert found[0].speedup.lower > found[1].speedup.lower


@pytest.mark.parametrize(
    ("first_tokens", "verdict"), [(0, Verdict.INSUFFICIENT), (7, Verdict.INSUFFICIENT), (8, Verdict.MARGINAL)]
)
def test_too_few_requests_have_no_advice_and_at_first_no_verdict(case, first_tokens, verdict):
    usual = case()
    counters = list(usual.windows[-1].counters)
    counters[list(Counter).index(Counter.FIRST_TOKENS)] = first_tokens
    last = replace(usual.windows[-1], counters=tuple(counters))
    few = usual._replace(windows=(*usual.windows[:-1], last))
    evaluation = evaluated(few, 0.2)
    assert (evaluation.verdict, evaluation.action, evaluation.recommended) == (verdict, Action.COLLECT, None)


@pytest.mark.parametrize(
    ("method", "expected"),
    [("draft_model", FindingName.DRAFTING_PAUSED), ("suffix", FindingName.LOW_COVERAGE)],
)
def test_steps_without_a_draft_are_explained_by_the_method(case, method, expected):
    names = {finding.name for finding in evaluated(case(coverage=0.4), 0.1, method).findings}
    assert names & {FindingName.DRAFTING_PAUSED, FindingName.LOW_COVERAGE} == {expected}


def test_an_engine_that_does_not_speculate_has_no_cost_of_drafting(case):
    assert evaluated(with_inputs(case(), speculates=False), 0.1).cost is None


def test_every_window_has_its_bounds(case):
    evaluation = evaluated(case(), 0.1)
    assert len(evaluation.bounds) == 2
    short, long = evaluation.bounds
    for bounds in (short, long):
        assert bounds.acceptance_length.lower < 3.3 < bounds.acceptance_length.upper
        assert bounds.acceptance_ratio.lower < 0.575 < bounds.acceptance_ratio.upper
        assert bounds.speedup.lower < 3.3 / 1.4 < bounds.speedup.upper
    assert long.speedup.standard_error < short.speedup.standard_error


def test_every_window_has_the_speed_up_of_its_requests(case):
    """Of 4 s of the requests a second, 1 s is before the first tokens; decoding is 3.3 / 1.4 times as fast."""
    evaluation = evaluated(case(first_token=0.5), 0.1)
    expected = 0.25 + 0.75 * 3.3 / 1.4
    assert [request.value for request in evaluation.requests] == [pytest.approx(expected)] * 2
    assert evaluation.request.bounds.lower <= expected <= evaluation.request.bounds.upper
    assert evaluated(case(), 0.1).requests == (None, None)
    assert evaluated(case(first_token=0.5), None, method="").requests == (None, None)


@pytest.mark.parametrize(
    ("first_token", "verdict"),
    [(None, Verdict.OPTIMAL), (0.2, Verdict.OPTIMAL), (1.0, Verdict.HEALTHY), (1.7, Verdict.MARGINAL)],
)
def test_the_more_time_requests_wait_for_the_first_token_the_less_speculation_pays(
    case, first_token, verdict
):
    assert evaluated(case(first_token=first_token), 0.1).verdict is verdict


def test_requests_that_are_slower_than_their_baseline_are_poor_however_fast_decoding_is(case):
    baseline = RequestBaseline(0.1, 0.85, None, 3600.0, 1_790_000_000.0, "a test")
    slow = with_inputs(case(first_token=1.5), request_baseline=baseline)
    evaluation = evaluated(slow, 0.1)
    assert evaluation.request.basis is EndToEndBasis.BASELINE
    assert evaluation.request.value == pytest.approx((2 * 0.1 + 3.3 / 1.4 * 1) / 4)
    assert (evaluation.verdict, evaluation.request_baseline) == (Verdict.POOR, baseline)
    assert evaluation.action is not Action.DISABLE


def test_with_an_unknown_cost_dependent_values_are_absent(case):
    evaluation = evaluated(case(), None, method="")
    assert (evaluation.cost, evaluation.depths, evaluation.marginal_benefits, evaluation.recommended) == (
        None,
        (),
        (),
        None,
    )
    assert evaluation.bounds[-1].speedup is None
    assert evaluation.bounds[-1].acceptance_length is not None
    assert evaluation.bounds[-1].break_even_cost.value == pytest.approx(2.3 / 4, abs=0.01)
    assert FindingName.UNKNOWN_COST in {finding.name for finding in evaluation.findings}
    # Any drafter may cost up to half a step, and so does verifying by an unknown model at four requests.
    assert (evaluation.verdict, evaluation.action) == (Verdict.UNCLEAR, Action.MEASURE_COST)


def test_a_search_whose_steps_are_unknown_has_an_upper_limit_alone(case):
    usual = case(coverage=0.4)
    blind = [
        replace(window, counters=(*window.counters[:3], *[None] * (len(window.counters) - 3)))
        for window in usual.windows
    ]
    for method, expected in (("ngram", Verdict.UNCLEAR), ("mtp", Verdict.HEALTHY)):
        evaluation = evaluated(usual._replace(windows=tuple(blind)), 0.1, method)
        assert evaluation.verdict is expected


def test_few_steps_with_a_draft_are_not_optimal(case):
    # 1 % of the steps draft 3.3 tokens: at most 1.023 times as fast.
    evaluation = evaluated(case(coverage=0.01), None, "suffix")
    assert evaluation.verdict in (Verdict.POOR, Verdict.HARMFUL)
    assert evaluation.action is not Action.INCREASE


def test_a_cost_measured_at_this_load_precedes_a_configured_one(case):
    measured = [MeasuredCost(4, 0.2, 0.19, 0.21, CostSource.MEASURED)]
    assert evaluated(case(costs=measured), None).cost.source is CostSource.MEASURED
    assert evaluated(case(), None).cost.source is CostSource.TYPICAL
    assert evaluated(case(costs=measured), 0.1).cost.source is CostSource.MEASURED
    assert evaluated(case(), 0.1).cost.source is CostSource.CONFIGURED


def test_beyond_the_crossover_the_batch_is_to_be_limited(case):
    loads = CostSettings(
        loads=[
            LoadCost(running_requests=2, draft_cost_ratio=0.05),
            LoadCost(running_requests=32, draft_cost_ratio=0.9),
        ]
    )
    evaluation = evaluated(case(running=30.0), loads)
    # 3.3 tokens a step are lost on 1 + 4 c at c = .575, which is reached at this load.
    assert evaluation.crossover == pytest.approx(2 + 30 * (0.575 - 0.05) / 0.85)
    assert (evaluation.verdict, evaluation.action) == (Verdict.HARMFUL, Action.LIMIT_BATCH)
    assert FindingName.ABOVE_CROSSOVER in {finding.name for finding in evaluation.findings}


@pytest.mark.parametrize("seconds", [160, 250])
def test_advice_needs_a_whole_longest_window_and_a_verdict_does_not(case, seconds):
    evaluation = evaluated(case(seconds=seconds), 0.1)
    assert (evaluation.verdict, evaluation.action) == (Verdict.OPTIMAL, Action.COLLECT)
    assert evaluation.recommended is None


def test_a_verdict_before_half_of_the_longest_window_is_early(case):
    evaluation = evaluated(case(seconds=34), 0.1)
    assert (evaluation.verdict, evaluation.action) == (Verdict.OPTIMAL, Action.COLLECT)
    assert evaluation.evaluated.choice.is_early
    assert evaluation.evaluated.choice.window.seconds == 34
    assert not evaluated(case(seconds=160), 0.1).evaluated.choice.is_early
    assert evaluation.bounds[-1].acceptance_length is None  # the window of 300 s stays partial


def few_requests(case, seconds, requests):
    """A case in which that many requests passed one after the other."""
    usual = case(seconds=seconds)
    counters = list(usual.windows[-1].counters)
    counters[list(Counter).index(Counter.FIRST_TOKENS)] = requests * 4  # four run at a time
    last = replace(usual.windows[-1], counters=tuple(counters))
    return usual._replace(windows=(*usual.windows[:-1], last))


@pytest.mark.parametrize(("seconds", "requests"), [(140, 6), (20, 60)])
def test_a_short_window_without_enough_evidence_has_no_verdict(case, seconds, requests):
    evaluation = evaluated(few_requests(case, seconds, requests), 0.1)
    assert (evaluation.verdict, evaluation.action) == (Verdict.INSUFFICIENT, Action.COLLECT)
    assert evaluation.evaluated.missing


def test_the_window_since_a_change_has_verdict_advice_depths_and_findings(case, evaluation_window):
    since = Change(evaluation_window(POOR, length=60.0), 1_790_000_000.0)
    good = case()
    mixed = good._replace(windows=(case(POOR).windows[0], good.windows[-1]))
    evaluation = evaluated(with_inputs(mixed, change=since), 0.3)
    assert (evaluation.verdict, evaluation.action) == (Verdict.HARMFUL, Action.DECREASE)
    assert evaluation.recommended.tokens == 1
    assert FindingName.LOW_FIRST_POSITION in {finding.name for finding in evaluation.findings}
    assert evaluation.evaluated.choice.basis is Basis.CHANGE
    assert evaluation.evaluated.choice.since == 1_790_000_000.0


def test_without_enough_evidence_since_a_change_there_is_no_verdict(case, evaluation_window):
    since = Change(evaluation_window(POOR, length=20.0), 1_790_000_000.0)
    evaluation = evaluated(with_inputs(case(), change=since), 0.3)
    assert (evaluation.verdict, evaluation.action) == (Verdict.INSUFFICIENT, Action.COLLECT)
    assert FindingName.LOW_FIRST_POSITION not in {finding.name for finding in evaluation.findings}


def test_a_shorter_window_overrules_a_longer_one_that_it_contradicts(case):
    good, poor = case(), case(POOR)
    mixed = good._replace(windows=(poor.windows[0], good.windows[-1]))
    evaluation = evaluated(mixed, 0.3)
    assert evaluation.evaluated.choice.basis is Basis.SHORTER
    assert (evaluation.verdict, evaluation.action) == (Verdict.HARMFUL, Action.COLLECT)
    assert evaluated(good, 0.3).evaluated.choice.basis is Basis.LONGEST


def test_a_shorter_window_without_drafts_overrules_nothing(case):
    good, silent = case(), case(drafts=0, survival=(0.0,) * 4)
    mixed = good._replace(windows=(silent.windows[0], good.windows[-1]))
    assert evaluated(mixed, 0.1).evaluated.choice.basis is Basis.LONGEST


def test_thresholds_are_those_of_the_policy(case):
    strict = Policy.model_validate({"speedup": {"healthy": 3.0}})
    assert evaluated(case(), 0.1, policy=strict).verdict is Verdict.HEALTHY
    many = Policy.model_validate({"min_drafts": 30_001})
    assert evaluated(case(), 0.1, policy=many).verdict is Verdict.INSUFFICIENT


def test_an_engine_with_a_schedule_without_drafts_at_this_load_is_not_stalled(case):
    busy = case((0.0,) * 4)
    quiet = [replace(window, counters=(0, 0, 0, *window.counters[3:])) for window in busy.windows]
    silent = busy._replace(windows=tuple(quiet))
    assert evaluated(silent, 0.1).state is State.STALLED
    assert evaluated(silent, schedule=BatchSchedule((1, 3), (4, 0))).state is State.ACTIVE


def test_a_faster_method_is_to_be_switched_to(case):
    faster = FasterMethod(
        "drafter", "eagle", "eagle3", Estimate(3.0, 2.8, 3.2, 0.1), Estimate(2.3, 2.1, 2.5, 0.1)
    )
    evaluation = evaluated(with_inputs(case(), faster=faster), 0.1)
    assert evaluation.action is Action.SWITCH_METHOD
    assert FindingName.FASTER_METHOD in {finding.name for finding in evaluation.findings}
    assert evaluation.faster == faster
