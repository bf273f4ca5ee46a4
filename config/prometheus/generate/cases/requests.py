"""Tests of the alerts about single requests."""

from __future__ import annotations

from typing import Final

from config.prometheus.generate.case import (
    ENGINE,
    EXPORTER,
    AlertCase,
    Counter,
    Firing,
    Gauge,
    Series,
    counter,
    gauge,
    of,
)

_GROUP: Final = {**EXPORTER, "model_name": "llama", "request_type": "chat", "temperature": "0.7-1"}
_MODEL: Final = {**EXPORTER, "model_name": "llama"}
_LONG: Final = {"window": "5m"}
_REASONS: Final = ("malformed", "without_metrics", "contradictory", "rate", "dropped", "too_costly", "body")


def _quantiles(*phases: tuple[float, float | None]) -> Series:
    """Return a mean of a model's requests, with the tenth below at half of it and the tenth above at 0.9."""
    name = "spec_decode_model_request_acceptance_quantile_ratio"
    half = [(minutes, mean and mean / 2) for minutes, mean in phases]
    most = [(minutes, mean and 0.9) for minutes, mean in phases]
    return {
        of(name, _MODEL, **_LONG, quantile="0.1"): gauge(*half),
        of(name, _MODEL, **_LONG, quantile="0.9"): gauge(*most),
        of("spec_decode_model_request_mean_acceptance_ratio", _MODEL, **_LONG): gauge(*phases),
    }


def _told(flag: Gauge, minutes: float) -> Series:
    return {of("spec_decode_mixed_workload", _MODEL, **_LONG): flag, **_quantiles((minutes, 0.65))}


def _evaluated(upper: Gauge, *, requests: Counter, minutes: float = 60, loses: Gauge | None = None) -> Series:
    """Return a group of requests that lose a tenth by the estimate; by the effect as well, unless it is given."""
    return {
        of("spec_decode_request_speedup_ratio_upper", _GROUP, **_LONG): upper,
        of("spec_decode_request_speedup_ratio", _GROUP, **_LONG): gauge((minutes, 0.9)),
        of("spec_decode_window_requests", _GROUP, **_LONG): gauge((minutes, 150)),
        of("spec_decode_requests_total", _GROUP): requests,
        of("spec_decode_request_effect", _GROUP, **_LONG, effect="loses"): loses or gauge((minutes, 1)),
    }


def _elsewhere(series: Series) -> Series:
    """Return the requests as of an exporter in another namespace than the vLLM that serves them."""
    name = "spec_decode_draft_cost_ratio"
    engine = of(name, ENGINE, source="configured", namespace="inference", cluster="eu")
    there = {one.replace("{", '{namespace="monitoring", ', 1): values for one, values in series.items()}
    return {**there, engine: gauge((80, 0.4))}


def _odd(rejected: Gauge, repetitive: Gauge, *, rate: float = 0.2, minutes: float = 60) -> Series:
    """Return a group with 60 requests in each window, of which some are pathological."""
    name = "spec_decode_pathological_requests"
    return {
        of(name, _GROUP, **_LONG, kind="rejected"): rejected,
        of(name, _GROUP, **_LONG, kind="repetitive"): repetitive,
        of("spec_decode_window_requests", _GROUP, **_LONG): gauge((minutes, 60)),
        of("spec_decode_requests_total", _GROUP): counter((minutes, rate)),
    }


def _sent(taken: Counter, minutes: float = 60, bodies: float = 1.0, **refused: Counter) -> Series:
    """Return requests that were sent to the exporter in N bodies a second, and their outcome."""
    name = "spec_decode_exporter_requests_refused_total"
    return {
        of("spec_decode_exporter_requests_taken_total", EXPORTER): taken,
        of("spec_decode_exporter_request_bodies_taken_total", EXPORTER): counter((minutes, bodies)),
        **{
            of(name, EXPORTER, reason=reason): refused.get(reason, counter((minutes, 0)))
            for reason in _REASONS
        },
    }


