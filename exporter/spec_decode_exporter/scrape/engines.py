"""Engine table: the series of each engine and version, and the quantities that they carry.

A new engine, or a new name of a series, is one row here. Names are *sample* names without the engine's
prefix. Several names in a row are the same quantity in different versions, newest first. Of those on a page
the newest is read, so that a version with both names is not counted twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, IntEnum, StrEnum, auto
from typing import Final, NamedTuple


class Counter(IntEnum):
    """Monotonic quantity of a server process. The value is its column in a row of totals."""

    DRAFTS = 0
    DRAFT_TOKENS = 1
    ACCEPTED_TOKENS = 2
    GENERATION_TOKENS = 3
    FIRST_TOKENS = 4
    DECODE_STEPS = 5
    DECODE_NANOSECONDS = 6
    PREEMPTIONS = 7
    PREFIX_CACHE_QUERIES = 8
    PREFIX_CACHE_HITS = 9
    PROMPT_TOKENS = 10
    FINISHED_REQUESTS = 11
    END_TO_END_NANOSECONDS = 12
    FIRST_TOKEN_NANOSECONDS = 13


class Gauge(StrEnum):
    """Quantity that goes up and down. No IntEnum: the first gauge would equal the first counter."""

    RUNNING_REQUESTS = auto()
    WAITING_REQUESTS = auto()
    KV_CACHE_USAGE = auto()
    REPORTED_ACCEPTANCE_RATIO = auto()
    REPORTED_ACCEPTANCE_LENGTH = auto()
    DRAFT_STEPS = auto()  # K in force, of an engine that counts verifications instead of draft tokens
    VERIFIED_TOKENS = auto()  # tokens of such a verification: K + 1, or those of a tree
    CAP_LENGTH = auto()  # mean tokens of such a verification where the engine caps it; 0 without a cap


class Latency(StrEnum):
    """Histogram whose quantiles are exported. The value is its key in the API."""

    TIME_TO_FIRST_TOKEN = "time_to_first_token"  # noqa: S105 - a token of text
    TIME_PER_OUTPUT_TOKEN = "time_per_output_token"  # noqa: S105
    DECODE_STEP = "decode_step"
    END_TO_END = "end_to_end"
    QUEUE = "queue"


class EngineMark(Enum):
    """Series that describes the engine or its process, or that is not exported itself."""

    CREATED = auto()  # Unix time of the start of the engine's counters
    PROCESS_START = auto()  # Unix time of the start of the server's process; without a prefix or labels
    V0 = auto()  # the engine is vLLM V0: its counters are sums of sums, its gauges are correct
    POSITION_ACCEPTED = auto()  # accepted tokens at each draft position, one series for each ``position``
    POSITION_DRAFTED = auto()  # draft tokens at each position: its first one counts the drafts
    SPECULATION = auto()  # labels with the method and K
    VERIFIED = (
        auto()
    )  # draft tokens that were verified, of an engine that chooses them (vLLM pull request 58340)
    KV_CACHE = auto()  # labels with the number of KV-cache blocks, their size, and the type of the values
    ANSWER_LENGTHS = auto()
    """Histogram of the generation tokens of each finished request: bounds depend on how they differ."""


Quantity = Counter | Gauge | Latency | EngineMark


class Absence(Enum):
    """Evidence on a page that an engine does not speculate."""

    NO_COUNTERS = auto()  # no counters of drafts, and one token a decode step
    ZERO = auto()  # its counters of drafts, which it always has, stay at 0 while it decodes
    NO_STEPS = auto()  # its gauge of draft steps is 0
    NOTHING = auto()  # no page shows it


DRAFTS: Final = (Counter.DRAFTS, EngineMark.POSITION_DRAFTED)  # an engine has one of them
HISTOGRAMS: Final[frozenset[Quantity]] = frozenset({*Latency, EngineMark.ANSWER_LENGTHS})
"""Quantities whose buckets are read. They are most of a page's cost, so they are read less often."""
INFOS: Final = frozenset({EngineMark.SPECULATION, EngineMark.KV_CACHE})  # labels that are settings
MODEL_LABEL: Final = "model_name"
SERVER_LABEL: Final = "server"  # label of production-stack's router: the server that a series is about
ENGINE_LABELS: Final = ("engine", "dp_rank")
"""Labels with the number of the data-parallel engine; the first one on a series counts."""
REPLICA_LABELS: Final = ("ReplicaId", "stage", "replica", "worker_addr", "WorkerId")
"""Labels of replicas or stages: Ray (``WorkerId`` without ``ReplicaId``), vLLM-Omni, sglang-router."""
RANK_LABELS: Final = ("pp_rank", "tp_rank", "moe_ep_rank")  # each worker repeats its engine's series
POSITION_LABELS: Final = ("position", "token_position")
PROCESS_START: Final = "process_start_time_seconds"

