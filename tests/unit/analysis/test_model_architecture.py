"""Architecture of a model and its experts by its name."""

from spec_decode_exporter.analysis.model_architecture import architecture_of, experts_ratio_of
from spec_decode_exporter.config.cost_settings import Architecture
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
    "meta-llama/Llama-4-Scout-17B-16E": None,
    "zai-org/GLM-4.5": 20,
    "zai-org/GLM-4.5-Air": 16,
    "zai-org/GLM-4.6": 20,
    "microsoft/Phi-3.5-MoE-instruct": None,
    "MiniMaxAI/MiniMax-M1-80k": None,
    "databricks/dbrx-instruct": 4,
    "my-moe": None,
}
"""Experts over the experts of a token; None if no number is known."""
DENSE = """meta-llama/Llama-3.1-8B-Instruct meta-llama/Meta-Llama-3-70B Qwen/Qwen2.5-72B-Instruct Qwen/Qwen3-32B
    deepseek-ai/DeepSeek-R1-Distill-Llama-70B deepseek-ai/DeepSeek-R1-Distill-Qwen-32B google/gemma-3-27b-it
    mistralai/Mistral-7B-Instruct-v0.3 mistralai/Mistral-Small-24B microsoft/phi-4 Qwen/QwQ-32B lmsys/vicuna-13b-v1.3"""
UNKNOWN = ("", "chat", "my-model", "prod/assistant-v2", "default", "b" * 100_000)
CASES = {name: (Architecture.MIXTURE_OF_EXPERTS, ratio) for name, ratio in MIXTURES.items()}
CASES |= dict.fromkeys(DENSE.split(), (Architecture.DENSE, None)) | dict.fromkeys(UNKNOWN, (None, None))


@every(CASES)
def test_published_names_say_the_architecture_and_the_experts(name):
    assert (architecture_of(name), experts_ratio_of(name)) == CASES[name]
