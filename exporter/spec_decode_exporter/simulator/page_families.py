"""Table of the metric families of a vLLM 0.32.0 engine, in the order of its page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from spec_decode_exporter.simulator.histogram import SimulatedHistogram
from spec_decode_exporter.simulator.metric_family import FamilyKind

if TYPE_CHECKING:
    from spec_decode_exporter.simulator.simulated_engine import SimulatedEngine

Value = float | SimulatedHistogram | Mapping[str, float]
"""A number, a histogram, or one number for each value of the row's label."""


@dataclass(frozen=True, slots=True)
class FamilyRow:
    """One family of an engine."""

    name: str
    kind: FamilyKind
    help: str
    read: Callable[[SimulatedEngine], Value]
    label: str = ""
    """A label in addition to engine and model name; empty for none."""
    speculative: bool = False
    """True if the Python front end has the family only with speculation."""


COUNTER: Final = FamilyKind.COUNTER
GAUGE: Final = FamilyKind.GAUGE
HISTOGRAM: Final = FamilyKind.HISTOGRAM

_FLOPS_USE: Final = "(for Model Flops Utilization calculations)."
_REASONS: Final = (
    "Number of waiting requests by reason. Reason labels: 'capacity' = waiting for scheduling capacity;"
    " 'deferred' = deferred by transient constraints (LoRA budget, KV transfer, blocked status)."
    " Sum of all reasons equals vllm:num_requests_waiting."
)
_SLEEP: Final = (
    "Engine sleep state; awake = 0 means engine is sleeping; awake = 1 means engine is awake;"
    " weights_offloaded = 1 means sleep level 1; discard_all = 1 means sleep level 2."
)
_EXTERNAL: Final = "from KV connector cross-instance cache sharing, in terms of number of"
_TIERS: Final = (
    "Prefix-cache hit tokens by the cache tier that supplied them: device (local HBM),"
    " host (offloaded to DRAM), disk, p2p (transferred from another vLLM instance) or external_unspecified."
    " Counted at admission; sums to vllm:prefix_cache_hits + vllm:external_prefix_cache_hits."
)


def _zero(_: SimulatedEngine) -> float:
    """Return 0: this family is not simulated."""
    return 0


def _by_position(engine: SimulatedEngine) -> Mapping[str, float]:
    return {str(position): tokens for position, tokens in enumerate(engine.counts.accepted_by_position)}


def _waiting_by_reason(engine: SimulatedEngine) -> Mapping[str, float]:
    return {"capacity": engine.waiting, "deferred": 0}


def _sleep_state(_: SimulatedEngine) -> Mapping[str, float]:
    return {"awake": 1, "weights_offloaded": 0, "discard_all": 0}


def _prompt_by_source(engine: SimulatedEngine) -> Mapping[str, float]:
    counts = engine.counts
    return {
        "local_compute": counts.computed_prompt_tokens,
        "local_cache_hit": counts.cached_prompt_tokens,
        "external_kv_transfer": 0,
    }


def _cached_by_tier(engine: SimulatedEngine) -> Mapping[str, float]:
    tiers: dict[str, float] = dict.fromkeys(("device", "host", "p2p", "disk", "external_unspecified"), 0)
    return {**tiers, "device": engine.counts.cache_hits}