def asked(*phases: tuple[float, float | None]) -> Series:
    """Return requests that gain, as pairs of minutes and requests a second; None is a model without requests."""
    minutes = sum(length for length, _ in phases)
    there = [(length, rate is not None) for length, rate in phases]
    steady = counter(*((length, rate or 0.0) for length, rate in phases))

    def flat(value: float) -> Gauge:
        return gauge(*((length, value if any_ else None) for length, any_ in there))

    group: dict[str, Counter | Gauge] = {
        of("spec_decode_request_speedup_ratio_upper", _GROUP, **_LONG): flat(2.4),
        of("spec_decode_request_speedup_ratio", _GROUP, **_LONG): flat(2.3),
        of("spec_decode_window_requests", _GROUP, **_LONG): flat(300),
        of("spec_decode_requests_total", _GROUP): steady,
        of("spec_decode_request_effect", _GROUP, **_LONG, effect="loses"): flat(0),
        of("spec_decode_mixed_workload", _MODEL, **_LONG): flat(0),
        of("spec_decode_acceptance_falls_with_prompt", _MODEL): flat(0),
    }
    odd = {
        of("spec_decode_pathological_requests", _GROUP, **_LONG, kind=kind): flat(2)
        for kind in ("rejected", "repetitive")
    }
    return {**group, **odd, **_sent(steady, minutes, without_metrics=counter((minutes, 0.01)))}


_MIX: Final = (
    "llama (gpu-1:7732): over the last 5m one request in ten had at most 32.5% of its draft tokens accepted, and one in "
    "ten at least 90%; the mean is 65%. The finding held for {} of the last 15 minutes."
)

_MIXED: Final = (
    AlertCase(
        "SpecDecodeMixedWorkload",
        "fires half an hour after the finding",
        _told(gauge((10, 0), (50, 1)), 60),
        at=45,
        fires=(Firing({**_MODEL, **_LONG}, _MIX.format("100%")),),
    ),
    AlertCase(
        "SpecDecodeMixedWorkload",
        "is silent when the finding comes and goes",
        _told(gauge(*[(5, 1), (5, 0)] * 6), 60),
        at=60,
    ),
    AlertCase(
        "SpecDecodeMixedWorkload",
        "is silent about the short window",
        {of("spec_decode_mixed_workload", _MODEL, window="30s"): gauge((60, 1))},
        at=60,
    ),
    AlertCase(
        "SpecDecodeMixedWorkload",
        "is over half an hour after the requests ended",
        _told(gauge((40, 1), (40, None)), 80),
        at=70,
    ),
)


def _falling(*phases: tuple[float, float | None]) -> Series:
    """Return the finding about a model whose requests with long prompts accept less."""
    lengths = {"to 2048": 2.3, "to 8192": 1.9, "above 16384": 1.1}
    return {
        of("spec_decode_acceptance_falls_with_prompt", _MODEL): gauge(*phases),
        **{
            of("spec_decode_prompt_acceptance_length_tokens", _MODEL, prompt_tokens=bucket): gauge(
                *((minutes, flag if flag is None else length) for minutes, flag in phases)
            )
            for bucket, length in lengths.items()
        },
    }


_FALLS: Final = (
    AlertCase(
        "SpecDecodeAcceptanceFallsWithPrompt",
        "fires half an hour after the finding",
        _falling((10, 0), (50, 1)),
        at=45,
        fires=(
            Firing(
                _MODEL,
                "llama (gpu-1:7732): over the last 5m a draft gave 2.30 tokens at one length of the prompt and 1.10 at "
                "another, and long prompts have significantly less. The finding held for 100% of the last 15 minutes.",
            ),
        ),
    ),
    AlertCase(
        "SpecDecodeAcceptanceFallsWithPrompt",
        "is silent ten minutes after the finding",
        _falling((10, 0), (50, 1)),
        at=20,
    ),
    AlertCase(
        "SpecDecodeAcceptanceFallsWithPrompt",
        "is silent when the finding comes and goes",
        _falling(*[(5, 1), (5, 0)] * 6),
        at=60,
    ),
    AlertCase(
        "SpecDecodeAcceptanceFallsWithPrompt",
        "is over half an hour after the requests ended",
        _falling((40, 1), (40, None)),
        at=70,
    ),
)

_WHO: Final = "llama, requests of type chat at temperature up to 1 (gpu-1:7732): "

