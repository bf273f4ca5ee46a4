"""Architecture of a model by its name."""

from __future__ import annotations

import pytest

from spec_decode_exporter.analysis.model_architecture import architecture_of, experts_ratio_of
from spec_decode_exporter.config.cost_settings import Architecture

MIXTURES = [
    "mistralai/Mixtral-8x7B-Instruct-v0.1",
    "Qwen/Qwen3-30B-A3B",
    "Qwen/Qwen3-235B-A22B-FP8",
    "Qwen/Qwen3-Next-80B-A3B-Instruct",
    "Qwen/Qwen3-Coder-480B-A35B-Instruct",
    "Qwen1.5-MoE-A2.7B",
    "deepseek-ai/DeepSeek-V3",
    "deepseek-ai/DeepSeek-R1-0528",
    "deepseek-ai/DeepSeek-V3.1",
    "deepseek-ai/DeepSeek-V2-Lite",
    "openai/gpt-oss-120b",
    "moonshotai/Kimi-K2-Instruct",
    "meta-llama/Llama-4-Scout-17B-16E",
    "zai-org/GLM-4.5-Air",
    "zai-org/GLM-4.6",
    "microsoft/Phi-3.5-MoE-instruct",
    "MiniMaxAI/MiniMax-M1-80k",
    "databricks/dbrx-instruct",
]
DENSES = [
    "meta-llama/Llama-3.1-8B-Instruct",
    "meta-llama/Meta-Llama-3-70B",
    "Qwen/Qwen2.5-72B-Instruct",
    "Qwen/Qwen3-32B",
    "deepseek-ai/DeepSeek-R1-Distill-Llama-70B",
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-32B",
    "google/gemma-3-27b-it",
    "mistralai/Mistral-7B-Instruct-v0.3",
    "mistralai/Mistral-Small-24B",
    "microsoft/phi-4",
    "Qwen/QwQ-32B",
    "lmsys/vicuna-13b-v1.3",
]


@pytest.mark.parametrize("name", MIXTURES)
def test_published_mixtures_of_experts_are_known(name):
    assert architecture_of(name) is Architecture.MIXTURE_OF_EXPERTS


@pytest.mark.parametrize("name", DENSES)
def test_published_dense_models_are_known(name):
    assert architecture_of(name) is Architecture.DENSE


@pytest.mark.parametrize("name", ["", "chat", "my-model", "prod/assistant-v2", "default", "b" * 100_000])
def test_another_name_says_nothing(name):
    assert architecture_of(name) is None


@pytest.mark.parametrize(
    ("name", "ratio"),
    [
        ("mistralai/Mixtral-8x7B-Instruct-v0.1", 4),
        ("Qwen/Qwen3-30B-A3B", 16),
        ("Qwen/Qwen3-235B-A22B-Instruct-2507", 16),
        ("Qwen/Qwen3-Coder-480B-A35B-Instruct", 20),
        ("Qwen/Qwen3-Next-80B-A3B-Instruct", 51.2),
        ("deepseek-ai/DeepSeek-V3.1", 32),
        ("deepseek-ai/DeepSeek-R1-0528", 32),
        ("openai/gpt-oss-20b", 8),
        ("openai/gpt-oss-120b", 32),
        ("moonshotai/Kimi-K2-Instruct", 48),
        ("zai-org/GLM-4.5", 20),
        ("zai-org/GLM-4.5-Air", 16),
    ],
)
def test_the_experts_of_published_mixtures_are_known(name, ratio):
    assert experts_ratio_of(name) == ratio


@pytest.mark.parametrize(
    "name", ["meta-llama/Llama-3.1-8B", "deepseek-ai/DeepSeek-R1-Distill-Llama-70B", "my-moe", "chat"]
)
def test_other_names_have_no_known_experts(name):
    assert experts_ratio_of(name) is None
