"""Parse ``/version`` and ``/server_info``: facts about a server that its metrics lack.

vLLM serves ``/server_info`` in development mode only (``VLLM_SERVER_DEV_MODE=1``). The format follows
``vllm/config/speculative.py``; its fields and ``__repr__`` are unchanged since vLLM 0.9.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from spec_decode_exporter.config.batch_schedule import (
    MAX_POSITIONS,
    NO_SCHEDULE,
    SCHEDULE_KEY,
    BatchSchedule,
    batch_schedule,
)
from spec_decode_exporter.core.numbers import MAX_TEXT
from spec_decode_exporter.scrape.derived import steps_of

_NUMBER: Final = re.compile(r"[0-9]{1,4}+")
_WITHOUT_MODEL: Final = frozenset({"ngram", "ngram_gpu", "suffix", "extract_hidden_states", "custom_class"})
"""Methods whose ``model`` is not a draft model but the method's name or a class."""
_TEXT: Final = re.compile(
    r"speculative_config=SpeculativeConfig\("
    r"method='([^']{0,64}+)', model=(?:None|'([^']{0,256}+)'), num_spec_tokens=([0-9]{1,4}+)\)"
)

_METHODS_ELSEWHERE: Final = {
    # SGLang's --speculative-algorithm; NEXTN is EAGLE with the target's own layers.
    "EAGLE": "eagle", "EAGLE3": "eagle3", "NEXTN": "mtp", "STANDALONE": "draft_model", "NGRAM": "ngram",
    "DFLASH": "dflash", "DSPARK": "dspark", "UNO": "uno", "FROZEN_KV_MTP": "mtp",
    # TensorRT-LLM's decoding_type; its PyTorch backend, which counts drafts, has EAGLE-3 alone.
    "Eagle": "eagle3", "Eagle3": "eagle3", "MTP": "mtp", "Draft_Target": "draft_model", "NGram": "ngram",
    "PARD": "draft_model", "DFlash": "dflash", "Medusa": "medusa",
}  # fmt: skip
"""Methods of other engines in vLLM's spelling."""


class _VllmConfig(msgspec.Struct):
    speculative_config: dict[str, Any] | None = None


class _Details(msgspec.Struct):
    """Response to ``/version`` or ``/server_info``; other keys are skipped without a Python object."""

    version: Any = None
    vllm_config: _VllmConfig | str | None = None
    # SGLang:
    speculative_algorithm: Any = None
    speculative_num_steps: Any = None
    speculative_num_draft_tokens: Any = None
    speculative_draft_model_path: Any = None
    speculative_adaptive: Any = None
    model_path: Any = None


@dataclass(frozen=True, slots=True)
class ServedSpeculation:
    """Speculation settings of a server; unknown or unusable ones are empty or None."""

    method: str = ""
    tokens: int | None = None  # K, the maximum number of draft tokens a step
    draft_model: str = ""  # name or path of the draft model
    schedule: BatchSchedule = NO_SCHEDULE
    problem: str = ""  # reason for an unused schedule; empty if the schedule is used or absent
    rejection_method: str = ""  # `rejection_sample_method`: `standard`, `block`, `fly`, …
    is_adaptive: bool = False
    """``enable_adaptive_verification``: vLLM chooses in each step how many drafts it verifies."""
    varies_tokens: bool = False  # `speculative_adaptive`: SGLang changes K while it runs
    drafts_in_parallel: bool = False  # `parallel_drafting`: one pass drafts all tokens


def served_version(body: bytes) -> str:
    """Parse a response of ``/version``; return an empty text if it has no usable version."""
    return _label(_decoded(body).version)


def served_speculation(body: bytes) -> ServedSpeculation | None:
    """Parse a response of ``/server_info``; return None if it has no speculation settings."""
    return _speculation(_decoded(body))


def labelled_speculation(labels: Mapping[str, str]) -> ServedSpeculation:
    """Return the settings in the labels of TensorRT-LLM's ``trtllm_speculative_config_info``."""
    tokens = labels.get("spec_num_tokens", "")
    method = labels.get("spec_method") or labels.get("decoding_type", "")
    return _elsewhere(
        method, labels.get("spec_draft_model"), int(tokens) if _NUMBER.fullmatch(tokens) else None
    )


def _elsewhere(method: object, model: object, tokens: object) -> ServedSpeculation:
    """Return the settings of another engine; without a draft model of its own, EAGLE is the target's MTP."""
    known = _METHODS_ELSEWHERE.get(method, "") if isinstance(method, str) else ""
    names = {"method": "mtp" if method == "EAGLE" and not model else known, "model": model}
    found = speculation_of(names | {"num_speculative_tokens": tokens})
    return replace(found, drafts_in_parallel=method == "PARD")


def speculation_of(settings: Mapping[Any, object]) -> ServedSpeculation:
    """Return the usable part of vLLM's speculation settings, which are untrusted."""
    method, tokens = _label(settings.get("method")), settings.get("num_speculative_tokens")
    try:
        used, problem = batch_schedule(settings.get(SCHEDULE_KEY)), ""
    except ValueError as error:
        used, problem = NO_SCHEDULE, str(error)
    return ServedSpeculation(
        method,
        tokens if type(tokens) is int and 0 < tokens <= MAX_POSITIONS else None,
        "" if method in _WITHOUT_MODEL else _label(settings.get("model")),
        used,
        problem,
        _label(settings.get("rejection_sample_method")),
        is_adaptive=settings.get("enable_adaptive_verification") is True,
        drafts_in_parallel=settings.get("parallel_drafting") is True,
    )


def _decoded(body: bytes) -> _Details:
    try:
        return msgspec.json.decode(body, type=_Details)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return _Details()


def _speculation(details: _Details) -> ServedSpeculation | None:
    match details.vllm_config:
        case _VllmConfig(speculative_config=dict(settings)):
            return speculation_of(settings)
        case str(text) if fields := _TEXT.search(text):
            method, model, tokens = fields.groups()
            return speculation_of({"method": method, "model": model, "num_speculative_tokens": int(tokens)})
        case None if details.speculative_algorithm:
            counts = details.speculative_num_steps, details.speculative_num_draft_tokens
            steps, verified = (each if type(each) is int else None for each in counts)
            drafter, varies = details.speculative_draft_model_path, details.speculative_adaptive
            model = None if drafter == details.model_path else drafter
            found = _elsewhere(details.speculative_algorithm, model, steps_of(steps, verified))
            return replace(found, varies_tokens=varies is True)
    return None


def _label(value: object) -> str:
    """Return a text that can be a label value; empty for anything else, such as half a surrogate pair."""
    return value if isinstance(value, str) and value.isprintable() and len(value) <= MAX_TEXT else ""
