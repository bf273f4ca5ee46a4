"""The fleet at a glance: is anything wrong, where, and since when."""

from __future__ import annotations

from typing import Any

from grafana import arms, exporters, style, variables
from grafana.board import Band, Section, alerts, board
from grafana.panels import (
    Column,
    Look,
    Panel,
    Query,
    cell,
    count_tile,
    lines,
    named,
    palette,
    rows,
    stat_tile,
    wide,
)
from grafana.promql import (
    ENGINE_KEY,
    EXPORTERS,
    FLEET,
    by,
    engines_with_known_cost,
    firing_seconds,
    firing_trouble,
    fleet_speedup,
    number_of_word,
    ratio_of_sums,
)

UID = "spec-decode-overview"

_TO_ENGINE = (
    "/d/spec-decode-engine?${__url_time_range}&var-datasource=${datasource}&var-"
    "instance=${__data.fields.instance}&var-target=${__data.fields.target}&var-"
    "model_name=${__data.fields.model_name}&var-engine=${__data.fields.engine}"
)
_LINK = {"links": [{"title": "Open this engine", "url": _TO_ENGINE}]}
_PLACE = {"cluster": "Cluster", "namespace": "Namespace"}
_KEYS = {"target": "Target", "model_name": "Model", "engine": "Engine", **_PLACE, "instance": "Exporter"}
_KEY_LOOKS: dict[str, dict[str, Any]] = {
    "Target": {**_LINK, **wide(110)},
    "Model": {"custom.minWidth": 150},
    "Engine": wide(65),
    "Exporter": wide(125),
}


def _wrong() -> list[Panel]:
    """Return what should be 0."""
    dropped = by(ENGINE_KEY, FLEET("spec_decode_acceptance_dropped"))
    harmful = FLEET("spec_decode_verdict", verdict="harmful")
    reached = EXPORTERS("spec_decode_exporter_target_up")
    return [
        count_tile(
            "Alerts",
            "Alerts of this exporter that fire now, those that only inform left out. Green does not mean "
            "much where the rules of config/prometheus/alerts are not loaded.",
            firing_trouble(FLEET),
            reached,
        ),
        count_tile(
            "Slower",
            "Engines on which speculation costs time: even the upper bound of the estimated speed-up is "
            "below 1. Switch it off there, or draft fewer tokens.",
            f"{harmful} == 1",
            harmful,
        ),
        count_tile(
            "Dropped",
            "Engines whose acceptance length is below its own baseline, or that draft in fewer steps. Open "
            "the engine for when.",
            f"{dropped} == 1",
            dropped,
        ),
        count_tile(
            "Unreachable",
            "Targets whose newest poll failed. Their windowed values vanish after 10 s; nothing is carried "
            "on.",
            f"{reached} == 0",
            reached,
        ),
    ]


def _speedup() -> Panel:
    """Return the speed-up of the fleet, with the number of engines that it is of; grey if fewer than half."""
    known, half = engines_with_known_cost(FLEET, _LONG)
    value = f'{fleet_speedup(FLEET, _LONG)} * on () group_left (known) count_values("known", {known})'
    legend = "of {{known}} engines with a known cost"
    grey = {"color": style.fixed(style.Colour.UNKNOWN), "unit": style.TIMES}
    return stat_tile(
        "Fleet speed-up",
        "Time that decoding would have taken without speculation over the time it took, over the long "
        "window, on the engines with a known draft cost. Grey if these are fewer than half of those that "
        "draft.",
        [
            Query(f"{value} and on () {half}", legend, {"unit": style.TIMES}),
            Query(f"{value} unless on () {half}", legend, grey),
        ],
        Look(unit="none", decimals=2, steps=style.SPEEDUP, no_value="cost unknown"),
    )


def _time_saved() -> Panel:
    """Return the decode time that speculation saved in the range; negative if it cost time."""
    total = {
        name: by((), f"increase({FLEET(f'spec_decode_{name}_total')}[$__range])", "sum")
        for name in ("evaluated_decode_seconds", *_PLAIN)
    }
    spent = total.pop("evaluated_decode_seconds")
    legends = ("saved", "at least", "at most")
    return stat_tile(
        "Time saved",
        "Decode time saved in the time range, summed over all requests: without speculation less with it, "
        "and the sums of the 95 % bounds. Negative where speculation costs time. Time without "
        "bounds of the speed-up is not counted.",
        [Query(f"{plain} - {spent}", legend) for plain, legend in zip(total.values(), legends, strict=True)],
        Look(unit="s", decimals=1, no_value="cost unknown"),
    )


_PLAIN = ("plain_decode_seconds", "plain_decode_seconds_lower", "plain_decode_seconds_upper")


