"""Architecture of a model, and bytes of its weights, by its name."""

import pytest

from spec_decode_exporter.config.comparison_settings import Architecture
from spec_decode_exporter.costs.model_architecture import architecture_of, weight_bytes
from tests.every import every

MIXTURES = """mistralai/Mixtral-8x7B-Instruct-v0.1 Qwen/Qwen3-30B-A3B Qwen/Qwen3-235B-A22B-Instruct-2507
    Qwen/Qwen3-Next-80B-A3B-Instruct Qwen/Qwen3-Coder-480B-A35B-Instruct Qwen1.5-MoE-A2.7B
    deepseek-ai/DeepSeek-V3.1 deepseek-ai/DeepSeek-R1-0528 deepseek-ai/DeepSeek-V2-Lite openai/gpt-oss-20b
    openai/gpt-oss-120b moonshotai/Kimi-K2-Instruct meta-llama/Llama-4-Scout-17B-16E zai-org/GLM-4.5
    zai-org/GLM-4.5-Air zai-org/GLM-4.6 microsoft/Phi-3.5-MoE-instruct MiniMaxAI/MiniMax-M1-80k
    databricks/dbrx-instruct allenai/OLMoE-1B-7B-0924-Instruct my-moe"""
DENSE = """meta-llama/Llama-3.1-8B-Instruct meta-llama/Meta-Llama-3-70B Qwen/Qwen2.5-72B-Instruct Qwen/Qwen3-32B
    deepseek-ai/DeepSeek-R1-Distill-Llama-70B deepseek-ai/DeepSeek-R1-Distill-Qwen-32B google/gemma-3-27b-it
    mistralai/Mistral-7B-Instruct-v0.3 mistralai/Mistral-Small-24B microsoft/phi-4 Qwen/QwQ-32B lmsys/vicuna-13b-v1.3
    deepseek-ai/DeepSeek-R1-0528-Qwen3-8B zai-org/GLM-4.6V-Flash"""
UNKNOWN = ("", "chat", "my-model", "prod/assistant-v2", "default", "smoeller/my-model", "b" * 100_000)
CASES = dict.fromkeys(MIXTURES.split(), Architecture.MIXTURE_OF_EXPERTS)
CASES |= dict.fromkeys(DENSE.split(), Architecture.DENSE) | dict.fromkeys(UNKNOWN)


@every(CASES)
def test_published_names_say_the_architecture(name):
    assert architecture_of(name) == CASES[name]


BYTES = {
    "llama-8b": 16e9,
    "Qwen3-32B-FP8": 32e9,
    "Qwen2.5-7B-Instruct-GPTQ-Int8": 7e9,
    "Qwen3-8B-Q8_0": 8e9,
    "Qwen3-32B-AWQ": 0.56 * 32e9,
    "Llama-3.1-8B-Instruct-quantized.w4a16": 0.56 * 8e9,
    "Qwen3.8-27B-NVFP4": 0.56 * 27e9,
    "Qwen3.8-27B-Q4_K_M": 0.56 * 27e9,
    "mlx-community/Qwen3-8B-4bit": 0.56 * 8e9,
    "Qwen3-14B-exl3": 0.56 * 14e9,
    "Qwama-0.5B-Instruct": 1e9,
    "SmolLM2-360M": 0.72e9,
    "v2b": 0.0,
    "my-8x7b": 0.0,
    "my-model": 0.0,
}
"""Bytes of all weights."""


@every(BYTES)
def test_names_say_how_the_weights_are_stored(name):
    assert weight_bytes(name) == pytest.approx(BYTES[name])