SPECULATION: Final[dict[Quantity, str]] = {
    Counter.DRAFTS: "spec_decode_num_drafts_total",
    Counter.DRAFT_TOKENS: "spec_decode_num_draft_tokens_total",
    Counter.ACCEPTED_TOKENS: "spec_decode_num_accepted_tokens_total",
    EngineMark.POSITION_ACCEPTED: "spec_decode_num_accepted_tokens_per_pos_total",
}
"""Rows that several engines share. Some front ends create them with the first draft: absent until then."""
_REQUESTS: Final[dict[Quantity, str]] = {
    Counter.GENERATION_TOKENS: "generation_tokens_total",
    Counter.PROMPT_TOKENS: "prompt_tokens_total",
    Counter.FIRST_TOKENS: "time_to_first_token_seconds_count",
    Counter.FIRST_TOKEN_NANOSECONDS: "time_to_first_token_seconds_sum",
    Counter.FINISHED_REQUESTS: "e2e_request_latency_seconds_count",
    Counter.END_TO_END_NANOSECONDS: "e2e_request_latency_seconds_sum",
    Latency.TIME_TO_FIRST_TOKEN: "time_to_first_token_seconds_bucket",
    Gauge.RUNNING_REQUESTS: "num_requests_running",
    Gauge.WAITING_REQUESTS: "num_requests_waiting",
    Latency.END_TO_END: "e2e_request_latency_seconds_bucket",
}
"""vLLM's names, which others took over; a row of an engine replaces the shared one."""
_COMMON: Final = SPECULATION | _REQUESTS
_VLLM: Final[dict[Quantity, str]] = _COMMON | {
    # One observation a decode step, whatever its number of tokens; until 0.10 under the second name.
    Counter.DECODE_STEPS: "inter_token_latency_seconds_count time_per_output_token_seconds_count",
    Counter.DECODE_NANOSECONDS: "inter_token_latency_seconds_sum time_per_output_token_seconds_sum",
    Counter.PREEMPTIONS: "num_preemptions_total",
    Counter.PREFIX_CACHE_QUERIES: "prefix_cache_queries_total gpu_prefix_cache_queries_total",
    Counter.PREFIX_CACHE_HITS: "prefix_cache_hits_total gpu_prefix_cache_hits_total",
    Gauge.KV_CACHE_USAGE: "kv_cache_usage_perc gpu_cache_usage_perc",
    EngineMark.VERIFIED: "spec_decode_num_verified_draft_tokens_total",
    Gauge.REPORTED_ACCEPTANCE_RATIO: "spec_decode_draft_acceptance_rate",
    EngineMark.V0: "spec_decode_num_emitted_tokens_total spec_decode_efficiency",
    EngineMark.KV_CACHE: "cache_config_info",
    EngineMark.CREATED: "spec_decode_num_drafts_created generation_tokens_created",
    Latency.TIME_PER_OUTPUT_TOKEN: "request_time_per_output_token_seconds_bucket",
    Latency.DECODE_STEP: "inter_token_latency_seconds_bucket time_per_output_token_seconds_bucket",
    Latency.QUEUE: "request_queue_time_seconds_bucket",
    EngineMark.ANSWER_LENGTHS: "request_generation_tokens_bucket",
}
_LMDEPLOY: Final[dict[Quantity, str]] = _COMMON | {
    # One observation a decode step, in seconds.
    Counter.DECODE_STEPS: "iter_token_latency_count",
    Counter.DECODE_NANOSECONDS: "iter_token_latency_sum",
    Counter.PREFIX_CACHE_HITS: "cached_tokens_total",
    Gauge.KV_CACHE_USAGE: "gpu_cache_usage_perc",
    Latency.DECODE_STEP: "iter_token_latency_bucket",
    Latency.QUEUE: "request_queue_time_seconds_bucket",
    EngineMark.ANSWER_LENGTHS: "request_generation_tokens_bucket",
}
_LLAMACPP: Final[dict[Quantity, str]] = SPECULATION | {
    # All of a request, its first token included, are counted when it ends.
    Counter.GENERATION_TOKENS: "tokens_predicted_total",
    Counter.DECODE_NANOSECONDS: "tokens_predicted_seconds_total",
    # Those that were computed; the cached ones are counted apart.
    Counter.PROMPT_TOKENS: "prompt_tokens_total",
    Counter.PREFIX_CACHE_HITS: "prompt_tokens_cached_total",
    Counter.FIRST_TOKEN_NANOSECONDS: "prompt_seconds_total",
    Gauge.RUNNING_REQUESTS: "requests_processing",
    Gauge.WAITING_REQUESTS: "requests_deferred",
    Gauge.KV_CACHE_USAGE: "kv_cache_usage_ratio",
}
_SGLANG: Final[dict[Quantity, str]] = _REQUESTS | {
    # One draft each. Those of a request are counted when it ends, and so are its tokens and the request.
    Counter.DRAFTS: "spec_verify_calls_total",
    Counter.FIRST_TOKENS: "num_requests_total",
    Counter.PREEMPTIONS: "num_retracted_requests_total",
    Counter.PREFIX_CACHE_HITS: "cached_tokens_total",
    Gauge.RUNNING_REQUESTS: "num_running_reqs",
    Gauge.WAITING_REQUESTS: "num_queue_reqs",
    Gauge.KV_CACHE_USAGE: "token_usage",
    Gauge.REPORTED_ACCEPTANCE_RATIO: "spec_accept_rate",
    Gauge.REPORTED_ACCEPTANCE_LENGTH: "spec_accept_length",
    Gauge.DRAFT_STEPS: "spec_num_steps",
    Gauge.VERIFIED_TOKENS: "spec_num_draft_tokens",
    Gauge.CAP_LENGTH: "spec_cap_length",
    # Not inter_token_latency_seconds: it lacks most tokens of requests that do not stream, and is per token.
    Latency.TIME_PER_OUTPUT_TOKEN: "request_time_per_output_token_seconds_bucket",
    Latency.QUEUE: "queue_time_seconds_bucket",
    EngineMark.ANSWER_LENGTHS: "generation_tokens_histogram_bucket",
}
_TRTLLM: Final[dict[Quantity, str]] = _REQUESTS | {
    # Of iterations, ahead of all others, without a number of drafts: read where there are none by position.
    Counter.DRAFT_TOKENS: SPECULATION[Counter.DRAFT_TOKENS],
    Counter.ACCEPTED_TOKENS: SPECULATION[Counter.ACCEPTED_TOKENS],
    Gauge.REPORTED_ACCEPTANCE_LENGTH: "spec_decode_acceptance_length",
    EngineMark.POSITION_DRAFTED: "spec_decode_drafted_tokens_total",
    EngineMark.POSITION_ACCEPTED: "spec_decode_accepted_tokens_total",
    Counter.DECODE_NANOSECONDS: "request_decode_time_seconds_sum",
    Counter.PREFIX_CACHE_HITS: "prompt_cached_tokens_total",
    Gauge.KV_CACHE_USAGE: "kv_cache_utilization",
    EngineMark.SPECULATION: "speculative_config_info",
    Latency.TIME_PER_OUTPUT_TOKEN: "time_per_output_token_seconds_bucket",
    Latency.QUEUE: "request_queue_time_seconds_bucket",
}


