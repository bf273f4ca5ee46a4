"""Tests of the alerts about what the server suffers, and of the rules about what vLLM counts itself."""

from __future__ import annotations

from typing import Final

from config.prometheus.generate.case import (
    ENGINE,
    AlertCase,
    Firing,
    RuleCase,
    Sample,
    Series,
    counter,
    gauge,
    of,
)

_TIMES: Final = "spec_decode_time_per_output_token_quantile_seconds"
_WHERE: Final = "llama on chat (engine 0, gpu-1:7732): "
_DAY: Final = 1440.0
_HOUR: Final = 60.0


def _tail(*p99: tuple[float, float], p50: float = 0.020, requests: float = 5.0) -> Series:
    minutes = sum(phase[0] for phase in p99)
    labels = {**ENGINE, "window": "5m"}
    return {
        of(_TIMES, labels, quantile="0.5"): gauge((minutes, p50)),
        of(_TIMES, labels, quantile="0.99"): gauge(*p99),
        of("spec_decode_first_tokens_total"): counter((minutes, requests)),
    }


_TAILS: Final = (
    AlertCase(
        "SpecDecodeTailLatencyWidening",
        "fires when p99 goes from 2.5 to 6 times p50",
        _tail((_DAY, 0.050), (_HOUR, 0.120)),
        at=_DAY + 55,
        fires=(
            Firing(
                ENGINE,
                f"{_WHERE}p99 of the time per output token was 6.0 times p50 in the last 30 minutes, more than 1.5 "
                "times what it was over the day before.",
            ),
        ),
    ),
    AlertCase(
        "SpecDecodeTailLatencyWidening",
        "is silent where p99 has always been 6 times p50",
        _tail((_DAY + _HOUR, 0.120)),
        at=_DAY + 55,
    ),
    AlertCase(
        "SpecDecodeTailLatencyWidening",
        "is silent while p99 is less than three times p50",
        _tail((_DAY, 0.030), (_HOUR, 0.055)),
        at=_DAY + 55,
    ),
    AlertCase(
        "SpecDecodeTailLatencyWidening",
        "is silent with 180 requests in half an hour",
        _tail((_DAY, 0.050), (_HOUR, 0.120), requests=0.1),
        at=_DAY + 55,
    ),
    AlertCase(
        "SpecDecodeTailLatencyWidening",
        "is silent in the third hour of an engine, which has no day before",
        _tail((90, 0.050), (90, 0.120)),
        at=175,
    ),
)


def _cache(usage: float, drafts: float = 200.0) -> Series:
    return {
        of("spec_decode_kv_cache_usage_ratio", window="5m"): gauge((30, usage)),
        of("spec_decode_waiting_requests", window="5m"): gauge((30, 12)),
        of("spec_decode_drafts_total"): counter((30, drafts)),
    }


_CACHE: Final = (
    AlertCase(
        "SpecDecodeKvCachePressure",
        "fires at 0.95 of the cache",
        _cache(0.95),
        at=25,
        fires=(
            Firing(
                {**ENGINE, "window": "5m"},
                f"{_WHERE}95% of the KV cache was in use over the last 10 minutes; 12 requests wait. Draft tokens "
                "and a draft model's cache use part of it.",
                "Lower --max-num-seqs or num_speculative_tokens (now unknown), or add replicas.",
            ),
        ),
    ),
    AlertCase("SpecDecodeKvCachePressure", "is silent at 0.85", _cache(0.85), at=25),
    AlertCase(
        "SpecDecodeKvCachePressure", "is silent where nothing is drafted", _cache(0.95, drafts=0), at=25
    ),
)


_PEER: Final = {**ENGINE, "target": "other"}


def _hits(
    *hits: tuple[float, float], peer: float | None = None, requests: float = 5.0, drafts: float = 200.0
) -> Series:
    """Return prefix hits by minutes; ``peer`` are those of another engine of the model."""
    minutes = sum(phase[0] for phase in hits)
    others = {} if peer is None else {of(_HITS, _PEER, window="5m"): gauge((minutes, peer))}
    return {
        of(_HITS, window="5m"): gauge(*hits),
        of("spec_decode_time_to_first_token_seconds", window="5m"): gauge((minutes, 0.537)),
        of("spec_decode_first_tokens_total"): counter((minutes, requests)),
        of("spec_decode_drafts_total"): counter((minutes, drafts)),
        **others,
    }