def _acceptance() -> Panel:
    above, below = "spec_decode_window_accepted_tokens", "spec_decode_window_draft_tokens"
    return stat_tile(
        "Acceptance",
        "Accepted tokens over draft tokens of all engines, over the long window. It has no colour: whether "
        "a rate is good depends on the cost of drafting.",
        [Query(ratio_of_sums(FLEET, above, below, (), "$long"))],
        Look(unit="percentunit", decimals=1, least=0, most=1),
        history=True,
    )


def _from_drafts() -> Panel:
    accepted = by((), FLEET.rate("spec_decode_accepted_tokens_total"), "sum")
    generated = by((), FLEET.rate("spec_decode_generation_tokens_total"), "sum")
    return stat_tile(
        "From drafts",
        "Accepted draft tokens over generated tokens of all engines: the share of the output that a drafter "
        "wrote. It says how much work the target model was spared, not whether that was faster.",
        [Query(f"{accepted} / {generated}")],
        Look(unit="percentunit", decimals=1, least=0, most=1),
        history=True,
    )


def _tiles() -> Band:
    alerts, *wrong = _wrong()
    # Time saved has three values, alerts one digit.
    return Band(
        4,
        [
            (2, alerts),
            *((3, tile) for tile in (*wrong, _speedup())),
            (4, _time_saved()),
            (3, _acceptance()),
            (3, _from_drafts()),
        ],
    )


def _gauge(metric: str, **matchers: str) -> str:
    return by(ENGINE_KEY, FLEET(metric, **matchers))


def _word(metric: str, label: str, words: style.Words) -> str:
    return number_of_word(FLEET, metric, label, words, ENGINE_KEY)


_SHORT = "$short"
_LONG = "$long"


def _words() -> list[Column]:
    verdict = _word("spec_decode_verdict", "verdict", style.VERDICTS)
    advice = _word("spec_decode_recommendation", "action", style.ACTIONS)
    state = _word("spec_decode_state", "state", style.STATES)
    method = by((*ENGINE_KEY, "method"), FLEET("spec_decode_engine_info"))
    return [
        Column("Verdict", verdict, cell(words=style.VERDICTS, width=110)),
        Column("Advice", advice, cell(words=style.ACTIONS, filled=False, width=130)),
        Column("State", state, cell(words=style.STATES, filled=False, width=75)),
        Column("Method", method, wide(95), label="method"),
    ]


def _figures() -> list[Column]:
    speedup, acceptance = "spec_decode_estimated_speedup_ratio", "spec_decode_draft_acceptance_ratio"
    length, running = "spec_decode_acceptance_length_tokens", "spec_decode_running_requests"
    times: dict[str, Any] = {"unit": style.TIMES, "decimals": 2}
    percent: dict[str, Any] = {"unit": "percentunit", "decimals": 0}
    return [
        Column(
            "Speed-up", _gauge(speedup, window=_LONG), cell(style.SPEEDUP, filled=False, width=85, **times)
        ),
        Column("at least", _gauge(f"{speedup}_lower", window=_LONG), wide(70, **times)),
        Column("at most", _gauge(f"{speedup}_upper", window=_LONG), wide(70, **times)),
        Column("Accepted now", _gauge(acceptance, window=_SHORT), wide(110, **percent)),
        Column("trend", _gauge(acceptance, window=_LONG), wide(60, **percent)),
        Column("Length", _gauge(length, window=_LONG), wide(68, decimals=2)),
        Column("K", _gauge("spec_decode_configured_tokens"), wide(38, decimals=0)),
        Column("Best K", _gauge("spec_decode_recommended_tokens"), wide(66, decimals=0)),
        Column("Running", _gauge(running, window=_SHORT), wide(76, decimals=0)),
    ]


def _fleet() -> Panel:
    description = (
        "One row for each engine, the worst verdict first; click a target to open its engine. Speed-up with "
        "its 95 % bounds, the trend of acceptance, and the length (bonus token included) are of the long "
        "window; “now” is the short one. Best K is a hypothesis to try."
    )
    return rows(
        "Engines",
        description,
        _KEYS,
        [*_words(), *_figures()],
        looks=_KEY_LOOKS,
        order=("Verdict", "Target", "Model", "Engine", "Method", "State", "Advice"),
        last="Exporter",
        worst="Verdict",
        no_value="No engine is watched. Look at the row of the exporters.",
    )


_SINCE = "Since first true"


def _alerts() -> Panel:
    titles = {
        "severity": "Severity",
        "alertname": "Alert",
        "target": "Target",
        "model_name": "Model",
        **_PLACE,
    }
    severity = {
        "custom.cellOptions": {"type": "color-text"},
        "mappings": style.mappings(style.SEVERITIES, named=True),
    }
    return rows(
        "Firing alerts",
        "Alerts of this exporter that fire now, and how long ago their condition became true, the time "
        "before they fired included. Each has a runbook under docs/runbooks.",
        titles,
        [Column(_SINCE, firing_seconds(FLEET, list(titles)), wide(140, unit="s", decimals=0))],
        looks={"Severity": {**severity, **wide(85)}, "Alert": wide(190), "Target": wide(90)},
        worst=_SINCE,
        no_value="No alert fires.",
    )


