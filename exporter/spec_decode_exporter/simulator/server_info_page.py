"""What vLLM says of itself at ``/server_info``, as far as that is about speculation."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spec_decode_exporter.simulator.simulation import Simulation


def server_info(simulation: Simulation, config_format: str) -> dict[str, object]:
    """Return the answer with the configuration as ``text`` or ``json``."""
    settings = _speculative_config(simulation)
    config: object
    if config_format == "json":
        config = {"model_config": {"model": simulation.scenario.model_name}, "speculative_config": settings}
    else:
        config = f"model={simulation.scenario.model_name!r}, speculative_config={_text(settings)}, seed=0"
    return {"vllm_config": config, "vllm_env": {"VLLM_SERVER_DEV_MODE": True}, "system_env": {}}


def _speculative_config(simulation: Simulation) -> dict[str, object] | None:
    tokens, speculation = simulation.life.tokens, simulation.scenario.speculation
    if not tokens:
        return None
    return {
        "method": speculation.method,
        # vLLM puts the method there where no model drafts.
        "model": "ngram" if speculation.method == "ngram" else speculation.draft_model,
        "num_speculative_tokens": tokens,
        "num_speculative_tokens_per_batch_size": speculation.tokens_per_batch_size or None,
    }


def _text(settings: dict[str, object] | None) -> str:
    if settings is None:
        return "None"
    model = None if settings["method"] == "ngram" else settings["model"]
    tokens = settings["num_speculative_tokens"]
    return f"SpeculativeConfig(method={settings['method']!r}, {model=}, num_spec_tokens={tokens})"