@dataclass(frozen=True, slots=True, eq=False)
class EngineKind:
    """Serving engine: its names, the prefixes of its sample names, and the series that are read."""

    name: str  # value of the label `engine_kind`
    title: str  # name in documents
    prefixes: tuple[str, ...]
    names: Mapping[Quantity, tuple[str, ...]]  # sample names of each quantity without a prefix, newest first
    tokens_setting: str  # name of the setting of K
    to_speculate: str  # what switches speculation on
    absence: Absence  # evidence that an engine of this kind does not speculate
    counts_at_end: bool = (
        False  # the drafts and tokens of a request are counted when it ends, not with each step
    )
    digits: int = 0  # significant digits of the counters; 0: all of them


def _series(rows: Mapping[Quantity, str]) -> dict[Quantity, tuple[str, ...]]:
    return {quantity: tuple(text.split()) for quantity, text in rows.items()}


_PREFIXES: Final = ("vllm:", "vllm_", "ray_vllm_", "ray_vllm:", "aphrodite:", "kserve_vllm:")
"""Prefixes of vLLM itself, of OTLP and Datadog pipelines, new Ray, old Ray, aphrodite-engine and KServe."""
_DRAFT_TOKENS: Final = "--speculative-num-draft-tokens"
ENGINES: Final = (
    EngineKind("vllm", "vLLM", _PREFIXES, _series(_VLLM), "num_speculative_tokens", "start vLLM with `--speculative-config`", Absence.NO_COUNTERS),
    EngineKind("lmdeploy", "LMDeploy", ("lmdeploy:",), _series(_LMDEPLOY), _DRAFT_TOKENS, "start LMDeploy with `--speculative-algorithm`", Absence.NO_COUNTERS),
    EngineKind("llamacpp", "llama.cpp", ("llamacpp:",), _series(_LLAMACPP), "--spec-draft-n-max", "start llama.cpp's server with `--model-draft`", Absence.ZERO, counts_at_end=True, digits=6),  # numbers of C++ streams
    EngineKind("sglang", "SGLang", ("sglang:",), _series(_SGLANG), "--speculative-num-steps", "start SGLang with `--speculative-algorithm`", Absence.NO_STEPS, counts_at_end=True),
    EngineKind("tensorrt_llm", "TensorRT-LLM", ("trtllm_",), _series(_TRTLLM), "max_draft_len", "set TensorRT-LLM's options `speculative_config` and `return_perf_metrics: true`", Absence.NOTHING, counts_at_end=True),
)  # fmt: skip
_SETTINGS: Final = {kind.name: kind.tokens_setting for kind in ENGINES} | {
    "ngram-simple": "--spec-ngram-simple-size-m",
    "ngram-map-k": "--spec-ngram-map-k-size-m",
    "ngram-map-k4v": "--spec-ngram-map-k4v-size-m",
    "ngram-mod": "--spec-ngram-mod-n-max",
}


def tokens_setting(kind: str, method: str) -> str:
    """Return the setting of K of a kind, and of a method of llama.cpp's; vLLM's if the kind is unknown."""
    return _SETTINGS.get(method) or _SETTINGS[kind or "vllm"]


KIND_NAMES: Final = ", ".join(f"`{kind.name}`" for kind in ENGINES)  # names of all kinds, for documents


class Meaning(NamedTuple):
    """Meaning of a sample name."""

    kind: EngineKind | None  # None for the process' start
    prefix: str
    quantity: Quantity
    age: int  # 0 for the newest name of the row; the lowest age on a page is read


def _meanings() -> dict[bytes, Meaning]:
    table = {PROCESS_START.encode(): Meaning(None, "", EngineMark.PROCESS_START, 0)}
    for kind in ENGINES:
        for prefix in kind.prefixes:
            for quantity, names in kind.names.items():
                for age, name in enumerate(names):
                    table[f"{prefix}{name}".encode()] = Meaning(kind, prefix, quantity, age)
    return table


MEANINGS: Final = _meanings()  # all sample names that are read, of all engines
PLAIN_NAMES: Final = frozenset(name for name, each in MEANINGS.items() if each.quantity not in HISTOGRAMS)
"""Those without the buckets of histograms."""
