"""Models of plans: in local folders, heads that draft, and methods without one."""

from pathlib import Path

import pytest

from spec_decode_exporter.plan.model_config import DTYPES, ModelError, dtype_of, sequence_elements
from spec_decode_exporter.plan.models import model_of
from tests.fakes.model_configs import LLAMA_8B
from tests.unit.plan.conftest import planned
from tests.unit.plan.test_model_config import CASES

FP8 = {"quant_method": "fp8", "weight_block_size": [128, 128]}
COMPRESSED = {"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": {"num_bits": 4, "type": "int"}}}}  # fmt: skip


INDEX = "model.safetensors.index.json"


def read(path, dtype=None):
    return model_of(path, dtype and dtype_of(dtype))


def test_a_folder_and_its_config_are_the_same_and_without_files_the_weights_are_computed(folder):
    path = folder("Llama", LLAMA_8B)
    model = read(path)
    assert model == read(f"{path}/config.json")
    assert (model.name, model.weight_bytes, model.weights_counted) == (
        "Llama",
        pytest.approx(2 * 8_030_261_248, rel=1e-4),
        True,
    )


def test_the_size_of_the_weights_is_that_of_the_index_or_of_the_file(folder):
    path = folder("m", LLAMA_8B, **{INDEX: {"metadata": {"total_size": 16_060_522_496}}})
    assert (read(path).weight_bytes, read(path).weights_counted) == (16_060_522_496, False)
    path = folder("n", LLAMA_8B)
    (Path(path) / "model.safetensors").write_bytes(bytes(1000))
    assert read(path).weight_bytes == 1000


@pytest.mark.parametrize(
    ("quantised", "dtype"),
    [
        (FP8, "fp8"),
        ({"quant_method": "gptq", "bits": 8}, "int8"),
        ({"quant_method": "mxfp4"}, "mxfp4"),
        (COMPRESSED, "int4"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "nvfp4"),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "int4"),
    ],
)  # fmt: skip
def test_the_dtype_of_a_quantized_checkpoint_is_read(folder, quantised, dtype):
    assert read(folder("m", {**LLAMA_8B, "quantization_config": quantised})).dtype == dtype


def test_mxfp4_applies_to_the_experts_only(folder):
    """The files of gpt-oss-20b have 13.8 GB, of which the attention, the embedding and the output are in 16 bits."""
    config = {
        "model_type": "gpt_oss",
        **CASES["gpt_oss"][0],
        "quantization_config": {"quant_method": "mxfp4"},
    }
    model = read(folder("m", config))
    own = model.weights
    assert model.weight_bytes == 2 * (own.total - own.experts) + own.experts * DTYPES["mxfp4"] / 8
    assert model.weight_bytes == pytest.approx(13.76e9, rel=0.01)
    assert read("20B", "mxfp4").weight_bytes == 20e9 * 4.25 / 8


@pytest.mark.parametrize(
    "quantised", [{"quant_method": "gptq", "bits": 3}, {"quant_method": "compressed-tensors"}, {"x": 1}]
)
def test_an_unknown_quantization_asks_for_the_dtype(folder, quantised):
    path = folder("m", {**LLAMA_8B, "quantization_config": quantised})
    with pytest.raises(ModelError, match=r"say it by --target.dtype or --draft.dtype"):
        read(path)
    assert read(path, "int4").dtype == "int4"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("nowhere", "neither a number of parameters, such as 8B, nor a config.json"),
        ("70", r"'70' is no size of a model: did you mean 70B\?"),
        ("999K", "'999K' is no size of a model$"),
        ("0.9", "no size of a model"),
        ("", "'' is neither a number of parameters"),
    ],
)
def test_a_text_that_is_no_model_is_rejected(text, says, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelError, match=says):
        read(text)


def test_untrusted_values_are_truncated(folder):
    path = folder("m", {**LLAMA_8B, "quantization_config": {"quant_method": "gptq", "bits": [1] * 100_000}})
    with pytest.raises(ModelError) as refused:
        read(path)
    assert len(str(refused.value)) < 400


@pytest.mark.parametrize("content", ["", "[]", "{", "[" * 100_000, "1e999", "null"])
def test_a_file_that_is_no_config_is_named(tmp_path, content):
    (tmp_path / "config.json").write_text(content, encoding="utf-8")
    with pytest.raises(ModelError, match=r"config\.json"):
        read(str(tmp_path))


def test_an_unusual_architecture_is_counted_as_a_decoder_unless_its_files_have_its_size(folder):
    path = folder("m", {**LLAMA_8B, "model_type": "novel"})
    assert read(path).weights_counted
    (Path(path) / "model-00001-of-00002.safetensors").write_bytes(bytes(700))
    (Path(path) / "model-00002-of-00002.safetensors").write_bytes(bytes(300))
    model = read(path)
    assert (model.weight_bytes, model.weights_counted) == (1000, False)
    assert read(path, "int8").weights_counted


@pytest.mark.parametrize("more", [{"layer_types": ["linear_attention"] * 32}, {"full_attention_interval": 4}, {"mamba_d_state": 16}])  # fmt: skip
def test_the_cache_of_layers_without_keys_and_values_is_unknown(folder, more):
    path = folder("m", {**LLAMA_8B, **more})
    assert read(path).sequence_bytes(100, 1, 2) is None


# Heads that draft

EAGLE3 = {**LLAMA_8B, "num_hidden_layers": 1, "draft_vocab_size": 32000}
HIDDEN = 4096
LAYER = 2 * HIDDEN * 128 * (32 + 8) + 3 * HIDDEN * 14336


DEEPSEEK = {"model_type": "deepseek_v3", **CASES["deepseek_v3"][0]}
FP8_CONFIG = {"quantization_config": {"quant_method": "fp8"}}
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
    words = ("--target", folder("t", DEEPSEEK | FP8_CONFIG), "--method", "mtp", *LARGE)
    assert (head(*words).dtype, head(*words).weight_bytes) == ("fp8", pytest.approx(11.6e9, rel=0.01))
    assert head(*words, "--draft.dtype", "bfloat16").weight_bytes == pytest.approx(23.2e9, rel=0.01)


@pytest.mark.parametrize(("size", "of_target"), [(688_586_727_424, 673.3e9), (673_150_000_000, 673.15e9)])
def test_modules_in_the_files_do_not_count_as_the_target(folder, size, of_target):
    """The index of DeepSeek-V3 has 688.6 GB: 673 of the model, 11.6 of the module, 3.7 of its two copies."""
    config = DEEPSEEK | FP8_CONFIG | {"num_nextn_predict_layers": 1}
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