_LOST: Final = (
    f"{_WHO}for 30 minutes the speed-up was at most 0.95 even at its upper 95 % bound, whenever it was known; the "
    "estimate is 0.90 over 150 requests."
)

_LOSES: Final = (
    AlertCase(
        "SpecDecodeRequestTypeLoses",
        "fires when the upper bound is below 1 for half an hour",
        _evaluated(gauge((20, 1.3), (60, 0.95)), requests=counter((80, 0.5)), minutes=80),
        at=65,
        fires=(
            Firing(
                {**_GROUP, **_LONG},
                _LOST,
            ),
        ),
    ),
    AlertCase(
        "SpecDecodeRequestTypeLoses",
        "fires when there are enough requests in half of the time",
        _evaluated(
            gauge(*[(5, 0.95), (3, None)] * 8),
            requests=counter((64, 0.1)),
            minutes=64,
            loses=gauge(*[(5, 1), (3, 0)] * 8),
        ),
        at=58,
        fires=(Firing({**_GROUP, **_LONG}, _LOST),),
    ),
    AlertCase(
        "SpecDecodeRequestTypeLoses",
        "fires by an exporter in another namespace than its servers, whose series have their own",
        _elsewhere(_evaluated(gauge((20, 1.3), (60, 0.95)), requests=counter((80, 0.5)), minutes=80)),
        at=65,
        fires=(Firing({**_GROUP, **_LONG, "namespace": "monitoring"}, _LOST),),
    ),
    AlertCase(
        "SpecDecodeRequestTypeLoses",
        "is silent 29 minutes after the first requests",
        _evaluated(
            gauge((10, None), (50, 0.95)),
            requests=counter((10, 0), (50, 0.5)),
            loses=gauge((10, None), (50, 1)),
        ),
        at=39,
    ),
    AlertCase(
        "SpecDecodeRequestTypeLoses",
        "fires half an hour after the first requests",
        _evaluated(
            gauge((10, None), (50, 0.95)),
            requests=counter((10, 0), (50, 0.5)),
            loses=gauge((10, None), (50, 1)),
        ),
        at=41,
        fires=(Firing({**_GROUP, **_LONG}, _LOST),),
    ),
    AlertCase(
        "SpecDecodeRequestTypeLoses",
        "is silent while the upper bound is above 1",
        _evaluated(gauge((60, 1.02)), requests=counter((60, 0.5))),
        at=60,
    ),
    AlertCase(
        "SpecDecodeRequestTypeLoses",
        "is silent when it lost for ten minutes",
        _evaluated(gauge((40, 1.2), (10, 0.95), (30, 1.2)), requests=counter((80, 0.5)), minutes=80),
        at=52,
    ),
    AlertCase(
        "SpecDecodeRequestTypeLoses",
        "is silent with 72 requests in half an hour",
        _evaluated(gauge((60, 0.95)), requests=counter((60, 0.04))),
        at=60,
    ),
    AlertCase(
        "SpecDecodeRequestTypeLoses",
        "is silent where the exporter calls it unclear, as by a cost that is only a guess",
        _evaluated(gauge((60, 0.95)), requests=counter((60, 0.5)), loses=gauge((60, 0))),
        at=60,
    ),
)

_PATHOLOGICAL: Final = (
    AlertCase(
        "SpecDecodePathologicalRequests",
        "fires when two requests in five are rejected throughout",
        _odd(gauge((60, 24)), gauge((60, 0))),
        at=60,
        fires=(
            Firing(
                {**_GROUP, **_LONG, "kind": "rejected"},
                f"{_WHO}40% of the requests of the last 15 minutes are rejected. Garbled text is rejected "
                "throughout; repetition is accepted throughout.",
            ),
        ),
    ),
    AlertCase(
        "SpecDecodePathologicalRequests",
        "fires when three requests in five are accepted throughout",
        _odd(gauge((60, 1)), gauge((60, 36))),
        at=60,
        fires=(
            Firing(
                {**_GROUP, **_LONG, "kind": "repetitive"},
                f"{_WHO}60% of the requests of the last 15 minutes are repetitive. Garbled text is rejected "
                "throughout; repetition is accepted throughout.",
            ),
        ),
    ),
    AlertCase(
        "SpecDecodePathologicalRequests",
        "is silent when two requests in five are accepted throughout, as where text is edited",
        _odd(gauge((60, 0)), gauge((60, 24))),
        at=60,
    ),
    AlertCase(
        "SpecDecodePathologicalRequests",
        "is silent with 36 requests in a quarter of an hour",
        _odd(gauge((60, 24)), gauge((60, 0)), rate=0.04),
        at=60,
    ),
    AlertCase(
        "SpecDecodePathologicalRequests",
        "is silent when there were some for five minutes",
        _odd(gauge((40, 0), (5, 24), (15, 0)), gauge((60, 0))),
        at=50,
    ),
)