_HITS: Final = "spec_decode_prefix_cache_hit_ratio"
_LOST_CACHE: Final = Firing(
    {**ENGINE, "window": "5m"},
    f"{_WHERE}no prompt token was found in the prefix cache for at least 5m. Engines of this model found more than "
    "5% within the last day. The mean time to first token is 537ms.",
)
_PREFIXES: Final = (
    AlertCase(
        "SpecDecodePrefixCacheLost",
        "fires when hits go from 0.85 to none",
        _hits((_HOUR, 0.85), (_HOUR, 0.0)),
        at=115,
        fires=(_LOST_CACHE,),
    ),
    AlertCase(
        "SpecDecodePrefixCacheLost",
        "fires where only another engine of the model has hits",
        _hits((_HOUR, 0.0), peer=0.5),
        at=55,
        fires=(_LOST_CACHE,),
    ),
    AlertCase("SpecDecodePrefixCacheLost", "is silent with few hits", _hits((_HOUR, 0.001), peer=0.5), at=55),
    AlertCase(
        "SpecDecodePrefixCacheLost",
        "is silent where no engine of the model ever had hits",
        _hits((_HOUR, 0.0), peer=0.01),
        at=55,
    ),
    AlertCase(
        "SpecDecodePrefixCacheLost",
        "is silent with 18 requests in 15 minutes",
        _hits((_HOUR, 0.0), peer=0.5, requests=0.02),
        at=55,
    ),
    AlertCase(
        "SpecDecodePrefixCacheLost",
        "is silent where nothing is drafted",
        _hits((_HOUR, 0.0), peer=0.5, drafts=0),
        at=55,
    ),
)


def _preempting(per_second: float, requests: float = 5.0, drafts: float = 200.0) -> Series:
    return {
        of("spec_decode_preemptions_per_second", window="5m"): gauge((30, per_second)),
        of("spec_decode_first_tokens_total"): counter((30, requests)),
        of("spec_decode_drafts_total"): counter((30, drafts)),
    }


_PREEMPTIONS: Final = (
    AlertCase(
        "SpecDecodePreemptionStorm",
        "fires at three preemptions for ten requests",
        _preempting(1.5),
        at=25,
        fires=(
            Firing(
                {**ENGINE, "window": "5m"},
                f"{_WHERE}1.50 preemptions a second over up to 10 minutes; each computes a request again from scratch.",
            ),
        ),
    ),
    AlertCase(
        "SpecDecodePreemptionStorm",
        "fires when preemption goes on and no new request gets a token",
        _preempting(0.5, requests=0),
        at=25,
        fires=(
            Firing(
                {**ENGINE, "window": "5m"},
                f"{_WHERE}0.50 preemptions a second over up to 10 minutes; each computes a request again from scratch.",
            ),
        ),
    ),
    AlertCase(
        "SpecDecodePreemptionStorm",
        "is silent at one preemption for ten requests",
        _preempting(0.5),
        at=25,
    ),
    AlertCase(
        "SpecDecodePreemptionStorm",
        "is silent where nothing is drafted",
        _preempting(1.5, drafts=0),
        at=25,
    ),
    AlertCase(
        "SpecDecodePreemptionStorm",
        "is silent at a preemption in 20 seconds",
        _preempting(0.05, requests=0.1),
        at=25,
    ),
)

_VLLM: Final = {"job": "vllm", "instance": "gpu-1:8000", "model_name": "llama", "engine": "0"}


def _finished(minutes: float, **reasons: tuple[float, float]) -> Series:
    """Return requests finished a second, yesterday and in the last hour, of a model that speculates."""
    return {
        **{
            of("vllm:request_success_total", _VLLM, finished_reason=reason): counter(
                (minutes - _HOUR, before), (_HOUR, since)
            )
            for reason, (before, since) in reasons.items()
        },
        of("spec_decode_drafts_total"): counter((minutes, 200)),
    }


