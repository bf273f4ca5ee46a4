"""Models in local folders."""

import json
from pathlib import Path

import pytest

from spec_decode_exporter.reports.plan.checkpoint import model_of
from spec_decode_exporter.reports.plan.model_sizes import ModelError, dtype_of
from tests.unit.reports.plan.conftest import LLAMA_8B
from tests.unit.reports.plan.test_model_sizes import CASES

FP8 = {"quant_method": "fp8", "weight_block_size": [128, 128]}
COMPRESSED = {"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": {"num_bits": 4, "type": "int"}}}}  # fmt: skip


def safetensors(path, size, header=b"{}"):
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(size))


INDEX = "model.safetensors.index.json"


def read(path, dtype=None, kv_bytes_per_token=None):
    return model_of(path, dtype and dtype_of(dtype), kv_bytes_per_token)


def test_a_folder_and_its_config_are_the_same_and_without_files_the_weights_are_computed(folder):
    path = folder("Llama", LLAMA_8B)
    model = read(path)
    assert model == read(f"{path}/config.json")
    assert (model.name, model.weight_bytes, model.counted) == ("Llama", 2 * 8_030_261_248, True)


def test_the_size_of_the_weights_is_that_of_the_index_or_of_the_file_without_its_header(folder):
    path = folder("m", LLAMA_8B, **{INDEX: {"metadata": {"total_size": 16_060_522_496}}})
    assert (read(path).weight_bytes, read(path).counted) == (16_060_522_496, False)
    path = folder("n", LLAMA_8B)
    safetensors(Path(path) / "model.safetensors", 1000, b'{"a":1}')
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
    assert read(folder("m", {**LLAMA_8B, "quantization_config": quantised})).dtype.name == dtype


def test_mxfp4_applies_to_the_experts_only(folder):
    """The files of gpt-oss-20b have 13.8 GB, of which the attention, the embedding and the output are in 16 bits."""
    config = {
        "model_type": "gpt_oss",
        **CASES["gpt_oss"][0],
        "quantization_config": {"quant_method": "mxfp4"},
    }
    model = read(folder("m", config))
    own, bits = model.parameters, model.dtype.bits
    assert model.weight_bytes == pytest.approx(2 * (own.total - own.experts) + own.experts * bits / 8)
    assert model.weight_bytes == pytest.approx(13.76e9, rel=0.01)
    assert read("20B", "mxfp4").weight_bytes == 20e9 * 4.25 / 8


@pytest.mark.parametrize(
    "quantised", [{"quant_method": "gptq", "bits": 3}, {"quant_method": "compressed-tensors"}, {"x": 1}]
)
def test_an_unknown_quantization_asks_for_the_dtype(folder, quantised):
    path = folder("m", {**LLAMA_8B, "quantization_config": quantised})
    with pytest.raises(ModelError, match=r"say it by --target.dtype or --draft.dtype"):
        read(path)
    assert read(path, "int4").dtype.name == "int4"


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


UNKNOWN = {"model_type": "novel_moe", "num_experts": 8, "num_experts_per_tok": 2, "torch_dtype": "bfloat16"}
TENSORS = {
    "model.embed_tokens.weight": 2_000_000,
    "model.layers.0.self_attn.q_proj.weight": 500_000,
    "model.layers.0.mlp.experts.0.up_proj.weight": 4_000_000,
    "model.layers.0.mlp.experts.1.up_proj.weight": 4_000_000,
    "lm_head.weight": 2_000_000,
}


def checkpoint(path, tensors, name="model.safetensors"):
    """Write a header of tensors, each with its bytes, and none of their values."""
    header, begin = {"__metadata__": {"format": "pt"}}, 0
    for tensor, size in tensors.items():
        header[tensor] = {"dtype": "BF16", "shape": [size // 2], "data_offsets": [begin, begin + size]}
        begin += size
    safetensors(Path(path) / name, 0, json.dumps(header).encode())


def test_the_headers_of_the_files_have_the_size_of_an_unknown_architecture(folder):
    """Its KV cache stays unknown."""
    path = folder("m", UNKNOWN)
    checkpoint(path, TENSORS)
    model = read(path)
    own = model.parameters
    assert (own.layers, own.experts, own.embedding, own.output) == (250_000, 4_000_000, 1_000_000, 1_000_000)
    assert (own.total, own.active, own.tied) == (6_250_000, 3_250_000, False)
    assert (model.weight_bytes, model.counted, model.sequence_bytes(100, 1, 2)) == (12_500_000, False, None)
    assert read(path, None, 1000).sequence_bytes(100, 1, 2) == 100_000
    half = read(path, "int8")
    assert (half.weight_bytes, half.counted) == (4_250_000 + 2 * 2_000_000, True)


def test_missing_files_of_an_unknown_architecture_are_an_error(folder):
    files = {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}
    path = folder("m", UNKNOWN, **{INDEX: {"weight_map": files}})
    with pytest.raises(
        ModelError, match=r"'novel_moe' is not known here; .*or a folder with its safetensors"
    ):
        read(path)
    checkpoint(path, TENSORS, files["a"])
    with pytest.raises(ModelError, match="1 of its safetensors are missing, such as 'model-00002-of-00002"):
        read(path)


@pytest.mark.parametrize(
    "header", [b"[]", b"{", b'{"a": {"data_offsets": [5, 1]}}', b'{"a": 7}', b'{"a": {}}']
)
def test_a_header_without_tensors_is_no_size(folder, header):
    path = folder("m", UNKNOWN)
    safetensors(Path(path) / "model.safetensors", 0, header)
    with pytest.raises(ModelError):
        read(path)