_REFUSED: Final = (
    AlertCase(
        "SpecDecodeRequestsRefused",
        "fires when a quarter comes without metrics",
        _sent(counter((60, 0.3)), without_metrics=counter((60, 0.1)), malformed=counter((60, 0.01))),
        at=60,
        fires=(
            Firing(
                EXPORTER,
                "gpu-1:7732: 26.83% of the requests of the last 15 minutes, or of the bodies that they came in, "
                "were not counted; most refusals are for the reason "
                "without_metrics.",
            ),
        ),
    ),
    AlertCase(
        "SpecDecodeRequestsRefused",
        "fires when nothing of what is sent can be read",
        _sent(counter((60, 0)), malformed=counter((60, 0.1))),
        at=60,
        fires=(
            Firing(
                EXPORTER,
                "gpu-1:7732: 100% of the requests of the last 15 minutes, or of the bodies that they came in, "
                "were not counted; most refusals are for the reason "
                "malformed.",
            ),
        ),
    ),
    AlertCase(
        "SpecDecodeRequestsRefused",
        "fires when every body is rejected, two a minute",
        _sent(counter((60, 0)), bodies=0, body=counter((60, 2 / 60))),
        at=60,
        fires=(
            Firing(
                EXPORTER,
                "gpu-1:7732: 100% of the requests of the last 15 minutes, or of the bodies that they came in, "
                "were not counted; most refusals are for the reason "
                "body.",
            ),
        ),
    ),
    AlertCase(
        "SpecDecodeRequestsRefused",
        "fires when every other body is rejected, though each has hundreds of requests",
        _sent(counter((60, 50)), bodies=0.1, body=counter((60, 0.1))),
        at=60,
        fires=(
            Firing(
                EXPORTER,
                "gpu-1:7732: 50% of the requests of the last 15 minutes, or of the bodies that they came in, "
                "were not counted; most refusals are for the reason body.",
            ),
        ),
    ),
    AlertCase(
        "SpecDecodeRequestsRefused",
        "is silent when one body in twenty is rejected",
        _sent(counter((60, 500)), body=counter((60, 0.05))),
        at=60,
    ),
    AlertCase(
        "SpecDecodeRequestsRefused",
        "fires when senders drop one in five",
        _sent(counter((60, 0.4)), dropped=counter((60, 0.1))),
        at=60,
        fires=(
            Firing(
                EXPORTER,
                "gpu-1:7732: 20% of the requests of the last 15 minutes, or of the bodies that they came in, "
                "were not counted; most refusals are for the reason "
                "dropped.",
            ),
        ),
    ),
    AlertCase(
        "SpecDecodeRequestsRefused",
        "is silent when one in twenty is",
        _sent(counter((60, 1.9)), without_metrics=counter((60, 0.1))),
        at=60,
    ),
    AlertCase(
        "SpecDecodeRequestsRefused",
        "is silent about somebody who tries it out, with less than a request a minute",
        _sent(counter((60, 0)), malformed=counter((60, 0.015))),
        at=60,
    ),
    AlertCase(
        "SpecDecodeRequestsRefused",
        "is over when the sender is mended",
        _sent(counter((80, 0.3)), 80, without_metrics=counter((30, 0.3), (50, 0))),
        at=60,
    ),
)

REQUESTS: Final = (*_MIXED, *_FALLS, *_LOSES, *_PATHOLOGICAL, *_REFUSED)
"""Every one of them."""
