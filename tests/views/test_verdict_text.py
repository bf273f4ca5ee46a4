"""Sentences for verdicts and advice."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spec_decode_exporter.analysis.cost import Cost
from spec_decode_exporter.analysis.cost_source import CostSource
from spec_decode_exporter.analysis.depth import NO_SPECULATION, Depth
from spec_decode_exporter.analysis.end_to_end import EndToEnd, EndToEndBasis
from spec_decode_exporter.analysis.evaluation import Bounds, Evaluation
from spec_decode_exporter.analysis.experiments.faster_method import FasterMethod
from spec_decode_exporter.analysis.recommendation import Action
from spec_decode_exporter.analysis.speculation_state import State
from spec_decode_exporter.analysis.speedup import SpeedupRange
from spec_decode_exporter.analysis.step_cost import StepCost
from spec_decode_exporter.analysis.verdict import Verdict
from spec_decode_exporter.figures.decode_work import break_even_cost_ratio
from spec_decode_exporter.figures.estimate import Estimate
from spec_decode_exporter.scrape.page.engine_table import Counter
from spec_decode_exporter.views.verdict_text import recommendation_text, verdict_text


def test_a_verdict_names_the_speedup_of_a_request_and_of_decoding(busy):
    text = verdict_text(replace(busy, evaluation=replace(busy.evaluation, verdict=Verdict.HEALTHY)))
    request, decoding = busy.evaluation.request, busy.evaluation.bounds[-1].speedup
    between = f"({request.bounds.lower:.2f} to {request.bounds.upper:.2f})"
    assert text == (
        f"Speculation pays: a request is {request.value:.2f} times as fast as without it {between}; "
        f"decoding {decoding.value:.2f} times."
    )


def test_a_verdict_without_times_to_first_token_is_about_decoding_only(busy):
    evaluation = replace(busy.evaluation, verdict=Verdict.HEALTHY, requests=())
    text = verdict_text(replace(busy, evaluation=evaluation))
    sure = busy.evaluation.bounds[-1].speedup
    between = f"({sure.lower:.2f} to {sure.upper:.2f})"
    assert text == f"Speculation pays: {sure.value:.2f} times as fast as without it {between}, decode only."


def test_a_verdict_names_slower_requests(busy):
    request = EndToEnd(0.65, EndToEndBasis.BASELINE, Estimate(0.65, 0.6, 0.7, 0.02))
    slower = replace(busy.evaluation, verdict=Verdict.POOR, requests=(request,))
    text = verdict_text(replace(busy, evaluation=slower))
    assert text.startswith("Speculation makes requests slower: a request is 0.65 times as fast as without it")


def test_a_verdict_without_a_cost_names_the_tokens_of_a_step(busy):
    unknown = replace(busy.evaluation, costs=(None, None), verdict=Verdict.HEALTHY)
    text = verdict_text(replace(busy, evaluation=unknown))
    tokens = busy.figures[-1].value("speedup_ceiling_ratio")
    assert (
        text == f"Speculation pays: a decode step gives {tokens:.2f} tokens, at an unknown cost of drafting."
    )


def test_an_unclear_verdict_names_the_cost_that_decides(busy):
    speedup = SpeedupRange(Estimate(1.4, 0.9, 2.5, 0.1), 0.95, 2.4)
    cost = Cost(0.1, 0.0, CostSource.TYPICAL, None, (StepCost(0.02, 0.0), StepCost(0.6, 0.1)))
    unclear = replace(busy.evaluation, verdict=Verdict.UNCLEAR, speedup=speedup)
    text = verdict_text(replace(busy, evaluation=replace(unclear, costs=(cost, cost))))
    even = busy.figures[-1].window
    assert text.startswith(
        "Whether speculation pays depends on its cost: 0.90 to 2.50 times as fast. It pays if "
    )
    assert f"less than {break_even_cost_ratio(even, cost):.2g} of a decode step" in text
    assert text.endswith("; it costs 0.02 to 0.6 here (typical of the method).")
    text = verdict_text(replace(busy, evaluation=replace(unclear, costs=(None, None))))
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
        (
            Action.INCREASE,
            Depth(10, 2.0, extrapolated=True),
            "Try 10 tokens instead of 8 (num_speculative_tokens).",
        ),
        (
            Action.DECREASE,
            Depth(1, 2.0, extrapolated=False),
            "Try 1 token instead of 8 (num_speculative_tokens).",
        ),
        (Action.DECREASE, None, "Try fewer draft tokens than 8 (num_speculative_tokens)."),
        (Action.INCREASE, None, "Try more draft tokens than 8 (num_speculative_tokens)."),
        (Action.DECREASE, NO_SPECULATION, "Try without speculation: no number of draft tokens pays."),
        (
            Action.DISABLE,
            NO_SPECULATION,
            "Switch speculation off: no number of draft tokens is known to pay.",
        ),
        (
            Action.LIMIT_BATCH,
            None,
            "Speculate only while fewer than 40 requests run (num_speculative_tokens_per_batch_size).",
        ),
    ],
)
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


@pytest.mark.parametrize("action", Action)
def test_every_advice_has_a_sentence(busy, action):
    for depth, tokens in ((None, 0), (NO_SPECULATION, 8)):
        evaluation = replace(busy.evaluation, action=action, recommended=depth, crossover=None)
        assert recommendation_text(replace(busy, evaluation=evaluation, tokens=tokens)).endswith(".")


def test_a_verdict_without_bounds_gives_the_reason(busy):
    def said(first_tokens):
        window = busy.windows[-1]
        counters = [*window.counters]
        counters[Counter.FIRST_TOKENS] = first_tokens
        unsure = replace(
            busy.evaluation,
            verdict=Verdict.OPTIMAL,
            bounds=(Bounds(None, None, None, None),) * len(busy.windows),
            requests=(),
        )
        windows = (*busy.windows[:-1], replace(window, counters=tuple(counters)))
        return verdict_text(replace(busy, windows=windows, evaluation=unsure))

    assert said(1).endswith("(too few requests passed for bounds), decode only.")
    assert said(None).endswith("(its bounds are unknown), decode only.")


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (State.DISABLED, "it does not speculate"),
        (State.IDLE, "nothing runs"),
        (State.UNREACHABLE, "it is absent"),
        (State.ACTIVE, "too little is known"),
    ],
)
def test_the_reason_for_no_advice_follows_from_the_state(busy, state, said):
    evaluation = replace(busy.evaluation, action=Action.COLLECT, state=state)
    assert said in recommendation_text(replace(busy, evaluation=evaluation))
