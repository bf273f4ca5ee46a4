"""Names of the vLLM series that figures and metrics are computed from."""

from __future__ import annotations

from typing import Final

DRAFTS: Final = "vllm:spec_decode_num_drafts_total"
DRAFT_TOKENS: Final = "vllm:spec_decode_num_draft_tokens_total"
ACCEPTED: Final = "vllm:spec_decode_num_accepted_tokens_total"
POSITIONS: Final = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
GENERATED: Final = "vllm:generation_tokens_total"
FIRST: Final = "vllm:time_to_first_token_seconds_count"
FIRST_SECONDS: Final = "vllm:time_to_first_token_seconds_sum"
STEPS: Final = "vllm:inter_token_latency_seconds_count"
STEP_SECONDS: Final = "vllm:inter_token_latency_seconds_sum"
