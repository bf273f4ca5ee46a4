"""Page of vLLM's Rust front end: OpenMetrics 1.0 as the Rust ``prometheus-client`` writes it.

It differs from the Python page in the format, the families and the descriptions. It has integers, labels in
the order of declaration after ``le``, and no creation times. Draft positions appear with the first draft.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spec_decode_exporter.simulator.histogram import SimulatedHistogram
from spec_decode_exporter.simulator.metric_family import FamilyKind
from spec_decode_exporter.simulator.page_families import ROWS, FamilyRow

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spec_decode_exporter.simulator.simulated_engine import SimulatedEngine
    from spec_decode_exporter.simulator.simulation import Simulation

CONTENT_TYPE: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"

_HELP: Final = {
    "num_requests_running": "Number of requests in model execution batches",
    "num_requests_waiting": "Number of requests waiting to be processed",
    "num_requests_waiting_by_reason": "",
    "kv_cache_usage_perc": "KV-cache usage. 1 means 100 percent usage",
    "prefix_cache_queries": "Prefix cache queries, in terms of number of queried tokens",
    "prefix_cache_hits": "",
    "external_prefix_cache_queries": "",
    "external_prefix_cache_hits": "",
    "spec_decode_num_drafts": "",
    "spec_decode_num_draft_tokens": "",
    "spec_decode_num_accepted_tokens": "",
    "spec_decode_num_accepted_tokens_per_pos": "",
    "estimated_flops_per_gpu": "",
    "estimated_read_bytes_per_gpu": "",
    "estimated_write_bytes_per_gpu": "",
    "iteration_tokens_total": (
        "Histogram of computed prompt and generated tokens per nonempty engine output batch."
    ),
    "num_preemptions": "Cumulative number of preemption events.",
    "prompt_tokens": "Number of prefill tokens processed.",
    "prompt_tokens_by_source": "",
    "prompt_tokens_cached": "Number of prompt tokens with prefix cache hits.",
    "generation_tokens": "",
    "request_success": "",
    "request_prompt_tokens": "",
    "request_generation_tokens": "",
    "request_max_num_generation_tokens": "",
    "request_params_max_tokens": "",
    "request_params_n": "",
    "request_prefill_kv_computed_tokens": "",
    "time_to_first_token_seconds": "",
    "inter_token_latency_seconds": "",
    "e2e_request_latency_seconds": "",
    "request_queue_time_seconds": "",
    "request_prefill_time_seconds": "",
    "request_decode_time_seconds": "",
    "request_inference_time_seconds": "",
    "request_time_per_output_token_seconds": "",
}
"""Families in the order of the page, with the description if it differs from the Python page's."""

_ROWS: Final = {row.name: row for row in ROWS}


def rust_page(simulation: Simulation) -> bytes:
    """Return the page at the present moment of the simulation; it is never filtered."""
    return ("".join(_lines(simulation)) + "# EOF\n").encode()


def _lines(simulation: Simulation) -> Iterator[str]:
    for name, text in _HELP.items():
        row = _ROWS[name]
        lines = [
            line
            for index, engine in enumerate(simulation.life.engines)
            for line in _samples(row, index, engine, simulation.scenario.model_name)
        ]
        if lines:
            # The library always adds a full stop, even after another one.
            yield f"# HELP vllm:{name} {text or row.help}.\n# TYPE vllm:{name} {row.kind}\n"
            yield from lines


def _samples(row: FamilyRow, index: int, engine: SimulatedEngine, model: str) -> Iterator[str]:
    labels = f'model_name="{model}",engine="{index}"'
    value = row.read(engine)
    if isinstance(value, SimulatedHistogram):
        yield from _histogram(f"vllm:{row.name}", labels, value)
        return
    if row.label == "position" and not engine.counts.drafts:
        return
    name = f"vllm:{row.name}_total" if row.kind is FamilyKind.COUNTER else f"vllm:{row.name}"
    if isinstance(value, float | int):
        yield f"{name}{{{labels}}} {value}\n"
        return
    for key, number in value.items():
        yield f'{name}{{{labels},{row.label}="{key}"}} {number}\n'


def _histogram(name: str, labels: str, histogram: SimulatedHistogram) -> Iterator[str]:
    yield f"{name}_sum{{{labels}}} {float(histogram.total)}\n"
    yield f"{name}_count{{{labels}}} {histogram.count}\n"
    for bound, number in zip((*histogram.bounds, "+Inf"), histogram.cumulative(), strict=True):
        yield f'{name}_bucket{{le="{bound}",{labels}}} {number}\n'
