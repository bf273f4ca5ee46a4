"""Memory of plans, what a step reads of it, observations, and the return: published figures and invariants."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.config.cost_settings import Architecture
from spec_decode_exporter.plan.deployment_plan import GPUS, DeploymentPlan, PlanOutcome, gpu_of, memory
from spec_decode_exporter.plan.model_config import DTYPES, Model, Weights
from tests.fakes.model_configs import LLAMA_8B
from tests.unit.plan.conftest import planned

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


def test_the_cache_holds_as_many_tokens_as_a_real_vllm(folder):
    """vLLM 0.32 on the CPU, whose blocks have 128 tokens, with 1 GiB of KV cache, logged at its start:

    "CPU KV cache size: 262,144 tokens" of the target, "174,720 tokens" with a draft of half its layers.
    """
    config = {**LLAMA_8B, "num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": 64, "hidden_size": 256,
              "intermediate_size": 512, "vocab_size": 512}  # fmt: skip
    target, draft = (folder(f"{layers} layers", {**config, "num_hidden_layers": layers}) for layers in (4, 2))
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


def test_models_that_vllm_refuses_are_refused_if_they_fit(llamas, folder):
    odd = folder("odd", {**LLAMA_8B, "num_attention_heads": 30, "head_dim": 128})
    assert planned("--target", odd, "--draft", "1B", "--gpus", "4").outcome is PlanOutcome.REFUSED
    assert planned("--target", odd, "--draft", "1B", "--gpus", "2").outcome is PlanOutcome.WEIGHTS_FIT
    other = folder("other", {**LLAMA_8B, "vocab_size": 128320})
    assert planned("--target", llamas[1], "--draft", other, "--gpus", "4").outcome is PlanOutcome.REFUSED
    assert planned("--target", llamas[1], "--draft", other, "--gpus", "1").outcome is PlanOutcome.DOES_NOT_FIT


def test_the_cost_is_that_of_the_sequences_that_fit_or_of_all_if_none_fits(llamas):
    assert planned(*llamas, "--batch", "16").load == 16
    assert planned(*llamas, "--batch", "100").load == 32
    assert planned(*llamas, "--batch", "100", "--gpus", "1").load == 100


sizes = st.integers(10**6, 10**12)
dtypes = st.sampled_from([*DTYPES])


def of_size(size, dtype="bfloat16"):
    weights = Weights(size)
    size = weights.bytes_in(dtype)
    return Model(name="m", weights=weights, dtype=dtype, weight_bytes=size)


def deployed(target, draft, **more):
    """Return the plan of two models on GPUs of 80 GB with an overhead of 1 GB."""
    given = {
        "model_name": "m",
        "gpus": 1,
        "gpu_memory_bytes": 80 * GB,
        "overhead_bytes": GB,
        "method": "draft_model",
    }
    return DeploymentPlan(target=target, draft=draft, **given | more)


@given(sizes, sizes, st.integers(1, 8), dtypes, dtypes)
def test_the_parts_sum_up_to_the_memory(target, draft, gpus, of_target, of_draft):
    found = deployed(of_size(target, of_target), of_size(draft, of_draft), gpus=gpus)
    room, alone = found.with_draft, found.without_draft
    assert room.weight_bytes + room.kv_cache_bytes + gpus * GB == gpus * 72 * GB
    assert room.weight_bytes == found.target.weight_bytes + found.draft.weight_bytes
    assert room.weight_bytes - alone.weight_bytes == alone.kv_cache_bytes - room.kv_cache_bytes


# Architecture of the target

MIXTRAL = {**LLAMA_8B, "model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2}


def test_the_files_of_a_model_say_whether_it_is_a_mixture(folder):
    models = {"m": MIXTRAL, "Mixtral-8x7B": LLAMA_8B}
    found = [planned("--target", folder(name, its), "--draft", "1B") for name, its in models.items()]
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


def test_every_gpu_has_less_memory_than_a_terabyte_and_more_than_a_desktop():
    assert all(16 * 2**10 < size < 2**20 for size in GPUS.values())


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
