"""The recording rules: ratios of sums, never means of ratios, by the rate of the exporter's counters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from config.prometheus.generate.rule import File, Recording, once_each
from config.prometheus.generate.settings import Settings

COUNTERS: Final = {
    name: f"spec_decode_{name}_total"
    for name in (
        "drafts",
        "draft_tokens",
        "accepted_tokens",
        "generation_tokens",
        "first_tokens",
        "decode_steps",
        "decode_seconds",
    )
}
"""What is added up over engines: the name in a rule, and the counter."""

RAW_COUNTERS: Final = {
    "drafts": "vllm:spec_decode_num_drafts_total",
    "draft_tokens": "vllm:spec_decode_num_draft_tokens_total",
    "accepted_tokens": "vllm:spec_decode_num_accepted_tokens_total",
    "generation_tokens": "vllm:generation_tokens_total",
    "first_tokens": "vllm:time_to_first_token_seconds_count",
    "decode_steps": "vllm:inter_token_latency_seconds_count",
    "decode_seconds": "vllm:inter_token_latency_seconds_sum",
}
"""The same of vLLM's own page."""

RATIOS: Final = {
    "draft_acceptance": "{accepted_tokens} / ({draft_tokens} > 0)",
    "acceptance_length": "1 + {accepted_tokens} / ({drafts} > 0)",
    "draft_length": "{draft_tokens} / ({drafts} > 0)",
    "coverage": "{stepped_drafts} / ({decode_steps} > 0)",
    "effective_tokens_per_step": "{stepped_tokens} / ({decode_steps} > 0)",
    "step_seconds": "{decode_seconds} / ({decode_steps} > 0)",
    "time_per_output_token_seconds": "{decode_seconds} / ({stepped_tokens} > 0)",
}
"""What is made of the sums, as docs/explanation/semantics.md says."""

STEPPED: Final = {
    "stepped_tokens": "({generation_tokens} - {first_tokens}) and {decode_steps} > 0",
    "stepped_drafts": "{drafts} and {decode_steps} > 0",
}
"""What is divided by steps: the tokens that steps gave, and drafts, of the engines whose steps are known.

LMDeploy and llama.cpp do not count steps; added up with vLLM's, their tokens would seem to need none.
"""

# Labels that only one side has do not stand in the way of a match where they are ignored.
_INFO: Final = (
    "ignoring (le, position, method, method_source, draft_model) group_left (method) spec_decode_engine_info"
)


@dataclass(frozen=True, slots=True)
class Level:
    """By what engines are added up."""

    name: str
    labels: tuple[str, ...]
    only: str = ""
    """A matcher of the engines that it is about."""
    join: str = ""
    """What gives a series the labels that it lacks."""

    def matched(self, metric: str) -> str:
        """Return the selector of a metric."""
        return f"{metric}{{{self.only}}}" if self.only else metric

    def joined(self, series: str) -> str:
        """Return an expression with the labels that ``join`` gives."""
        return f"{series} * {self.join}" if self.join else series

    def rate(self, counter: str, length: str) -> str:
        """Return the rate of a counter of each engine."""
        return self.joined(f"rate({self.matched(counter)}[{length}])")

    def sum(self, series: str, *labels: str) -> str:
        """Return an expression about engines, added up; ``labels`` stay besides the level's own."""
        return f"sum by ({', '.join((*self.labels, *labels))}) ({self.joined(series)})"

    def total(self, counter: str, length: str, *labels: str) -> str:
        """Return the rate of a counter, added up; ``labels`` stay besides the level's own."""
        return self.sum(f"rate({self.matched(counter)}[{length}])", *labels)


def levels(settings: Settings) -> tuple[Level, ...]:
    """Return the levels at which everything is known."""
    workload, arm = settings.workload, settings.arm
    return (
        Level("fleet", settings.scope[:1]),
        Level("model", settings.model),
        Level("method", (*settings.model, "method"), join=_INFO),
        Level("workload", (*settings.model, workload), only=f'{workload}!=""'),
        Level("arm", settings.arms, only=f'{arm}!=""'),
    )


def files(settings: Settings) -> tuple[File, ...]:
    """Return the files of recording rules."""
    return (
        File(
            "aggregates",
            "Ratios of sums over engines: of the fleet, and by model, method, workload and arm.\n"
            "For dashboards, and for asking about more than one engine.",
            {f"spec-decode-{level.name}": tuple(_aggregates(level)) for level in levels(settings)},
        ),
        File(
            "peers",
            "Engines beside others that should behave alike, and today beside yesterday. Alerts need them.",
            {"spec-decode-peers": tuple(_peers(settings))},
        ),
        File(
            "arms",
            "The arms of a comparison beside their baseline, pod against pod. An alert needs them.",
            {"spec-decode-arms": tuple(_arms(settings))},
        ),
        File(
            "server",
            "Tail latency, and how requests end. For alerts; the latter where Prometheus scrapes vLLM too.",
            {"spec-decode-server-rules": _SERVER},
        ),
        File("raw-counters", _RAW_ABOUT, {"spec-decode-raw": tuple(_raw(settings))}),
    )


