"""Heads that draft, and methods without one."""

import pytest

from spec_decode_exporter.plan.model_config import ModelError, sequence_elements
from tests.fakes.model_configs import LLAMA_8B
from tests.unit.plan.conftest import planned
from tests.unit.plan.test_model_config import CASES

EAGLE3 = {**LLAMA_8B, "num_hidden_layers": 1, "draft_vocab_size": 32000}
HIDDEN = 4096
LAYER = 2 * HIDDEN * 128 * (32 + 8) + 3 * HIDDEN * 14336


DEEPSEEK = {"model_type": "deepseek_v3", **CASES["deepseek_v3"][0]}
FP8 = {"quantization_config": {"quant_method": "fp8"}}
LARGE = ("--gpus", "8", "--gpu-memory", "141GB")


def head(*words):
    return planned(*words).draft


def test_an_eagle_head_is_a_layer_and_a_joining_matrix(folder):
    model = head("--target", folder("t", LLAMA_8B), "--method", "eagle", "--gpu-memory", "80GB")
    assert model.weights.total == LAYER + 2 * HIDDEN**2
    assert sequence_elements(model.config, 1, 1) == 8 * 256


def test_an_eagle3_head_has_an_output_matrix_of_its_own(folder):
    """Its attention reads the token beside the hidden state; the published one for Llama 3.1 8B has 425M weights."""
    target = folder("t", LLAMA_8B)
    by_target = head("--target", target, "--method", "eagle3")
    by_config = head("--target", target, "--method", "eagle3", "--draft", folder("e", EAGLE3))
    assert by_target.weights == by_config.weights
    assert by_target.weights.total == LAYER + 3 * HIDDEN**2 + HIDDEN * 128 * (32 + 16) + 32000 * HIDDEN
    assert (by_target.guessed, by_config.guessed) == (True, False)


def test_the_head_of_deepseek_has_all_the_experts_of_a_layer(folder):
    """11.5B of its published weights are in the module, without embedding and output matrix."""
    target = folder("t", DEEPSEEK)
    model = head("--target", target, "--method", "mtp", *LARGE)
    assert model.weights.total == pytest.approx(11.6e9, rel=0.02)
    assert model.weights.active < 0.1 * model.weights.total


def test_a_module_of_the_checkpoint_has_its_dtype(folder):
    """A given dtype overrides it."""
    words = ("--target", folder("t", DEEPSEEK | FP8), "--method", "mtp", *LARGE)
    assert (head(*words).dtype, head(*words).weight_bytes) == ("fp8", pytest.approx(11.6e9, rel=0.01))
    assert head(*words, "--draft.dtype", "bfloat16").weight_bytes == pytest.approx(23.2e9, rel=0.01)


@pytest.mark.parametrize(("size", "of_target"), [(688_586_727_424, 673.3e9), (673_150_000_000, 673.15e9)])
def test_modules_in_the_files_do_not_count_as_the_target(folder, size, of_target):
    """The index of DeepSeek-V3 has 688.6 GB: 673 of the model, 11.6 of the module, 3.7 of its two copies."""
    config = DEEPSEEK | FP8 | {"num_nextn_predict_layers": 1}
    target = folder("t", config, **{"model.safetensors.index.json": {"metadata": {"total_size": size}}})
    found = planned("--target", target, "--method", "mtp", *LARGE)
    assert found.without_draft.weight_bytes == pytest.approx(of_target, rel=0.0005)
    assert found.with_draft.weight_bytes - found.without_draft.weight_bytes == pytest.approx(11.6e9, rel=0.01)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--method", "eagle3"), "has no size: give --draft"),
        (("--method", "draft_model"), "give a draft model, such as --draft 0.6B, or another method"),
        (("--method", "ngram", "--draft", "1B"), "ngram searches the text and has no draft"),
    ],
)
def test_a_missing_or_superfluous_draft_is_an_error(words, says):
    with pytest.raises(ModelError, match=says):
        planned("--target", "70B", *words)
