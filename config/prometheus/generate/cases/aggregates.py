"""Tests of the rules that add engines up."""

from __future__ import annotations

from typing import Final

from config.prometheus.generate.case import ENGINE, RuleCase, Sample, Series, counter, gauge, of
from config.prometheus.generate.cases.traffic import described, drafting, windowed

_LLAMA: Final = {"job": "spec-decode", "model_name": "llama"}
_SMALL: Final = {**ENGINE, "instance": "gpu-2:7732", "workload": "code"}
_BIG: Final = {**ENGINE, "workload": "chat"}


def _two() -> Series:
    """Return two engines of one model, by n-gram and by a draft model, at different traffic.

    The second has a tenth of the drafts of the first, two tokens each, of which 12 and 4 of 20 are accepted; half
    of its 40 steps a second have a draft. The means of both engines' ratios would be 0.4875 and 2.55.
    """
    small = _SMALL
    return {
        **drafting(10, _BIG),
        **described(10, _BIG),
        **described(10, small, method="ngram", tokens=2),
        of("spec_decode_drafts_total", small): counter((10, 20)),
        of("spec_decode_draft_tokens_total", small): counter((10, 40)),
        of("spec_decode_accepted_tokens_total", small): counter((10, 16)),
        of("spec_decode_generation_tokens_total", small): counter((10, 57)),
        of("spec_decode_first_tokens_total", small): counter((10, 1)),
        of("spec_decode_decode_steps_total", small): counter((10, 40)),
        of("spec_decode_decode_seconds_total", small): counter((10, 1)),
        of("spec_decode_position_accepted_tokens_total", small, position="0"): counter((10, 12)),
        of("spec_decode_position_accepted_tokens_total", small, position="1"): counter((10, 4)),
        **windowed(10, small, 0.6, 0.2),
    }


def _rounded(record: str) -> str:
    return f"round({record}, 0.0001)"


_RATIOS: Final = RuleCase(
    "ratios of sums, not means of ratios",
    _two(),
    at=10,
    expects={
        # 476 of 840; 1 + 476 / 220; 840 / 220; 220 of 240; 716 / 240; 7 s / 240; 7 s / 716.
        _rounded("model:spec_decode_draft_acceptance:ratio_rate5m"): (Sample(_LLAMA, 0.5667),),
        _rounded("model:spec_decode_acceptance_length:ratio_rate5m"): (Sample(_LLAMA, 3.1636),),
        _rounded("model:spec_decode_draft_length:ratio_rate5m"): (Sample(_LLAMA, 3.8182),),
        _rounded("model:spec_decode_coverage:ratio_rate5m"): (Sample(_LLAMA, 0.9167),),
        _rounded("model:spec_decode_effective_tokens_per_step:ratio_rate5m"): (Sample(_LLAMA, 2.9833),),
        _rounded("model:spec_decode_step_seconds:ratio_rate5m"): (Sample(_LLAMA, 0.0292),),
        _rounded("model:spec_decode_time_per_output_token_seconds:ratio_rate5m"): (Sample(_LLAMA, 0.0098),),
        _rounded("fleet:spec_decode_draft_acceptance:ratio_rate5m"): (Sample({}, 0.5667),),
    },
)

_METHODS: Final = RuleCase(
    "by method, by workload, and by arm where there are arms",
    _two(),
    at=10,
    expects={
        _rounded("method:spec_decode_draft_acceptance:ratio_rate5m"): (
            Sample({**_LLAMA, "method": "eagle3"}, 0.575),
            Sample({**_LLAMA, "method": "ngram"}, 0.4),
        ),
        _rounded("method:spec_decode_effective_tokens_per_step:ratio_rate5m"): (
            Sample({**_LLAMA, "method": "eagle3"}, 3.3),
            Sample({**_LLAMA, "method": "ngram"}, 1.4),
        ),
        _rounded("workload:spec_decode_acceptance_length:ratio_rate5m"): (
            Sample({**_LLAMA, "workload": "chat"}, 3.3),
            Sample({**_LLAMA, "workload": "code"}, 1.8),
        ),
        "arm:spec_decode_drafts:rate5m": (),
    },
)

_POSITIONS: Final = RuleCase(
    "each position is divided by the drafts of the engines that have it",
    _two(),
    at=10,
    expects={
        # 172 and 134 of 220; 100 and 70 of the 200 of the engine with four positions.
        _rounded("model:spec_decode_position_acceptance:ratio_rate5m"): tuple(
            Sample({**_LLAMA, "position": str(position)}, value)
            for position, value in enumerate((0.7818, 0.6091, 0.5, 0.35))
        ),
        _rounded('method:spec_decode_position_acceptance:ratio_rate5m{method="ngram"}'): tuple(
            Sample({**_LLAMA, "method": "ngram", "position": str(position)}, value)
            for position, value in enumerate((0.6, 0.2))
        ),
    },
)


