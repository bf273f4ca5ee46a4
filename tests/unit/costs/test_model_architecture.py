"""Architecture of a model and its experts by its name."""

import pytest

from spec_decode_exporter.config.cost_settings import Architecture
from spec_decode_exporter.costs.cost import CostModel
from spec_decode_exporter.costs.model_architecture import target_model
from tests.every import every

MIXTURES = {
    "mistralai/Mixtral-8x7B-Instruct-v0.1": 4,
    "Qwen/Qwen3-30B-A3B": 16,
    "Qwen/Qwen3-235B-A22B-Instruct-2507": 16,
    "Qwen/Qwen3-Next-80B-A3B-Instruct": 51.2,
    "Qwen/Qwen3-Coder-480B-A35B-Instruct": 20,
    "Qwen1.5-MoE-A2.7B": None,
    "deepseek-ai/DeepSeek-V3.1": 32,
    "deepseek-ai/DeepSeek-R1-0528": 32,
    "deepseek-ai/DeepSeek-V2-Lite": None,
    "openai/gpt-oss-20b": 8,
    "openai/gpt-oss-120b": 32,
    "moonshotai/Kimi-K2-Instruct": 48,
    "meta-llama/Llama-4-Scout-17B-16E": 16,
    "zai-org/GLM-4.5": 20,
    "zai-org/GLM-4.5-Air": 16,
    "zai-org/GLM-4.6": 20,
    "microsoft/Phi-3.5-MoE-instruct": 8,
    "MiniMaxAI/MiniMax-M1-80k": 16,
    "databricks/dbrx-instruct": 4,
    "allenai/OLMoE-1B-7B-0924-Instruct": 8,
    "my-moe": None,
}
"""Experts over the experts of a token; None if no number is known."""
DENSE = """meta-llama/Llama-3.1-8B-Instruct meta-llama/Meta-Llama-3-70B Qwen/Qwen2.5-72B-Instruct Qwen/Qwen3-32B
    deepseek-ai/DeepSeek-R1-Distill-Llama-70B deepseek-ai/DeepSeek-R1-Distill-Qwen-32B google/gemma-3-27b-it
    mistralai/Mistral-7B-Instruct-v0.3 mistralai/Mistral-Small-24B microsoft/phi-4 Qwen/QwQ-32B lmsys/vicuna-13b-v1.3
    deepseek-ai/DeepSeek-R1-0528-Qwen3-8B zai-org/GLM-4.6V-Flash"""
UNKNOWN = ("", "chat", "my-model", "prod/assistant-v2", "default", "smoeller/my-model", "b" * 100_000)
CASES = {name: (Architecture.MIXTURE_OF_EXPERTS, ratio) for name, ratio in MIXTURES.items()}
CASES |= dict.fromkeys(DENSE.split(), (Architecture.DENSE, None)) | dict.fromkeys(UNKNOWN, (None, None))


@every(CASES)
def test_published_names_say_the_architecture_and_the_experts(name):
    found = target_model(name)
    assert (found.architecture, found.experts_ratio) == CASES[name]


SIZES = {
    "Qwen/Qwen3-30B-A3B": (30, 3),
    "mistralai/Mixtral-8x7B-Instruct-v0.1": (46.7, 12.9),
    "deepseek-ai/DeepSeek-R1": (671, 37),
    "zai-org/GLM-4.7-FP8": (355, 32),
    "zai-org/GLM-4.7-Flash": (30, 3),
    "moonshotai/Kimi-K2.6": (1000, 32),
    "openai/gpt-oss-20b": (20.9, 3.6),
    "Qwen/Qwen3.6-35B-A3B-FP8": (35, 3),
    "Qwen3.8-27B-UD-Q4_K_XL": (27, 27),
    "Qwama-0.5B-Instruct": (0.5, None),
    "SmolLM2-360M": (0.36, 0.36),
    "my-8x7b": (46.48, None),
    "70B": (70, None),
    "Qwen3.8-Flash-Next": (None, None),
    "v2b": (None, None),
    "deepseek-ai/DeepSeek-R1-0528-Qwen3-8B": (8, 8),
}
"""Billions of parameters, of all experts and of those of a token."""


@every(SIZES)
def test_names_say_the_size(name):
    found = target_model(name)
    sizes = [each and each / 1e9 for each in (found.parameters, found.active_parameters)]
    assert sizes == pytest.approx(SIZES[name])


HEAVY = [
    "llama-8b",
    "/models/llama-3-8b/checkpoint-4000",
    "Qwen3-32B-FP8",
    "Qwen2.5-7B-Instruct-GPTQ-Int8",
    "DeepSeek-R1",
    "my-iq-8b",
]
QUANTISED = [
    "Qwen3-32B-AWQ",
    "Llama-3.1-8B-Instruct-quantized.w4a16",
    "Qwen3-8B-GPTQ-Int4",
    "gemma-3-27b-it-4bit",
    "qwen-7b-nf4 Qwen3.8-27B-NVFP4",
    "qwen-7b-nf4",
    "Qwen3.8-27B-NVFP4",
    "DeepSeek-R1-int4-AutoRound",
]
LOCAL = [
    "Qwen3.8-27B-Q4_K_M",
    "Qwen3.8-27B-UD-Q5_K_XL",
    "Qwen3.8-27B-Q4-GGUF",
    "Qwen3.8-27B-IQ4_XS",
    "Qwen3.6-27B-Q8_0",
    "mlx-community/Qwen3-8B-4bit",
    "llama-7b-q4_0",
    "model-8b.gguf",
    "Qwen3-14B-exl3",
]
KINDS = {name: (name in QUANTISED, name in LOCAL) for name in (*HEAVY, *QUANTISED, *LOCAL)}


@every(KINDS)
def test_names_say_how_the_weights_are_stored(name):
    found = target_model(name)
    assert (found.is_quantised, found.is_local) == KINDS[name]
    assert found.is_light == any(KINDS[name])


@pytest.mark.parametrize(
    ("name", "is_light", "is_tiny"),
    [("", False, False), ("Qwen3-4B", True, False), ("Qwen3-1.7B", True, True), ("Qwen3-8B", False, False)],
)
def test_small_targets_are_light_and_below_2_billion_parameters_no_cost_is_typical(name, is_light, is_tiny):
    found = target_model(name)
    assert (found.is_light, found.is_tiny) == (is_light, is_tiny)
    assert (CostModel(method="eagle3", target=found).at(1, 3) is None) is is_tiny


def test_a_configured_architecture_precedes_the_name():
    found = target_model("Qwen/Qwen3-30B-A3B", Architecture.DENSE)
    assert (found.architecture, found.experts_ratio, found.active_parameters) == ("dense", None, 30e9)
