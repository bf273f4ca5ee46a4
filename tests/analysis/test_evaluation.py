"""Evaluation of one engine: its parts combined."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spec_decode_exporter.analysis.cost_source import CostSource
from spec_decode_exporter.analysis.evaluated_window import Basis, Change
from spec_decode_exporter.analysis.evaluation import Assumptions, evaluate
from spec_decode_exporter.analysis.experiments.faster_method import FasterMethod
from spec_decode_exporter.analysis.finding import FindingName
from spec_decode_exporter.analysis.recommendation import Action
from spec_decode_exporter.analysis.speculation import Speculation
from spec_decode_exporter.analysis.speculation_state import State
from spec_decode_exporter.analysis.verdict import Verdict
from spec_decode_exporter.config.cost_settings import CostSettings, LoadCost
from spec_decode_exporter.config.policy import Policy
from spec_decode_exporter.figures.estimate import Estimate
from spec_decode_exporter.scrape.page.engine_table import Counter
from spec_decode_exporter.scrape.poll.batch_schedule import NO_SCHEDULE, BatchSchedule
from tests.fixtures.evaluations import POOR


def evaluated(case, cost=None, method="eagle3", policy=None, schedule=NO_SCHEDULE):
    settings = CostSettings(draft_cost_ratio=cost) if isinstance(cost, float) else cost
    speculation = Speculation(method, "configured" if method else "", schedule=schedule)
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
    evaluation = evaluated(case(POOR), 0.3)
    assert (evaluation.verdict, evaluation.action) == (Verdict.HARMFUL, Action.DECREASE)
    assert evaluation.recommended.tokens == 1


def test_where_no_depth_pays_speculation_is_to_be_disabled(case):
    evaluation = evaluated(case(POOR), 0.5)
    assert (evaluation.verdict, evaluation.action) == (Verdict.HARMFUL, Action.DISABLE)
    assert evaluation.recommended.tokens == 0
    assert FindingName.NO_DEPTH_PAYS in {finding.name for finding in evaluation.findings}


@pytest.mark.parametrize("method", ["", "eagle3", "mtp"])
@pytest.mark.parametrize("survival", [(0.01, 0.0, 0.0), (0.01,)])
def test_the_advice_for_a_dead_drafter_is_to_disable_with_any_method(case, method, survival):
    evaluation = evaluated(case(survival), None, method=method)
    assert (evaluation.verdict, evaluation.action) == (Verdict.HARMFUL, Action.DISABLE)
    assert evaluation.recommended is None or evaluation.recommended.tokens == 0


@pytest.mark.parametrize(
    ("first_tokens", "verdict"), [(0, Verdict.INSUFFICIENT), (7, Verdict.INSUFFICIENT), (8, Verdict.HEALTHY)]
)
def test_too_few_requests_have_no_advice_and_at_first_no_verdict(case, first_tokens, verdict):
    usual = case()
    counters = list(usual.windows[-1].counters)
    counters[list(Counter).index(Counter.FIRST_TOKENS)] = first_tokens
    last = replace(usual.windows[-1], counters=tuple(counters))
    few = usual._replace(windows=(*usual.windows[:-1], last))
    evaluation = evaluated(few, 0.3)
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
    # By the length and the pooled acceptance alone, and by the last position.
    assert (evaluation.verdict, evaluation.action) == (Verdict.OPTIMAL, Action.INCREASE)


def test_a_measured_cost_precedes_the_typical_cost_of_the_method(case):
    measured = [LoadCost(running_requests=4, draft_cost_ratio=0.2)]
    assert evaluated(case(costs=measured), None).cost.source is CostSource.MEASURED
    assert evaluated(case(), None).cost.source is CostSource.TYPICAL
    assert evaluated(case(costs=measured), 0.1).cost.source is CostSource.CONFIGURED


@pytest.mark.parametrize(("running", "is_sure"), [(1.9, False), (2.0, True), (8.0, True), (8.1, False)])
def test_a_cost_is_certain_near_its_own_load(case, running, is_sure):
    settings = CostSettings(draft_cost_ratio=0.1, running_requests=4)
    assert evaluated(case(running=running), settings).is_cost_sure is is_sure


def test_an_unknown_or_typical_cost_is_not_certain(case):
    assert not evaluated(case(), None, method="").is_cost_sure
    assert not evaluated(case(), None).is_cost_sure
    assert evaluated(case(), 0.1).is_cost_sure


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
