"""Single requests: which kinds gain from speculation, which pay for it, and what the average hides."""

from __future__ import annotations

from typing import Any

from grafana import style, variables
from grafana.board import Band, Section, alerts, board
from grafana.panels import (
    Column,
    Look,
    Panel,
    Query,
    cell,
    count_tile,
    heat_over_time,
    line,
    lines,
    rows,
    stat_tile,
)
from grafana.promql import EXPORTERS, FLEET, PLACE, Scope, by, number_of_word, percentile

REQUESTS = Scope(("job", "instance", "model_name", "request_type"))
_MODEL = (*PLACE, "instance", "model_name")
_KEY = (*_MODEL, "request_type", "temperature")
"""What tells one group of requests from another in a table."""
_NOT_SENT = "No requests are sent: see `requests` in the exporter's configuration."
_SHARES = Look(unit="percentunit", least=0, most=1, colour=style.BY_NAME, no_value=_NOT_SENT)
_PERCENT = {"unit": "percentunit", "decimals": 0}
_TIMES: dict[str, Any] = {"unit": style.TIMES, "decimals": 2}
_DASHES = {"0.1": [2, 6], "0.9": [10, 6]}
"""How the lines of quantiles are drawn; that of the median is whole."""


def _row(metric: str, **matchers: str) -> str:
    return by(_KEY, REQUESTS.long(metric, **matchers))


def _sum(expression: str, *labels: str) -> str:
    return by(labels, expression, "sum") if labels else f"sum({expression})"


def _dash(quantile: str) -> dict[str, object]:
    dash = _DASHES.get(quantile)
    return {"custom.lineStyle": {"fill": "dash", "dash": dash}} if dash else {}


_LOSING = _row("request_effect", effect="loses")
_MIXED = by(_MODEL, FLEET.long("mixed_workload"))
_FALLS = by(_MODEL, FLEET("acceptance_falls_with_prompt"))
_BELOW, _EVALUATED = (
    REQUESTS.long(name) for name in ("requests_below_break_even_ratio", "window_evaluated_requests")
)
_TILES = [
    count_tile(
        "Kinds that lose",
        "Types and temperatures that speculation makes slower: even the upper 95 % bound of their speed-up "
        "is below 1. Route them to servers without it.",
        f"{_LOSING} == 1",
        _row("request_speedup_ratio"),
    ),
    count_tile(
        "Mixed workloads",
        "Models with types, temperatures or prompt lengths whose acceptance lengths clearly differ.",
        f"{_MIXED} == 1",
        _MIXED,
    ),
    count_tile(
        "Acceptance falls with the prompt",
        "Models whose long prompts have a lower acceptance length than short ones, by more than 15 %.",
        f"{_FALLS} == 1",
        _FALLS,
    ),
    stat_tile(
        "Below break-even",
        "Share of the requests of the long window that speculation made slower, of those with a known cost.",
        [Query(f"{_sum(f'{_BELOW} * {_EVALUATED}')} / ({_sum(_EVALUATED)} > 0)")],
        Look(unit="percentunit", decimals=0, steps=style.PLAIN, no_value="cost unknown"),
    ),
]

_EFFECT = number_of_word(REQUESTS, "request_effect", "effect", style.EFFECTS, _KEY, window="$long")
_MEDIAN_TIME = _row("request_time_per_output_token_quantile_seconds", quantile="0.5")
_MEDIAN_LENGTH = _row("request_acceptance_length_quantile_tokens", quantile="0.5")
_TABLE = rows(
    "Who gains and who loses",
    "One row for each model, type and temperature, over the long window. It gains if the lower 95 % bound of "
    "its speed-up is above 1, and loses if the upper one is below. p10 to p90 are acceptance rates over "
    "requests, losing is the share below break-even, per token the median time per output token.",
    {
        "request_type": "Type",
        "temperature": "Temperature",
        "model_name": "Model",
        "cluster": "Cluster",
        "namespace": "Namespace",
        "instance": "Exporter",
    },
    [
        Column("Effect", _EFFECT, cell(words=style.EFFECTS, width=90)),
        Column("Speed-up", _row("request_speedup_ratio"), cell(style.SPEEDUP, filled=False, **_TIMES)),
        Column("At least", _row("request_speedup_ratio_lower"), _TIMES),
        Column("At most", _row("request_speedup_ratio_upper"), _TIMES),
        *(
            Column(percentile(label), _row("request_acceptance_quantile_ratio", quantile=label), _PERCENT)
            for label in ("0.1", "0.5", "0.9")
        ),
        Column("Length", _MEDIAN_LENGTH, {"decimals": 2}),
        Column("Losing", _row("requests_below_break_even_ratio"), _PERCENT),
        Column("Per token", _MEDIAN_TIME, {"unit": "s", "decimals": 1}),
        Column("Requests", _row("window_requests"), {"decimals": 0}),
    ],
    looks={"Model": {"custom.minWidth": 150}},
    order=("Type", "Temperature", "Effect", "Speed-up", "At least", "At most"),
    last="Exporter",
    worst="Effect",
    no_value=_NOT_SENT,
)


