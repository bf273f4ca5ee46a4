"""Plans: the live exporter's formulas, costs and verdicts, memory by published figures, and the return."""

import re
from math import isfinite

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.analysis.knowledge import Knowledge
from spec_decode_exporter.analysis.verdict import Verdict
from spec_decode_exporter.analysis.window_evaluation import WindowEvaluation
from spec_decode_exporter.config.comparison_settings import Architecture
from spec_decode_exporter.costs.cost import CostSource, CostSources, StepCost
from spec_decode_exporter.plan.models import SEARCHES
from spec_decode_exporter.plan.plans import (
    TABLE_TOKENS,
    PlanOutcome,
    SpeedupPlan,
    gpu_of,
    memory,
    token_acceptance,
)
from tests.fakes.costs import cost_between, make_cost
from tests.fakes.model_configs import LLAMA_8B
from tests.fakes.windows import window
from tests.unit.plan.conftest import folder, planned


@pytest.mark.parametrize("method", SEARCHES)
def test_a_search_takes_no_memory(method):
    found = planned("--target", "70B", "--method", method)
    assert found.with_draft == found.without_draft
    assert found.draft_to_target_ratio is None


# Speed-up

prices = st.builds(StepCost, st.floats(0, 1), st.floats(0, 1), st.booleans())


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
    live = WindowEvaluation(window(drafts, drafts * tokens, sum(counts), positions=counts), Knowledge())
    live.cost = make_cost(price.token, price.step, every_step=price.every_step)
    speedups = [depth.speedup for depth in live.depths.each(price)]
    found = drafting(price, acceptance).depths[:tokens]
    assert [depth.speedup_ratio for depth in found] == pytest.approx(speedups[:tokens])
    assert found[-1].break_even_acceptance_ratio == pytest.approx(live.break_even_acceptance_ratio)


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


@pytest.mark.parametrize("method", ["ngram", "[ngram]", "ngram_gpu", "suffix"])
def test_a_search_is_not_said_to_pay_before_it_is_known_how_often_it_finds_a_draft(method):
    """vLLM's acceptance length of n-gram drafts is that of the steps with a draft."""
    plan = planned("--model-name", "meta-llama/Llama-3.1-8B-Instruct", "--method", method, "--tokens", "3", "--running", "1", "--acceptance-length", "2.6", "--cost.draft-cost-ratio", "0.05")  # fmt: skip
    assert plan.verdict is Verdict.UNCLEAR
    assert plan.speedup_ratio > 1.5
    assert plan.speedup_ratio_lower == pytest.approx(1 / (1 + plan.known_cost.high.step))


def test_without_a_typical_cost_there_are_no_numbers():
    plan = planned("--model-name", "Qwen/Qwen3-32B", "--method", "custom_class")
    assert (plan.verdict, list(plan.depths)) == (Verdict.UNCLEAR, [])
    assert (plan.speedup_ratio, plan.cost_source) == (None, None)
    assert plan.verdict_text.startswith("Too few published what drafting by custom_class costs")


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


GB = 10**9


@pytest.mark.parametrize(
    ("target", "draft", "gpu", "weights", "left"),
    [
        ("bfloat16", "bfloat16", "80GB", 156, 4),
        ("int8", "bfloat16", "80GB", 86, 74),
        ("int4", "bfloat16", "80GB", 51, 109),
    ],
)
def test_a_70b_with_an_8b_takes_the_published_memory(target, draft, gpu, weights, left):
    found = planned(
        "--target", "70B", "--draft", "8B", "--target.dtype", target, "--draft.dtype", draft,
        "--gpus", "2", "--gpu-memory", gpu, "--utilisation", "1", "--overhead", "0",
    )  # fmt: skip
    assert found.with_draft.weight_bytes == weights * GB
    assert found.with_draft.kv_cache_bytes == left * GB
    assert found.without_draft.kv_cache_bytes - found.with_draft.kv_cache_bytes == found.draft.weight_bytes


