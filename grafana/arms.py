"""Arms side by side, told apart by any label, and the experiments of an exporter's configuration."""

from __future__ import annotations

from grafana import panels, style
from grafana.board import row
from grafana.panels import Look, Query, cell
from grafana.promql import ARMS, BASELINE, EXPORTERS, Scope, by

_MISSING = "No series has this label. Choose another one under “Compare by label”."


def _arms(expression: str, how: str = "sum", also: str = "") -> str:
    """Aggregate by the values of the chosen label, whatever it is called."""
    return f'{how} by (arm{also}) (label_replace({expression}, "arm", "$1", "$compare", "(.+)"))'


def _increase(name: str) -> str:
    return _arms(ARMS.rate(f"{name}_total"))


def _after_first(scope: Scope) -> str:
    """Return the tokens a second after the first of each request, engine by engine."""
    return f"{scope.rate('generation_tokens_total')} - {scope.rate('first_tokens_total')}"


_SECONDS, _REQUESTS = "decode_seconds_total", "running_requests"
_PER_TOKEN = _arms(
    f"sum by ($compare) ({ARMS.rate(_SECONDS)}) / (sum by ($compare) ({_after_first(ARMS)}) > 0)", "max"
)
_PER_TOKEN_OF_BASELINE = f"sum({BASELINE.rate(_SECONDS)}) / sum({_after_first(BASELINE)})"
_SPEEDUP = f"{_PER_TOKEN_OF_BASELINE} / on () group_right () {_PER_TOKEN}"
_PER_STEP = f"({_arms(_after_first(ARMS))} > 0) / ({_increase('decode_steps')} > 0)"
_ACCEPTED = f"{_increase('accepted_tokens')} / ({_increase('draft_tokens')} > 0)"
_RUNNING = _arms(ARMS.short(_REQUESTS), "avg")
_LOAD = f"({_RUNNING}) / on () group_left () (avg({BASELINE.short(_REQUESTS)}))"

_FASTER = panels.lines(
    "Speed-up against $baseline",
    "Time per output token of the baseline over that of the arm: measured, not estimated, but only as good as the loads are alike.",
    Look(unit="none", decimals=2, steps=style.PAYS, colour=style.BY_NAME, no_value=_MISSING),
    Query("{{arm}}", _SPEEDUP, style.TIMES),
)
_BUSIER = panels.lines(
    "Load against $baseline",
    "Running requests of an engine of the arm over those of an engine of the baseline. Arms do the same work up to one and a half times the load.",
    Look(unit="none", decimals=2, least=0, colour=style.BY_NAME, no_value=_MISSING),
    Query("{{arm}}", _LOAD, style.TIMES),
)
_SIDE_BY_SIDE = panels.table(
    "Arms side by side",
    "One row for each value of the chosen label, summed over its engines: ratios are ratios of sums. Speed-up and load are against the baseline, running requests are the mean of an engine.",
    {"arm": "Arm"},
    Query("Speed-up", _SPEEDUP, cell(style.AGAINST_BASELINE, **style.TIMES)),
    Query("Time per token", _PER_TOKEN, style.SECONDS),
    Query("Tokens per step", _PER_STEP, {"decimals": 2}),
    Query("Accepted", _ACCEPTED, {"unit": "percentunit", "decimals": 1}),
    Query("Load", _LOAD, cell(style.COMPARABLE, filled=False, **style.TIMES)),
    Query("Running", _RUNNING, {"decimals": 1}),
    Query("Engines", _arms(ARMS.short("window_seconds"), "count"), style.COUNT),
    Query("Method", _arms(ARMS("engine_info"), "count", ", method"), label="method"),
    order=("Speed-up", "Arm", "Method"),
    worst="Speed-up",
    no_value=_MISSING,
)

_KEY = ("instance", "experiment", "arm")
"""What tells one arm of the exporter's own experiments from another."""


def _own(metric: str, **matchers: str) -> str:
    """Return what the exporter says of its experiments' arms, over the long window."""
    return by(_KEY, EXPORTERS.long(f"experiment_{metric}", **matchers))


_BASIS = "time_per_output_token"
_TRAFFIC = EXPORTERS.long("experiment_traffic_ratio")
_UNLIKE = f"exp({by(_KEY, f'abs(ln({_TRAFFIC}))')})"
_EXPERIMENTS = panels.table(
    "Experiments that the exporter compares",
    "One row for each arm of an experiment in an exporter's configuration, over the long window. The speed-up is by the time per output token, with bounds that allow for the traffic: unlike traffic is the largest factor between arm and baseline.",
    {"instance": "Exporter", "experiment": "Experiment", "arm": "Arm"},
    Query("Speed-up", _own("speedup_ratio", basis=_BASIS), cell(style.AGAINST_BASELINE, **style.TIMES)),
    Query("At least", _own("speedup_ratio_lower", basis=_BASIS), style.TIMES),
    Query("At most", _own("speedup_ratio_upper", basis=_BASIS), style.TIMES),
    Query("Fastest", by(_KEY, EXPORTERS("experiment_winner", basis=_BASIS)), cell(words=style.WINS)),
    Query("End to end", _own("speedup_ratio", basis="end_to_end"), style.TIMES),
    Query("Throughput", _own("speedup_ratio", basis="throughput_per_request"), style.TIMES),
    Query("Unlike traffic", _UNLIKE, cell(style.UNLIKE, filled=False, **style.TIMES)),
    Query("Length", _own("acceptance_length_tokens"), {"decimals": 2}),
    Query("Requests", _own("requests"), style.COUNT),
    Query("Engines", _own("engines"), style.COUNT),
    order=("Experiment", "Arm", "Speed-up"),
    last="Exporter",
    worst="Speed-up",
    no_value="No exporter compares arms: see `experiments` in its configuration.",
)

ROWS = [row(8, _FASTER, _BUSIER), row(7, _SIDE_BY_SIDE), row(7, _EXPERIMENTS)]
