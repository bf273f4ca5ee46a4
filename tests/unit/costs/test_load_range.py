"""Limits of κ by the steps of an engine at other loads."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.analysis.missing_evidence import loads_to_know
from spec_decode_exporter.analysis.verdict import Verdict
from spec_decode_exporter.analysis.window_evaluation import WindowEvaluation
from spec_decode_exporter.config.cost_settings import Architecture, CostSettings
from spec_decode_exporter.costs.cost import CostModel, CostSource
from spec_decode_exporter.costs.load_range import Drafter, SeenSteps, largest_drafter, plain_seconds
from spec_decode_exporter.costs.model_architecture import Deployment, TargetModel, target_model
from spec_decode_exporter.figures.window_figures import Work
from tests.fakes.evaluations import POOR, busy_window, evaluation, knowledge

LAYER = Drafter(0.15, is_one_pass=False)
STEP = SeenSteps(seconds=0.02, tokens=32.0, contexts=16_000.0, drafting=1.0, draft_tokens=3.0)
PLAIN = STEP._replace(drafting=0.0, draft_tokens=0.0)
PLAIN_SECONDS = (0.02 - 0.0004 - 3 * 0.0002) / 1.45


@pytest.mark.parametrize(
    ("method", "name", "share", "is_one_pass"),
    [
        ("eagle3", "meta-llama/Llama-3.1-8B-Instruct", 0.13, False),
        ("eagle", "meta-llama/Llama-3.3-70B-Instruct", 0.05, False),
        ("deepseek_mtp", "deepseek-ai/DeepSeek-V3-bf16", 0.08 * 2**0.5, False),
        ("eagle3", "Qwen/Qwen3-4B", 0.18, False),
        ("eagle3", "chat", 0.18, False),
        ("dflash", "chat", 0.4, True),
    ],
)
def test_a_drafter_takes_most_beside_a_small_target(method, name, share, is_one_pass):
    found = largest_drafter(CostModel(method=method, target=target_model(name)))
    assert found == pytest.approx((share, is_one_pass), abs=0.005)


@pytest.mark.parametrize("method", ["ngram", "suffix", "draft_model", "custom_class", ""])
def test_a_drafter_that_may_take_anything_has_no_limit(method):
    assert largest_drafter(CostModel(method=method)) is None
    assert evaluation(knowledge(method=method, load_range=[STEP])).longest.largest_step_ratio is None


def test_a_draft_model_takes_its_size():
    sizes = CostSettings(draft_parameters=1e9, target_parameters=10e9)
    dense = CostModel(sizes, method="draft_model", target=TargetModel(Architecture.DENSE))
    assert largest_drafter(dense).share == pytest.approx(0.33)
    mixture = CostModel(sizes, method="draft_model", deployment=Deployment(is_datacentre=False))
    assert largest_drafter(mixture).share == pytest.approx(0.33 * 1.5 * 1.8)


@pytest.mark.parametrize(
    ("tokens", "contexts", "step", "seconds"),
    [
        (32, 16_000, STEP, PLAIN_SECONDS),
        (64, 64_000, STEP, PLAIN_SECONDS),
        (16, 16_000, STEP, PLAIN_SECONDS / 2),
        (32, 8_000, STEP, PLAIN_SECONDS / 2**0.75),
        (32, 0, STEP, PLAIN_SECONDS),
        (32, 8_000, STEP._replace(contexts=0.0), 0.0),  # it may have read any contexts
        (32, 0, STEP._replace(contexts=0.0), PLAIN_SECONDS),
        (32, 16_000, PLAIN, 0.02),
        (32, 16_000, STEP._replace(seconds=0.0005), 0.0),
    ],
)
def test_a_plain_step_takes_no_less_than_one_that_computed_and_read_no_more(tokens, contexts, step, seconds):
    assert plain_seconds([step], LAYER, tokens, contexts) == pytest.approx(seconds)
    slower = step._replace(tokens=1000.0, seconds=0.001)
    assert plain_seconds([slower, step], LAYER, tokens, contexts) == pytest.approx(seconds)


def test_one_pass_takes_its_share_once():
    one = plain_seconds([STEP], Drafter(0.15, is_one_pass=True), 32, 16_000)
    assert one == pytest.approx((0.02 - 0.0006) / 1.15)
    assert plain_seconds([], LAYER, 32, 16_000) == 0


@given(kappa=st.floats(0.5, 4.0), running=st.floats(1.0, 128.0))
def test_a_limited_cost_keeps_its_guess_and_its_low_end(kappa, running):
    cost = CostModel(method="eagle3").typical(running, 3.0)
    work = Work(tokens=250, steps=100, drafts=100, draft_tokens=300)
    limited = cost.limited(work, kappa)
    assert (limited.low, limited.guess) == (cost.low, cost.guess)
    guess, high = work.plain_steps(cost.guess), work.plain_steps(cost.high)
    assert work.plain_steps(limited.high) == pytest.approx(min(high, max(guess, 100 * kappa)))
    assert (limited.source is CostSource.LOAD_RANGE) == (100 * kappa < high)


class TestAWindow:
    """Its steps take 40 ms at a load of 4."""

    def found(self, *steps, method="eagle3", **known):
        its = knowledge(method=method, load_range=steps, **known)
        return evaluation(its, POOR, running=4.0, first_token=0.0)

    def test_a_plain_step_that_is_known_to_be_slow_lets_drafts_pay(self):
        plain = PLAIN._replace(seconds=0.027, tokens=4.0)
        before, after = self.found(), self.found(plain)
        assert (before.evaluated.verdict, before.cost.source) == (Verdict.UNCLEAR, CostSource.TYPICAL)
        assert (after.evaluated.verdict, after.cost.source) == (Verdict.MARGINAL, CostSource.LOAD_RANGE)
        assert after.longest.largest_step_ratio == pytest.approx(40 / 27)
        bounds, wider = after.longest.speedup_bounds, before.longest.speedup_bounds
        assert bounds.lower == pytest.approx(1.61 * 27 / 40, rel=0.01)
        assert (bounds.value, bounds.upper) == (wider.value, wider.upper)

    @pytest.mark.parametrize(
        "step", [STEP._replace(seconds=0.035), PLAIN._replace(seconds=0.035)], ids=["too dear", "too many"]
    )
    def test_steps_that_prove_less_than_the_typical_cost_change_nothing(self, step):
        assert self.found(step).longest.speedup_bounds == self.found().longest.speedup_bounds
        assert self.found(step).cost.source is CostSource.TYPICAL

    def test_a_known_cost_is_left_alone(self):
        stated = CostSettings(draft_cost_ratio=0.3, running_requests=4)
        found = self.found(PLAIN._replace(seconds=0.035, tokens=4.0), cost=stated)
        assert found.cost.source is CostSource.CONFIGURED

    def test_prompts_are_tokens_of_a_plain_step_too(self):
        window = busy_window(POOR, running=4.0, first_token=0.0)
        total = window.total._replace(prefix_cache_queries=window.total.decoded_tokens, prefix_cache_hits=0)
        plain = PLAIN._replace(seconds=0.035, tokens=8.0)
        known = knowledge(method="eagle3", load_range=[plain])
        ratios = [
            WindowEvaluation(each, known).largest_step_ratio
            for each in (window, replace(window, total=total))
        ]
        assert ratios == pytest.approx([2 * 40 / 35, 40 / 35])

    def test_the_load_that_would_show_it_is_known(self):
        at_two = STEP._replace(tokens=8.0)
        assert loads_to_know(self.found(at_two).evaluated) == (2.0, 2.0, 8)
        for steps, method in (
            ([], "eagle3"),
            ([at_two, STEP], "eagle3"),
            ([PLAIN], "eagle3"),
            ([at_two], "ngram"),
        ):
            assert not loads_to_know(self.found(*steps, method=method).evaluated)
