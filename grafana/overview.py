"""The fleet at a glance: is anything wrong, where, and since when."""

from __future__ import annotations

from grafana import arms, exporters, panels, style
from grafana.board import ARM_VARIABLES, INSTANCE, MODEL, WINDOWS, board, row
from grafana.panels import SPEEDUP, Look, Looks, Query, cell, line, wide
from grafana.promql import (
    ENGINE_KEY,
    EXPORTERS,
    FIRING,
    FLEET,
    PLACES,
    alerts,
    by,
    number_of_word,
    ratio_of_sums,
)

_SHARE = Look(unit="percentunit", decimals=1, least=0, most=1)

_TO_ENGINE = (
    "/d/spec-decode-engine?${__url_time_range}&var-datasource=${datasource}&var-"
    "instance=${__data.fields.instance}&var-target=${__data.fields.target}&var-"
    "model_name=${__data.fields.model_name}&var-engine=${__data.fields.engine}"
)
_KEYS = {"target": "Target", "model_name": "Model", "engine": "Engine", **PLACES, "instance": "Exporter"}
_KEY_LOOKS: Looks = {
    "Target": {"links": [{"title": "Open this engine", "url": _TO_ENGINE}], **wide(110)},
    "Model": {"custom.minWidth": 150},
    "Engine": wide(65),
    "Exporter": wide(125),
}

_ESTIMATED, _DECODING = FLEET.long("estimated_speedup_ratio"), FLEET.long("window_decode_seconds")
_WITHOUT, _WITH = f"{_ESTIMATED} * {_DECODING}", f"{_DECODING} and {_ESTIMATED}"
"""Seconds of decoding of each engine with a known cost: without speculation, and as it was."""
_DRAFTED, _ACCEPTED = ("window_draft_tokens", "window_accepted_tokens")

# What should be 0.
_REACHED = EXPORTERS("exporter_target_up")
_WRONG = [
    panels.count_tile(
        "Alerts",
        "Alerts of this exporter that fire now, those that only inform left out. Green does not mean much where the rules of config/prometheus/alerts are not loaded.",
        alerts(FLEET, FIRING, 'severity!="info"'),
        "",
        _REACHED,
    ),
    panels.count_tile(
        "Slower",
        "Engines on which speculation costs time: even the upper bound of the estimated speed-up is below 1. Switch it off there, or draft fewer tokens.",
        FLEET("verdict", verdict="harmful"),
    ),
    panels.count_tile(
        "Dropped",
        "Engines whose acceptance length is below its own baseline, or that draft in fewer steps. Open the engine for when.",
        by(ENGINE_KEY, FLEET("acceptance_dropped")),
    ),
    panels.count_tile(
        "Unreachable",
        "Targets whose newest poll failed. Their windowed values vanish after 10 s; nothing is carried on.",
        _REACHED,
        " == 0",
    ),
]

# The engines with a known cost; half of those that draft.
_KNOWN = f"count({_ESTIMATED})"
_HALF = f"on () (2 * {_KNOWN} >= count({FLEET.long(_DRAFTED)} > 0))"
_OF_KNOWN = f'{ratio_of_sums(_WITHOUT, _WITH)} * on () group_left (known) count_values("known", {_KNOWN})'
_SPEEDUP = panels.figures(
    "Fleet speed-up",
    "Time that decoding would have taken without speculation over the time it took, over the long window, on the engines with a known draft cost. Grey if these are fewer than half of those that draft.",
    Look(unit="none", decimals=2, steps=style.SPEEDUP, no_value="cost unknown"),
    *(
        Query("of {{known}} engines with a known cost", f"{_OF_KNOWN} {matching} {_HALF}", look)
        for matching, look in (("and", style.FACTOR), ("unless", line(style.Colour.UNKNOWN, style.FACTOR)))
    ),
)


def _total(metric: str) -> str:
    return by((), f"increase({FLEET(f'{metric}_total')}[$__range])", "sum")