def _acceptance(label: str, title: str) -> Panel:
    """Return the percentiles over requests by one label, from the histograms, which can be summed."""
    buckets = _sum(REQUESTS.rate("request_acceptance_ratio_bucket"), "le", label)
    return lines(
        title,
        "Accepted over drafted tokens of the request in the middle, and of the lowest tenth (dotted); as "
        "exact as the buckets of the histogram.",
        [
            Query(
                # The comparison leaves out NaN, the quantile of nothing.
                f"histogram_quantile({quantile}, {buckets}) >= 0",
                f"{{{{{label}}}}} {percentile(quantile)}",
                _dash(quantile),
            )
            for quantile in ("0.1", "0.5")
        ],
        _SHARES,
    )


_HEAT = heat_over_time(
    "Acceptance of requests",
    "Requests a second by their acceptance rate. Two bands are two kinds of requests; the mean lies between "
    "them, where no request is.",
    Query(_sum(REQUESTS.rate("request_acceptance_ratio_bucket"), "le"), "{{le}}"),
    Look(unit="cps", decimals=1, no_value=_NOT_SENT),
    y_title="acceptance of a request",
)
_PER_TOKEN = lines(
    "Time per output token by type",
    "Median and highest tenth (dashed) of the long window, at the temperature where it is longest.",
    [
        Query(
            by(
                ("request_type",),
                REQUESTS.long("request_time_per_output_token_quantile_seconds", quantile=quantile),
            ),
            f"{{{{request_type}}}} {percentile(quantile)}",
            _dash(quantile),
        )
        for quantile in ("0.5", "0.9")
    ],
    Look(unit="s", least=0, colour=style.BY_NAME, no_value="no sender reports it"),
)

_KINDS = _sum(REQUESTS.long("pathological_requests"), "request_type", "kind")
_ALL = _sum(REQUESTS.long("window_requests"), "request_type")
_PATHOLOGICAL = lines(
    "Pathological requests",
    "Share of a type's requests with almost no accepted draft token (garbled text, an unfit drafter), or "
    "with almost all (a loop of repetition; copied text by nature).",
    [Query(f"{_KINDS} / on (request_type) group_left () ({_ALL} > 0)", "{{request_type}} {{kind}}")],
    _SHARES,
)
_PROMPTS = lines(
    "Acceptance length by prompt tokens",
    "Mean tokens of a draft, bonus token included, by the length of the prompt. A draft model may be bad "
    "beyond the context that it was trained for.",
    [
        Query(
            by(("model_name", "prompt_tokens"), FLEET("prompt_acceptance_length_tokens")),
            "{{model_name}} {{prompt_tokens}}",
        )
    ],
    Look(
        unit="none",
        least=0,
        decimals=2,
        colour=style.BY_NAME,
        no_value="no sender reports the tokens of its prompts",
    ),
)
_NOT_COUNTED = lines(
    "Counted, and not counted",
    "Requests a second that are counted, those that are in no figure here, by reason, and those whose type, "
    "model or user is beyond the limit and counts as `other`.",
    [
        Query(_sum(EXPORTERS.rate("exporter_requests_taken_total")), "counted", line(style.Colour.NOW)),
        Query(_sum(EXPORTERS.rate("exporter_requests_refused_total"), "reason"), "{{reason}}"),
        Query(_sum(EXPORTERS.rate("exporter_requests_folded_total"), "label"), "other {{label}}"),
    ],
    Look(unit="cps", least=0, colour=style.BY_NAME, no_value=_NOT_SENT),
    stepped=True,
)


def requests() -> dict[str, Any]:
    """Return the dashboard about single requests."""
    by_kind = [
        Band(9, [(12, _acceptance("request_type", "Acceptance by type")), (12, _HEAT)]),
        Band(9, [(12, _acceptance("temperature", "Acceptance by temperature")), (12, _PER_TOKEN)]),
    ]
    wrong = Band(8, [(8, one) for one in (_PATHOLOGICAL, _PROMPTS, _NOT_COUNTED)])
    return board(
        "spec-decode-requests",
        "Speculative decoding / Requests",
        "Who gains from speculation and who pays for it: requests by type and temperature, by what each "
        "one's response says of its own acceptance. Nothing here comes from the servers' counters.",
        variables=[
            variables.SOURCE,
            variables.JOB,
            variables.INSTANCE,
            variables.MODEL,
            variables.REQUEST_TYPE,
            variables.LONG,
        ],
        marks=[alerts(FLEET)],
        sections=[
            Section([Band(5, [(6, tile) for tile in _TILES]), Band(9, [(24, _TABLE)])]),
            Section(by_kind, "By type and temperature"),
            Section([wrong], "What goes wrong"),
        ],
    )
