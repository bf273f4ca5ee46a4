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

UID = "spec-decode-requests"

REQUESTS = Scope(("job", "instance", "model_name", "request_type"))
_MODEL = (*PLACE, "instance", "model_name")
_KEY = (*_MODEL, "request_type", "temperature")
"""What tells one group of requests from another in a table."""
_LONG = "$long"
_NOT_SENT = "No requests are sent: see `requests` in the exporter's configuration."
_SHARES = Look(unit="percentunit", least=0, most=1, colour=style.BY_NAME, no_value=_NOT_SENT)
_DASHES = {"0.1": [2, 6], "0.9": [10, 6]}
"""How the lines of quantiles are drawn; that of the median is whole."""


def _group(metric: str, **matchers: str) -> str:
    return REQUESTS(f"spec_decode_{metric}", window=_LONG, **matchers)


def _row(metric: str, **matchers: str) -> str:
    return by(_KEY, _group(metric, **matchers))


def _sum(expression: str, *labels: str) -> str:
    return by(labels, expression, "sum") if labels else f"sum({expression})"


def _dash(quantile: str) -> dict[str, object]:
    dash = _DASHES.get(quantile)
    return {"custom.lineStyle": {"fill": "dash", "dash": dash}} if dash else {}


def _tiles() -> Band:
    losing = _row("request_effect", effect="loses")
    mixed = by(_MODEL, FLEET("spec_decode_mixed_workload", window=_LONG))
    falls = by(_MODEL, FLEET("spec_decode_acceptance_falls_with_prompt"))
    share, evaluated = _group("requests_below_break_even_ratio"), _group("window_evaluated_requests")
    tiles = [
        count_tile(
            "Kinds that lose",
            "Types and temperatures that speculation makes slower: even the upper 95 % bound of their "
            "speed-up is below 1. Route them to servers without it.",
            f"{losing} == 1",
            _row("request_speedup_ratio"),
        ),
        count_tile(
            "Mixed workloads",
            "Models with types, temperatures or prompt lengths whose acceptance lengths clearly differ.",
            f"{mixed} == 1",
            mixed,
        ),
        count_tile(
            "Acceptance falls with the prompt",
            "Models whose long prompts have a lower acceptance length than short ones, by more than 15 %.",
            f"{falls} == 1",
            falls,
        ),
        stat_tile(
            "Below break-even",
            "Share of the requests of the long window that speculation made slower, of those with a known "
            "cost.",
            [Query(f"{_sum(f'{share} * {evaluated}')} / ({_sum(evaluated)} > 0)")],
            Look(unit="percentunit", decimals=0, steps=style.PLAIN, no_value="cost unknown"),
        ),
    ]
    return Band(5, [(6, tile) for tile in tiles])


