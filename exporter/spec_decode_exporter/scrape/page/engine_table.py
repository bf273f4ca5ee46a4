"""Engine table: the series of each engine and version, and the quantities that they carry.

A new engine, or a new name of a series, is one row here. Names are *sample* names without the engine's
prefix. Several names in a row are the same quantity in different versions, newest first. The first name on a
page is read, so that a version with both names is not counted twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum, StrEnum, auto
from typing import Final


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


class Gauge(IntEnum):
    """Quantity that goes up and down. The value is its column among the gauges of a sample."""

    RUNNING_REQUESTS = 0
    WAITING_REQUESTS = 1
    KV_CACHE_USAGE = 2
    REPORTED_ACCEPTANCE_RATIO = 3
    REPORTED_ACCEPTANCE_LENGTH = 4


class Latency(StrEnum):
    """Histogram whose quantiles are exported. The value is its key in the API."""

    TIME_TO_FIRST_TOKEN = "time_to_first_token"  # noqa: S105 - a token of text
    TIME_PER_OUTPUT_TOKEN = "time_per_output_token"  # noqa: S105
    DECODE_STEP = "decode_step"
    END_TO_END = "end_to_end"
    QUEUE = "queue"


class TokenLengths(Enum):
    """Histogram of lengths in tokens. It is not exported: bounds depend on how much lengths differ."""

    ANSWERS = auto()
    """Generation tokens of each finished request."""


class EngineMark(Enum):
    """Series that describes the engine or its process."""

    CREATED = auto()
    """Unix time of the start of the engine's counters."""
    PROCESS_START = auto()
    """Unix time of the start of the server's process; without a prefix and without labels."""
    V0 = auto()
    """The engine is vLLM V0: its counters are sums of sums, its gauges are correct."""
    POSITION_ACCEPTED = auto()
    """Accepted tokens at each draft position; one series for each ``position``."""


Quantity = Counter | Gauge | Latency | TokenLengths | EngineMark


@dataclass(frozen=True, slots=True)
class Series:
    """Row of the table: a quantity and its sample names, newest first."""

    quantity: Quantity
    names: tuple[str, ...]
    lazy: bool = False
    """Some front ends create the series with the first draft: it may be absent at first."""


@dataclass(frozen=True, slots=True)
class EngineKind:
    """Serving engine: the prefixes of its names, and the series that are read."""

    name: str
    prefixes: tuple[str, ...]
    series: tuple[Series, ...]


MODEL_LABEL: Final = "model_name"
ENGINE_LABELS: Final = ("engine", "dp_rank")
"""Labels with the number of the data-parallel engine; the first one on a series counts."""
RANK_LABELS: Final = ("pp_rank", "tp_rank", "moe_ep_rank")
"""Labels of parallel workers; each worker repeats its engine's series."""

PROCESS_START = Series(EngineMark.PROCESS_START, ("process_start_time_seconds",))

_SPECULATION = (
    Series(Counter.DRAFTS, ("spec_decode_num_drafts_total",), lazy=True),
    Series(Counter.DRAFT_TOKENS, ("spec_decode_num_draft_tokens_total",), lazy=True),
    Series(Counter.ACCEPTED_TOKENS, ("spec_decode_num_accepted_tokens_total",), lazy=True),
    Series(EngineMark.POSITION_ACCEPTED, ("spec_decode_num_accepted_tokens_per_pos_total",), lazy=True),
)

