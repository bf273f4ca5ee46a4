"""Parser of the results of ``vllm bench forward``: every cost of an accepted file is finite."""

from __future__ import annotations

from math import inf
from typing import Final

from spec_decode_exporter.analysis.bench_cost import bench_costs
from spec_decode_exporter.config.bench_results import BenchResultsError, read_bench_results
from tests.fuzz.harness import Harness, file_of, sane

_WORDS: Final = (
    "case",
    "requests",
    "query_len",
    "kv_len",
    "num_draft_tokens",
    "median_us",
    "ranks",
    "timing_scope",
    "target_only",
    "target_and_drafter",
    "drafter",
    "draft-pass",
)


def check_bench(data: bytes) -> None:
    """Read a file, and calculate its costs by load."""
    try:
        times = read_bench_results(file_of(data, "bench.json"))
    except BenchResultsError as error:
        sane(error)
        return
    for method in ("eagle3", "ngram", ""):
        for cost in bench_costs(times, method):
            assert cost.running_requests >= 1
            for low, guess, high in (cost.token, cost.step):
                assert 0 <= low <= guess <= high < inf


BENCH = Harness(check_bench, _WORDS, json=True)
