"""One engine, judged: the parts put together, and advice that stays."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spec_decode_exporter.analysis.cost import CostSource
from spec_decode_exporter.analysis.evaluation import Assumptions, EvaluationInputs, Evaluator
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
from spec_decode_exporter.scrape.poll.batch_schedule import BatchSchedule

GOOD = (0.80, 0.65, 0.50, 0.35)
POOR = (0.40, 0.15, 0.05, 0.01)


@pytest.fixture(name="window")
def window_fixture(make_window):
    def window(survival=GOOD, *, length=300.0, seconds=None, running=4.0, drafts=100, coverage=1.0):
        """A window of equal increments, one a second; every step drafts K tokens unless coverage is lower."""
        seconds = length if seconds is None else seconds
        polls = int(seconds)
        accepted = [round(share * drafts) for share in survival]
        steps = round(drafts / coverage)
        one = {
            "drafts": drafts,
            "draft_tokens": drafts * len(survival),
            "accepted_tokens": sum(accepted),
            "decode_steps": steps,
            "generation_tokens": steps + sum(accepted) + 2,
            "first_tokens": 2,
        }
        whole = {name: value * polls for name, value in one.items()}
        return make_window(
            whole.pop("drafts"),
            whole.pop("draft_tokens"),
            whole.pop("accepted_tokens"),
            positions=[count * polls for count in accepted],
            length=length,
            seconds=float(seconds),
            gauges=(running, 0.0, 0.2),
            increments=[{**one, "positions": accepted, "gauges": (running, 0.0, 0.2)}] * polls,
            **whole,
        )

    return window


@pytest.fixture(name="facts")
def facts_fixture(window):
    def facts(survival=GOOD, *, costs=(), **more):
        shorter = window(survival, **{**more, "length": 30.0, "seconds": min(30, more.get("seconds") or 30)})
        return EvaluationInputs(
            windows=(shorter, window(survival, **more)),
            latencies={},
            broken=frozenset(),
            speculates=True,
            drafted_before=True,
            costs=costs,
        )

    return facts


def evaluate_at(cost=None, method="eagle3", policy=None, longest=300.0):
    settings = CostSettings(draft_cost_ratio=cost) if isinstance(cost, float) else cost
    speculation = Speculation(method, "configured" if method else "")
    return Evaluator(Assumptions(speculation, settings, policy or Policy()), longest)


def test_the_worked_example_is_optimal_and_to_be_kept(facts):
    evaluation = evaluate_at(0.1).evaluate(facts(), 1000.0)
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


def test_a_long_draft_of_a_poor_drafter_is_harmful_and_to_be_shortened(facts):
    evaluation = evaluate_at(0.3).evaluate(facts(POOR), 1000.0)
    assert (evaluation.verdict, evaluation.action) == (Verdict.HARMFUL, Action.DECREASE)
    assert evaluation.recommended.tokens == 1


def test_where_no_depth_pays_speculation_is_to_be_disabled(facts):
    evaluation = evaluate_at(0.5).evaluate(facts(POOR), 1000.0)
    assert (evaluation.verdict, evaluation.action) == (Verdict.HARMFUL, Action.DISABLE)
    assert evaluation.recommended.tokens == 0
    assert FindingName.NO_DEPTH_PAYS in {finding.name for finding in evaluation.findings}


@pytest.mark.parametrize("method", ["", "eagle3", "mtp"])
@pytest.mark.parametrize("survival", [(0.01, 0.0, 0.0), (0.01,)])
def test_a_dead_drafter_is_to_be_disabled_however_much_is_known_of_it(facts, method, survival):
    evaluation = evaluate_at(None, method=method).evaluate(facts(survival), 1000.0)
    assert (evaluation.verdict, evaluation.action) == (Verdict.HARMFUL, Action.DISABLE)
    assert evaluation.recommended is None or evaluation.recommended.tokens == 0


@pytest.mark.parametrize(
    ("first_tokens", "verdict"), [(0, Verdict.INSUFFICIENT), (7, Verdict.INSUFFICIENT), (8, Verdict.HEALTHY)]
)
def test_a_few_requests_say_little_and_advise_nothing(facts, first_tokens, verdict):
    seen = facts()
    counters = list(seen.windows[-1].counters)
    counters[list(Counter).index(Counter.FIRST_TOKENS)] = first_tokens
    few = replace(seen, windows=(*seen.windows[:-1], replace(seen.windows[-1], counters=tuple(counters))))
    evaluation = evaluate_at(0.3).evaluate(few, 1000.0)
    assert (evaluation.verdict, evaluation.action, evaluation.recommended) == (verdict, Action.COLLECT, None)


@pytest.mark.parametrize(
    ("method", "found"),
    [("draft_model", FindingName.DRAFTING_PAUSED), ("suffix", FindingName.LOW_COVERAGE)],
)
def test_steps_without_a_draft_are_explained_by_the_method(facts, method, found):
    names = {
        finding.name for finding in evaluate_at(0.1, method).evaluate(facts(coverage=0.4), 1000.0).findings
    }
    assert names & {FindingName.DRAFTING_PAUSED, FindingName.LOW_COVERAGE} == {found}


def test_an_engine_that_does_not_speculate_has_no_cost_of_drafting(facts):
    assert evaluate_at(0.1).evaluate(replace(facts(), speculates=False), 1000.0).cost is None


def test_every_window_has_its_bounds(facts):
    evaluation = evaluate_at(0.1).evaluate(facts(), 1000.0)
    assert len(evaluation.bounds) == 2
    short, long = evaluation.bounds
    for bounds in (short, long):
        assert bounds.acceptance_length.lower < 3.3 < bounds.acceptance_length.upper
        assert bounds.acceptance_ratio.lower < 0.575 < bounds.acceptance_ratio.upper
        assert bounds.speedup.lower < 3.3 / 1.4 < bounds.speedup.upper
    assert long.speedup.standard_error < short.speedup.standard_error


def test_an_unknown_cost_leaves_what_needs_it_absent(facts):
    evaluation = evaluate_at(None, method="").evaluate(facts(), 1000.0)
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


def test_what_the_engine_showed_goes_before_what_the_method_usually_costs(facts):
    measured = [LoadCost(running_requests=4, draft_cost_ratio=0.2)]
    assert evaluate_at(None).evaluate(facts(costs=measured), 1000.0).cost.source is CostSource.MEASURED
    assert evaluate_at(None).evaluate(facts(), 1000.0).cost.source is CostSource.DEFAULT
    assert evaluate_at(0.1).evaluate(facts(costs=measured), 1000.0).cost.source is CostSource.CONFIGURED


@pytest.mark.parametrize(("running", "is_sure"), [(1.9, False), (2.0, True), (8.0, True), (8.1, False)])
def test_a_cost_is_sure_at_the_loads_that_it_is_known_for(facts, running, is_sure):
    settings = CostSettings(draft_cost_ratio=0.1, running_requests=4)
    assert evaluate_at(settings).evaluate(facts(running=running), 1000.0).is_cost_sure is is_sure


def test_no_cost_and_a_usual_one_are_not_sure(facts):
    assert not evaluate_at(None, method="").evaluate(facts(), 1000.0).is_cost_sure
    assert not evaluate_at(None).evaluate(facts(), 1000.0).is_cost_sure
    assert evaluate_at(0.1).evaluate(facts(), 1000.0).is_cost_sure


def test_beyond_the_crossover_the_batch_is_to_be_limited(facts):
    loads = CostSettings(
        loads=[
            LoadCost(running_requests=2, draft_cost_ratio=0.05),
            LoadCost(running_requests=32, draft_cost_ratio=0.9),
        ]
    )
    evaluation = evaluate_at(loads).evaluate(facts(running=30.0), 1000.0)
    # 3.3 tokens a step are lost on 1 + 4 c at c = .575, which is reached at this load.
    assert evaluation.crossover == pytest.approx(2 + 30 * (0.575 - 0.05) / 0.85)
    assert (evaluation.verdict, evaluation.action) == (Verdict.HARMFUL, Action.LIMIT_BATCH)
    assert FindingName.ABOVE_CROSSOVER in {finding.name for finding in evaluation.findings}


@pytest.mark.parametrize("seconds", [160, 250])
def test_advice_takes_a_whole_long_window_and_a_verdict_does_not(facts, seconds):
    evaluation = evaluate_at(0.1).evaluate(facts(seconds=seconds), 1000.0)
    assert (evaluation.verdict, evaluation.action) == (Verdict.OPTIMAL, Action.COLLECT)
    assert evaluation.recommended is None


def test_a_partial_window_has_neither(facts):
    evaluation = evaluate_at(0.1).evaluate(facts(seconds=140), 1000.0)
    assert (evaluation.verdict, evaluation.action) == (Verdict.INSUFFICIENT, Action.COLLECT)
    assert evaluation.bounds[-1].acceptance_length is None


class TestAdvice:
    def test_changes_only_after_a_whole_long_window(self, facts):
        evaluator = evaluate_at(0.1)
        assert evaluator.evaluate(facts(), 1000.0).recommended.tokens == 4
        for moment in (1005.0, 1300.0):
            shown = evaluator.evaluate(facts(POOR), moment)
            assert (shown.recommended.tokens, shown.action) == (4, Action.KEEP)
        shown = evaluator.evaluate(facts(POOR), 1305.0)
        assert (shown.recommended.tokens, shown.action) == (1, Action.DECREASE)

    def test_is_none_while_there_is_too_little_to_say_and_then_what_it_was(self, facts):
        evaluator = evaluate_at(0.1)
        evaluator.evaluate(facts(), 1000.0)
        shown = evaluator.evaluate(facts(drafts=0, survival=(0.0,) * 4), 1005.0)
        assert (shown.action, shown.recommended) == (Action.COLLECT, None)
        shown = evaluator.evaluate(facts(POOR), 1010.0)
        assert (shown.action, shown.recommended.tokens) == (Action.KEEP, 4)

    def test_begins_again_once_there_was_too_little_to_say_for_a_whole_long_window(self, facts):
        evaluator = evaluate_at(0.1)
        evaluator.evaluate(facts(), 1000.0)
        for moment in (1005.0, 1305.0):
            evaluator.evaluate(facts(drafts=0, survival=(0.0,) * 4), moment)
        assert evaluator.evaluate(facts(POOR), 1310.0).recommended.tokens == 1

    def test_to_disable_or_to_limit_the_batch_ends_with_the_verdict_that_it_rests_on(self, facts):
        evaluator = evaluate_at(0.5)
        assert evaluator.evaluate(facts(POOR), 1000.0).action is Action.DISABLE
        shown = evaluator.evaluate(facts(), 1005.0)
        assert (shown.verdict, shown.action) == (Verdict.MARGINAL, Action.DECREASE)
        assert shown.recommended.tokens == 1

    def test_begins_again_with_another_longest_window(self, facts):
        evaluator = evaluate_at(0.1)
        evaluator.evaluate(facts(), 1000.0)
        evaluator.keep(600.0)
        assert evaluator.evaluate(facts(POOR), 1005.0).recommended.tokens == 1


def test_thresholds_are_those_of_the_policy(facts):
    strict = Policy.model_validate({"speedup": {"healthy": 3.0}})
    assert evaluate_at(0.1, policy=strict).evaluate(facts(), 1000.0).verdict is Verdict.HEALTHY
    many = Policy.model_validate({"min_drafts": 30_001})
    assert evaluate_at(0.1, policy=many).evaluate(facts(), 1000.0).verdict is Verdict.INSUFFICIENT


def test_an_engine_that_is_told_not_to_draft_at_this_load_is_not_stalled(facts):
    busy = facts((0.0,) * 4)
    quiet = [replace(window, counters=(0, 0, 0, *window.counters[3:])) for window in busy.windows]
    silent = replace(busy, windows=tuple(quiet))
    assert evaluate_at(0.1).evaluate(silent, 1000.0).state is State.STALLED
    told = Evaluator(Assumptions(Speculation("eagle3", schedule=BatchSchedule((1, 3), (4, 0)))), 300.0)
    assert told.evaluate(silent, 1000.0).state is State.ACTIVE


def test_a_faster_method_is_to_be_switched_to(facts):
    faster = FasterMethod(
        "drafter", "eagle", "eagle3", Estimate(3.0, 2.8, 3.2, 0.1), Estimate(2.3, 2.1, 2.5, 0.1)
    )
    evaluation = evaluate_at(0.1).evaluate(replace(facts(), faster=faster), 1000.0)
    assert evaluation.action is Action.SWITCH_METHOD
    assert FindingName.FASTER_METHOD in {finding.name for finding in evaluation.findings}
    assert evaluation.faster == faster
