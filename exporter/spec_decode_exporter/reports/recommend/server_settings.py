"""Write the setting of an engine as lines for a server's command or file.

The meanings are those of the servers' sources: vLLM 0.33 (``vllm/config/speculative.py``), SGLang's
``server_args.py`` and TensorRT-LLM's ``llmapi/llm_args.py``. Nothing is written that is unknown: lines that
are not a setting are comments.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from spec_decode_exporter.views.models import EngineView, SettingView

_SGLANG: Final[Mapping[str, str]] = {
    "eagle": "EAGLE",
    "eagle3": "EAGLE3",
    "mtp": "EAGLE",
    "draft_model": "STANDALONE",
}
"""SGLang's names of the methods whose drafts are a chain of K tokens there as well."""
_TENSORRT_LLM: Final[Mapping[str, str]] = {
    "eagle3": "Eagle3",
    "mtp": "MTP",
    "ngram": "NGram",
    "draft_model": "Draft_Target",
}
_OWN_DRAFT: Final = frozenset({"mtp", "ngram"})
"""Methods without a draft model."""


def vllm(engine: EngineView) -> Iterator[str]:
    """Yield vLLM's flag; the keys to change as a comment if its method or draft model is unknown."""
    setting = engine.setting
    if setting.complete:
        yield "# If your present setting has other keys, keep them."
        yield f"--speculative-config {shlex.quote(setting.speculative_config)}"
        return
    yield "# Method or draft model is unknown. Change these keys of --speculative-config, keep the others:"
    yield f"# {setting.speculative_config}"


def sglang(engine: EngineView) -> Iterator[str]:
    """Yield SGLang's flags: one number of tokens, since it has no schedule by load."""
    algorithm, model = _SGLANG.get(engine.method), _draft_model(engine)
    if algorithm is None or model is None:
        yield _unknown(engine, "SGLang")
        return
    tokens, load = _at_present(engine)
    if engine.setting.schedule:
        at = "" if load is None else f", the one for {load:.0f} running requests"
        yield f"# SGLang has no schedule by load: this is one number{at}."
    if not tokens:
        yield "# No tokens: start SGLang without --speculative-algorithm."
        return
    yield f"--speculative-algorithm {algorithm}"
    if model:
        yield f"--speculative-draft-model-path {model}"
    # In a chain the verified tokens are the drafted ones and the last token before them.
    yield f"--speculative-num-steps {tokens}"
    yield "--speculative-eagle-topk 1"
    yield f"--speculative-num-draft-tokens {tokens + 1}"


def tensorrt_llm(engine: EngineView) -> Iterator[str]:
    """Yield the section of TensorRT-LLM's YAML file."""
    kind, model, setting = _TENSORRT_LLM.get(engine.method), _draft_model(engine), engine.setting
    if kind is None or model is None:
        yield _unknown(engine, "TensorRT-LLM")
        return
    yield "speculative_config:"
    yield f"  decoding_type: {kind}"
    yield f"  max_draft_len: {setting.tokens}"
    if model:
        yield f"  speculative_model: {model}"
    yield from _draft_lengths(setting)


def _draft_lengths(setting: SettingView) -> Iterator[str]:
    """Yield the schedule by the last batch size of each range: beyond the last one nothing is drafted."""
    if not setting.schedule:
        return
    if setting.schedule[0][2] != setting.tokens:
        yield "  # Its schedule must begin with the largest number, and this one does not: omitted."
        return
    steps = ", ".join(f"{last}: {tokens}" for _, last, tokens in setting.schedule)
    yield "  # Batches up to each size; older releases read each size as the first of its range."
    yield f"  draft_len_schedule: {{{steps}}}"


def _draft_model(engine: EngineView) -> str | None:
    """Return the draft model; empty if the method has none, None if it is unknown or no plain name."""
    if engine.method in _OWN_DRAFT:
        return ""
    return engine.draft_model if engine.setting.complete and engine.draft_model else None


def _at_present(engine: EngineView) -> tuple[int, float | None]:
    """Return the tokens for the mean load of the longest window, and this load."""
    setting = engine.setting
    load = engine.windows[-1].running_requests if engine.windows else None
    present = round(load or 1)
    at_load = [tokens for first, _, tokens in setting.schedule if first <= max(present, 1)]
    return (at_load[-1] if at_load else setting.tokens or 0), load


def _unknown(engine: EngineView, server: str) -> str:
    if engine.method and not engine.draft_model and engine.method not in _OWN_DRAFT:
        return f"# The draft model is unknown: no setting of {server}."
    return f"# No setting of {server} is known for this method."


SERVERS: Final[Mapping[str, Callable[[EngineView], Iterator[str]]]] = {
    "vllm": vllm,
    "sglang": sglang,
    "tensorrt-llm": tensorrt_llm,
}
"""Writers by the value of ``--format``."""
WITHOUT: Final[Mapping[str, str]] = {
    "vllm": "# Start vLLM without --speculative-config.",
    "sglang": "# Start SGLang without --speculative-algorithm.",
    "tensorrt-llm": "# Serve without speculative_config.",
}
"""Lines for no speculation."""
