"""Models of plans: counts of weights and caches, local folders, heads that draft, and methods without one.

The totals are those of the models in transformers 5.19.
"""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.plan.models import (
    COMPARED,
    DTYPES,
    ModelError,
    config_of,
    dtype_of,
    flat,
    model_of,
    sequence_elements,
    weights_of,
)
from tests.fakes.model_configs import LLAMA_8B
from tests.unit.plan.conftest import folder, planned

MLA = {"kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128}


def widths(hidden, inner, layers, heads, shared, vocabulary, **more):
    return {
        "hidden_size": hidden,
        "intermediate_size": inner,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": shared,
        "vocab_size": vocabulary,
        "tie_word_embeddings": False,
        **more,
    }


# fmt: off
CASES = {
    "llama": (LLAMA_8B, 8_030_261_248, 8 * 32 * 256),
    "mistral": (widths(4096, 14336, 32, 32, 8, 32000, sliding_window=None), 7_241_732_096, 8 * 32 * 256),
    "mixtral": (
        widths(4096, 14336, 32, 32, 8, 32000, num_local_experts=8, num_experts_per_tok=2), 46_702_792_704, 8 * 32 * 256,
    ),
    "qwen2": (widths(3584, 18944, 28, 28, 4, 152064, use_sliding_window=False, sliding_window=131072), 7_615_616_512, 28 * 1024),
    "qwen2_moe": (
        widths(2048, 5632, 24, 16, 16, 151936, moe_intermediate_size=1408, shared_expert_intermediate_size=5632,
               num_experts=60, num_experts_per_tok=4),
        14_315_784_192, 24 * 4096,
    ),
    "qwen3": (widths(1024, 3072, 28, 16, 8, 151936, head_dim=128, tie_word_embeddings=True), 596_049_920, 28 * 2048),
    "qwen3_moe": (
        widths(2048, 6144, 48, 32, 4, 151936, head_dim=128, moe_intermediate_size=768, num_experts=128,
               num_experts_per_tok=8),
        30_532_122_624, 48 * 1024,
    ),
    "gemma": (widths(2048, 16384, 18, 8, 1, 256000, head_dim=256, tie_word_embeddings=None), 2_506_172_416, 18 * 512),
    "gemma2": (
        widths(2304, 9216, 26, 8, 4, 256000, head_dim=256, sliding_window=4096, tie_word_embeddings=None),
        2_614_341_888, 26 * 2048,
    ),
    "gemma3_text": (
        widths(1152, 6912, 26, 4, 1, 262144, head_dim=256, sliding_window=512, tie_word_embeddings=None),
        999_885_952, 26 * 512,
    ),
    "deepseek_v2": (
        widths(2048, 10944, 27, 16, 16, 102400, **MLA, q_lora_rank=None, n_routed_experts=64, n_shared_experts=2,
               moe_intermediate_size=1408, num_experts_per_tok=6, first_k_dense_replace=1),
        15_706_484_224, 27 * 576,
    ),
    "deepseek_v3": (
        widths(7168, 18432, 61, 128, 128, 129280, **MLA, q_lora_rank=1536, n_routed_experts=256, n_shared_experts=1,
               moe_intermediate_size=2048, num_experts_per_tok=8, first_k_dense_replace=3),
        671_026_404_352, 61 * 576,
    ),
    "gpt_oss": (
        widths(2880, 2880, 24, 64, 8, 201088, head_dim=64, num_local_experts=32, num_experts_per_tok=4,
               sliding_window=128, layer_types=["sliding_attention", "full_attention"] * 12),
        20_914_757_184, 24 * 1024,
    ),
    "phi3": (widths(5120, 17920, 40, 40, 10, 100352), 14.66e9, 40 * 2560),
    "olmo2": (widths(4096, 11008, 32, 32, 32, 100352), 7.30e9, 32 * 8192),
    "glm4": (widths(4096, 13696, 40, 32, 2, 151552), 9.40e9, 40 * 512),
    "glm4_moe": (
        widths(4096, 10944, 46, 96, 8, 151552, head_dim=128, moe_intermediate_size=1408, n_routed_experts=128,
               n_shared_experts=1, num_experts_per_tok=8, first_k_dense_replace=1),
        106.9e9, 46 * 2048,
    ),
    "minimax_m2": (
        widths(3072, 1536, 62, 48, 8, 200064, head_dim=128, num_local_experts=256, num_experts_per_tok=8),
        229e9, 62 * 2048,
    ),
}
"""Configuration, total of the weights, and elements of the first token in the KV cache."""
# fmt: on


def of(name, **more):
    """Return the configuration of a case."""
    return config_of(flat({"model_type": name, **CASES[name][0], **more}))


@pytest.mark.parametrize("name", CASES)
def test_the_weights_are_counted_to_a_thousandth_and_the_cache_exactly(name):
    _, total, elements = CASES[name]
    config = of(name)
    assert weights_of(config, config.num_hidden_layers).total == pytest.approx(total, rel=1.5e-3)
    assert sequence_elements(config, 1, 1) == elements


def test_every_architecture_without_a_warning_is_compared_with_a_model():
    assert {*COMPARED} - {"gemma3"} == CASES.keys()


@pytest.mark.parametrize(
    ("name", "active"), [("mixtral", 12.9e9), ("deepseek_v3", 37.6e9), ("gpt_oss", 4.19e9)]
)
def test_a_token_uses_some_experts(name, active):
    config = of(name)
    assert weights_of(config, config.num_hidden_layers).active == pytest.approx(active, rel=0.01)


@pytest.mark.parametrize(
    ("name", "full"), [("gemma2", 13), ("gemma3_text", 4), ("gpt_oss", 12), ("qwen2", 28), ("llama", 32)]
)
def test_layers_with_a_window_hold_no_more_tokens_than_it(name, full):
    """The last token of a million is in the caches of the full layers alone."""
    config = of(name)
    grown = sequence_elements(config, 10**6, 1) - sequence_elements(config, 10**6 - 1, 1)
    assert grown == full * 2 * config.kv_heads * config.head_width
    all_windowed = of("mistral", sliding_window=4096)
    assert sequence_elements(all_windowed, 10**6, 1) == sequence_elements(all_windowed, 4096, 1)


def test_heads_are_not_divided_and_a_latent_vector_is_whole_on_every_gpu():
    few = of("llama", num_key_value_heads=2, num_hidden_layers=1)
    assert [sequence_elements(few, 1, gpus) for gpus in (1, 2, 4)] == [512, 256, 256]
    assert [sequence_elements(of("deepseek_v3"), 1, gpus) for gpus in (1, 8)] == [61 * 576] * 2


def test_text_config_overrides_the_outer_values():
    """The rest of such a file describes the vision part."""
    inner = widths(2560, 10240, 34, 8, 4, 262208, head_dim=256, sliding_window=1024, model_type="gemma3_text")
    few = {key: inner[key] for key in ("hidden_size", "intermediate_size", "num_hidden_layers")}
    short = {"model_type": "gemma3", "text_config": few, "vision_config": {"hidden_size": 1152}}
    found = config_of(flat(short))
    heads = (found.num_attention_heads, found.kv_heads, found.head_width)
    assert (heads, found.vocab_size) == ((8, 4, 256), 262_208)
    assert weights_of(found, found.num_hidden_layers).total == pytest.approx(3.88e9, rel=0.01)


@pytest.mark.parametrize("key", ["hidden_size", "num_hidden_layers", "vocab_size", "num_attention_heads"])
def test_an_impossible_number_is_named(key):
    for value in (None, -1, "many", 1.5, True, 10**12, [], 0):
        with pytest.raises(ModelError, match=rf"{key} is .*parameters instead"):
            config_of(flat({**LLAMA_8B, key: value}))


anything = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 300) | st.floats(allow_nan=True) | st.text(max_size=5),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.text(max_size=5), inside, max_size=3),
    max_leaves=5,
)


