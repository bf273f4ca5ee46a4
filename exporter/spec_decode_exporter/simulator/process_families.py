"""Metric families of the Python process, and vLLM's cache configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spec_decode_exporter.simulator.metric_family import FamilyKind, FamilySample, Labels, MetricFamily

if TYPE_CHECKING:
    from collections.abc import Sequence

_GENERATIONS: Final = ("0", "1", "2")
_PYTHON: Final = (
    ("implementation", "CPython"),
    ("major", "3"),
    ("minor", "12"),
    ("patchlevel", "11"),
    ("version", "3.12.11"),
)
_CPU_SHARE: Final = 0.12
_COLLECTIONS: Final = {"0": 0.8, "1": 0.07, "2": 0.004}
_COLLECTED: Final = {"0": 9.0, "1": 1.2, "2": 0.3}
_VIRTUAL_BYTES: Final = 31_876_431_872
_RESIDENT_BYTES: Final = 2_914_652_160
_OPEN_FILES: Final = 74
_MAX_FILES: Final = 1_048_576

_CACHE_BLOCK: Final = 16
_CACHE_CONFIG: Final = {
    "_block_size_resolved": "True", "cache_dtype": "auto", "cache_hit_alignment_tokens": "None",
    "enable_mamba_shared_prefix_checkpoint": "False", "enable_prefix_caching": "True",
    "gpu_memory_utilization": "0.92", "hash_block_size": "None", "is_attention_free": "False",
    "kv_cache_dtype_skip_layers": "[]", "kv_cache_layout": "None", "kv_cache_memory_bytes": "None",
    "kv_offloading_backend": "native", "kv_offloading_size": "None", "kv_sharing_fast_prefill": "False",
    "mamba_block_size": "None", "mamba_cache_dtype": "auto", "mamba_cache_mode": "none",
    "mamba_page_size_padded": "None", "mamba_ssm_cache_dtype": "auto", "num_cpu_blocks": "None",
    "num_gpu_blocks_override": "None", "prefix_cache_retention_interval": "0",
    "prefix_caching_hash_algo": "sha256", "prefix_match_unit": "None", "replayssm_buffer_len": "16",
    "skip_page_size_padded": "None", "sliding_window": "None", "swa_bounded_replay": "True",
    "use_kda_recoverssm": "False", "use_replayssm": "False", "user_specified_block_size": "False",
}  # fmt: skip


def process_families(started: float, age: float) -> Sequence[MetricFamily]:
    """Return prometheus_client's families about its process.

    Args:
        started: Unix time of the process's start.
        age: Seconds since then; the values are proportional to it.
    """
    return (
        _of_generations("python_gc_objects_collected", "Objects collected during gc", age, _COLLECTED),
        _of_generations("python_gc_objects_uncollectable", "Uncollectable objects found during GC", age, {}),
        _of_generations(
            "python_gc_collections", "Number of times this generation was collected", age, _COLLECTIONS
        ),
        _one("python_info", FamilyKind.GAUGE, "Python platform information", 1, _PYTHON),
        _one(
            "process_virtual_memory_bytes", FamilyKind.GAUGE, "Virtual memory size in bytes.", _VIRTUAL_BYTES
        ),
        _one(
            "process_resident_memory_bytes",
            FamilyKind.GAUGE,
            "Resident memory size in bytes.",
            _RESIDENT_BYTES,
        ),
        _one(
            "process_start_time_seconds",
            FamilyKind.GAUGE,
            "Start time of the process since unix epoch in seconds.",
            round(started, 2),
        ),
        _one(
            "process_cpu_seconds",
            FamilyKind.COUNTER,
            "Total user and system CPU time spent in seconds.",
            round(age * _CPU_SHARE, 2),
        ),
        _one("process_open_fds", FamilyKind.GAUGE, "Number of open file descriptors.", _OPEN_FILES),
        _one("process_max_fds", FamilyKind.GAUGE, "Maximum number of open file descriptors.", _MAX_FILES),
    )


def cache_config(model_len: int, kv_tokens: int, engines: int) -> MetricFamily:
    """Return vLLM's configuration of the KV cache: all values are labels, the sample is 1."""
    blocks = kv_tokens // _CACHE_BLOCK
    sizes = {
        "block_size": str(_CACHE_BLOCK),
        "effective_attention_block_size": str(_CACHE_BLOCK),
        "kv_cache_max_concurrency": str(kv_tokens / model_len),
        "kv_cache_size_tokens": str(kv_tokens),
        "num_gpu_blocks": str(blocks),
    }
    name = "vllm:cache_config_info"
    samples = [
        FamilySample(name, tuple(sorted({**_CACHE_CONFIG, **sizes, "engine": str(engine)}.items())), 1)
        for engine in range(engines)
    ]
    return MetricFamily(name, FamilyKind.GAUGE, "Information of the LLMEngine CacheConfig", samples)


def _one(name: str, kind: FamilyKind, text: str, value: float, labels: Labels = ()) -> MetricFamily:
    return MetricFamily(
        name,
        kind,
        text,
        [FamilySample(f"{name}_total" if kind is FamilyKind.COUNTER else name, labels, value)],
    )


def _of_generations(name: str, text: str, age: float, rates: dict[str, float]) -> MetricFamily:
    samples = [
        FamilySample(f"{name}_total", (("generation", generation),), int(age * rates.get(generation, 0)))
        for generation in _GENERATIONS
    ]
    return MetricFamily(name, FamilyKind.COUNTER, text, samples)