def _share(reason: str, share: str) -> Firing:
    return Firing(
        {"job": "vllm", "model_name": "llama", "finished_reason": reason},
        f"llama: {share} of the requests of up to 15 minutes ended with {reason}, more than 2 times what "
        "it was a day before, where that is known.",
    )


_ERRORS: Final = (
    AlertCase(
        "SpecDecodeServerErrorsRising",
        "fires when errors go from 0.4 % to 8 %",
        _finished(_DAY + _HOUR, stop=(4.98, 4.6), error=(0.02, 0.4), abort=(0, 0), repetition=(0, 0)),
        at=_DAY + 50,
        fires=(_share("error", "8%"),),
    ),
    AlertCase(
        "SpecDecodeServerErrorsRising",
        "fires on the first day, when there is no yesterday",
        _finished(180, stop=(4.8, 4.8), error=(0, 0), abort=(0, 0), repetition=(0.2, 0.2)),
        at=175,
        fires=(_share("repetition", "4%"),),
    ),
    AlertCase(
        "SpecDecodeServerErrorsRising",
        "fires when aborts go from 5 % to 30 %",
        _finished(_DAY + _HOUR, stop=(4.75, 3.5), error=(0, 0), abort=(0.25, 1.5), repetition=(0, 0)),
        at=_DAY + 50,
        fires=(_share("abort", "30%"),),
    ),
    AlertCase(
        "SpecDecodeServerErrorsRising",
        "is silent on the first day at 1 % errors, 10 % aborts and 0.5 % repetition",
        _finished(180, stop=(4.425, 4.425), error=(0.05, 0.05), abort=(0.5, 0.5), repetition=(0.025, 0.025)),
        at=175,
    ),
    AlertCase(
        "SpecDecodeServerErrorsRising",
        "is silent where clients have always aborted three requests of ten",
        _finished(_DAY + _HOUR, stop=(3.5, 3.5), error=(0, 0), abort=(1.5, 1.5), repetition=(0, 0)),
        at=_DAY + 50,
    ),
    AlertCase(
        "SpecDecodeServerErrorsRising",
        "is silent with nine requests in a quarter of an hour, however they end",
        _finished(180, stop=(0.008, 0.008), error=(0.002, 0.002), abort=(0, 0), repetition=(0, 0)),
        at=175,
    ),
    AlertCase(
        "SpecDecodeServerErrorsRising",
        "is silent about a model that does not speculate",
        {
            **_finished(180, stop=(4.6, 4.6), error=(0.4, 0.4), abort=(0, 0), repetition=(0, 0)),
            of("spec_decode_drafts_total"): gauge((180, 0)),
        },
        at=175,
    ),
)

SERVER: Final = (*_TAILS, *_CACHE, *_PREFIXES, *_PREEMPTIONS, *_ERRORS)

REQUESTS: Final = (
    RuleCase(
        "shares of all requests, of the whole model",
        {
            of("vllm:request_success_total", _VLLM, finished_reason="stop"): counter((30, 4.0)),
            of("vllm:request_success_total", _VLLM, finished_reason="error"): counter((30, 0.0)),
            of("vllm:request_success_total", {**_VLLM, "engine": "1"}, finished_reason="length"): counter(
                (30, 0.5)
            ),
            of("vllm:request_success_total", {**_VLLM, "engine": "1"}, finished_reason="error"): counter(
                (30, 0.5)
            ),
        },
        at=30,
        expects={
            "round(model:vllm_requests:rate15m, 0.001)": (
                Sample({"job": "vllm", "model_name": "llama"}, 5.0),
            ),
            "round(model:vllm_finished_requests:ratio_rate15m, 0.001)": (
                Sample({"job": "vllm", "model_name": "llama", "finished_reason": "error"}, 0.1),
            ),
        },
    ),
    RuleCase(
        "no share of nothing",
        {of("vllm:request_success_total", _VLLM, finished_reason="error"): gauge((30, 7))},
        at=30,
        expects={"model:vllm_finished_requests:ratio_rate15m": ()},
    ),
)
