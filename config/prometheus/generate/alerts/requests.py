"""Alerts about single requests: kinds that lose, and requests that are not counted."""

from __future__ import annotations

from typing import Final

from config.prometheus.generate.rule import WHOLE, Alert, now

_GROUP: Final = ("instance", "model_name", "request_type", "temperature")
_MODEL: Final = ("instance", "model_name")
_WHO: Final = (
    "{{ $labels.model_name }}, requests of type {{ $labels.request_type }} at temperature "
    '{{ $labels.temperature | reReplaceAll "^.+-" "up to " | reReplaceAll "^>" "above " }} ({{ $labels.instance }})'
)
_SHARE: Final = "humanizePercentage"


def _of_lengths(function: str) -> str:
    """Return a piece of a description: a function of the acceptance length over all prompt lengths."""
    series = "spec_decode_prompt_acceptance_length_tokens{instance=%q,model_name=%q}"
    asked = f'printf "{function}({series})" $labels.instance $labels.model_name | query'
    value = '{{ . | first | value | printf "%.2f" }}'
    return f"{{{{ with {asked} }}}}{value}{{{{ else }}}}unknown{{{{ end }}}}"


REQUESTS: Final = (
    Alert(
        "SpecDecodeMixedWorkload",
        summary="A model serves two kinds of requests that its average acceptance hides.",
        action="Send the requests with low acceptance to an engine without speculation.",
        description="{{ $labels.model_name }} ({{ $labels.instance }}): over the last @long one request in ten had at most "
        + now(
            "spec_decode_model_request_acceptance_quantile_ratio",
            _SHARE,
            _MODEL,
            window="@long",
            quantile="0.1",
        )
        + " of its draft tokens accepted, and one in ten at least "
        + now(
            "spec_decode_model_request_acceptance_quantile_ratio",
            _SHARE,
            _MODEL,
            window="@long",
            quantile="0.9",
        )
        + "; the mean is "
        + now("spec_decode_model_request_mean_acceptance_ratio", _SHARE, _MODEL, window="@long")
        + ". The finding held for {{ $value | humanizePercentage }} of the last 15 minutes.",
        expr="""
        avg_over_time(spec_decode_mixed_workload{window="@long"}[15m]) >= @share
        # Absent without requests: the last ones do not keep it firing.
        and last_over_time(spec_decode_mixed_workload{window="@long"}[5m])
        """,
        dashboard="spec-decode-requests",
        variables=_MODEL,
    ),
    Alert(
        "SpecDecodeAcceptanceFallsWithPrompt",
        summary="Drafts of requests with long prompts are accepted less than those with short ones.",
        action="Send long prompts to an engine without speculation, or use a drafter trained on long contexts.",
        description="{{ $labels.model_name }} ({{ $labels.instance }}): over the last @long a draft gave "
        f"{_of_lengths('max')} tokens at one length of the prompt and {_of_lengths('min')} at another, and long prompts "
        "have significantly less. The finding held for {{ $value | humanizePercentage }} of the last 15 minutes.",
        expr="""
        avg_over_time(spec_decode_acceptance_falls_with_prompt[15m]) >= @share
        # Absent without requests: the last ones do not keep it firing.
        and last_over_time(spec_decode_acceptance_falls_with_prompt[5m])
        """,
        dashboard="spec-decode-requests",
        variables=_MODEL,
    ),
    Alert(
        "SpecDecodeRequestTypeLoses",
        summary="Speculation makes one kind of requests slower than plain decoding.",
        action="Send these requests to an engine without speculation.",
        description=f"{_WHO}: for 30 minutes the speed-up was at most "
        '{{ printf "%.2f" $value }} even at its upper 95 % bound, whenever it was known; the estimate is '
        + now("spec_decode_request_speedup_ratio", 'printf "%.2f"', _GROUP, window="@long")
        + " over "
        + now("spec_decode_window_requests", WHOLE, _GROUP, window="@long")
        + " requests.",
        expr="""
        max_over_time(spec_decode_request_speedup_ratio_upper{window="@long"}[30m]) < @speedup
        # Known half an hour ago already: not in the first minutes of a kind or of an exporter.
        and last_over_time(spec_decode_request_speedup_ratio_upper{window="@long"}[10m] offset 25m)
        and ignoring (window) increase(spec_decode_requests_total[30m]) >= @requests
        # As on the page: with a guessed draft cost, or with too few requests, the effect is unclear.
        and ignoring (effect) avg_over_time(spec_decode_request_effect{window="@long", effect="loses"}[30m]) >= @share
        """,
        dashboard="spec-decode-requests",
        variables=_MODEL,
    ),
    Alert(
        "SpecDecodePathologicalRequests",
        summary="Many requests of one kind accept almost no draft token, or almost every one.",
        action="Read some answers to these requests.",
        description=f"{_WHO}: "
        "{{ $value | humanizePercentage }} of the requests of the last 15 minutes are {{ $labels.kind }}. Garbled "
        "text is rejected throughout; repetition is accepted throughout.",
        # Weighted by requests: a minute with three of them counts less than one with thirty.
        expr="""
        (
          avg_over_time(spec_decode_pathological_requests{kind="rejected", window="@long"}[15m])
            / ignoring (kind) group_left () avg_over_time(spec_decode_window_requests{window="@long"}[15m])
            > @rejected
          or
          avg_over_time(spec_decode_pathological_requests{kind="repetitive", window="@long"}[15m])
            / ignoring (kind) group_left () avg_over_time(spec_decode_window_requests{window="@long"}[15m])
            > @repetitive
        )
        and ignoring (window, kind) increase(spec_decode_requests_total[15m]) >= @requests
        """,
        dashboard="spec-decode-requests",
        variables=_MODEL,
    ),
    Alert(
        "SpecDecodeRequestsRefused",
        summary="The exporter refuses many requests, or senders drop them.",
        action="Raise the limit of that reason, or correct the sender.",
        description="{{ $labels.instance }}: {{ $value | humanizePercentage }} of the requests of the last 15 "
        "minutes, or of the bodies that they came in, were not counted; most refusals are for the reason "
        '{{ with printf "topk(1, increase(spec_decode_exporter_requests_refused_total{instance=%q}[15m]))" '
        '$labels.instance | query }}{{ . | first | label "reason" }}{{ else }}unknown{{ end }}.',
        expr="""
        (
          sum without (reason) (increase(spec_decode_exporter_requests_refused_total[15m]))
            / (
              sum without (reason) (increase(spec_decode_exporter_requests_refused_total[15m]))
                + increase(spec_decode_exporter_requests_taken_total[15m])
            )
            > @share
          and sum without (reason) (increase(spec_decode_exporter_requests_refused_total[15m])) >= @requests
        )
        or
        # A rejected body is one refusal, whatever it contains: bodies are compared with bodies.
        (
          sum without (reason) (increase(spec_decode_exporter_requests_refused_total{reason="body"}[15m]))
            / (
              sum without (reason) (increase(spec_decode_exporter_requests_refused_total{reason="body"}[15m]))
                + increase(spec_decode_exporter_request_bodies_taken_total[15m])
            )
            > @share
          and sum without (reason) (increase(spec_decode_exporter_requests_refused_total{reason="body"}[15m])) >= @requests
        )
        """,
        dashboard="spec-decode-requests",
        variables=("instance",),
    ),
)