def test_a_llama_takes_the_cache_that_its_heads_need(llamas):
    """2 · 8 heads · 128 · 2 bytes in 80 and in 32 layers: 320 KiB and 128 KiB."""
    found = planned(*llamas)
    assert found.without_draft.kv_cache_bytes_per_token == 320 * 1024
    assert found.with_draft.kv_cache_bytes_per_token == 448 * 1024
    left = 4 * (72 - 2) * GB - found.with_draft.weight_bytes
    assert found.with_draft.kv_cache_bytes == left
    assert found.with_draft.kv_cache_tokens == left // (448 * 1024)
    assert found.with_draft.concurrent_sequences == left // (448 * 1024 * 8192)


def test_the_cache_holds_as_many_tokens_as_a_real_vllm(tmp_path):
    """vLLM 0.32 on the CPU, whose blocks have 128 tokens, with 1 GiB of KV cache, logged at its start:

    "CPU KV cache size: 262,144 tokens" of the target, "174,720 tokens" with a draft of half its layers.
    """
    config = {**LLAMA_8B, "num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": 64, "hidden_size": 256,
              "intermediate_size": 512, "vocab_size": 512}  # fmt: skip
    target = folder(tmp_path / "4 layers", {**config, "num_hidden_layers": 4})
    draft = folder(tmp_path / "2 layers", {**config, "num_hidden_layers": 2})
    found = planned("--target", target, "--draft", draft, "--overhead", "0", "--utilisation", "1",
                    "--gpu-memory", "80GB", "--context", "1024")  # fmt: skip
    for room, tokens in ((found.without_draft, 262_144), (found.with_draft, 174_720)):
        assert 2**30 // room.kv_cache_bytes_per_token // 128 * 128 == tokens


def test_without_a_config_only_the_bytes_are_known():
    words = ("--target", "8B", "--draft", "1B", "--context", "1000", "--gpu", "80GB")
    room = planned(*words).with_draft
    assert (room.kv_cache_tokens, room.concurrent_sequences, room.kv_cache_bytes_per_token) == (None,) * 3
    assert room.kv_cache_bytes == (72 - 2 - 18) * GB


def test_more_gpus_than_the_targets_hold_another_engine():
    found = planned("--target", "8B", "--draft", "1B", "--gpus", "8", "--target.tensor-parallel", "2")
    assert (found.engines, found.gpus, found.with_draft.weight_bytes) == (4, 2, 18 * GB)


