"""Architecture of a served model by its name: dense, or a mixture of experts, and of how many.

A mixture of experts reads more weights for each more token of a small batch, so verifying costs more there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from spec_decode_exporter.config.cost_settings import Architecture

_MIXTURES: Final = re.compile(
    r"""
    (?<![a-z]) (?: \d+x\d | \d+b-a\d | a\d+b (?![a-z]) )    # Mixtral-8x7B, Qwen3-30B-A3B, GLM-4.5-106B-A12B
    | mixtral | moe | (?<![a-z]) dbrx | (?<![a-z]) grok
    | deepseek-? (?: v[2-9] | r1 (?!-distill) | coder-v2 | chat-v [2-9] )
    | kimi-?k2 | gpt-?oss | minimax | llama-?4 | (?<![a-z]) glm-?[45](?:\.\d)?(?!-?\d*b|-9b|-32b)
    | qwen3-(?:next|coder-480b|coder-next) | jamba | arctic | longcat
    | ernie-4\.5-(?:21b|300b) | hunyuan-(?:a13b|large)
    """,
    re.IGNORECASE | re.VERBOSE,
)
_DENSE: Final = re.compile(
    r"""
    llama-?[23] | codellama | vicuna | tinyllama | (?<![a-z]) opt-\d | (?<![a-z]) yi-\d
    | qwen-?2(?:\.5)?-\d | qwen3-(?:0\.6|1\.7|4|8|14|32)b | qwq | -distill-
    | mistral-(?:7b|nemo|small|large) | codestral | ministral | devstral
    | gemma | (?<![a-z]) phi-?[234](?!\.5-moe) | falcon | starcoder | granite-3
    | olmo-?2 | (?<![a-z]) gpt2 | smollm
    """,
    re.IGNORECASE | re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class TargetModel:
    """A served model, as far as the cost of drafting depends on it. Unknown values are None."""

    architecture: Architecture | None = None
    experts_ratio: float | None = None
    """Experts of a mixture over the experts of a token."""
    parameters: float | None = None
    """Number of parameters."""
    active_parameters: float | None = None
    """Those that a token uses: all of a dense model."""
    is_quantised: bool = False
    """True if its weights have about four bits, or an engine serves it that reads such files."""


@dataclass(frozen=True, slots=True)
class Deployment:
    """How an engine serves its model, as far as the cost of drafting depends on it."""

    tensor_parallel: int | None = None
    """GPUs over which each layer is divided; None if unknown."""
    expert_parallel: int | None = None
    """GPUs over which the experts of a mixture are divided; None if unknown."""
    is_datacentre: bool = True
    """False for consumer GPUs and engines on them."""
    drafts_in_parallel: bool = False
    """True if one pass of the drafter drafts all tokens: ``parallel_drafting`` of vLLM."""


UNKNOWN_TARGET: Final = TargetModel()
UNKNOWN_DEPLOYMENT: Final = Deployment()


@lru_cache(maxsize=64)
def target_model(name: str, architecture: Architecture | None = None) -> TargetModel:
    """Return what the name of a served model says; a configured ``architecture`` precedes it."""
    return TargetModel(architecture or architecture_of(name), experts_ratio_of(name))


def architecture_of(model_name: str) -> Architecture | None:
    """Return the architecture of a model by patterns of published names; None if no pattern matches."""
    if _MIXTURES.search(model_name):
        return Architecture.MIXTURE_OF_EXPERTS
    return Architecture.DENSE if _DENSE.search(model_name) else None


_EXPERTS_RATIOS: Final = tuple(
    (re.compile(pattern, re.IGNORECASE), experts / active)
    for pattern, experts, active in (
        (r"mixtral|(?<!\d)8x\d+b", 8, 2),
        (r"dbrx", 16, 4),
        (r"qwen2-57b-a14b", 64, 8),
        (r"qwen3-(30b-a3b|coder-30b-a3b|235b-a22b)", 128, 8),
        (r"qwen3-coder-480b", 160, 8),
        (r"qwen3-next", 512, 10),
        (r"qwen3\.5-35b-a3b", 256, 8),
        (r"deepseek-?(v3|r1(?!-distill)|chat-v3)", 256, 8),
        (r"deepseek-?v2(?!.*-lite)(\.5)?|deepseek-coder-v2-(?!lite)", 160, 6),
        (r"kimi-?k2", 384, 8),
        (r"gpt-?oss-?20b", 32, 4),
        (r"gpt-?oss-?120b", 128, 4),
        (r"glm-?4\.[567](?!.*air)", 160, 8),
        (r"glm-?4\.5-?air", 128, 8),
        (r"minimax-?m2", 256, 8),
    )
)
"""Routed experts of a layer and those that a token uses, by the models' config.json."""


def experts_ratio_of(model_name: str) -> float | None:
    """Return the experts of a mixture over the experts of a token; None for other names."""
    if architecture_of(model_name) is not Architecture.MIXTURE_OF_EXPERTS:
        return None
    return next((ratio for pattern, ratio in _EXPERTS_RATIOS if pattern.search(model_name)), None)
