"""Counts of weights, caches and heads; the totals are those of the models in transformers 5.19."""

import pytest

from spec_decode_exporter.plan.model_config import (
    COMPARED,
    ModelError,
    config_of,
    flat,
    sequence_elements,
    weights_of,
)
from tests.fakes.model_configs import LLAMA_8B

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


def counted(config):
    return weights_of(config, config.num_hidden_layers)


@pytest.mark.parametrize("name", CASES)
def test_the_weights_are_counted_to_a_thousandth_and_the_cache_exactly(name):
    _, total, elements = CASES[name]
    assert counted(of(name)).total == pytest.approx(total, rel=1.5e-3)
    assert sequence_elements(of(name), 1, 1) == elements


def test_every_architecture_without_a_warning_is_compared_with_a_model():
    assert {*COMPARED} - {"gemma3"} == CASES.keys()


@pytest.mark.parametrize(
    ("name", "active"), [("mixtral", 12.9e9), ("deepseek_v3", 37.6e9), ("gpt_oss", 4.19e9)]
)
def test_a_token_uses_some_experts(name, active):
    assert counted(of(name)).active == pytest.approx(active, rel=0.01)


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
    assert (found.num_attention_heads, found.kv_heads, found.head_width, found.vocab_size) == (
        8,
        4,
        256,
        262_208,
    )
    assert counted(found).total == pytest.approx(3.88e9, rel=0.01)


@pytest.mark.parametrize("key", ["hidden_size", "num_hidden_layers", "vocab_size", "num_attention_heads"])
def test_an_impossible_number_is_named(key):
    for value in (None, -1, "many", 1.5, True, 10**12, [], 0):
        with pytest.raises(ModelError, match=rf"{key} is .*parameters instead"):
            config_of(flat({**LLAMA_8B, key: value}))