_TIME_SAVED = panels.figures(
    "Time saved",
    "Decode time saved in the time range, summed over all requests: without speculation less with it, and the sums of the 95 % bounds. Negative where speculation costs time. Time without bounds of the speed-up is not counted.",
    Look(unit="s", decimals=1, no_value="cost unknown"),
    *(
        Query(legend, f"{_total(f'plain_decode_seconds{side}')} - {_total('evaluated_decode_seconds')}")
        for side, legend in (("", "saved"), ("_lower", "at least"), ("_upper", "at most"))
    ),
)
_ACCEPTANCE = panels.trend(
    "Acceptance",
    "Accepted tokens over draft tokens of all engines, over the long window. It has no colour: whether a rate is good depends on the cost of drafting.",
    _SHARE,
    Query("", ratio_of_sums(FLEET.long(_ACCEPTED), FLEET.long(_DRAFTED))),
)
_FROM_DRAFTS = panels.trend(
    "From drafts",
    "Accepted draft tokens over generated tokens of all engines: the share of the output that a drafter wrote. It says how much work the target model was spared, not whether that was faster.",
    _SHARE,
    Query("", ratio_of_sums(FLEET.rate("accepted_tokens_total"), FLEET.rate("generation_tokens_total"))),
)

_VERDICT = number_of_word(FLEET, "verdict", "verdict", style.VERDICTS, ENGINE_KEY)
_ADVICE = number_of_word(FLEET, "recommendation", "action", style.ACTIONS, ENGINE_KEY)
_STATE = number_of_word(FLEET, "state", "state", style.STATES, ENGINE_KEY)
_ENGINES = panels.table(
    "Engines",
    "One row for each engine, the worst verdict first; click a target to open its engine. Speed-up with its 95 % bounds, the trend of acceptance, and the length (bonus token included) are of the long window; “now” is the short one. Best K is a hypothesis to try.",
    _KEYS,
    Query("Verdict", _VERDICT, cell(words=style.VERDICTS, width=110)),
    Query("Advice", _ADVICE, cell(words=style.ACTIONS, filled=False, width=130)),
    Query("State", _STATE, cell(words=style.STATES, filled=False, width=75)),
    Query("Method", by((*ENGINE_KEY, "method"), FLEET("engine_info")), wide(95), label="method"),
    Query("Speed-up", by(ENGINE_KEY, _ESTIMATED), cell(style.SPEEDUP, filled=False, width=85, **style.TIMES)),
    Query("at least", by(ENGINE_KEY, FLEET.long("estimated_speedup_ratio_lower")), wide(70, **style.TIMES)),
    Query("at most", by(ENGINE_KEY, FLEET.long("estimated_speedup_ratio_upper")), wide(70, **style.TIMES)),
    Query("Accepted now", by(ENGINE_KEY, FLEET.short("draft_acceptance_ratio")), wide(110, **style.PERCENT)),
    Query("trend", by(ENGINE_KEY, FLEET.long("draft_acceptance_ratio")), wide(60, **style.PERCENT)),
    Query("Length", by(ENGINE_KEY, FLEET.long("acceptance_length_tokens")), wide(68, decimals=2)),
    Query("K", by(ENGINE_KEY, FLEET("configured_tokens")), wide(38, decimals=0)),
    Query("Best K", by(ENGINE_KEY, FLEET("recommended_tokens")), wide(66, decimals=0)),
    Query("Running", by(ENGINE_KEY, FLEET.short("running_requests")), wide(76, decimals=0)),
    looks=_KEY_LOOKS,
    order=("Verdict", "Target", "Model", "Engine", "Method", "State", "Advice"),
    last="Exporter",
    worst="Verdict",
    no_value="No engine is watched. Look at the row of the exporters.",
)

_ALERT = {"severity": "Severity", "alertname": "Alert", "target": "Target", "model_name": "Model", **PLACES}
_SEVERITY = {
    "custom.cellOptions": {"type": "color-text"},
    "mappings": style.mappings(style.SEVERITIES, named=True),
}
_SINCE = "Since first true"
_PENDING = f"(time() - {alerts(FLEET, series='ALERTS_FOR_STATE')})"
_ACTIVE = f"{_PENDING} and ignoring (alertstate) {alerts(FLEET, FIRING)}"
_ALERTS = panels.table(
    "Firing alerts",
    "Alerts of this exporter that fire now, and how long ago their condition became true, the time before they fired included. Each has a runbook under docs/runbooks.",
    _ALERT,
    Query(_SINCE, by(list(_ALERT), _ACTIVE), wide(140, unit="s", decimals=0)),
    looks={"Severity": {**_SEVERITY, **wide(85)}, "Alert": wide(190), "Target": wide(90)},
    worst=_SINCE,
    no_value="No alert fires.",
)

