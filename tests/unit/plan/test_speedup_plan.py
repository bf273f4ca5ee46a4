"""Expected speed-ups of plans: the live exporter's formulas, costs and verdicts, and plans by a model's name."""

import re
from math import isfinite

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.analysis.knowledge import Knowledge
from spec_decode_exporter.analysis.verdict import Verdict
from spec_decode_exporter.analysis.window_evaluation import WindowEvaluation
from spec_decode_exporter.config.cost_settings import Architecture
from spec_decode_exporter.costs.cost import CostSource, CostSources, StepCost
from spec_decode_exporter.plan.models import METHODS, SEARCHES
from spec_decode_exporter.plan.report import as_json, as_text
from spec_decode_exporter.plan.speedup_plan import (
    TABLE_TOKENS,
    SpeedupPlan,
    token_acceptance,
)
from spec_decode_exporter.reports.text import TextStyle
from tests.fakes.costs import cost_between, make_cost
from tests.fakes.windows import window
from tests.unit.plan.conftest import planned


@pytest.mark.parametrize("method", SEARCHES)
def test_a_search_takes_no_memory(method):
    found = planned("--target", "70B", "--method", method)
    assert found.with_draft == found.without_draft
    assert found.draft_to_target_ratio is None


# Speed-up

prices = st.builds(StepCost, st.floats(0, 1), st.floats(0, 1), st.booleans())


def evaluated(its, price):
    """Return the speed-ups of a window by number of tokens, and its acceptance rate at break-even."""
    found = WindowEvaluation(its, Knowledge())
    found.cost = make_cost(price.token, price.step, every_step=price.every_step)
    return [depth.speedup for depth in found.depths.each(price)], found.break_even_acceptance_ratio


def drafting(price, acceptance):
    """Return a plan of an acceptance of each token, at one cost."""
    plan = SpeedupPlan(model_name="8B", method="eagle3", acceptance=acceptance)
    cost = make_cost(price.token, price.step, every_step=price.every_step)
    object.__setattr__(plan, "cost_of", lambda _: cost)
    return plan


@given(st.integers(1, TABLE_TOKENS), st.floats(0, 1), prices)
def test_a_window_of_this_acceptance_gives_the_same_speedup(tokens, acceptance, price):
    drafts = 10**12
    counts = [round(drafts * acceptance ** (place + 1)) for place in range(tokens)]
    speedups, rate = evaluated(window(drafts, drafts * tokens, sum(counts), positions=counts), price)
    found = drafting(price, acceptance).depths[:tokens]
    assert [depth.speedup_ratio for depth in found] == pytest.approx(speedups[:tokens])
    assert found[-1].break_even_acceptance_ratio == pytest.approx(rate)


@given(prices, st.integers(1, TABLE_TOKENS), st.floats(0, 1))
def test_it_is_faster_exactly_above_the_acceptance_rate_at_break_even(price, tokens, acceptance):
    depth = drafting(price, acceptance).depths[tokens - 1]
    gain = depth.acceptance_ratio - depth.break_even_acceptance_ratio
    assert depth.speedup_ratio - 1 == pytest.approx(tokens * gain / (1 + price.step + price.token * tokens))


@given(st.floats(0, 1), prices)
def test_the_best_is_nearly_as_fast_as_any_and_pays(acceptance, price):
    plan = drafting(price, acceptance)
    speedups = [depth.speedup_ratio for depth in plan.depths]
    enough = max(1, 0.97 * max(speedups))
    if plan.best_tokens:
        assert speedups[plan.best_tokens - 1] >= enough
    else:
        assert max(speedups) <= 1 or all(each < enough for each in speedups)


@pytest.mark.parametrize("words", [
    ("--draft", "8B"), ("--draft", "1B", "--method", "eagle3"), ("--method", "ngram"), ("--method", "suffix", "--batch", "1"),
    ("--draft", "8B", "--cost.draft-cost-ratio", "0.2"), ("--draft", "8B", "--cost.draft-cost-ratio", "0"), ("--draft", "90B"),
])  # fmt: skip
def test_the_speedup_lies_between_those_at_the_possible_costs(words):
    for depth in planned("--target", "70B", *words).depths:
        assert 0 < depth.speedup_ratio_lower <= depth.speedup_ratio <= depth.speedup_ratio_upper
        assert isfinite(depth.speedup_ratio_upper)


@pytest.mark.parametrize(
    ("words", "verdict"),
    [
        (("--draft", "8B", "--batch", "1"), Verdict.UNCLEAR),
        (("--draft", "1B", "--batch", "1", "--acceptance", "0.95", "--cost.draft-cost-ratio", "0.02"), Verdict.OPTIMAL),
        (("--draft", "8B", "--acceptance", "0.1", "--cost.draft-cost-ratio", "0.3"), Verdict.HARMFUL),
        (("--method", "dflash", "--draft", "1B", "--tokens", "8", "--batch", "1", "--acceptance", "0.9"), Verdict.HEALTHY),
        (("--draft", "8B", "--acceptance", "0.7", "--cost.draft-cost-ratio", "0.1"), Verdict.HEALTHY),
    ],
)  # fmt: skip
def test_the_verdict_is_that_of_the_exporter_at_every_possible_cost(words, verdict):
    assert planned("--target", "70B", *words).verdict is verdict


