"""Models in local folders."""

from pathlib import Path

import pytest

from spec_decode_exporter.plan.checkpoint import model_of
from spec_decode_exporter.plan.model_config import DTYPES, ModelError, dtype_of
from tests.fakes.model_configs import LLAMA_8B
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