_TREND = FLEET.long("draft_acceptance_ratio")
_MOVED = f"({_TREND} - {_TREND} offset $__range)"


def _happened(expression: str) -> str:
    return f"{by(ENGINE_KEY, expression, 'sum')} > 0"


_CHANGES = panels.table(
    "What changed in the time shown",
    "Engines on which something happened: drops of acceptance, restarts of the server, other numbers of draft tokens, other verdicts, and acceptance more than 5 points away from where it was when the time shown began.",
    _KEYS,
    Query("Drops", _happened(FLEET.increase("acceptance_drops_total")), wide(70)),
    Query("Restarts", _happened(FLEET.increase("engine_resets_total")), wide(80)),
    Query("New K", _happened(FLEET.changes("configured_tokens")), wide(70)),
    # A change makes one verdict 0 and another 1.
    Query("Verdicts", _happened(f"{FLEET.changes('verdict')} / 2"), wide(85, decimals=0)),
    Query("Acceptance", by(ENGINE_KEY, f"{_MOVED} > 0.05 or {_MOVED} < -0.05"), wide(100, **style.PERCENT)),
    looks=_KEY_LOOKS,
    last="Exporter",
    worst="Drops",
    no_value="Nothing changed.",
)

_VERDICTS = panels.stacked_counts(
    "Engines by verdict",
    "How many engines have each verdict. Red below, grey above: too little traffic, or a cost that is not known well enough.",
    Look(unit="short", decimals=0, least=0, colour=style.BY_NAME),
    Query("{{verdict}}", by(("verdict",), FLEET("verdict"), "sum")),
    looks={word.value: {"color": style.fixed(word.colour)} for word in style.VERDICTS},
)

_MODEL = ("model_name",)
_GENERATED = by(_MODEL, FLEET.rate("generation_tokens_total"), "sum")
_BY_MODEL = [
    panels.lines(
        "Speed-up by model",
        "The time that decoding would have taken without speculation over the time it took. Below the line at 1 it is slower.",
        SPEEDUP._replace(colour=style.BY_NAME),
        Query("{{model_name}}", ratio_of_sums(_WITHOUT, _WITH, _MODEL), style.FACTOR),
    ),
    panels.lines(
        "Acceptance by model, short window",
        "Accepted tokens over draft tokens, summed over the model's engines.",
        Look(unit="percentunit", least=0, most=1, colour=style.BY_NAME),
        Query("{{model_name}}", ratio_of_sums(FLEET.short(_ACCEPTED), FLEET.short(_DRAFTED), _MODEL)),
    ),
    panels.lines(
        "Tokens generated, by model",
        "Tokens a second over all engines of the model: how much is at stake.",
        Look(unit="cps", least=0, colour=style.BY_NAME),
        Query("{{model_name}}", _GENERATED, style.TOKENS_A_SECOND),
    ),
]

# Time saved has three values, alerts one digit.
_TILES = row(4, *_WRONG, _SPEEDUP, _TIME_SAVED, _ACCEPTANCE, _FROM_DRAFTS, widths=(2, 3, 3, 3, 3, 4, 3, 3))
BOARD = board(
    "spec-decode-overview",
    "Speculative decoding / Overview",
    "The fleet at a glance: which engines does speculative decoding slow down, where did acceptance drop, what should be done.",
    variables=[INSTANCE, MODEL, *WINDOWS, *ARM_VARIABLES],
    scope=FLEET,
    sections={
        "": [_TILES, row(10, _ENGINES), row(8, _ALERTS, _CHANGES, widths=(10, 14))],
        "Over time": [row(7, _VERDICTS), row(8, *_BY_MODEL)],
    },
    collapsed={"Arms: which is faster?": arms.ROWS, "Exporters: is the monitoring complete?": exporters.ROWS},
)
