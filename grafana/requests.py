"""Single requests: which kinds gain from speculation, which pay for it, and what the average hides."""

from __future__ import annotations

from grafana_foundation_sdk.models import dashboard

from grafana import style, variables
from grafana.board import Band, Section, alerts, board
from grafana.panels import (
    Column,
    Look,
    Panel,
    Properties,
    Query,
    cell,
    count_tile,
    heat_over_time,
    lines,
    rows,
    stat_tile,
    timeline,
)
from grafana.promql import EXPORTERS, FLEET, PLACE, Scope, by, number_of_word, percentile

UID = "spec-decode-requests"

REQUESTS = Scope(("job", "instance", "model_name", "request_type"))
_KEY = (*PLACE, "instance", "model_name", "request_type", "temperature")
"""What tells one group of requests from another in a table."""
_MODEL = (*PLACE, "instance", "model_name")
_BUCKET = ("model_name", "prompt_tokens")
_NO_PROMPTS = "no sender reports the tokens of its prompts"
_LONG = "$long"
_NOT_SENT = "No requests are sent: see `requests` in the exporter's configuration."
_BY_NAME = style.by_name()
_A_SECOND = Look(unit="cps", least=0, colour=_BY_NAME, no_value=_NOT_SENT)
_TOKENS = {"unit": style.TOKENS_A_SECOND}
_DRAWN = {"0.1": [2, 6], "0.5": None, "0.9": [10, 6]}
"""How the lines of quantiles are drawn: the median is whole."""


def _shares(no_value: str = _NOT_SENT) -> Look:
    return Look(unit="percentunit", least=0, most=1, colour=_BY_NAME, no_value=no_value)


def _group(metric: str, **matchers: str) -> str:
    return REQUESTS(f"spec_decode_{metric}", window=_LONG, **matchers)


def _model(metric: str, **matchers: str) -> str:
    return FLEET(f"spec_decode_{metric}", window=_LONG, **matchers)


def _row(metric: str, **matchers: str) -> str:
    return by(_KEY, _group(metric, **matchers))


def _sum(expression: str, *labels: str) -> str:
    return by(labels, expression, "sum") if labels else f"sum({expression})"


def _below_break_even(*labels: str) -> str:
    """Return the share of requests that lose, of those of which it is known."""
    share, evaluated = _group("requests_below_break_even_ratio"), _group("window_evaluated_requests")
    return f"{_sum(f'{share} * {evaluated}', *labels)} / ({_sum(evaluated, *labels)} > 0)"


_REFUSED = EXPORTERS.rate("spec_decode_exporter_requests_refused_total")
_TAKEN = EXPORTERS.rate("spec_decode_exporter_requests_taken_total")


def _found() -> list[Panel]:
    losing, mixed = _row("request_effect", effect="loses"), by(_MODEL, _model("mixed_workload"))
    return [
        count_tile(
            "Kinds that lose",
            "Types and temperatures that speculation makes slower: even the upper 95 % bound of their "
            "speed-up is below 1. Route them to servers without it. Counts only what has requests enough "
            "and a cost that is no mere guess.",
            f"{losing} == 1",
            _row("request_speedup_ratio"),
        ),
        count_tile(
            "Mixed workloads",
            "Models whose requests are two kinds that an average hides: acceptance falls into two heaps, "
            "or one request in ten is below break-even while the mean is above.",
            f"{mixed} == 1",
            mixed,
        ),
    ]


def _tiles() -> Band:
    losing, mixed = _found()
    slower = stat_tile(
        "Below break-even",
        "Share of the requests of the long window that speculation made slower, each by its own "
        "acceptance and at what drafting costs.",
        [Query(_below_break_even())],
        Look(unit="percentunit", decimals=0, steps=style.PLAIN, no_value="cost unknown"),
    )
    requests = stat_tile(
        "Requests a second",
        "Requests that said how their speculation went.",
        [Query(_sum(REQUESTS.rate("spec_decode_requests_total")))],
        Look(unit="cps", decimals=1, no_value=_NOT_SENT),
        history=True,
    )
    saved = stat_tile(
        "Tokens saved a second",
        "Draft tokens accepted in these requests: each came out without a step of the target of its own.",
        [Query(_sum(REQUESTS.rate("spec_decode_request_saved_tokens_total")), properties=_TOKENS)],
        Look(unit="cps", decimals=0, no_value=_NOT_SENT),
        history=True,
    )
    lost = stat_tile(
        "Not counted",
        "Share of the requests that the exporters know of and do not count: not readable, without metrics, "
        "more than they take, or dropped by the sender. The reasons are below.",
        [Query(f"sum({_REFUSED}) / (sum({_REFUSED}) + sum({_TAKEN}) > 0)")],
        Look(unit="percentunit", decimals=1, steps=style.NOT_COUNTED, no_value=_NOT_SENT),
    )
    return Band(5, [(4, one) for one in (losing, mixed, slower, requests, saved, lost)])


