"""The same work done by the exporter and by Prometheus with recording rules: CPU and memory.

    python -m benchmarks.same_job [--targets 1000] [--seconds 60] [--warm-up 330] [--smoke]

All of them read the same targets once a second, and every 15 s they have the same figures of each over 30 s
and over 5 min: acceptance rate, length and positions, draft length, coverage, tokens of a step, step time,
time per output token, four rates and two means of gauges. Prometheus computes them by 28 recording rules.
The exporter, which another Prometheus scrapes every 15 s, gives bounds, costs, verdicts and drops besides.

Each alone polls the targets, Prometheus with the filtered page and with the whole one. Ends with status 1 if
a goal is missed. The windows are full after 5 minutes. Needs `prometheus`.
"""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from typing import NamedTuple

from benchmarks.options import end, parsed, parser
from benchmarks.page_server import PageServer
from benchmarks.poll_cpu import EVERY, exporter, prometheus, scrape_job
from benchmarks.process import cpu_seconds, free_port, require, resident_megabytes, running, wait_until_ready

WINDOWS = ("30s", "5m")
CPU_GOALS = {"filtered": 1.0, "whole": 0.3}
"""Most of the CPU that Prometheus takes, by the page that it scrapes."""
MEMORY_GOAL = 0.5
"""Most of its memory."""

_ACCEPTED = "vllm:spec_decode_num_accepted_tokens_total"
_POSITIONS = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
_DRAFTS = "vllm:spec_decode_num_drafts_total"
_DRAFT_TOKENS = "vllm:spec_decode_num_draft_tokens_total"
_GENERATED = "vllm:generation_tokens_total"
_FIRST = "vllm:time_to_first_token_seconds_count"
_STEPS = "vllm:inter_token_latency_seconds_count"
_STEP_SECONDS = "vllm:inter_token_latency_seconds_sum"
_GAUGES = ("vllm:num_requests_running", "vllm:kv_cache_usage_perc")


class Cost(NamedTuple):
    """CPU-seconds a second and MB of one program."""

    cpu: float
    resident: float


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--targets", type=int, default=1000)
    options.add_argument("--seconds", type=float, default=60.0)
    options.add_argument("--warm-up", type=float, default=330.0, help="seconds before the figures")
    arguments = parsed(options, targets=2, seconds=1.0, warm_up=2.0)
    require("prometheus")
    programs: dict[str, Callable[[int], AbstractContextManager[int]]] = {
        "spec-decode-exporter, filtered page": partial(_exporter, arguments.targets),
        "Prometheus, filtered page": partial(_prometheus, arguments.targets, "filtered"),
        "Prometheus, whole page": partial(_prometheus, arguments.targets, "whole"),
    }
    print("| | CPU-s a second | MB |\n|---|--:|--:|")
    costs = {}
    for name, start in programs.items():
        costs[name] = measure(start, arguments)
        print(f"| {name} | {costs[name].cpu:.3f} | {costs[name].resident:.0f} |", flush=True)
    if not arguments.smoke:
        ours, *_ = costs.values()
        end(arguments, list(_missed(ours, costs)))


def measure(start: Callable[[int], AbstractContextManager[int]], arguments: Namespace) -> Cost:
    """Run a program beside the targets, and return its cost after the warm-up."""
    with ExitStack() as stack:
        server = stack.enter_context(PageServer())
        pid = stack.enter_context(start(server.port))
        time.sleep(arguments.warm_up)
        pages, cpu = sum(server.served().values()), cpu_seconds(pid)
        time.sleep(arguments.seconds)
        cpu, pages = cpu_seconds(pid) - cpu, sum(server.served().values()) - pages
        if pages < 0.95 * arguments.targets * arguments.seconds and not arguments.smoke:
            raise RuntimeError(f"{pages} pages in {arguments.seconds:g} s: it did not keep up")
        return Cost(cpu / arguments.seconds, resident_megabytes(pid))


def _missed(ours: Cost, costs: dict[str, Cost]) -> Iterator[str]:
    print()
    for page, goal in CPU_GOALS.items():
        theirs = costs[f"Prometheus, {page} page"]
        cpu, memory = ours.cpu / theirs.cpu, ours.resident / theirs.resident
        print(f"Of Prometheus with the {page} page: {cpu:.2f} of its CPU, {memory:.2f} of its memory.")
        if cpu > goal:
            yield f"CPU with the {page} page: {cpu:.2f}, the goal is {goal}"
        if memory > MEMORY_GOAL:
            yield f"memory with the {page} page: {memory:.2f}, the goal is {MEMORY_GOAL}"


@contextmanager
def _exporter(targets: int, port: int) -> Iterator[int]:
    own = free_port()
    with exporter(port, targets, "filtered", own) as command, running(*command) as pid:
        wait_until_ready(own)
        own_target = [{"targets": [f"127.0.0.1:{own}"]}]
        job = {"job_name": "exporter", "scrape_interval": f"{EVERY}s", "static_configs": own_target}
        with prometheus(job):
            yield pid


def _prometheus(targets: int, page: str, port: int) -> AbstractContextManager[int]:
    return prometheus(scrape_job(port, targets, page), recording_rules())


def recording_rules() -> list[dict[str, str]]:
    return [
        {"record": f"target:{name}:{window}", "expr": expression}
        for window in WINDOWS
        for name, expression in _expressions(window).items()
    ]


def _expressions(window: str) -> dict[str, str]:

    def rate(series: str) -> str:
        return f"rate({series}[{window}])"

    decoded = f"({rate(_GENERATED)} - {rate(_FIRST)})"
    return {
        "acceptance": f"{rate(_ACCEPTED)} / {rate(_DRAFT_TOKENS)}",
        "length": f"1 + {rate(_ACCEPTED)} / {rate(_DRAFTS)}",
        "positions": f"{rate(_POSITIONS)} / ignoring (position) group_left () {rate(_DRAFTS)}",
        "draft_length": f"{rate(_DRAFT_TOKENS)} / {rate(_DRAFTS)}",
        "coverage": f"{rate(_DRAFTS)} / {rate(_STEPS)}",
        "tokens_per_step": f"{decoded} / {rate(_STEPS)}",
        "step_seconds": f"{rate(_STEP_SECONDS)} / {rate(_STEPS)}",
        "time_per_token": f"{rate(_STEP_SECONDS)} / {decoded}",
        "drafts_per_second": rate(_DRAFTS),
        "draft_tokens_per_second": rate(_DRAFT_TOKENS),
        "accepted_per_second": rate(_ACCEPTED),
        "generated_per_second": rate(_GENERATED),
        "running": f"avg_over_time({_GAUGES[0]}[{window}])",
        "cache_usage": f"avg_over_time({_GAUGES[1]}[{window}])",
    }


if __name__ == "__main__":
    main()
