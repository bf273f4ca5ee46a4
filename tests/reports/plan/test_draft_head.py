"""Heads that draft from the target's hidden states."""

from __future__ import annotations

import pytest

from spec_decode_exporter.reports.plan.model_config import Configuration, ModelError
from spec_decode_exporter.reports.plan.parameter_count import attention_parameters
from tests.reports.plan.conftest import LLAMA_8B, planned
from tests.reports.plan.test_parameter_count import CASES

EAGLE3 = {**LLAMA_8B, "num_hidden_layers": 1, "draft_vocab_size": 32000}
HIDDEN = 4096
LAYER = 2 * HIDDEN * 128 * (32 + 8) + 3 * HIDDEN * 14336 + 2 * HIDDEN


def head(*words):
    return planned(*words).wanted.draft.model


def test_an_eagle_head_is_a_layer_and_a_joining_matrix(folder):
    model = head("--target", folder("t", LLAMA_8B), "--method", "eagle", "--gpu-memory", "80GB")
    assert model.parameters.total == LAYER + 2 * HIDDEN**2 + HIDDEN
    assert model.parameters.borrowed == 128256 * HIDDEN
    assert model.shape.attention[0].layers == 1


def test_an_eagle3_head_has_an_output_matrix_of_its_own(folder):
    """By its own config.json, its attention reads the token beside the hidden state."""
    target = folder("t", LLAMA_8B)
    by_target = head("--target", target, "--method", "eagle3")
    by_config = head("--target", target, "--method", "eagle3", "--draft", folder("e", EAGLE3))
    assert by_target.parameters.total == LAYER + 3 * HIDDEN**2 + HIDDEN + 32000 * HIDDEN
    assert by_config.parameters.total == by_target.parameters.total + HIDDEN * 128 * (32 + 16)
    assert by_config.parameters.borrowed == by_config.parameters.embedding == 0


def test_the_head_of_deepseek_has_all_the_experts_of_a_layer(folder):
    """11.5B of its published weights are in the module, without embedding and output matrix."""
    target = folder("t", {"model_type": "deepseek_v3", **CASES["deepseek_v3"][0]})
    model = head("--target", target, "--method", "mtp", "--gpus", "8", "--gpu-memory", "141GB")
    assert model.parameters.total == pytest.approx(11.6e9, rel=0.02)
    assert model.parameters.active < 0.1 * model.parameters.total


@pytest.mark.parametrize(
    ("name", "inner"),
    [("mixtral", 6 * 4096), ("gpt_oss", 6 * 2880), ("qwen3_moe", 6144), ("deepseek_v3", 18432)],
)
@pytest.mark.parametrize("method", ["eagle", "eagle3"])
def test_a_separately_trained_head_has_no_experts(folder, name, inner, method):
    """Inner width 17,280 for gpt-oss and 6,144 for Qwen3-30B-A3B, as in the heads of SpecForge."""
    config = Configuration({"model_type": name, **CASES[name][0]})
    target = folder("t", {"model_type": name, **CASES[name][0]})
    model = head("--target", target, "--method", method, "--gpus", "8", "--gpu-memory", "141GB")
    hidden = config.positive("hidden_size")
    joined, output = (3, 32000) if method == "eagle3" else (2, 0)
    layer = attention_parameters(config) + 3 * hidden * inner + 2 * hidden
    assert model.parameters.experts == 0
    assert model.parameters.total == layer + joined * hidden**2 + hidden + output * hidden
    assert model.dtype.name == "bfloat16"


def test_a_module_of_the_checkpoint_has_its_dtype(folder):
    """A given dtype overrides it."""
    deepseek = {
        "model_type": "deepseek_v3",
        **CASES["deepseek_v3"][0],
        "quantization_config": {"quant_method": "fp8"},
    }
    words = ("--target", folder("t", deepseek), "--method", "mtp", "--gpus", "8", "--gpu-memory", "141GB")
    assert (head(*words).dtype.name, head(*words).weight_bytes) == ("fp8", pytest.approx(11.6e9, rel=0.01))
    assert head(*words, "--draft.dtype", "bfloat16").weight_bytes == pytest.approx(23.2e9, rel=0.01)


@pytest.mark.parametrize(("size", "of_target"), [(688_586_727_424, 673.3e9), (673_150_000_000, 673.15e9)])
def test_modules_in_the_files_do_not_count_as_the_target(folder, size, of_target):
    """The index of DeepSeek-V3 has 688.6 GB: 673 of the model, 11.6 of the module, 3.7 of its two copies."""
    deepseek = {
        "model_type": "deepseek_v3",
        **CASES["deepseek_v3"][0],
        "quantization_config": {"quant_method": "fp8"},
        "num_nextn_predict_layers": 1,
    }
    target = folder("t", deepseek, **{"model.safetensors.index.json": {"metadata": {"total_size": size}}})
    found = planned("--target", target, "--method", "mtp", "--gpus", "8", "--gpu-memory", "141GB")
    assert found.alone.weight_bytes == pytest.approx(of_target, rel=0.0005)
    assert found.drafting.weight_bytes - found.alone.weight_bytes == pytest.approx(11.6e9, rel=0.01)


def test_a_head_is_cheap(folder):
    found = planned("--target", folder("t", LLAMA_8B), "--method", "eagle", "--batch", "1", "--context", "1")
    assert found.costs.at(4).token - 0.03 == pytest.approx((LAYER + 2 * HIDDEN**2 + 128257 * HIDDEN) / (8_030_261_248 - 128256 * HIDDEN), rel=1e-3)  # fmt: skip


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--method", "eagle3"), "has no size: give --draft"),
        ((), "give a draft model: --draft 8B, or --method"),
        (("--method", "ngram", "--draft", "1B"), "ngram searches the text and has no draft"),
    ],
)
def test_a_missing_or_superfluous_draft_is_an_error(words, says):
    with pytest.raises(ModelError, match=says):
        planned("--target", "70B", *words)