def _columns() -> list[Column]:
    percent, times = {"unit": "percentunit", "decimals": 0}, {"unit": style.TIMES, "decimals": 2}
    effect = number_of_word(
        REQUESTS, "spec_decode_request_effect", "effect", style.EFFECTS, _KEY, window=_LONG
    )
    spread = [
        Column(percentile(label), _row("request_acceptance_quantile_ratio", quantile=label), percent)
        for label in _DRAWN
    ]
    return [
        Column("Effect", effect, cell(words=style.EFFECTS, width=90)),
        Column(
            "Speed-up",
            _row("request_speedup_ratio"),
            cell(style.SPEEDUP, filled=False, unit=style.TIMES, decimals=2),
        ),
        Column("At least", _row("request_speedup_ratio_lower"), times),
        Column("At most", _row("request_speedup_ratio_upper"), times),
        *spread,
        Column(
            "Length",
            _row("request_acceptance_length_quantile_tokens", quantile="0.5"),
            {"decimals": 2},
        ),
        Column("Losing", _row("requests_below_break_even_ratio"), percent),
        Column(
            "Per token",
            _row("request_time_per_output_token_quantile_seconds", quantile="0.5"),
            {"unit": "s", "decimals": 1},
        ),
        Column("Requests", _row("window_requests"), {"decimals": 0}),
    ]


def _table() -> Panel:
    return rows(
        "Who gains and who loses",
        "One row for each model, type and temperature, over the long window. It gains where the lower "
        "95 % bound of its speed-up is above 1, and loses where the upper one is below; by a mere guess "
        "of what drafting costs that stays unclear. p10 to p90 are acceptance rates over requests; "
        "losing is the share of requests below break-even, per token the median time per output token.",
        {
            "request_type": "Type",
            "temperature": "Temperature",
            "model_name": "Model",
            "cluster": "Cluster",
            "namespace": "Namespace",
            "instance": "Exporter",
        },
        _columns(),
        looks={"Model": {"custom.minWidth": 150}},
        order=("Type", "Temperature", "Effect", "Speed-up", "At least", "At most"),
        last="Exporter",
        worst="Effect",
        no_value=_NOT_SENT,
    )


def _quantiles(label: str, title: str) -> Panel:
    """Return the percentiles over requests by one label, from the histograms, which can be summed."""
    buckets = _sum(REQUESTS.rate("spec_decode_request_acceptance_ratio_bucket"), "le", label)
    queries = [
        Query(
            # The comparison leaves out NaN, the quantile of nothing.
            f"histogram_quantile({quantile}, {buckets}) >= 0",
            f"{{{{{label}}}}} {percentile(quantile)}",
            {"custom.lineStyle": {"fill": "dash", "dash": dash}} if dash else {},
        )
        for quantile, dash in (("0.1", _DRAWN["0.1"]), ("0.5", None))
    ]
    return lines(
        title,
        "Accepted over drafted tokens of the request in the middle, and at the lowest tenth (dotted); as "
        "exact as the buckets of the histogram.",
        queries,
        _shares(),
    )


def _heat() -> Panel:
    return heat_over_time(
        "Acceptance of requests",
        "Requests a second by their acceptance rate. Two bands are two kinds of requests; the mean lies "
        "between them, where no request is.",
        Query(_sum(REQUESTS.rate("spec_decode_request_acceptance_ratio_bucket"), "le"), "{{le}}"),
        Look(unit="cps", decimals=1, no_value=_NOT_SENT),
        y_title="acceptance of a request",
        of_buckets=True,
    )


