"""Tests of the rules that compare arms with their baseline."""

from __future__ import annotations

from typing import Final

from config.prometheus.generate.case import RuleCase, Sample
from config.prometheus.generate.cases.pay import PLAIN, arms

_EAGLE: Final = {"model_name": "llama", "arm": "eagle"}
_BASELINE: Final = {"model_name": "llama", "arm": "baseline"}


def _rounded(record: str) -> str:
    return f"round({record}, 0.0001)"


ARMS: Final = (
    RuleCase(
        "two sidecars, with speculation and without",
        arms(40),
        at=40,
        expects={
            _rounded("arm:spec_decode_effective_tokens_per_step:ratio_rate30m"): (
                Sample(_BASELINE, 1.0),
                Sample(_EAGLE, 2.2),
            ),
            _rounded("arm:spec_decode_time_per_output_token_seconds:ratio_rate30m"): (
                Sample(_BASELINE, 0.025),
                Sample(_EAGLE, 0.0273),
            ),
            _rounded("arm:spec_decode_decoding_requests_per_engine:rate30m"): (
                Sample(_BASELINE, 6.0),
                Sample(_EAGLE, 6.545),
            ),
            # Steps cost 60 / 25 of the baseline's and give 2.2 tokens for one: 2.2 / 2.4.
            _rounded("arm:spec_decode_step_cost:to_baseline_rate30m"): (Sample(_EAGLE, 2.4),),
            _rounded("arm:spec_decode_effective_tokens_per_step:to_baseline_rate30m"): (Sample(_EAGLE, 2.2),),
            _rounded("arm:spec_decode_speedup:to_baseline_rate30m"): (Sample(_EAGLE, 0.9167),),
        },
    ),
    RuleCase(
        "no comparison where neither requests nor concurrency are alike",
        arms(40, requests=10.0, decoding=32.7),
        at=40,
        expects={
            "arm:spec_decode_speedup:to_baseline_rate30m": (),
            "arm:spec_decode_step_cost:to_baseline_rate30m": (),
            _rounded("arm:spec_decode_requests_per_engine:to_baseline_rate30m"): (Sample(_EAGLE, 5.0),),
        },
    ),
    RuleCase(
        "load is by engine: an arm of two pods may serve twice the requests",
        {
            **arms(40, requests=2.0),
            **{
                name.replace(PLAIN["instance"], "gpu-3:7732"): values
                for name, values in arms(40).items()
                if "baseline" in name
            },
        },
        at=40,
        expects={
            _rounded("arm:spec_decode_engines:count_rate30m"): (Sample(_BASELINE, 2.0), Sample(_EAGLE, 1.0)),
            _rounded("arm:spec_decode_requests_per_engine:to_baseline_rate30m"): (Sample(_EAGLE, 1.0),),
            _rounded("arm:spec_decode_speedup:to_baseline_rate30m"): (Sample(_EAGLE, 0.9167),),
        },
    ),
)
