"""Metrics pages of a simulated vLLM 0.32.0.

The descriptions of all families, and the samples of those that no exporter reads, are text of a real server's
pages, in ``recorded``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache, lru_cache
from itertools import accumulate
from pathlib import Path
from typing import Final, NamedTuple

from prometheus_client import generate_latest
from prometheus_client.core import Metric

from spec_decode_exporter.simulator.simulated_engine import SimulatedEngine, SimulatedHistogram
from spec_decode_exporter.simulator.simulation import Simulation

_FAMILY: Final = re.compile(r"(# HELP (\S+) (.*)\n# TYPE \S+ (\w+)\n)((?:[^#].*\n)*)")

Value = float | SimulatedHistogram | Mapping[tuple[str, object], int]
"""A number, a histogram, or a number for each value of a further label."""
READ: Final[Mapping[str, Callable[[SimulatedEngine], Value]]] = {
    "vllm:spec_decode_num_drafts": lambda its: its.counts.drafts,
    "vllm:spec_decode_num_draft_tokens": lambda its: its.counts.draft_tokens,
    "vllm:spec_decode_num_accepted_tokens": lambda its: its.counts.accepted_tokens,
    "vllm:spec_decode_num_accepted_tokens_per_pos": lambda its: {
        ("position", position): tokens for position, tokens in enumerate(its.counts.accepted_by_position)
    },
    "vllm:num_requests_running": lambda its: its.running,
    "vllm:num_requests_waiting": lambda its: len(its.waiting),
    "vllm:kv_cache_usage_perc": lambda its: its.held / its.machine.kv_tokens,
    "vllm:prefix_cache_queries": lambda its: its.counts.cache_queries,
    "vllm:prefix_cache_hits": lambda its: its.counts.cache_hits,
    "vllm:num_preemptions": lambda its: its.counts.preemptions,
    "vllm:prompt_tokens": lambda its: its.counts.prompt_tokens,
    "vllm:generation_tokens": lambda its: its.counts.generation_tokens,
    "vllm:request_success": lambda its: {
        ("finished_reason", reason): requests for reason, requests in its.counts.finished.items()
    },
    "vllm:request_generation_tokens": lambda its: its.counts.output_length,
    "vllm:time_to_first_token_seconds": lambda its: its.counts.first_token,
    "vllm:inter_token_latency_seconds": lambda its: its.counts.step,
    "vllm:request_time_per_output_token_seconds": lambda its: its.counts.time_per_output_token,
    "vllm:e2e_request_latency_seconds": lambda its: its.counts.end_to_end,
    "vllm:request_queue_time_seconds": lambda its: its.counts.queue,
}
"""Simulated families by name."""


class RecordedFamily(NamedTuple):
    """A family on the page of a real server, as text."""

    header: str
    name: str
    help: str
    kind: str
    samples: str
    """Samples of one engine, with the placeholders ENGINE and MODEL; empty if the family is simulated."""


class _Collected(NamedTuple):
    """Collector of families that are already there."""

    metrics: Sequence[Metric]

    def collect(self) -> Sequence[Metric]:
        return self.metrics


def metrics_page(
    simulation: Simulation, names: Collection[str] = (), *, start: float = 1_800_000_000.0, speed: float = 1.0
) -> bytes:
    """Return the metrics page of the server at the present moment of the simulation.

    Args:
        simulation: The server.
        names: Sample names of a filtered page.
        start: Unix time of second 0 of the simulation.
        speed: Seconds of the simulation in one second of Unix time.
    """
    scenario = simulation.scenario
    is_merged = scenario.api_servers > 1
    if names and is_merged:
        return b""  # as vLLM does
    asked = frozenset(names)
    unread = _unread_text(scenario.model_name, scenario.engines, asked, is_merged=is_merged)
    read = [family for family in _recorded() if not family.samples]
    metrics = [
        _metric(each, simulation)
        for each in read
        if simulation.speculation.tokens or "spec_" not in each.name
    ]
    if not is_merged:
        for metric in metrics:
            _add_times(metric, start + simulation.began / speed, start + simulation.process_began / speed)
    if names:
        for metric in metrics:
            metric.samples = [sample for sample in metric.samples if sample.name in asked]
    return generate_latest(_Collected([metric for metric in metrics if metric.samples])) + unread.encode()


@cache
def _recorded() -> Sequence[RecordedFamily]:
    text = Path(__file__).with_name("recorded").joinpath("python.txt").read_text(encoding="utf-8")
    return [RecordedFamily(*match.groups()) for match in _FAMILY.finditer(text)]


@lru_cache(256)
def _unread_text(model_name: str, engines: int, names: frozenset[str], *, is_merged: bool) -> str:
    """Return the families that are not simulated; only the samples of ``names`` if there are any.

    A page that is merged from several processes has neither families of a process nor creation times.
    """
    text, escaped = "", model_name.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
    for family in _recorded():
        lines = family.samples.splitlines(keepends=True)
        kept = "".join([line for line in lines if not names or re.split("[{ ]", line)[0] in names])
        if kept and not (is_merged and re.match("p|.*_created$", family.name)):
            kept = kept.replace("MODEL", escaped)
            samples = (kept.replace('"ENGINE"', f'"{engine}"') for engine in range(engines))
            text += "".join((family.header, *dict.fromkeys(samples)))
    return text


def _metric(family: RecordedFamily, simulation: Simulation) -> Metric:
    is_counter = family.kind == "counter"
    metric = Metric(
        family.name.removesuffix("_total") if is_counter else family.name, family.help, family.kind
    )
    name = f"{metric.name}_total" if is_counter else metric.name
    for index, engine in enumerate(simulation.engines if metric.name in READ else ()):
        labels = {"model_name": simulation.scenario.model_name, "engine": str(index)}
        value = READ[metric.name](engine)
        if isinstance(value, SimulatedHistogram):
            metric.add_sample(f"{name}_sum", labels, value.total)
            metric.add_sample(f"{name}_count", labels, value.count)
            for bound, count in zip((*value.bounds, "+Inf"), accumulate(value.counts), strict=True):
                metric.add_sample(f"{name}_bucket", {"le": str(bound), **labels}, count)
        elif isinstance(value, float | int):
            metric.add_sample(name, labels, value)
        else:
            for (label, key), number in value.items():
                metric.add_sample(name, {**labels, label: str(key)}, number)
    return metric


def _add_times(metric: Metric, created: float, process_began: float) -> None:
    """Add the Unix times of a page of one process: prometheus_client's creation times, and its start."""
    if metric.type == "gauge":
        if metric.name == "process_start_time_seconds":
            metric.add_sample(metric.name, {}, round(process_began, 2))
        return
    names = (f"{metric.name}_total", f"{metric.name}_count")
    for sample in [each for each in metric.samples if each.name in names]:
        metric.add_sample(f"{metric.name}_created", sample.labels, created)