@given(st.sampled_from(sorted(CASES)), st.data())
def test_every_file_is_counted_or_rejected(name, data):
    config = {"model_type": name, **CASES[name][0]}
    for key in data.draw(st.lists(st.sampled_from(sorted(config)), max_size=4)):
        config[key] = data.draw(anything)
    try:
        model = config_of(flat(config))
        found = weights_of(model, model.num_hidden_layers)
    except ModelError:
        return
    assert found.total >= found.active > 0


FP8 = {"quant_method": "fp8", "weight_block_size": [128, 128]}
COMPRESSED = {"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": {"num_bits": 4, "type": "int"}}}}  # fmt: skip


INDEX = "model.safetensors.index.json"


def test_a_folder_and_its_config_are_the_same_and_without_files_the_weights_are_computed(tmp_path):
    path = folder(tmp_path / "Llama", LLAMA_8B)
    model = model_of(path, None)
    assert model == model_of(f"{path}/config.json", None)
    assert (model.name, model.weight_bytes, model.weights_counted) == (
        "Llama",
        pytest.approx(2 * 8_030_261_248, rel=1e-4),
        True,
    )


def test_the_size_of_the_weights_is_that_of_the_index_or_of_the_file(tmp_path):
    path = folder(tmp_path / "m", LLAMA_8B, **{INDEX: {"metadata": {"total_size": 16_060_522_496}}})
    model = model_of(path, None)
    assert (model.weight_bytes, model.weights_counted) == (16_060_522_496, False)
    path = folder(tmp_path / "n", LLAMA_8B)
    (Path(path) / "model.safetensors").write_bytes(bytes(1000))
    assert model_of(path, None).weight_bytes == 1000


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
def test_the_dtype_of_a_quantized_checkpoint_is_read(tmp_path, quantised, dtype):
    path = folder(tmp_path / "m", {**LLAMA_8B, "quantization_config": quantised})
    assert model_of(path, None).dtype == dtype