# By name

QWEN = ("--model-name", "Qwen/Qwen3-32B-AWQ", "--method", "eagle3", "--tokens", "3")


def test_a_plan_by_name_has_the_bounds_that_a_server_with_this_acceptance_shows():
    plan = planned(*QWEN, "--running", "8", "--acceptance-length", "2.4")
    model = CostSources(method="eagle3", architecture=Architecture.DENSE)
    live = WindowEvaluation(window(1000, 3000, 1400, positions=[700, 450, 250]), Knowledge(cost=model))
    live.cost = live.possible_cost = model.at(8, 3)
    shown = live.speedup_range
    ends = plan.speedup_ratio, plan.speedup_ratio_lower, plan.speedup_ratio_upper
    assert ends == pytest.approx((shown.estimate.value, shown.at_highest_cost, shown.at_lowest_cost))
    assert plan.cost_source is CostSource.TYPICAL
    assert plan.published_share == model.published_share(8, 3, 1.4)


@given(st.integers(1, 16), st.floats(0, 1))
def test_an_acceptance_length_is_kept_at_its_number_of_tokens(tokens, share):
    length = 1 + share * tokens
    plan = SpeedupPlan(
        model_name="m", method="eagle3", draft_tokens=tokens, acceptance=token_acceptance(tokens, length)
    )
    assert plan.acceptance_length_tokens == pytest.approx(length)


names = st.one_of(
    st.text(max_size=80),
    st.from_regex(
        r"[A-Z][a-z]{2,8}-?\d(\.\d)?-\d{1,3}B(-A\d{1,2}B)?(-(AWQ|GPTQ-Int4|FP8|NVFP4|Q4_K_M|4bit))?",
        fullmatch=True,
    ),
)
methods = st.sampled_from(
    [*METHODS, "medusa", "mlp_speculator", "dflash", "deepseek_mtp", "[ngram]", "other"]
)


@given(
    names, methods, st.integers(1, 16), st.floats(0, 1), st.floats(0.1, 1000),
    st.sampled_from([None, 1, 300, 50_000, 10**6]), st.booleans(),
)  # fmt: skip
def test_any_name_load_and_context_has_ordered_bounds_and_one_sentence(
    name, method, tokens, acceptance, running, context, in_parallel
):
    plan = SpeedupPlan(
        model_name=name, method=method, draft_tokens=tokens, acceptance=acceptance, running_requests=running,
        context_tokens=context, drafts_in_parallel=in_parallel,
    )  # fmt: skip
    text = as_json(plan)
    assert not re.search(r": -?(NaN|Infinity)\b", text)
    assert plan.verdict_text.endswith(".")
    if plan.speedup_ratio is not None:
        assert 0 < plan.speedup_ratio_lower <= plan.speedup_ratio <= plan.speedup_ratio_upper <= tokens + 1
    else:
        assert plan.verdict is Verdict.UNCLEAR
    assert as_text(plan, TextStyle())


@pytest.mark.parametrize("method", ["ngram", "[ngram]", "ngram_gpu", "suffix"])
def test_a_search_is_not_said_to_pay_before_it_is_known_how_often_it_finds_a_draft(method):
    """vLLM's acceptance length of n-gram drafts is that of the steps with a draft."""
    plan = planned("--model-name", "meta-llama/Llama-3.1-8B-Instruct", "--method", method, "--tokens", "3", "--running", "1", "--acceptance-length", "2.6", "--cost.draft-cost-ratio", "0.05")  # fmt: skip
    assert plan.verdict is Verdict.UNCLEAR
    assert plan.speedup_ratio > 1.5
    assert plan.speedup_ratio_lower == pytest.approx(1 / (1 + plan.known_cost.high.step))


@pytest.mark.parametrize(
    ("older", "method"), [("deepseek_mtp", "mtp"), ("[ngram]", "ngram"), ("EAGLE3", "eagle3")]
)
def test_older_names_of_methods_are_those_of_today(older, method):
    plans = [
        planned("--target", "8B", "--method", each, *([] if method == "ngram" else ["--draft", "1B"]))
        for each in (older, method)
    ]
    assert plans[0].model_dump() == plans[1].model_dump()


def test_a_fixed_cost_that_decides_alone_is_named():
    cost = cost_between((0.01, 0.1, 0.2), (0.0, 0.1, 2.0), CostSource.TYPICAL)
    plan = SpeedupPlan(model_name="m", method="eagle3", acceptance=0.6)
    object.__setattr__(plan, "cost_of", lambda _: cost)
    assert plan.verdict is Verdict.UNCLEAR
    assert (
        "it costs 0.01 to 0.2 here; a step that drafts costs up to 2 more (typical of the method)."
        in plan.verdict_text
    )