def _aggregates(level: Level) -> Iterator[Recording]:
    yield from _sums(level, "5m", COUNTERS, "spec_decode")
    yield from _ratios(level, "5m", "spec_decode", RATIOS)
    yield _positions(level)
    for name, quantile in (("p10", 0.1), ("p50", 0.5), ("p90", 0.9)):
        buckets = level.total("spec_decode_poll_acceptance_ratio_bucket", "5m", "le")
        # The comparison leaves out NaN, the quantile of nothing.
        yield Recording(
            f"{level.name}:spec_decode_poll_acceptance:{name}_rate5m",
            f"histogram_quantile({quantile}, {buckets}) >= 0",
        )


def _sums(level: Level, length: str, counters: dict[str, str], prefix: str) -> Iterator[Recording]:
    for name, counter in counters.items():
        yield Recording(f"{level.name}:{prefix}_{name}:rate{length}", level.total(counter, length))
    rates = {name: f"rate({level.matched(counter)}[{length}])" for name, counter in counters.items()}
    for name, formula in STEPPED.items():
        yield Recording(
            f"{level.name}:{prefix}_{name}:rate{length}", level.sum(f"({formula.format(**rates)})")
        )


def _ratios(level: Level, length: str, prefix: str, ratios: dict[str, str]) -> Iterator[Recording]:
    sums = {name: f"{level.name}:{prefix}_{name}:rate{length}" for name in (*COUNTERS, *STEPPED)}
    for name, formula in ratios.items():
        yield Recording(f"{level.name}:{prefix}_{name}:ratio_rate{length}", formula.format(**sums))


def _positions(level: Level) -> Recording:
    """Divide each position by the drafts of the engines that have it: those of one model may differ in K.

    Counters of positions that an engine drafts no more stand still and stay; its windows have those of now.
    """
    counters = ("spec_decode_position_accepted_tokens_total", COUNTERS["drafts"])
    accepted, drafts = (f"rate({level.matched(name)}[5m])" for name in counters)
    present = f'spec_decode_position_acceptance_ratio{{{level.only and f"{level.only}, "}window="@long"}}'
    now = f"({accepted} and ignoring (window) last_over_time({present}[2m]))"
    at_position = f"({now} * 0 + ignoring (position) group_left () {drafts})"
    return Recording(
        f"{level.name}:spec_decode_position_acceptance:ratio_rate5m",
        f"{level.sum(now, 'position')}\n/ ({level.sum(at_position, 'position')} > 0)",
    )


_SPECULATION: Final = "engine:spec_decode_speculation:info"
_LIKE: Final = (
    f"ignoring (method, draft_model, tokens) group_left (method, draft_model, tokens) {_SPECULATION}"
)


def _peers(settings: Settings) -> Iterator[Recording]:
    engine = Level("engine", (), join=_LIKE)
    peers = Level("peers", settings.peers, join=_LIKE)
    yield Recording(
        _SPECULATION,
        'count_values without () ("tokens", spec_decode_configured_tokens)\n'
        "* ignoring (tokens, method, method_source, draft_model) group_left (method, draft_model)\n"
        "  spec_decode_engine_info",
    )
    counters = {name: COUNTERS[name] for name in ("drafts", "accepted_tokens")}
    length = {"acceptance_length": RATIOS["acceptance_length"]}
    for name, counter in counters.items():
        yield Recording(f"engine:spec_decode_{name}:rate30m", engine.rate(counter, "30m"))
    yield from _ratios(engine, "30m", "spec_decode", length)
    for name, counter in counters.items():
        yield Recording(f"peers:spec_decode_{name}:rate1h", peers.total(counter, "1h"))
    yield from _ratios(peers, "1h", "spec_decode", length)
    # An engine that two exporters watch is no peer of itself.
    enough = once_each(
        "@peers",
        "engine:spec_decode_acceptance_length:ratio_rate30m{@only} "
        "and engine:spec_decode_drafts:rate30m * 1800 >= @peer_drafts",
    )
    yield Recording(
        "peers:spec_decode_acceptance_length:median_rate30m", f"quantile by (@peers) (0.5,\n{enough}\n)"
    )
    yield Recording("peers:spec_decode_engines:count_rate30m", f"count by (@peers) (\n{enough}\n)")