def test_mxfp4_applies_to_the_experts_only(tmp_path):
    """The files of gpt-oss-20b have 13.8 GB, of which the attention, the embedding and the output are in 16 bits."""
    config = {
        "model_type": "gpt_oss",
        **CASES["gpt_oss"][0],
        "quantization_config": {"quant_method": "mxfp4"},
    }
    model = model_of(folder(tmp_path / "m", config), None)
    own = model.weights
    assert model.weight_bytes == 2 * (own.total - own.experts) + own.experts * DTYPES["mxfp4"] / 8
    assert model.weight_bytes == pytest.approx(13.76e9, rel=0.01)
    assert model_of("20B", dtype_of("mxfp4")).weight_bytes == 20e9 * 4.25 / 8


@pytest.mark.parametrize(
    "quantised", [{"quant_method": "gptq", "bits": 3}, {"quant_method": "compressed-tensors"}, {"x": 1}]
)
def test_an_unknown_quantization_asks_for_the_dtype(tmp_path, quantised):
    path = folder(tmp_path / "m", {**LLAMA_8B, "quantization_config": quantised})
    with pytest.raises(ModelError, match=r"say it by --target.dtype or --draft.dtype"):
        model_of(path, None)
    assert model_of(path, dtype_of("int4")).dtype == "int4"


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
        model_of(text, None)


def test_untrusted_values_are_truncated(tmp_path):
    quantised = {"quant_method": "gptq", "bits": [1] * 100_000}
    path = folder(tmp_path / "m", {**LLAMA_8B, "quantization_config": quantised})
    with pytest.raises(ModelError) as refused:
        model_of(path, None)
    assert len(str(refused.value)) < 400


@pytest.mark.parametrize("content", ["", "[]", "{", "[" * 100_000, "1e999", "null"])
def test_a_file_that_is_no_config_is_named(tmp_path, content):
    (tmp_path / "config.json").write_text(content, encoding="utf-8")
    with pytest.raises(ModelError, match=r"config\.json"):
        model_of(str(tmp_path), None)


