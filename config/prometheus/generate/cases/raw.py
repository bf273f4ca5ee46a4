"""Tests of the rules that need only vLLM's own counters."""

from __future__ import annotations

from typing import Final

from config.prometheus.generate.case import RuleCase, Sample, counter, of

_VLLM: Final = {"job": "vllm", "instance": "gpu-1:8000", "model_name": "llama", "engine": "0"}
_OTHER: Final = {**_VLLM, "engine": "1"}
_LLAMA: Final = {"job": "vllm", "model_name": "llama"}


def _rounded(record: str) -> str:
    return f"round({record}, 0.0001)"


RAW: Final = (
    RuleCase(
        "ratios of sums over two engines of a server, one of which drafts",
        {
            of("vllm:spec_decode_num_drafts_total", _VLLM): counter((10, 200)),
            of("vllm:spec_decode_num_draft_tokens_total", _VLLM): counter((10, 800)),
            of("vllm:spec_decode_num_accepted_tokens_total", _VLLM): counter((10, 460)),
            of("vllm:spec_decode_num_accepted_tokens_per_pos_total", _VLLM, position="0"): counter((10, 160)),
            of("vllm:generation_tokens_total", _VLLM): counter((10, 665)),
            of("vllm:time_to_first_token_seconds_count", _VLLM): counter((10, 5)),
            of("vllm:inter_token_latency_seconds_count", _VLLM): counter((10, 200)),
            of("vllm:inter_token_latency_seconds_sum", _VLLM): counter((10, 6)),
            of("vllm:generation_tokens_total", _OTHER): counter((10, 101)),
            of("vllm:time_to_first_token_seconds_count", _OTHER): counter((10, 1)),
            of("vllm:inter_token_latency_seconds_count", _OTHER): counter((10, 100)),
            of("vllm:inter_token_latency_seconds_sum", _OTHER): counter((10, 2)),
        },
        at=10,
        expects={
            _rounded("model:vllm_spec_decode_draft_acceptance:ratio_rate5m"): (Sample(_LLAMA, 0.575),),
            _rounded("model:vllm_spec_decode_acceptance_length:ratio_rate5m"): (Sample(_LLAMA, 3.3),),
            _rounded("model:vllm_spec_decode_coverage:ratio_rate5m"): (Sample(_LLAMA, 0.6667),),
            _rounded("model:vllm_spec_decode_effective_tokens_per_step:ratio_rate5m"): (
                Sample(_LLAMA, 2.5333),
            ),
            _rounded("model:vllm_spec_decode_time_per_output_token_seconds:ratio_rate5m"): (
                Sample(_LLAMA, 0.0105),
            ),
            _rounded("model:vllm_spec_decode_position_acceptance:ratio_rate5m"): (
                Sample({**_LLAMA, "position": "0"}, 0.8),
            ),
        },
    ),
)