# fmt: off
ROWS: Final = (
    FamilyRow("spec_decode_num_drafts", COUNTER, "Number of spec decoding drafts.",
        lambda engine: engine.counts.drafts, speculative=True),
    FamilyRow("spec_decode_num_draft_tokens", COUNTER, "Number of draft tokens.",
        lambda engine: engine.counts.draft_tokens, speculative=True),
    FamilyRow("spec_decode_num_accepted_tokens", COUNTER, "Number of accepted tokens.",
        lambda engine: engine.counts.accepted_tokens, speculative=True),
    FamilyRow("spec_decode_num_accepted_tokens_per_pos", COUNTER, "Accepted tokens per draft position.",
        _by_position, label="position", speculative=True),
    FamilyRow("estimated_flops_per_gpu", COUNTER,
        f"Estimated number of floating point operations per GPU {_FLOPS_USE}", _zero),
    FamilyRow("estimated_read_bytes_per_gpu", COUNTER,
        f"Estimated number of bytes read from memory per GPU {_FLOPS_USE}", _zero),
    FamilyRow("estimated_write_bytes_per_gpu", COUNTER,
        f"Estimated number of bytes written to memory per GPU {_FLOPS_USE}", _zero),
    FamilyRow("num_requests_running", GAUGE, "Number of requests in model execution batches.",
        lambda engine: engine.running),
    FamilyRow("num_requests_waiting", GAUGE, "Number of requests waiting to be processed.",
        lambda engine: engine.waiting),
    FamilyRow("num_requests_waiting_by_reason", GAUGE, _REASONS, _waiting_by_reason, label="reason"),
    FamilyRow("engine_sleep_state", GAUGE, _SLEEP, _sleep_state, label="sleep_state"),
    FamilyRow("kv_cache_usage_perc", GAUGE, "KV-cache usage. 1 means 100 percent usage.",
        lambda engine: engine.kv_usage),
    FamilyRow("prefix_cache_queries", COUNTER, "Prefix cache queries, in terms of number of queried tokens.",
        lambda engine: engine.counts.cache_queries),
    FamilyRow("prefix_cache_hits", COUNTER, "Prefix cache hits, in terms of number of cached tokens.",
        lambda engine: engine.counts.cache_hits),
    FamilyRow("external_prefix_cache_queries", COUNTER,
        f"External prefix cache queries {_EXTERNAL} queried tokens.", _zero),
    FamilyRow("external_prefix_cache_hits", COUNTER,
        f"External prefix cache hits {_EXTERNAL} cached tokens.", _zero),
    FamilyRow("mm_cache_queries", COUNTER,
        "Multi-modal cache queries, in terms of number of queried items.", _zero),
    FamilyRow("mm_cache_hits", COUNTER,
        "Multi-modal cache hits, in terms of number of cached items.", _zero),
    FamilyRow("num_preemptions", COUNTER, "Cumulative number of preemption from the engine.",
        lambda engine: engine.counts.preemptions),
    FamilyRow("prompt_tokens", COUNTER, "Number of prefill tokens processed.",
        lambda engine: engine.counts.prompt_tokens),
    FamilyRow("prompt_tokens_by_source", COUNTER, "Number of prompt tokens by source.",
        _prompt_by_source, label="source"),
    FamilyRow("prompt_tokens_cached", COUNTER, "Number of cached prompt tokens (local + external).",
        lambda engine: engine.counts.cached_prompt_tokens),
    FamilyRow("prompt_tokens_cached_by_source", COUNTER, _TIERS, _cached_by_tier, label="source"),
    FamilyRow("generation_tokens", COUNTER, "Number of generation tokens processed.",
        lambda engine: engine.counts.generation_tokens),
    FamilyRow("request_success", COUNTER, "Count of successfully processed requests.",
        lambda engine: engine.counts.finished, label="finished_reason"),
    FamilyRow("request_prompt_tokens", HISTOGRAM, "Number of prefill tokens processed.",
        lambda engine: engine.counts.prompt_length),
    FamilyRow("request_generation_tokens", HISTOGRAM, "Number of generation tokens processed.",
        lambda engine: engine.counts.output_length),
    FamilyRow("iteration_tokens_total", HISTOGRAM, "Histogram of number of tokens per engine_step.",
        lambda engine: engine.counts.iteration_tokens),
    FamilyRow("request_max_num_generation_tokens", HISTOGRAM,
        "Histogram of maximum number of requested generation tokens.",
        lambda engine: engine.counts.max_tokens),
    FamilyRow("request_params_n", HISTOGRAM,
        "Histogram of the n request parameter.",
        lambda engine: engine.counts.samples),
    FamilyRow("request_params_max_tokens", HISTOGRAM,
        "Histogram of the max_tokens request parameter.",
        lambda engine: engine.counts.max_tokens),
    FamilyRow("time_to_first_token_seconds", HISTOGRAM, "Histogram of time to first token in seconds.",
        lambda engine: engine.counts.first_token),
    FamilyRow("inter_token_latency_seconds", HISTOGRAM, "Histogram of inter-token latency in seconds.",
        lambda engine: engine.counts.step),
    FamilyRow("request_time_per_output_token_seconds", HISTOGRAM,
        "Histogram of time_per_output_token_seconds per request.",
        lambda engine: engine.counts.time_per_output_token),
    FamilyRow("e2e_request_latency_seconds", HISTOGRAM,
        "Histogram of e2e request latency in seconds.",
        lambda engine: engine.counts.end_to_end),
    FamilyRow("request_queue_time_seconds", HISTOGRAM,
        "Histogram of time spent in WAITING phase for request.",
        lambda engine: engine.counts.queue),
    FamilyRow("request_inference_time_seconds", HISTOGRAM,
        "Histogram of time spent in RUNNING phase for request.",
        lambda engine: engine.counts.inference),
    FamilyRow("request_prefill_time_seconds", HISTOGRAM,
        "Histogram of time spent in PREFILL phase for request.",
        lambda engine: engine.counts.prefill),
    FamilyRow("request_decode_time_seconds", HISTOGRAM,
        "Histogram of time spent in DECODE phase for request.",
        lambda engine: engine.counts.decode),
    FamilyRow("request_num_preemptions", HISTOGRAM,
        "Histogram of the number of times a request was preempted.",
        lambda engine: engine.counts.request_preemptions),
    FamilyRow("request_prefill_kv_computed_tokens", HISTOGRAM,
        "Histogram of new KV tokens computed during prefill (excluding cached tokens).",
        lambda engine: engine.counts.computed_prefill),
)
# fmt: on