def _table() -> Panel:
    percent = {"unit": "percentunit", "decimals": 0}
    times: dict[str, Any] = {"unit": style.TIMES, "decimals": 2}
    effect = number_of_word(
        REQUESTS, "spec_decode_request_effect", "effect", style.EFFECTS, _KEY, window=_LONG
    )
    per_token = _row("request_time_per_output_token_quantile_seconds", quantile="0.5")
    return rows(
        "Who gains and who loses",
        "One row for each model, type and temperature, over the long window. It gains if the lower 95 % "
        "bound of its speed-up is above 1, and loses if the upper one is below. p10 to p90 are acceptance "
        "rates over requests, losing is the share below break-even, per token the median time per output "
        "token.",
        {
            "request_type": "Type",
            "temperature": "Temperature",
            "model_name": "Model",
            "cluster": "Cluster",
            "namespace": "Namespace",
            "instance": "Exporter",
        },
        [
            Column("Effect", effect, cell(words=style.EFFECTS, width=90)),
            Column("Speed-up", _row("request_speedup_ratio"), cell(style.SPEEDUP, filled=False, **times)),
            Column("At least", _row("request_speedup_ratio_lower"), times),
            Column("At most", _row("request_speedup_ratio_upper"), times),
            *(
                Column(percentile(label), _row("request_acceptance_quantile_ratio", quantile=label), percent)
                for label in ("0.1", "0.5", "0.9")
            ),
            Column(
                "Length", _row("request_acceptance_length_quantile_tokens", quantile="0.5"), {"decimals": 2}
            ),
            Column("Losing", _row("requests_below_break_even_ratio"), percent),
            Column("Per token", per_token, {"unit": "s", "decimals": 1}),
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
    buckets = _sum(REQUESTS.rate("spec_decode_request_acceptance_ratio_bucket"), "le", label)
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


def _heat() -> Panel:
    return heat_over_time(
        "Acceptance of requests",
        "Requests a second by their acceptance rate. Two bands are two kinds of requests; the mean lies "
        "between them, where no request is.",
        Query(_sum(REQUESTS.rate("spec_decode_request_acceptance_ratio_bucket"), "le"), "{{le}}"),
        Look(unit="cps", decimals=1, no_value=_NOT_SENT),
        y_title="acceptance of a request",
    )


def _times() -> Panel:
    metric = "request_time_per_output_token_quantile_seconds"
    return lines(
        "Time per output token by type",
        "Median and highest tenth (dashed) of the long window, at the temperature where it is longest.",
        [
            Query(
                by(("request_type",), _group(metric, quantile=quantile)),
                f"{{{{request_type}}}} {percentile(quantile)}",
                _dash(quantile),
            )
            for quantile in ("0.5", "0.9")
        ],
        Look(unit="s", least=0, colour=style.BY_NAME, no_value="no sender reports it"),
    )


def _pathological() -> Panel:
    kinds = _sum(_group("pathological_requests"), "request_type", "kind")
    requests = _sum(_group("window_requests"), "request_type")
    return lines(
        "Pathological requests",
        "Share of a type's requests with almost no accepted draft token (garbled text, an unfit drafter), "
        "or with almost all (a loop of repetition; copied text by nature).",
        [Query(f"{kinds} / on (request_type) group_left () ({requests} > 0)", "{{request_type}} {{kind}}")],
        _SHARES,
    )


def _prompts() -> Panel:
    length = FLEET("spec_decode_prompt_acceptance_length_tokens")
    return lines(
        "Acceptance length by prompt tokens",
        "Mean tokens of a draft, bonus token included, by the length of the prompt. A draft model may be "
        "bad beyond the context that it was trained for.",
        [Query(by(("model_name", "prompt_tokens"), length), "{{model_name}} {{prompt_tokens}}")],
        Look(
            unit="none",
            least=0,
            decimals=2,
            colour=style.BY_NAME,
            no_value="no sender reports the tokens of its prompts",
        ),
    )


def _not_counted() -> Panel:
    refused = EXPORTERS.rate("spec_decode_exporter_requests_refused_total")
    taken = EXPORTERS.rate("spec_decode_exporter_requests_taken_total")
    folded = EXPORTERS.rate("spec_decode_exporter_requests_folded_total")
    return lines(
        "Counted, and not counted",
        "Requests a second that are counted, those that are in no figure here, by reason, and those whose "
        "type, model or user is beyond the limit and counts as `other`.",
        [
            Query(_sum(taken), "counted", line(style.Colour.NOW)),
            Query(_sum(refused, "reason"), "{{reason}}"),
            Query(_sum(folded, "label"), "other {{label}}"),
        ],
        Look(unit="cps", least=0, colour=style.BY_NAME, no_value=_NOT_SENT),
        stepped=True,
    )


def requests() -> dict[str, Any]:
    """Return the dashboard about single requests."""
    first = [_acceptance("request_type", "Acceptance by type"), _heat()]
    second = [_acceptance("temperature", "Acceptance by temperature"), _times()]
    return board(
        UID,
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
            Section([_tiles(), Band(9, [(24, _table())])]),
            Section(
                [Band(9, [(12, one) for one in pair]) for pair in (first, second)], "By type and temperature"
            ),
            Section(
                [Band(8, [(8, one) for one in (_pathological(), _prompts(), _not_counted())])],
                "What goes wrong",
            ),
        ],
    )
