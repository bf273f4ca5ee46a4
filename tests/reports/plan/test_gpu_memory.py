"""Memory for the KV cache: published figures, and invariants."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.reports.plan.deployment_plan import PlanOutcome
from spec_decode_exporter.reports.plan.gpu_memory import Gpus, MemoryPart, room
from spec_decode_exporter.reports.plan.model_config import Configuration
from spec_decode_exporter.reports.plan.parameter_count import cache_layers
from spec_decode_exporter.reports.plan.planned_model import counted_model
from spec_decode_exporter.reports.plan.quantization import DTYPES, dtype_of
from tests.reports.plan.conftest import LLAMA_8B, planned

GB = 10**9


@pytest.mark.parametrize(
    ("target", "draft", "gpu", "weights", "left"),
    [
        ("bfloat16", "bfloat16", "80GB", 156, 4),
        ("bfloat16", "bfloat16", "141GB", 156, 126),
        ("int8", "bfloat16", "80GB", 86, 74),
        ("int8", "int8", "80GB", 78, 82),
        ("int4", "bfloat16", "80GB", 51, 109),
        ("int4", "int4", "80GB", 39, 121),
    ],
)
def test_a_70b_with_an_8b_takes_the_published_memory(target, draft, gpu, weights, left):
    found = planned(
        "--target", "70B", "--draft", "8B", "--target.dtype", target, "--draft.dtype", draft,
        "--gpus", "2", "--gpu-memory", gpu, "--utilisation", "1", "--overhead", "0",
    )  # fmt: skip
    assert found.drafting.weight_bytes == weights * GB
    assert found.drafting.left_bytes == found.drafting.cache_bytes == left * GB
    assert found.alone.cache_bytes - found.drafting.cache_bytes == found.wanted.draft.model.weight_bytes


def test_a_llama_takes_the_cache_that_its_heads_need(llamas):
    """2 · 8 heads · 128 · 2 bytes in 80 and in 32 layers: 320 KiB and 128 KiB."""
    found = planned(*llamas)
    assert found.alone.bytes_per_token == 320 * 1024
    assert found.drafting.bytes_per_token == 448 * 1024
    left = 4 * (72 - 2) * GB - found.drafting.weight_bytes
    assert found.drafting.cache_bytes == left
    assert found.drafting.tokens == left // (448 * 1024)
    assert found.drafting.sequences == left // (448 * 1024 * 8192)


def test_the_cache_holds_as_many_tokens_as_a_real_vllm(folder):
    """vLLM 0.32 on the CPU, whose blocks have 128 tokens, with 1 GiB of KV cache, logged at its start:

    "CPU KV cache size: 262,144 tokens" of the target, "174,720 tokens" with a draft of half its layers.
    """
    config = {**LLAMA_8B, "num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": 64, "hidden_size": 256,
              "intermediate_size": 512, "vocab_size": 512}  # fmt: skip
    target, draft = (folder(f"{layers} layers", {**config, "num_hidden_layers": layers}) for layers in (4, 2))
    found = planned("--target", target, "--draft", draft, "--overhead", "0", "--utilisation", "1",
                    "--gpu-memory", "80GB", "--context", "1024")  # fmt: skip
    for unwindowed, tokens in ((found.alone, 262_144), (found.drafting, 174_720)):
        cache = replace(unwindowed, cache_bytes=2**30)
        assert cache.tokens // 128 * 128 == tokens


def test_a_cache_in_fp8_holds_twice_as_much(llamas):
    found, half = planned(*llamas), planned(*llamas, "--kv-cache-dtype", "fp8")
    assert half.drafting.bytes_per_token == found.drafting.bytes_per_token / 2
    assert half.drafting.cache_bytes == found.drafting.cache_bytes


def test_heads_are_not_divided_and_a_latent_vector_is_whole_on_every_gpu():
    (few,) = cache_layers(Configuration({**LLAMA_8B, "num_key_value_heads": 2}), 1)
    assert [few.elements_on_a_gpu(gpus) for gpus in (1, 2, 4)] == [512, 256, 256]
    mla = {"model_type": "deepseek_v3", "kv_lora_rank": 512, "qk_rope_head_dim": 64}
    (latent,) = cache_layers(Configuration(mla), 1)
    assert [latent.elements_on_a_gpu(gpus) for gpus in (1, 8)] == [576, 576]


def test_a_sliding_window_limits_the_cache(folder):
    kinds = ["sliding_attention", "full_attention"]
    config = {**LLAMA_8B, "num_hidden_layers": 2, "layer_types": kinds, "sliding_window": 1024}
    found = planned("--target", folder("m", config), "--draft", "1M", "--context", "4096")
    assert found.alone.sequence_bytes == 2 * 2048 * (1024 + 4096)


def test_without_a_config_only_the_bytes_are_known():
    found = planned("--target", "8B", "--draft", "1B")
    assert (found.drafting.tokens, found.drafting.sequences, found.alone.bytes_per_token) == (
        None,
        None,
        None,
    )
    assert found.drafting.cache_bytes == (72 - 2 - 18) * GB


def test_the_bytes_of_a_token_can_be_given():
    words = ("--target", "8B", "--draft", "1B", "--context", "1000", "--target.kv-bytes-per-token", "131072")
    assert planned(*words).alone.tokens == (72 - 2 - 16) * GB // 131072
    assert planned(*words).drafting.tokens is None
    both = planned(*words, "--draft.kv-bytes-per-token", "32768")
    assert both.drafting.tokens == (72 - 2 - 18) * GB // (131072 + 32768)


def test_more_gpus_than_the_targets_hold_another_engine():
    found = planned("--target", "8B", "--draft", "1B", "--gpus", "8", "--target.tensor-parallel", "2")
    assert (found.wanted.engines, found.wanted.gpus.number) == (4, 2)
    assert found.drafting.weight_bytes == 18 * GB


@pytest.mark.parametrize(
    ("words", "outcome"),
    [
        (("--gpus", "4"), PlanOutcome.FITS),
        (("--gpus", "4", "--batch", "400"), PlanOutcome.TIGHT),
        (("--gpus", "2", "--gpu-memory", "80GB"), PlanOutcome.DOES_NOT_FIT),
        (("--gpus", "2", "--gpu-memory", "92GB", "--utilisation", "0.9", "--context", "2000"), PlanOutcome.TIGHT),
        (("--gpus", "2", "--gpu-memory", "92GB", "--utilisation", "0.9", "--context", "131072"), PlanOutcome.DOES_NOT_FIT),
    ],
)  # fmt: skip
def test_models_fit_if_one_sequence_fits(llamas, words, outcome):
    assert planned(*llamas, *words).outcome is outcome


def test_without_a_config_the_size_of_a_sequence_is_unknown():
    """Any free memory suffices, unless the known part of a sequence is larger."""
    words = ("--target", "70B", "--draft", "8B", "--gpus", "2", "--utilisation", "1", "--overhead", "0")
    assert planned(*words, "--gpu-memory", "78.000000001GB").outcome is PlanOutcome.WEIGHTS_FIT
    assert planned(*words, "--gpu-memory", "78GB").outcome is PlanOutcome.DOES_NOT_FIT
    one_known = (*words, "--gpu-memory", "80GB", "--target.kv-bytes-per-token", "327680")
    assert planned(*one_known, "--context", "12207").outcome is PlanOutcome.WEIGHTS_FIT
    assert planned(*one_known, "--context", "12208").outcome is PlanOutcome.DOES_NOT_FIT


def test_models_that_vllm_refuses_are_refused_if_they_fit(llamas, folder):
    odd = folder("odd", {**LLAMA_8B, "num_attention_heads": 30, "head_dim": 128})
    assert planned("--target", odd, "--draft", "1B", "--gpus", "4").outcome is PlanOutcome.REFUSED
    assert planned("--target", odd, "--draft", "1B", "--gpus", "2").outcome is PlanOutcome.WEIGHTS_FIT
    other = folder("other", {**LLAMA_8B, "vocab_size": 128320})
    assert planned("--target", llamas[1], "--draft", other, "--gpus", "4").outcome is PlanOutcome.REFUSED
    assert planned("--target", llamas[1], "--draft", other, "--gpus", "1").outcome is PlanOutcome.DOES_NOT_FIT


sizes = st.integers(10**6, 10**12)
dtypes = st.sampled_from(DTYPES)


@given(sizes, sizes, st.integers(1, 8), st.floats(0.05, 1), st.floats(0.05, 1), st.integers(1, 10**7))
def test_more_utilization_is_never_less_cache(target, draft, gpus, one, other, per_token):
    less, more = (
        room(
            Gpus(gpus, 80 * GB, share, 2 * GB),
            [
                MemoryPart(counted_model("m", size, dtype_of("bf16"), per_token), gpus)
                for size in (target, draft)
            ],
            8192,
            2,
        )
        for share in sorted((one, other))
    )
    assert less.cache_bytes <= more.cache_bytes
    assert less.tokens <= more.tokens
    assert less.sequences <= more.sequences
    assert not (less.fits and not more.fits)


@given(st.integers(1, 10**9))
def test_half_the_bits_are_half_the_weights(units):
    sizes = {name: counted_model("m", 32 * units, dtype_of(name), None).weight_bytes for name in DTYPES}
    assert sizes["float32"] == 2 * sizes["bfloat16"] == 4 * sizes["int8"] == 8 * sizes["int4"]
    assert sizes["int8"] == sizes["fp8"]
    assert sizes["int4"] < sizes["mxfp4"] < sizes["nvfp4"] < sizes["int8"]


@given(sizes, sizes, st.integers(1, 8), dtypes, dtypes)
def test_the_parts_sum_up_to_the_memory(target, draft, gpus, of_target, of_draft):
    parts = [MemoryPart(counted_model("t", target, dtype_of(of_target), None), gpus),
             MemoryPart(counted_model("d", draft, dtype_of(of_draft), None), gpus)]  # fmt: skip
    found = room(Gpus(gpus, 80 * GB, 0.9, GB), parts, 1, 2)
    assert found.weight_bytes + found.cache_bytes + gpus * GB == gpus * 72 * GB
    assert found.weight_bytes == sum(part.model.weight_bytes for part in parts)