def _arms(settings: Settings) -> Iterator[Recording]:
    arm = Level("arm", settings.arms, only=f'{settings.arm}!=""')
    yield from _sums(arm, "30m", COUNTERS, "spec_decode")
    yield from _ratios(arm, "30m", "spec_decode", RATIOS)
    yield Recording(
        "arm:spec_decode_engines:count_rate30m",
        'count by (@arms) (rate(spec_decode_decode_steps_total{@arm!=""}[30m]) > 0)',
    )
    # By Little's law: how many requests an engine decodes at a time is the seconds they spend in it a second.
    for name, total in (("decoding_requests", "decode_seconds"), ("requests", "first_tokens")):
        yield Recording(
            f"arm:spec_decode_{name}_per_engine:rate30m",
            f"arm:spec_decode_{total}:rate30m / arm:spec_decode_engines:count_rate30m",
        )
        yield Recording(
            f"arm:spec_decode_{name}_per_engine:to_baseline_rate30m",
            _to_baseline(f"arm:spec_decode_{name}_per_engine:rate30m"),
        )
    # A slow arm keeps its requests longer, so at equal arrivals it decodes more of them at a time; a
    # balancer by load sends it fewer instead. Either being alike makes a comparison fair.
    yield Recording(
        "arm:spec_decode_comparable_load:to_baseline_rate30m",
        """
        (arm:spec_decode_requests_per_engine:to_baseline_rate30m >= @load_below <= @load_above)
        or
        (arm:spec_decode_decoding_requests_per_engine:to_baseline_rate30m >= @load_below <= @load_above)
        """,
    )
    for name, comparison in _GAINS.items():
        yield Recording(
            f"arm:spec_decode_{name}:to_baseline_rate30m",
            f"{comparison}\nand arm:spec_decode_comparable_load:to_baseline_rate30m",
        )


def _to_baseline(series: str) -> str:
    return (
        f'{series}{{@arm!="@baseline"}}\n/ ignoring (@arm) group_left () ({series}{{@arm="@baseline"}} > 0)'
    )


_OUTPUT_TIME: Final = "arm:spec_decode_time_per_output_token_seconds:ratio_rate30m"

_GAINS: Final = {
    "speedup": (
        f'{_OUTPUT_TIME}{{@arm="@baseline"}}\n'
        f'/ ignoring (@arm) group_right () {_OUTPUT_TIME}{{@arm!="@baseline"}}'
    ),
    "effective_tokens_per_step": _to_baseline("arm:spec_decode_effective_tokens_per_step:ratio_rate30m"),
    "step_cost": _to_baseline("arm:spec_decode_step_seconds:ratio_rate30m"),
}
"""What an arm is compared by; the speed-up is what it gains in tokens a step over what its steps cost."""


_SERVER: Final = (
    Recording(
        "engine:spec_decode_time_per_output_token_tail:ratio",
        """
        sum without (window, quantile) (
          spec_decode_time_per_output_token_quantile_seconds{quantile="0.99"}
        )
        / sum without (window, quantile) (
          spec_decode_time_per_output_token_quantile_seconds{quantile="0.5"} > 0
        )
        """,
    ),
    Recording("model:vllm_requests:rate15m", "sum by (@model) (rate(vllm:request_success_total[15m]))"),
    Recording(
        "model:vllm_finished_requests:ratio_rate15m",
        """
        sum by (@model, finished_reason) (
          rate(vllm:request_success_total{finished_reason=~"abort|error|repetition"}[15m])
        )
        / on (@model) group_left () (model:vllm_requests:rate15m > 0)
        """,
    ),
)

_RAW_ABOUT: Final = """\
For those who cannot run the exporter: the same ratios from vLLM's own counters, as far as PromQL gets.
Do not load it beside aggregates.yml without need: it tells less, and later. What it loses:
  - the last 30 seconds: a rate needs four scrapes or more, so it is 5 minutes, and a drop shows minutes late;
  - what was counted between the last scrape and a restart, and between the restart and the next scrape;
  - bounds, and so any way to tell a drop from chance; verdict, cost, speed-up, recommended tokens, baseline;
  - any warning that a number is wrong: a load balancer between Prometheus and several servers, positions that
    do not add up, a server that counts its inter-token latency by tokens (then tokens per step and coverage
    are wrong here), a Rust front end that publishes it late (then they are off for a minute);
  - method, draft model and K, which vLLM does not export;
  - vLLM behind Ray (ray_vllm_...), LMDeploy, llama.cpp: other names. vLLM V0: its counters are wrong.
Prometheus 2 may store vllm: as vllm_ where a page is negotiated as OpenMetrics; then rename them here."""


def _raw(settings: Settings) -> Iterator[Recording]:
    model = Level("model", settings.model)
    yield from _sums(model, "5m", RAW_COUNTERS, "vllm_spec_decode")
    yield from _ratios(model, "5m", "vllm_spec_decode", RATIOS)
    yield _raw_positions(model)


def _raw_positions(model: Level) -> Recording:
    accepted = "rate(vllm:spec_decode_num_accepted_tokens_per_pos_total[5m])"
    drafts = f"({accepted} * 0 + ignoring (position) group_left () rate({RAW_COUNTERS['drafts']}[5m]))"
    return Recording(
        "model:vllm_spec_decode_position_acceptance:ratio_rate5m",
        f"{model.sum(accepted, 'position')}\n/ ({model.sum(drafts, 'position')} > 0)",
    )