ENGINES = (
    EngineKind(
        "vllm",
        # vLLM itself, OTLP and Datadog pipelines, new Ray, old Ray.
        ("vllm:", "vllm_", "ray_vllm_", "ray_vllm:"),
        (
            *_SPECULATION,
            Series(Counter.GENERATION_TOKENS, ("generation_tokens_total",)),
            Series(Counter.FIRST_TOKENS, ("time_to_first_token_seconds_count",)),
            Series(Counter.FIRST_TOKEN_NANOSECONDS, ("time_to_first_token_seconds_sum",)),
            # One observation a decode step, whatever its number of tokens; until 0.10 under the second name.
            Series(
                Counter.DECODE_STEPS,
                ("inter_token_latency_seconds_count", "time_per_output_token_seconds_count"),
            ),
            Series(
                Counter.DECODE_NANOSECONDS,
                ("inter_token_latency_seconds_sum", "time_per_output_token_seconds_sum"),
            ),
            Series(Counter.PREEMPTIONS, ("num_preemptions_total",)),
            Series(
                Counter.PREFIX_CACHE_QUERIES,
                ("prefix_cache_queries_total", "gpu_prefix_cache_queries_total"),
            ),
            Series(Counter.PREFIX_CACHE_HITS, ("prefix_cache_hits_total", "gpu_prefix_cache_hits_total")),
            Series(Counter.PROMPT_TOKENS, ("prompt_tokens_total",)),
            Series(Counter.FINISHED_REQUESTS, ("e2e_request_latency_seconds_count",)),
            Series(Counter.END_TO_END_NANOSECONDS, ("e2e_request_latency_seconds_sum",)),
            Series(Gauge.RUNNING_REQUESTS, ("num_requests_running",)),
            Series(Gauge.WAITING_REQUESTS, ("num_requests_waiting",)),
            Series(Gauge.KV_CACHE_USAGE, ("kv_cache_usage_perc", "gpu_cache_usage_perc")),
            Series(Gauge.REPORTED_ACCEPTANCE_RATIO, ("spec_decode_draft_acceptance_rate",)),
            Series(EngineMark.V0, ("spec_decode_num_emitted_tokens_total", "spec_decode_efficiency")),
            Series(EngineMark.CREATED, ("spec_decode_num_drafts_created", "generation_tokens_created")),
            Series(Latency.TIME_TO_FIRST_TOKEN, ("time_to_first_token_seconds_bucket",)),
            Series(Latency.TIME_PER_OUTPUT_TOKEN, ("request_time_per_output_token_seconds_bucket",)),
            Series(
                Latency.DECODE_STEP,
                ("inter_token_latency_seconds_bucket", "time_per_output_token_seconds_bucket"),
            ),
            Series(Latency.END_TO_END, ("e2e_request_latency_seconds_bucket",)),
            Series(Latency.QUEUE, ("request_queue_time_seconds_bucket",)),
            Series(TokenLengths.ANSWERS, ("request_generation_tokens_bucket",)),
        ),
    ),
    EngineKind(
        "lmdeploy",
        ("lmdeploy:",),
        (
            *_SPECULATION,
            Series(Counter.GENERATION_TOKENS, ("generation_tokens_total",)),
            Series(Counter.PROMPT_TOKENS, ("prompt_tokens_total",)),
            Series(Counter.FIRST_TOKENS, ("time_to_first_token_seconds_count",)),
            Series(Counter.FIRST_TOKEN_NANOSECONDS, ("time_to_first_token_seconds_sum",)),
            Series(Counter.FINISHED_REQUESTS, ("e2e_request_latency_seconds_count",)),
            Series(Counter.END_TO_END_NANOSECONDS, ("e2e_request_latency_seconds_sum",)),
            Series(Gauge.RUNNING_REQUESTS, ("num_requests_running",)),
            Series(Gauge.WAITING_REQUESTS, ("num_requests_waiting",)),
            Series(Gauge.KV_CACHE_USAGE, ("gpu_cache_usage_perc",)),
            Series(Latency.TIME_TO_FIRST_TOKEN, ("time_to_first_token_seconds_bucket",)),
            Series(Latency.END_TO_END, ("e2e_request_latency_seconds_bucket",)),
        ),
    ),
    EngineKind(
        "llamacpp",
        ("llamacpp:",),
        (
            *_SPECULATION,
            Series(Counter.GENERATION_TOKENS, ("tokens_predicted_total",)),
            Series(Gauge.RUNNING_REQUESTS, ("requests_processing",)),
            Series(Gauge.WAITING_REQUESTS, ("requests_deferred",)),
            Series(Gauge.KV_CACHE_USAGE, ("kv_cache_usage_ratio",)),
        ),
    ),
    EngineKind(
        "sglang",
        ("sglang:",),
        (
            Series(Counter.GENERATION_TOKENS, ("generation_tokens_total",)),
            Series(Counter.FIRST_TOKENS, ("time_to_first_token_seconds_count",)),
            Series(Counter.FIRST_TOKEN_NANOSECONDS, ("time_to_first_token_seconds_sum",)),
            Series(Gauge.RUNNING_REQUESTS, ("num_running_reqs",)),
            Series(Gauge.WAITING_REQUESTS, ("num_queue_reqs",)),
            Series(Gauge.KV_CACHE_USAGE, ("token_usage",)),
            Series(Gauge.REPORTED_ACCEPTANCE_RATIO, ("spec_accept_rate",)),
            Series(Gauge.REPORTED_ACCEPTANCE_LENGTH, ("spec_accept_length",)),
        ),
    ),
)


@dataclass(frozen=True, slots=True)
class Meaning:
    """Meaning of a sample name: its engine, prefix and row, and the age of the name."""

    kind: EngineKind | None
    prefix: str
    series: Series
    rank: int
    """0 for the newest name of the row; the lowest rank on a page is read."""

    @property
    def quantity(self) -> Quantity:
        """The row's quantity. Compare types too: the first counter equals the first gauge."""
        return self.series.quantity


def _meanings() -> dict[bytes, Meaning]:
    table = {PROCESS_START.names[0].encode(): Meaning(None, "", PROCESS_START, 0)}
    for kind in ENGINES:
        for prefix in kind.prefixes:
            for series in kind.series:
                for rank, name in enumerate(series.names):
                    table[f"{prefix}{name}".encode()] = Meaning(kind, prefix, series, rank)
    return table


MEANINGS = _meanings()
"""All sample names that are read, of all engines."""

BUCKET_NAMES = frozenset(
    name for name, meaning in MEANINGS.items() if isinstance(meaning.quantity, Latency | TokenLengths)
)
"""Names of histograms. They are most of a page's cost, so they are read less often."""