def _by_type(title: str, counter: str, properties: Properties) -> Panel:
    return lines(
        title,
        "By the senders' names of the kind of work. Types beyond the limit are `other`.",
        [Query(_sum(REQUESTS.rate(counter), "request_type"), "{{request_type}}", properties)],
        _A_SECOND,
        stacked=True,
    )


def _rates() -> list[Panel]:
    return [
        _by_type("Requests a second by type", "spec_decode_requests_total", {}),
        _by_type("Tokens saved a second by type", "spec_decode_request_saved_tokens_total", _TOKENS),
    ]


def _losses() -> Panel:
    return lines(
        "Below break-even by type",
        "Share of the requests of the long window that speculation made slower; empty without a known cost.",
        [Query(_below_break_even("request_type"), "{{request_type}}")],
        _shares("cost unknown"),
    )


def _times() -> Panel:
    queries = [
        Query(
            by(
                ("request_type",),
                _group("request_time_per_output_token_quantile_seconds", quantile=quantile),
            ),
            f"{{{{request_type}}}} {percentile(quantile)}",
            {"custom.lineStyle": {"fill": "dash", "dash": [10, 6]}} if quantile == "0.9" else {},
        )
        for quantile in ("0.5", "0.9")
    ]
    return lines(
        "Time per output token by type",
        "Of the requests of the long window, at the temperature where it is longest. A type that loses "
        "waits itself; a type that gains may wait for those that lose beside it.",
        queries,
        Look(unit="s", least=0, colour=_BY_NAME, no_value="no sender says it"),
    )


def _prompt(metric: str, **matchers: str) -> str:
    """Return a metric by the length of the prompt; it covers the longest window of the exporter."""
    return by(_BUCKET, FLEET(f"spec_decode_prompt_{metric}", **matchers))


def _prompt_lines(title: str, description: str, metric: str, unit: str, **matchers: str) -> Panel:
    """Return a line of each model and bucket, with its bounds if the metric has some."""
    return lines(
        title,
        description,
        [Query(_prompt(metric, **matchers), "{{model_name}} {{prompt_tokens}}")],
        Look(unit=unit, least=0, decimals=2, colour=_BY_NAME, no_value=_NO_PROMPTS),
    )


def _prompts() -> list[Panel]:
    return [
        _prompt_lines(
            "Acceptance length by prompt tokens",
            "Mean tokens of a draft, bonus token included, over the requests of a bucket of prompt lengths. "
            "A draft model may be bad beyond the context that it was trained for: 2.3 at 2,000 tokens, 1.1 "
            "at 20,000.",
            "acceptance_length_tokens",
            "none",
        ),
        _prompt_lines(
            "Speed-up by prompt tokens",
            "Estimated decoding speed relative to no speculation; below 1 these prompts are slower. Empty "
            "without a known cost.",
            "speedup_ratio",
            "none",
        ),
        _prompt_lines(
            "Time to first token by prompt tokens",
            "Median over the requests of a bucket. A draft model reads the prompt too.",
            "time_to_first_token_quantile_seconds",
            "s",
            quantile="0.5",
        ),
        _prompt_lines(
            "Cached share by prompt tokens",
            "Share of the prompt tokens from the prefix cache. Some methods lose the cache: then it is 0, "
            "and the first token of a repeated prompt comes late.",
            "cached_ratio",
            "percentunit",
        ),
    ]


def _falls() -> Panel:
    return timeline(
        "Acceptance falls with the context",
        "Whether long prompts have a lower acceptance length than short ones, by more than 15 % even by the "
        "95 % bounds.",
        [Query(by(_MODEL, FLEET("spec_decode_acceptance_falls_with_prompt")), "{{model_name}}")],
        Look(unit="none", words=style.FALLS, no_value=_NO_PROMPTS),
    )