def _lowered() -> Series:
    """Return an engine that began with six positions and has four: the counters of the others stand still."""
    frozen = {
        of("spec_decode_position_accepted_tokens_total", position=str(position)): gauge((10, 1000))
        for position in (4, 5)
    }
    return {**drafting(10), **described(10), **frozen}


_LOWERED: Final = RuleCase(
    "a position that is drafted no more is absent, not 0",
    _lowered(),
    at=10,
    expects={
        _rounded("model:spec_decode_position_acceptance:ratio_rate5m"): tuple(
            Sample({**_LLAMA, "position": str(position)}, value)
            for position, value in enumerate((0.8, 0.65, 0.5, 0.35))
        ),
    },
)

_BOUNDS: Final = ("0.1", "0.2", "0.3", "0.4", "0.5", "0.6", "0.7", "0.8", "0.9", "1.0", "+Inf")


def _histogram(labels: dict[str, str], *up_to: float) -> Series:
    return {
        of("spec_decode_poll_acceptance_ratio_bucket", labels, le=bound): counter((10, rate))
        for bound, rate in zip(_BOUNDS, up_to, strict=True)
    }


_QUANTILES: Final = RuleCase(
    "quantiles of the polls of all engines, by draft tokens",
    {
        # One engine has all of its 80 draft tokens a second between 0.5 and 0.6, the other its 20 below 0.1.
        **_histogram(_BIG, 0, 0, 0, 0, 0, 80, 80, 80, 80, 80, 80),
        **_histogram(_SMALL, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20),
        **described(10, _BIG),
        **described(10, _SMALL, method="ngram"),
    },
    at=10,
    expects={
        # p10 is the middle of the lowest bucket; p50 is 30/80 through 0.5 to 0.6, p90 70/80.
        _rounded("model:spec_decode_poll_acceptance:p10_rate5m"): (Sample(_LLAMA, 0.05),),
        _rounded("model:spec_decode_poll_acceptance:p50_rate5m"): (Sample(_LLAMA, 0.5375),),
        _rounded("fleet:spec_decode_poll_acceptance:p90_rate5m"): (Sample({}, 0.5875),),
        _rounded('method:spec_decode_poll_acceptance:p50_rate5m{method="ngram"}'): (
            Sample({**_LLAMA, "method": "ngram"}, 0.05),
        ),
    },
)

_IDLE: Final = RuleCase(
    "what is over nothing is absent, not NaN and not 0",
    {
        **{name: gauge((10, 1000)) for name in drafting(10)},
        **{name: gauge((10, 1000)) for name in _histogram(ENGINE, *([1.0] * 11))},
        **described(10),
    },
    at=10,
    expects={
        **{
            f"{level}:spec_decode_{ratio}:ratio_rate5m": ()
            for level in ("fleet", "model", "method")
            for ratio in (
                "draft_acceptance",
                "acceptance_length",
                "draft_length",
                "coverage",
                "effective_tokens_per_step",
                "step_seconds",
                "time_per_output_token_seconds",
                "position_acceptance",
            )
        },
        "model:spec_decode_poll_acceptance:p50_rate5m": (),
        _rounded("model:spec_decode_drafts:rate5m"): (Sample(_LLAMA, 0.0),),
    },
)

_STEPLESS: Final = RuleCase(
    "tokens of an engine that does not count its steps are not divided by the steps of another",
    {
        **drafting(10),
        of("spec_decode_drafts_total", {**ENGINE, "engine": "llamacpp"}): counter((10, 50)),
        of("spec_decode_generation_tokens_total", {**ENGINE, "engine": "llamacpp"}): counter((10, 150)),
        of("spec_decode_first_tokens_total", {**ENGINE, "engine": "llamacpp"}): gauge((10, 0)),
        of("spec_decode_decode_steps_total", {**ENGINE, "engine": "llamacpp"}): gauge((10, 0)),
    },
    at=10,
    expects={
        _rounded("model:spec_decode_effective_tokens_per_step:ratio_rate5m"): (Sample(_LLAMA, 3.3),),
        _rounded("model:spec_decode_coverage:ratio_rate5m"): (Sample(_LLAMA, 1.0),),
        _rounded("model:spec_decode_generation_tokens:rate5m"): (Sample(_LLAMA, 815.0),),
    },
)

AGGREGATES: Final = (_RATIOS, _METHODS, _POSITIONS, _LOWERED, _QUANTILES, _IDLE, _STEPLESS)
