"""Single requests: which kinds gain from speculation, which pay for it, and what the average hides."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from grafana import panels, style
from grafana.board import INSTANCE, LONG, MODEL, REQUEST_TYPE, board, row
from grafana.panels import Look, Panel, Query, cell, line
from grafana.promql import EXPORTERS, FLEET, PLACES, REQUESTS, by, number_of_word, percentile

_MODEL = (*PLACES, "instance", "model_name")
_KEY = (*_MODEL, "request_type", "temperature")
"""What tells one group of requests from another in a table."""
_NOT_SENT = "No requests are sent: see `requests` in the exporter's configuration."
_SHARES = Look(unit="percentunit", least=0, most=1, colour=style.BY_NAME, no_value=_NOT_SENT)


def _row(metric: str, **matchers: str) -> str:
    return by(_KEY, REQUESTS.long(metric, **matchers))


def _sum(expression: str, *labels: str) -> str:
    return by(labels, expression, "sum") if labels else f"sum({expression})"


def _quantiles(label: str, values: Mapping[str, str]) -> Iterator[Query]:
    """Yield the line of each quantile; that of the median is whole."""
    for quantile, expr in values.items():
        dash = {"0.1": [2, 6], "0.9": [10, 6]}.get(quantile)
        look = {"custom.lineStyle": {"fill": "dash", "dash": dash}} if dash else {}
        yield Query(f"{{{{{label}}}}} {percentile(quantile)}", expr, look)


_BELOW = REQUESTS.long("requests_below_break_even_ratio")
_EVALUATED = REQUESTS.long("window_evaluated_requests")
_TILES = [
    panels.count_tile(
        "Kinds that lose",
        "Types and temperatures that speculation makes slower: even the upper 95 % bound of their speed-up is below 1. Route them to servers without it.",
        _row("request_effect", effect="loses"),
        seen=_row("request_speedup_ratio"),
    ),
    panels.count_tile(
        "Mixed workloads",
        "Models with types, temperatures or prompt lengths whose acceptance lengths clearly differ.",
        by(_MODEL, FLEET.long("mixed_workload")),
    ),
    panels.count_tile(
        "Acceptance falls with the prompt",
        "Models whose long prompts have a lower acceptance length than short ones, by more than 15 %.",
        by(_MODEL, FLEET("acceptance_falls_with_prompt")),
    ),
    panels.figure(
        "Below break-even",
        "Share of the requests of the long window that speculation made slower, of those with a known cost.",
        Look(unit="percentunit", decimals=0, no_value="cost unknown"),
        Query("", f"{_sum(f'{_BELOW} * {_EVALUATED}')} / ({_sum(_EVALUATED)} > 0)"),
    ),
]

_EFFECT = number_of_word(REQUESTS, "request_effect", "effect", style.EFFECTS, _KEY, window="$long")
_TIME = "request_time_per_output_token_quantile_seconds"
_MEDIAN_LENGTH = _row("request_acceptance_length_quantile_tokens", quantile="0.5")
_RATES = {label: _row("request_acceptance_quantile_ratio", quantile=label) for label in ("0.1", "0.5", "0.9")}
_GROUP = {"request_type": "Type", "temperature": "Temperature", "model_name": "Model"}
_TABLE = panels.table(
    "Who gains and who loses",
    "One row for each model, type and temperature, over the long window. It gains if the lower 95 % bound of its speed-up is above 1, and loses if the upper one is below. p10 to p90 are acceptance rates over requests, losing is the share below break-even, per token the median time per output token.",
    {**_GROUP, **PLACES, "instance": "Exporter"},
    Query("Effect", _EFFECT, cell(words=style.EFFECTS, width=90)),
    Query("Speed-up", _row("request_speedup_ratio"), cell(style.SPEEDUP, filled=False, **style.TIMES)),
    Query("At least", _row("request_speedup_ratio_lower"), style.TIMES),
    Query("At most", _row("request_speedup_ratio_upper"), style.TIMES),
    *(Query(percentile(label), rate, style.PERCENT) for label, rate in _RATES.items()),
    Query("Length", _MEDIAN_LENGTH, {"decimals": 2}),
    Query("Losing", _row("requests_below_break_even_ratio"), style.PERCENT),
    Query("Per token", _row(_TIME, quantile="0.5"), style.SECONDS),
    Query("Requests", _row("window_requests"), style.COUNT),
    looks={"Model": {"custom.minWidth": 150}},
    order=("Type", "Temperature", "Effect", "Speed-up", "At least", "At most"),
    last="Exporter",
    worst="Effect",
    no_value=_NOT_SENT,
)


def _acceptance(label: str, title: str) -> Panel:
    """Return the percentiles over requests by one label, from the histograms, which can be summed."""
    buckets = _sum(REQUESTS.rate("request_acceptance_ratio_bucket"), "le", label)
    # The comparison leaves out NaN, the quantile of nothing.
    values = {quantile: f"histogram_quantile({quantile}, {buckets}) >= 0" for quantile in ("0.1", "0.5")}
    return panels.lines(
        title,
        "Accepted over drafted tokens of the request in the middle, and of the lowest tenth (dotted); as exact as the buckets of the histogram.",
        _SHARES,
        *_quantiles(label, values),
    )


_HEAT = panels.heat_over_time(
    "Acceptance of requests",
    "Requests a second by their acceptance rate. Two bands are two kinds of requests; the mean lies between them, where no request is.",
    Look(unit="cps", decimals=1, no_value=_NOT_SENT),
    Query("{{le}}", _sum(REQUESTS.rate("request_acceptance_ratio_bucket"), "le")),
)

_TIMES_PER_TOKEN = {
    quantile: by(("request_type",), REQUESTS.long(_TIME, quantile=quantile)) for quantile in ("0.5", "0.9")
}
_PER_TOKEN = panels.lines(
    "Time per output token by type",
    "Median and highest tenth (dashed) of the long window, at the temperature where it is longest.",
    Look(unit="s", least=0, colour=style.BY_NAME, no_value="no sender reports it"),
    *_quantiles("request_type", _TIMES_PER_TOKEN),
)

_KINDS = _sum(REQUESTS.long("pathological_requests"), "request_type", "kind")
_ALL = _sum(REQUESTS.long("window_requests"), "request_type")
_PATHOLOGICAL = panels.lines(
    "Pathological requests",
    "Share of a type's requests with almost no accepted draft token (garbled text, an unfit drafter), or with almost all (a loop of repetition; copied text by nature).",
    _SHARES,
    Query("{{request_type}} {{kind}}", f"{_KINDS} / on (request_type) group_left () ({_ALL} > 0)"),
)
_LENGTHS = by(("model_name", "prompt_tokens"), FLEET("prompt_acceptance_length_tokens"))
_NO_PROMPTS = "no sender reports the tokens of its prompts"
_PROMPTS = panels.lines(
    "Acceptance length by prompt tokens",
    "Mean tokens of a draft, bonus token included, by the length of the prompt. A draft model may be bad beyond the context that it was trained for.",
    Look(unit="none", least=0, decimals=2, colour=style.BY_NAME, no_value=_NO_PROMPTS),
    Query("{{model_name}} {{prompt_tokens}}", _LENGTHS),
)
_NOT_COUNTED = panels.counts(
    "Counted, and not counted",
    "Requests a second that are counted, those that are in no figure here, by reason, and those whose type, model or user is beyond the limit and counts as `other`.",
    Look(unit="cps", least=0, colour=style.BY_NAME, no_value=_NOT_SENT),
    Query("counted", _sum(EXPORTERS.rate("exporter_requests_taken_total")), line(style.Colour.NOW)),
    Query("{{reason}}", _sum(EXPORTERS.rate("exporter_requests_refused_total"), "reason")),
    Query("other {{label}}", _sum(EXPORTERS.rate("exporter_requests_folded_total"), "label")),
)

_BY_TYPE = _acceptance("request_type", "Acceptance by type")
_BY_TEMPERATURE = _acceptance("temperature", "Acceptance by temperature")
BOARD = board(
    "spec-decode-requests",
    "Speculative decoding / Requests",
    "Who gains from speculation and who pays for it: requests by type and temperature, by what each one's response says of its own acceptance. Nothing here comes from the servers' counters.",
    variables=[INSTANCE, MODEL, REQUEST_TYPE, LONG],
    scope=FLEET,
    sections={
        "": [row(5, *_TILES), row(9, _TABLE)],
        "By type and temperature": [row(9, _BY_TYPE, _HEAT), row(9, _BY_TEMPERATURE, _PER_TOKEN)],
        "What goes wrong": [row(8, _PATHOLOGICAL, _PROMPTS, _NOT_COUNTED)],
    },
)
