"""Sentences for verdicts and advice."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spec_decode_exporter.analysis.cost import Cost
from spec_decode_exporter.analysis.cost_source import CostSource
from spec_decode_exporter.analysis.depth import NO_SPECULATION, Depth
from spec_decode_exporter.drops.drop import DropKind, DropStatus, LiveDrop
from spec_decode_exporter.analysis.evaluated_window import Basis
from spec_decode_exporter.analysis.evaluation_result import Evaluation
from spec_decode_exporter.experiments.faster_method import FasterMethod
from spec_decode_exporter.findings.finding import Finding, FindingName, Severity
from spec_decode_exporter.analysis.missing_evidence import Evidence, Need
from spec_decode_exporter.analysis.recommendation import Action
from spec_decode_exporter.analysis.speculation import Speculation
from spec_decode_exporter.analysis.speculation_state import State
from spec_decode_exporter.analysis.speedup import SpeedupRange
from spec_decode_exporter.analysis.step_cost import StepCost
from spec_decode_exporter.analysis.verdict import Verdict
from spec_decode_exporter.config.batch_schedule import BatchSchedule
from spec_decode_exporter.figures.decode_work import break_even_cost_ratio
from spec_decode_exporter.figures.estimate import Estimate
from spec_decode_exporter.views.verdict_text import recommendation_text, verdict_text


def test_a_verdict_names_the_speedup_of_a_request_and_of_decoding(busy):
    text = verdict_text(replace(busy, evaluation=replace(busy.evaluation, verdict=Verdict.HEALTHY)))
    request, decoding = busy.evaluation.request, busy.evaluation.bounds[-1].speedup
    between = f"({request.bounds.lower:.2f} to {request.bounds.upper:.2f})"
    assert text == (
        f"Speculation pays: a request is {request.value:.2f} times as fast as without it {between}; "
        f"decoding {decoding.value:.2f} times."
    )


def with_result(evaluation, verdict, **changes):
    """The evaluation with another verdict, and another result of its evaluated window."""
    its = evaluation.evaluated
    return replace(evaluation, verdict=verdict, evaluated=its._replace(result=its.result._replace(**changes)))


def shown(busy, verdict, **changes):
    """The text of a verdict with another result."""
    return verdict_text(replace(busy, evaluation=with_result(busy.evaluation, verdict, **changes)))


def test_a_verdict_without_times_to_first_token_is_about_decoding_only(busy):
    text = shown(busy, Verdict.HEALTHY, request=None)
    sure = busy.evaluation.bounds[-1].speedup
    between = f"({sure.lower:.2f} to {sure.upper:.2f})"
    assert text == f"Speculation pays: {sure.value:.2f} times as fast as without it {between}, decode only."


def test_a_verdict_without_a_cost_names_the_tokens_of_a_step(busy):
    text = shown(busy, Verdict.HEALTHY, cost=None)
    tokens = busy.figures[-1].value("speedup_ceiling_ratio")
    assert (
        text == f"Speculation pays: a decode step gives {tokens:.2f} tokens, at an unknown cost of drafting."
    )


def test_an_unclear_verdict_names_the_cost_that_decides(busy):
    speedup = SpeedupRange(Estimate(1.4, 0.9, 2.5, 0.1), 0.95, 2.4)
    cost = Cost(0.1, 0.0, CostSource.TYPICAL, None, (StepCost(0.02, 0.0), StepCost(0.6, 0.1)))
    text = shown(busy, Verdict.UNCLEAR, speedup=speedup, cost=cost)
    assert text.startswith(
        "Whether speculation pays depends on its cost: 0.90 to 2.50 times as fast. It pays if "
    )
    assert f"less than {break_even_cost_ratio(busy.figures[-1].window, cost):.2g} of a decode step" in text
    assert text.endswith("; it costs 0.02 to 0.6 here (typical of the method).")
    text = shown(busy, Verdict.UNCLEAR, speedup=speedup, cost=None)
    assert text.endswith("; what it costs is unknown.")


@pytest.mark.parametrize("state", [state for state in State if state is not State.ACTIVE])
def test_a_state_without_an_evaluation_replaces_the_verdict(busy, state):
    text = verdict_text(replace(busy, evaluation=Evaluation(state), windows=()))
    assert text.endswith(".")
    assert "paying" not in text


@pytest.mark.parametrize("verdict", Verdict)
def test_every_verdict_has_a_sentence_of_its_own(busy, verdict):
    text = verdict_text(replace(busy, evaluation=replace(busy.evaluation, verdict=verdict)))
    others = [
        verdict_text(replace(busy, evaluation=replace(busy.evaluation, verdict=other)))
        for other in Verdict
        if other is not verdict
    ]
    assert text.endswith(".")
    assert text not in others


@pytest.mark.parametrize(
    ("action", "depth", "text"),
    [
        (Action.KEEP, Depth(8, 2.0, extrapolated=False), "Keep drafting 8 tokens at a time."),
        (Action.INCREASE, Depth(10, 2.0, extrapolated=True), "Try 10 tokens instead of 8 (num_speculative_tokens)."),
        (Action.DECREASE, Depth(1, 2.0, extrapolated=False), "Try 1 token instead of 8 (num_speculative_tokens)."),
        (Action.DECREASE, None, "Try fewer draft tokens than 8 (num_speculative_tokens)."),
        (Action.INCREASE, None, "Try more draft tokens than 8 (num_speculative_tokens)."),
        (Action.DISABLE, NO_SPECULATION, "Switch speculation off: no number of draft tokens is known to pay."),
        (Action.LIMIT_BATCH, None, "Speculate only while fewer than 40 requests run (num_speculative_tokens_per_batch_size)."),
    ],
)  # fmt: skip
def test_advice_names_the_number_of_tokens_and_vllms_setting(busy, action, depth, text):
    evaluation = replace(busy.evaluation, action=action, recommended=depth, crossover=40.2)
    assert recommendation_text(replace(busy, evaluation=evaluation)) == text


@pytest.mark.parametrize(
    ("method", "text"),
    [
        ("eagle3", "Draft by eagle3, as arm `eagle` of experiment `drafter` does."),
        ("<b>`x`", "Draft by the method of arm `eagle` of experiment `drafter`."),
    ],
)
def test_advice_to_switch_names_the_method_and_the_arm_that_shows_it(busy, method, text):
    sure = busy.evaluation.bounds[-1].speedup
    faster = FasterMethod("drafter", "eagle", method, sure, sure)
    evaluation = replace(busy.evaluation, action=Action.SWITCH_METHOD, faster=faster)
    assert recommendation_text(replace(busy, evaluation=evaluation)) == text


@pytest.mark.parametrize(
    ("speedups", "text"),
    [
        ((1.1, 1.05, 0.9), "Try 1 token instead of 8 or switch speculation off"),
        ((1.0, 0.9), "Switch speculation off, or configure"),
        ((), "Switch speculation off, or configure"),
    ],
)
def test_advice_to_switch_off_by_a_cost_without_load_names_the_load_and_the_better_number(
    busy, speedups, text
):
    depths = tuple(Depth(tokens, speedup, extrapolated=False) for tokens, speedup in enumerate(speedups, 1))
    finding = Finding(FindingName.COST_WITHOUT_LOAD, Severity.INFO, {}, "")
    evaluation = replace(busy.evaluation, action=Action.DISABLE, depths=depths, findings=(finding,))
    said = recommendation_text(replace(busy, evaluation=evaluation, tokens=8))
    assert said.startswith(text)
    assert "cost.running_requests" in said


@pytest.mark.parametrize("action", Action)
def test_every_advice_has_a_sentence(busy, action):
    for depth, tokens in ((None, 0), (NO_SPECULATION, 8)):
        evaluation = replace(busy.evaluation, action=action, recommended=depth, crossover=None)
        assert recommendation_text(replace(busy, evaluation=evaluation, tokens=tokens)).endswith(".")


def chosen(busy, needs=(), verdict=Verdict.OPTIMAL, *, seconds=300.0, live=None, **more):
    """A snapshot whose verdict covers a window of some seconds."""
    its = busy.evaluation.evaluated
    window = replace(its.choice.window, seconds=seconds)
    its = its._replace(choice=replace(its.choice, window=window, **more), missing=needs)
    return replace(
        busy,
        evaluation=replace(
            busy.evaluation,
            evaluated=its,
            verdict=verdict,
            action=Action.COLLECT,
            recommended=None,
            drops=DropStatus(live=live or {}),
            wall=AT,
        ),
    )


AT = 1_790_000_000.0
"""14:13:20 UTC."""


def test_an_early_verdict_says_from_how_many_seconds(busy):
    early = chosen(busy, seconds=34.0)
    assert verdict_text(early).endswith(" (early, from 34 s).")
    assert recommendation_text(early) == "No advice yet: it needs 255 s; 34 s seen."
    assert "early" not in verdict_text(chosen(busy, seconds=150.0))


def test_a_verdict_of_a_shorter_window_says_that_the_longer_one_is_contradicted(busy):
    shorter = chosen(busy, seconds=30.0, basis=Basis.SHORTER)
    assert verdict_text(shorter).endswith(", by the last 30 s, which contradict the longer window.")
    assert recommendation_text(shorter) == "No advice now: the last minutes contradict each other."


@pytest.mark.parametrize(
    ("needs", "text"),
    [
        ([Need(Evidence.SECONDS, 100.0, 84.0)], "a verdict needs 100 s; 84 s seen."),
        ([Need(Evidence.DRAFTS, 100, 37)], "a verdict needs 100 drafts; 37 seen."),
        ([Need(Evidence.POLLS, 3, 2)], "a verdict needs 3 polls; 2 seen."),
        ([Need(Evidence.REQUESTS, 7, 3.2), Need(Evidence.SECONDS, 150.0, 34.0)], "a verdict needs 7 requests one after the other, or 150 s; 3.2 and 34 s seen."),
        ([Need(Evidence.HALF_WIDTH, 0.25, 0.31)], "the acceptance length is known to ±31.0 %, and a verdict needs ±25.0 %."),
        ([Need(Evidence.LOWEST_SPEEDUP, 1.0, 0.594)], "the lower bound of the speed-up is 0.59, and a verdict needs 1.00."),
    ],
)  # fmt: skip
def test_too_little_evidence_is_named(busy, needs, text):
    said = verdict_text(chosen(busy, tuple(needs), Verdict.INSUFFICIENT))
    assert said == f"Too early to say whether speculation pays: {text}"


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (DropKind.SUDDEN, "Acceptance dropped at 14:12:46 UTC, 34 s ago: a draft gave 3.26 tokens, and gives "),
        (DropKind.DRAFTING, "Drafting dropped at 14:12:46 UTC, 34 s ago: a decode step gave 3.26 tokens, and gives "),
    ],
)  # fmt: skip
def test_a_present_drop_without_enough_data_since_comes_first(busy, kind, text):
    needs = (Need(Evidence.REQUESTS, 7, 3.2),)
    live = {kind: LiveDrop(3.26, 1.4, 34.0)}
    since = chosen(busy, needs, Verdict.INSUFFICIENT, live=live, basis=Basis.CHANGE, since=AT - 34)
    assert verdict_text(since) == (
        f"{text}1.40. Too early to say whether speculation pays since 14:12:46 UTC: a verdict needs 7 requests "
        "one after the other; 3.2 seen."
    )


class TestScheduledOff:
    @pytest.fixture(name="silent")
    def fixture_silent(self, busy, make_window):
        """Return a function with an engine that drafted nothing at some load, by its schedule."""

        def silent(running, drafts=0):
            window = make_window(drafts, 0, 0, gauges=(running, 0.0, 0.0))
            evaluation = Evaluation(State.ACTIVE)
            known = Speculation("eagle3", schedule=BatchSchedule((1, 8, 32), (4, 0, 1)))
            return verdict_text(replace(busy, windows=(window,), evaluation=evaluation, speculation=known))

        return silent

    def test_names_the_load_from_which_nothing_is_drafted(self, silent):
        assert silent(9.0) == "Its schedule drafts nothing from 8 running requests, and 9.0 run."
        assert silent(7.5) == "Its schedule drafts nothing from 8 running requests, and 7.5 run."

    @pytest.mark.parametrize(("running", "drafts"), [(7.0, 0), (32.0, 0), (None, 0), (9.0, 5)])
    def test_is_not_said_at_another_load_or_with_drafts(self, silent, running, drafts):
        assert silent(running, drafts).startswith("Too little was drafted")