def _mixed() -> list[Panel]:
    finding = timeline(
        "Mixed workload, and since when",
        "Whether a model's requests are two kinds that an average hides, over the long window.",
        [Query(by(_MODEL, _model("mixed_workload")), "{{model_name}}")],
        Look(unit="none", words=style.MIXED, no_value=_NOT_SENT),
    )
    behind = [
        *(
            Query(
                by(_MODEL, _model("model_request_acceptance_quantile_ratio", quantile=quantile)),
                f"{{{{model_name}}}} {percentile(quantile)}",
                {"custom.lineStyle": {"fill": "dash", "dash": _DRAWN[quantile]}},
            )
            for quantile in ("0.1", "0.9")
        ),
        Query(by(_MODEL, _model("model_request_mean_acceptance_ratio")), "{{model_name}} mean"),
    ]
    tail = lines(
        "The mean and what is behind it",
        "Accepted over drafted tokens of a model's requests: their mean, each counting once, and the "
        "lowest (dotted) and the highest tenth (dashed). The farther apart they lie, the less the mean "
        "says.",
        behind,
        _shares(),
    )
    return [finding, tail]


def _pathological() -> Panel:
    kinds = _sum(_group("pathological_requests"), "request_type", "kind")
    requests = _sum(_group("window_requests"), "request_type")
    return lines(
        "Pathological requests",
        "Share of a type's requests of which almost no draft token was accepted (garbled text, a draft "
        "that does not fit), or almost every one (a loop of repetition; text that copies its prompt does "
        "so by nature).",
        [Query(f"{kinds} / on (request_type) group_left () ({requests} > 0)", "{{request_type}} {{kind}}")],
        _shares(),
    )


def _sent() -> list[Panel]:
    refused = _sum(_REFUSED, "reason")
    folded = _sum(EXPORTERS.rate("spec_decode_exporter_requests_folded_total"), "label")
    return [
        lines(
            "Not counted, by reason",
            "Requests a second that are in no figure here. `rate`: more came than `requests.rate`; "
            "`without_metrics`: vLLM said nothing of their speculation; `dropped`: the sender let them go; "
            "`too_costly`: the middleware did not read them, because of its limits; "
            "`body`: whole bodies were rejected, each counted as one.",
            [Query(refused, "{{reason}}")],
            _A_SECOND,
            stepped=True,
        ),
        lines(
            "Counted as other, by label",
            "Requests a second whose model, type, user or combination is beyond the limit of those "
            "that are distinguished: above 0 the figures of `other` stand for several.",
            [Query(folded, "{{label}}")],
            _A_SECOND,
            stepped=True,
        ),
    ]


def _kept() -> Panel:
    """Return how much of the long window is there: nothing else shows that it is not all of it."""
    return lines(
        "Time that the long window covers",
        "Less than the window after a start; for good where more requests come than the exporter keeps "
        "(`requests.keep`): then the figures here are of so much time alone.",
        [
            Query(
                by(("instance",), EXPORTERS("spec_decode_request_window_seconds", window=_LONG)),
                "{{instance}}",
            )
        ],
        Look(unit="s", least=0, colour=_BY_NAME, no_value=_NOT_SENT),
    )


def requests() -> dashboard.Dashboard:
    """Return the dashboard about single requests."""
    rates, mixed, sent, prompts = _rates(), _mixed(), _sent(), _prompts()
    return board(
        UID,
        "Speculative decoding / Requests",
        "Who gains from speculation and who pays for it: requests by type and temperature, by what each "
        "one's response says of its own acceptance. Nothing here comes from the servers' counters.",
        variables=[
            variables.datasource(),
            variables.job(),
            variables.instance(),
            variables.model_name(),
            variables.request_type(),
            variables.long_window(),
        ],
        marks=[alerts(FLEET)],
        sections=[
            Section([_tiles(), Band(9, [(24, _table())])]),
            Section(
                [
                    Band(
                        9,
                        [
                            (12, _quantiles("request_type", "Acceptance by type")),
                            (12, _quantiles("temperature", "Acceptance by temperature")),
                        ],
                    ),
                    Band(9, [(12, _losses()), (12, _times())]),
                    Band(8, [(12, one) for one in rates]),
                ],
                "By type and temperature",
            ),
            Section(
                [Band(9, [(12, _heat()), (12, mixed[1])]), Band(8, [(12, mixed[0]), (12, _pathological())])],
                "What the average hides",
            ),
            Section(
                [
                    Band(9, [(12, one) for one in prompts[:2]]),
                    Band(9, [(12, one) for one in prompts[2:]]),
                    Band(5, [(24, _falls())]),
                ],
                "By prompt length",
                collapsed=True,
            ),
            Section([Band(8, [(8, one) for one in (*sent, _kept())])], "What is sent"),
        ],
    )