def test_an_unusual_architecture_is_counted_as_a_decoder_unless_its_files_have_its_size(tmp_path):
    path = folder(tmp_path / "m", {**LLAMA_8B, "model_type": "novel"})
    assert model_of(path, None).weights_counted
    (Path(path) / "model-00001-of-00002.safetensors").write_bytes(bytes(700))
    (Path(path) / "model-00002-of-00002.safetensors").write_bytes(bytes(300))
    model = model_of(path, None)
    assert (model.weight_bytes, model.weights_counted) == (1000, False)
    assert model_of(path, dtype_of("int8")).weights_counted


@pytest.mark.parametrize("more", [{"layer_types": ["linear_attention"] * 32}, {"full_attention_interval": 4}, {"mamba_d_state": 16}])  # fmt: skip
def test_the_cache_of_layers_without_keys_and_values_is_unknown(tmp_path, more):
    path = folder(tmp_path / "m", {**LLAMA_8B, **more})
    assert model_of(path, None).sequence_bytes(100, 1, 2) is None


# Heads that draft

EAGLE3 = {**LLAMA_8B, "num_hidden_layers": 1, "draft_vocab_size": 32000}
HIDDEN = 4096
LAYER = 2 * HIDDEN * 128 * (32 + 8) + 3 * HIDDEN * 14336


DEEPSEEK = {"model_type": "deepseek_v3", **CASES["deepseek_v3"][0]}
FP8_CONFIG = {"quantization_config": {"quant_method": "fp8"}}
LARGE = ("--gpus", "8", "--gpu-memory", "141GB")


def test_an_eagle_head_is_a_layer_and_a_joining_matrix(tmp_path):
    target = folder(tmp_path / "t", LLAMA_8B)
    model = planned("--target", target, "--method", "eagle", "--gpu-memory", "80GB").draft
    assert model.weights.total == LAYER + 2 * HIDDEN**2
    assert sequence_elements(model.config, 1, 1) == 8 * 256


def test_an_eagle3_head_has_an_output_matrix_of_its_own(tmp_path):
    """Its attention reads the token beside the hidden state; the published one for Llama 3.1 8B has 425M weights."""
    words = ("--target", folder(tmp_path / "t", LLAMA_8B), "--method", "eagle3")
    by_target = planned(*words).draft
    by_config = planned(*words, "--draft", folder(tmp_path / "e", EAGLE3)).draft
    assert by_target.weights == by_config.weights
    assert by_target.weights.total == LAYER + 3 * HIDDEN**2 + HIDDEN * 128 * (32 + 16) + 32000 * HIDDEN
    assert (by_target.guessed, by_config.guessed) == (True, False)


def test_the_head_of_deepseek_has_all_the_experts_of_a_layer(tmp_path):
    """11.5B of its published weights are in the module, without embedding and output matrix."""
    target = folder(tmp_path / "t", DEEPSEEK)
    model = planned("--target", target, "--method", "mtp", *LARGE).draft
    assert model.weights.total == pytest.approx(11.6e9, rel=0.02)
    assert model.weights.active < 0.1 * model.weights.total


def test_a_module_of_the_checkpoint_has_its_dtype(tmp_path):
    """A given dtype overrides it."""
    words = ("--target", folder(tmp_path / "t", DEEPSEEK | FP8_CONFIG), "--method", "mtp", *LARGE)
    module = planned(*words).draft
    assert (module.dtype, module.weight_bytes) == ("fp8", pytest.approx(11.6e9, rel=0.01))
    assert planned(*words, "--draft.dtype", "bfloat16").draft.weight_bytes == pytest.approx(23.2e9, rel=0.01)


@pytest.mark.parametrize(("size", "of_target"), [(688_586_727_424, 673.3e9), (673_150_000_000, 673.15e9)])
def test_modules_in_the_files_do_not_count_as_the_target(tmp_path, size, of_target):
    """The index of DeepSeek-V3 has 688.6 GB: 673 of the model, 11.6 of the module, 3.7 of its two copies."""
    config = DEEPSEEK | FP8_CONFIG | {"num_nextn_predict_layers": 1}
    target = folder(tmp_path / "t", config, **{INDEX: {"metadata": {"total_size": size}}})
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
