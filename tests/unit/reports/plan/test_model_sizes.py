"""Counts of weights, caches and heads; the totals equal those of the models in transformers 5.19."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.reports.plan.model_sizes import (
    FAMILIES,
    ModelError,
    cache_layers,
    config_of,
    flat,
    parameters,
)
from tests.unit.reports.plan.conftest import LLAMA_8B, planned

MLA = {"kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128}


def widths(hidden, inner, layers, heads, shared, vocabulary, **more):
    return {
        "hidden_size": hidden,
        "intermediate_size": inner,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": shared,
        "vocab_size": vocabulary,
        **more,
    }


# fmt: off
CASES = {
    "llama": (LLAMA_8B, 8_030_261_248, [(32, 2048, None)]),
    "llama with biases": (
        widths(256, 512, 3, 8, 2, 1000, model_type="llama", attention_bias=True, mlp_bias=True, tie_word_embeddings=True),
        1_934_720, [(3, 128, None)],
    ),
    "mistral": (widths(4096, 14336, 32, 32, 8, 32000, sliding_window=None), 7_241_732_096, [(32, 2048, None)]),
    "mixtral": (
        widths(4096, 14336, 32, 32, 8, 32000, num_local_experts=8, num_experts_per_tok=2),
        46_702_792_704, [(32, 2048, None)],
    ),
    "qwen2": (widths(3584, 18944, 28, 28, 4, 152064, use_sliding_window=False, sliding_window=131072), 7_615_616_512, [(28, 1024, None)]),
    "qwen2_moe": (
        widths(2048, 5632, 24, 16, 16, 151936, moe_intermediate_size=1408, shared_expert_intermediate_size=5632,
               num_experts=60, num_experts_per_tok=4),
        14_315_784_192, [(24, 4096, None)],
    ),
    "qwen3": (widths(1024, 3072, 28, 16, 8, 151936, head_dim=128, tie_word_embeddings=True), 596_049_920, [(28, 2048, None)]),
    "qwen3_moe": (
        widths(2048, 6144, 4, 32, 4, 151936, head_dim=128, moe_intermediate_size=768, num_experts=128,
               num_experts_per_tok=8, mlp_only_layers=[1]),
        2_548_321_280, [(4, 1024, None)],
    ),
    "gemma": (widths(2048, 16384, 18, 8, 1, 256000, head_dim=256), 2_506_172_416, [(18, 512, None)]),
    "gemma2": (
        widths(2304, 9216, 26, 8, 4, 256000, head_dim=256, sliding_window=4096),
        2_614_341_888, [(13, 2048, None), (13, 2048, 4096)],
    ),
    "gemma3_text": (
        widths(1152, 6912, 26, 4, 1, 262144, head_dim=256, sliding_window=512),
        999_885_952, [(4, 512, None), (22, 512, 512)],
    ),
    "deepseek_v2": (
        widths(2048, 10944, 27, 16, 16, 102400, **MLA, q_lora_rank=None, n_routed_experts=64, n_shared_experts=2,
               moe_intermediate_size=1408, num_experts_per_tok=6, first_k_dense_replace=1),
        15_706_484_224, [(27, 576, None)],
    ),
    "deepseek_v3": (
        widths(7168, 18432, 61, 128, 128, 129280, **MLA, q_lora_rank=1536, n_routed_experts=256, n_shared_experts=1,
               moe_intermediate_size=2048, num_experts_per_tok=8, first_k_dense_replace=3),
        671_026_404_352, [(61, 576, None)],
    ),
    "gpt_oss": (
        widths(2880, 2880, 24, 64, 8, 201088, head_dim=64, num_local_experts=32, num_experts_per_tok=4,
               sliding_window=128),
        20_914_757_184, [(12, 1024, None), (12, 1024, 128)],
    ),
}
# fmt: on


def of(name, **more):
    """Return the configuration of a case."""
    return config_of(flat({"model_type": name, **CASES[name][0], **more}))


def counted(config):
    return parameters(config, config.num_hidden_layers)


def cached(config):
    return cache_layers(config, config.num_hidden_layers)


@pytest.mark.parametrize("name", CASES)
def test_every_weight_is_counted(name):
    _, total, attention = CASES[name]
    assert counted(of(name)).total == total
    assert [(each.layers, each.elements, each.window or None) for each in cached(of(name))] == attention


def test_every_family_is_compared_with_a_model():
    assert FAMILIES.keys() - {"gemma3"} <= CASES.keys()


@pytest.mark.parametrize(
    ("name", "active"), [("mixtral", 12.9e9), ("deepseek_v3", 37.6e9), ("gpt_oss", 4.19e9)]
)
def test_a_token_uses_some_experts(name, active):
    assert counted(of(name)).active == pytest.approx(active, rel=0.01)


def test_text_config_overrides_the_outer_values():
    """The rest of such a file describes the vision part."""
    inner = widths(2560, 10240, 34, 8, 4, 262208, head_dim=256, sliding_window=1024, model_type="gemma3_text")
    few = {
        key: inner[key] for key in ("hidden_size", "intermediate_size", "num_hidden_layers", "sliding_window")
    }
    whole = {"model_type": "gemma3", "text_config": inner, "vision_config": {"hidden_size": 1152}}
    short = {"model_type": "gemma3", "text_config": {**few, "model_type": "gemma3_text"}}
    assert counted(config_of(flat(whole))) == counted(config_of(flat(short)))
    assert counted(config_of(flat(whole))).total == pytest.approx(3.88e9, rel=0.01)


def test_layer_types_list_the_attention_of_each_layer():
    kinds = ["sliding_attention", "sliding_attention", "full_attention"]
    config = {**LLAMA_8B, "num_hidden_layers": 3, "layer_types": kinds, "sliding_window": 512}
    assert [(each.layers, each.window) for each in cached(config_of(config))] == [(1, None), (2, 512)]


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"num_hidden_layers": 999_999_999}, "num_hidden_layers is '999999999', no value"),
        ({"layer_types": ["linear_attention"] * 32, "sliding_window": 512}, r"linear_attention.*number of parameters"),
        *(({"model_type": name}, r"^it has no model_type; give the model's number of parameters") for name in ("", None)),
        *(({"model_type": name}, "not known here; give the model's number of parameters") for name in ("mamba2", 7)),
    ],
    ids=["too many layers", "a layer of an unknown kind", "no architecture", "none", "an unknown architecture", "a number"],
)  # fmt: skip
def test_a_configuration_is_rejected_with_a_remedy(more, reason):
    with pytest.raises(ModelError, match=reason):
        cached(config_of({**LLAMA_8B, **more}))


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
        found = counted(config_of(flat(config)))
    except ModelError:
        return
    assert found.total >= found.active > 0


# Heads

EAGLE3 = {**LLAMA_8B, "num_hidden_layers": 1, "draft_vocab_size": 32000}
HIDDEN = 4096
LAYER = 2 * HIDDEN * 128 * (32 + 8) + 3 * HIDDEN * 14336 + 2 * HIDDEN


DEEPSEEK = {"model_type": "deepseek_v3", **CASES["deepseek_v3"][0]}
FP8 = {"quantization_config": {"quant_method": "fp8"}}
LARGE = ("--gpus", "8", "--gpu-memory", "141GB")


def head(*words):
    return planned(*words).draft_model


def test_an_eagle_head_is_a_layer_and_a_joining_matrix(folder):
    model = head("--target", folder("t", LLAMA_8B), "--method", "eagle", "--gpu-memory", "80GB")
    assert model.parameters.total == LAYER + 2 * HIDDEN**2 + HIDDEN
    assert model.attention[0].layers == 1


def test_an_eagle3_head_has_an_output_matrix_of_its_own(folder):
    """By its own config.json, its attention reads the token beside the hidden state."""
    target = folder("t", LLAMA_8B)
    by_target = head("--target", target, "--method", "eagle3")
    by_config = head("--target", target, "--method", "eagle3", "--draft", folder("e", EAGLE3))
    assert by_target.parameters.total == LAYER + 3 * HIDDEN**2 + HIDDEN + 32000 * HIDDEN
    assert by_config.parameters.total == by_target.parameters.total + HIDDEN * 128 * (32 + 16)
    assert by_config.parameters.embedding == 0


def test_the_head_of_deepseek_has_all_the_experts_of_a_layer(folder):
    """11.5B of its published weights are in the module, without embedding and output matrix."""
    target = folder("t", DEEPSEEK)
    model = head("--target", target, "--method", "mtp", *LARGE)
    assert model.parameters.total == pytest.approx(11.6e9, rel=0.02)
    assert model.parameters.active < 0.1 * model.parameters.total


def test_a_module_of_the_checkpoint_has_its_dtype(folder):
    """A given dtype overrides it."""
    words = ("--target", folder("t", DEEPSEEK | FP8), "--method", "mtp", *LARGE)
    assert (head(*words).dtype.name, head(*words).weight_bytes) == ("fp8", pytest.approx(11.6e9, rel=0.01))
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
        ((), "give a draft model: --draft 8B, or --method"),
        (("--method", "ngram", "--draft", "1B"), "ngram searches the text and has no draft"),
    ],
)
def test_a_missing_or_superfluous_draft_is_an_error(words, says):
    with pytest.raises(ModelError, match=says):
        planned("--target", "70B", *words)