def test_without_a_config_the_size_of_a_sequence_is_unknown(llamas):
    """Any free memory suffices, unless the known part of a sequence is larger."""
    words = ("--target", "70B", "--draft", "8B", "--gpus", "2", "--utilisation", "1", "--overhead", "0")
    assert planned(*words, "--gpu-memory", "78.000000001GB").outcome is PlanOutcome.WEIGHTS_FIT
    assert planned(*words, "--gpu-memory", "78GB").outcome is PlanOutcome.DOES_NOT_FIT
    one_known = (*llamas[:2], *words[2:], "--gpu-memory", "80GB")
    room = planned(*one_known, "--context", "1").with_draft.kv_cache_bytes
    assert planned(*one_known, "--context", str(room // 327680)).outcome is PlanOutcome.WEIGHTS_FIT
    assert planned(*one_known, "--context", str(room // 327680 + 1)).outcome is PlanOutcome.DOES_NOT_FIT


def test_models_that_vllm_refuses_are_refused_if_they_fit(llamas, tmp_path):
    odd = folder(tmp_path / "odd", {**LLAMA_8B, "num_attention_heads": 30, "head_dim": 128})
    assert planned("--target", odd, "--draft", "1B", "--gpus", "4").outcome is PlanOutcome.REFUSED
    assert planned("--target", odd, "--draft", "1B", "--gpus", "2").outcome is PlanOutcome.WEIGHTS_FIT
    other = folder(tmp_path / "other", {**LLAMA_8B, "vocab_size": 128320})
    assert planned("--target", llamas[1], "--draft", other, "--gpus", "4").outcome is PlanOutcome.REFUSED
    assert planned("--target", llamas[1], "--draft", other, "--gpus", "1").outcome is PlanOutcome.DOES_NOT_FIT


def test_the_cost_is_that_of_the_sequences_that_fit_or_of_all_if_none_fits(llamas):
    assert planned(*llamas, "--batch", "16").load == 16
    assert planned(*llamas, "--batch", "100").load == 32
    assert planned(*llamas, "--batch", "100", "--gpus", "1").load == 100


# Architecture of the target

MIXTRAL = {**LLAMA_8B, "model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2}


def test_the_files_of_a_model_say_whether_it_is_a_mixture(tmp_path):
    models = {"m": MIXTRAL, "Mixtral-8x7B": LLAMA_8B}
    targets = [folder(tmp_path / name, config) for name, config in models.items()]
    found = [planned("--target", target, "--draft", "1B") for target in targets]
    architectures = [plan.cost_model.architecture for plan in found]
    assert architectures == [Architecture.MIXTURE_OF_EXPERTS, Architecture.DENSE]


# Return


def test_the_return_is_the_gain_per_memory():
    """(speed-up - 1) times the throughput without speculation, for 2 GB."""
    words = ("--target", "8B", "--draft", "1B", "--method", "eagle3", "--throughput", "900")
    plan = planned(*words)
    payoff, ratios = plan.return_on_memory, plan.depth.bounds[:3]
    gains = [(ratio - 1) * 900 / 2 for ratio in ratios]
    shown = payoff.gained_tokens_per_second_per_gigabyte, payoff.lower, payoff.upper
    assert payoff.draft_memory_bytes == 2 * GB
    assert shown == pytest.approx(gains)
    assert payoff.lower < shown[0] < payoff.upper


def test_the_memory_of_the_return_has_the_draft_s_part_of_the_cache(llamas):
    payoff = planned(*llamas, "--throughput", "900", "--cost.draft-cost-ratio", "0.2").return_on_memory
    room = planned(*llamas).with_draft
    assert payoff.draft_memory_bytes == pytest.approx(16.06 * GB + room.kv_cache_bytes * 128 / 448, rel=1e-3)
    assert payoff.gained_tokens_per_second == pytest.approx(900 * (1.54 - 1), rel=0.01)
    free = planned(*llamas[:2], "--gpus", "4", "--method", "eagle3", "--draft", "1B", "--acceptance", "0.9", "--throughput", "9").return_on_memory  # fmt: skip
    assert free.draft_memory_bytes == 2 * GB
    search = planned(
        "--target", "8B", "--method", "ngram", "--cost.draft-cost-ratio", "0", "--throughput", "9"
    )
    assert search.return_on_memory.gained_tokens_per_second > 0
    assert search.return_on_memory.gained_tokens_per_second_per_gigabyte is None


# GPUs


@pytest.mark.parametrize(("size", "expected"), [("80GB", 80e9), ("80 GB", 80e9), ("143771MiB", 143771 * 2**20), ("79.6GiB", 79.6 * 2**30), ("1TB", 1e12), ("0", 0)])  # fmt: skip
def test_memory_is_written_in_the_units_of_vendors(size, expected):
    assert memory(size) == int(expected)


@pytest.mark.parametrize("text", ["H100", "h100", " H100 "])
def test_a_gpu_has_the_memory_that_its_driver_shows(text):
    assert gpu_of(text) == ("H100", 81_559 * 2**20)
    assert gpu_of("rtx 4090").name == "RTX-4090"
    assert gpu_of("141GB") == ("", 141 * 10**9)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("H1000", "unknown GPU 'H1000'; did you mean H100?"),
        ("A1000", "did you mean A100?"),
        ("potato", "known are A10G, L4, "),
        ("80", "'80' is no amount of memory; write it as 80GB"),
        ("0", "a GPU has more memory than '0'"),
        ("1iB", "no amount of memory"),
    ],
)
def test_another_gpu_is_an_error_with_the_nearest_name(text, says):
    with pytest.raises(ValueError, match=re.escape(says)):
        gpu_of(text)