def _changes() -> Panel:
    acceptance = FLEET("spec_decode_draft_acceptance_ratio", window=_LONG)
    moved = f"({acceptance} - {acceptance} offset $__range)"
    events: dict[str, tuple[str, dict[str, Any]]] = {
        "Drops": (FLEET.increase("spec_decode_acceptance_drops_total"), wide(70)),
        "Restarts": (FLEET.increase("spec_decode_engine_resets_total"), wide(80)),
        "New K": (FLEET.changes("spec_decode_configured_tokens"), wide(70)),
        # A change makes one verdict 0 and another 1.
        "Verdicts": (f"{FLEET.changes('spec_decode_verdict')} / 2", wide(85, decimals=0)),
    }
    columns = [
        Column(title, f"{by(ENGINE_KEY, happened, 'sum')} > 0", look)
        for title, (happened, look) in events.items()
    ]
    points = wide(100, unit="percentunit", decimals=0)
    columns.append(Column("Acceptance", by(ENGINE_KEY, f"{moved} > 0.05 or {moved} < -0.05"), points))
    return rows(
        "What changed in the time shown",
        "Engines on which something happened: drops of acceptance, restarts of the server, other numbers of "
        "draft tokens, other verdicts, and acceptance more than 5 points away from where it was when the "
        "time shown began.",
        _KEYS,
        columns,
        looks=_KEY_LOOKS,
        last="Exporter",
        worst="Drops",
        no_value="Nothing changed.",
    )


def _verdicts() -> Panel:
    panel = lines(
        "Engines by verdict",
        "How many engines have each verdict. Red below, grey above: too little traffic, or a cost that is "
        "not known well enough.",
        [Query(by(("verdict",), FLEET("spec_decode_verdict"), "sum"), "{{verdict}}")],
        Look(unit="short", decimals=0, least=0, colour=style.BY_NAME),
        stacked=True,
        stepped=True,
    )
    return named(panel, palette(style.VERDICTS))


def _by_model(
    title: str, description: str, expr: str, look: Look, unit: dict[str, Any], *, limit: bool = False
) -> Panel:
    return lines(title, description, [Query(expr, "{{model_name}}", unit)], look, limit=limit)


def _over_time() -> Band:
    models, key = style.BY_NAME, ("model_name",)
    accepted = ratio_of_sums(
        FLEET, "spec_decode_window_accepted_tokens", "spec_decode_window_draft_tokens", key, "$short"
    )
    generated = by(key, FLEET.rate("spec_decode_generation_tokens_total"), "sum")
    speedup = _by_model(
        "Speed-up by model",
        "The time that decoding would have taken without speculation over the time it took. Below the line "
        "at 1 it is slower.",
        fleet_speedup(FLEET, _LONG, key),
        Look(
            unit="none",
            decimals=2,
            steps=style.PAYS,
            colour=models,
            no_value="cost unknown",
            axis=(0.9, None),
        ),
        {"unit": style.TIMES},
        limit=True,
    )
    acceptance = _by_model(
        "Acceptance by model, short window",
        "Accepted tokens over draft tokens, summed over the model's engines.",
        accepted,
        Look(unit="percentunit", least=0, most=1, colour=models),
        {},
    )
    tokens = _by_model(
        "Tokens generated, by model",
        "Tokens a second over all engines of the model: how much is at stake.",
        generated,
        Look(unit="cps", least=0, colour=models),
        {"unit": style.TOKENS_A_SECOND, "decimals": 0},
    )
    return Band(8, [(8, speedup), (8, acceptance), (8, tokens)])


def overview() -> dict[str, Any]:
    """Return the dashboard of the fleet."""
    return board(
        UID,
        "Speculative decoding / Overview",
        "The fleet at a glance: which engines does speculative decoding slow down, where did acceptance "
        "drop, what should be done.",
        variables=[
            variables.SOURCE,
            variables.JOB,
            variables.INSTANCE,
            variables.MODEL,
            *variables.WINDOWS,
            *variables.ARMS,
        ],
        marks=[alerts(FLEET)],
        sections=[
            Section([_tiles(), Band(10, [(24, _fleet())])]),
            Section([Band(8, [(10, _alerts()), (14, _changes())])]),
            Section([Band(7, [(24, _verdicts())]), _over_time()], "Over time"),
            Section(arms.bands(), "Arms: which is faster?", collapsed=True),
            Section(exporters.bands(), "Exporters: is the monitoring complete?", collapsed=True),
        ],
    )
