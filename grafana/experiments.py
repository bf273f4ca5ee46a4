"""Arms side by side: with speculation and without, or method against method, told apart by any label."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from grafana_foundation_sdk.models import dashboard

from grafana import style, variables
from grafana.board import Band, Section, alerts, board
from grafana.panels import Column, Look, Panel, Query, cell, lines, rows, stat_tile, timeline
from grafana.promql import EXPERIMENTS, FLEET, by, narrowed

UID = "spec-decode-experiments"

_TIMES = {"unit": style.TIMES}
_MISSING = "No series has this label. Choose another one under “Compare by label”."
_BY_ARM = style.by_name()


def _arms(expression: str, how: str = "sum", also: str = "") -> str:
    """Aggregate by the values of the chosen label, whatever it is called."""
    return f'{how} by (arm{also}) (label_replace({expression}, "arm", "$1", "$compare", "(.+)"))'


def _sum(expression: str) -> str:
    """Sum by the chosen label under its own name, for what is renamed as a whole."""
    return f"sum by ($compare) ({expression})"


def _of_arms(metric: str, **matchers: str) -> str:
    return narrowed(FLEET(metric, **matchers), '$compare=~"$arm"')


def _of_baseline(metric: str, **matchers: str) -> str:
    return narrowed(FLEET(metric, **matchers), '$compare="$baseline"')


def _rate(selector: str) -> str:
    return f"rate({selector}[$__rate_interval])"


def _increase(name: str) -> str:
    return _arms(_rate(_of_arms(f"spec_decode_{name}_total")))


def _some(name: str) -> str:
    """Return an increase to divide by: nothing where it is 0."""
    return f"({_increase(name)} > 0)"


def _after_first(selected: Callable[[str], str]) -> str:
    """Return the tokens a second after the first of each request, engine by engine."""
    generated, first = (selected(f"spec_decode_{which}_tokens_total") for which in ("generation", "first"))
    return f"{_rate(generated)} - {_rate(first)}"


_OUTPUT = f"({_arms(_after_first(_of_arms))} > 0)"
_SECONDS = _rate(_of_arms("spec_decode_decode_seconds_total"))
_PER_TOKEN = _arms(f"{_sum(_SECONDS)} / ({_sum(_after_first(_of_arms))} > 0)", "max")
_PER_TOKEN_OF_BASELINE = (
    f"sum({_rate(_of_baseline('spec_decode_decode_seconds_total'))}) / sum({_after_first(_of_baseline)})"
)
_SPEEDUP = f"{_PER_TOKEN_OF_BASELINE} / on () group_right () {_PER_TOKEN}"
_PER_STEP = f"{_OUTPUT} / {_some('decode_steps')}"
_ACCEPTED = f"{_increase('accepted_tokens')} / {_some('draft_tokens')}"
_LENGTH = f"1 + {_increase('accepted_tokens')} / {_some('drafts')}"
_RUNNING = _arms(_of_arms("spec_decode_running_requests", window="$short"), "avg")
_WAITING = _arms(_of_arms("spec_decode_waiting_requests", window="$short"), "avg")
_BASELINE_RUNNING = _of_baseline("spec_decode_running_requests", window="$short")
_LOAD = f"({_RUNNING}) / on () group_left () (avg({_BASELINE_RUNNING}))"


def _tiles() -> Band:
    faster = stat_tile(
        "Speed-up against $baseline",
        "Time per output token of the baseline over that of the arm, at the end of the time shown. Above 1 "
        "the arm is faster. It is measured, not estimated, but only as good as the arms' load is "
        "comparable: see beside it.",
        [Query(_SPEEDUP, "{{arm}}", _TIMES)],
        Look(unit="none", decimals=2, steps=style.AGAINST_BASELINE, no_value=_MISSING),
        filled=True,
    )
    load = stat_tile(
        "Load against $baseline",
        "Running requests of an engine of the arm over those of an engine of the baseline. They can be "
        "compared up to one and a half times the load; outside of that the arms do not do the same work.",
        [Query(_LOAD, "{{arm}}", _TIMES)],
        Look(unit="none", decimals=2, steps=style.COMPARABLE, no_value=_MISSING),
        filled=True,
    )
    return Band(5, [(12, faster), (12, load)])


def _columns() -> list[Column]:
    percent = {"unit": "percentunit", "decimals": 1}
    two = {"decimals": 2}
    return [
        Column("Speed-up", _SPEEDUP, cell(style.AGAINST_BASELINE, unit=style.TIMES, decimals=2)),
        Column("Time per token", _PER_TOKEN, {"unit": "s", "decimals": 1}),
        Column("Tokens per step", _PER_STEP, two),
        Column("Accepted", _ACCEPTED, percent),
        Column("Length", _LENGTH, two),
        Column("Load", _LOAD, cell(style.COMPARABLE, filled=False, unit=style.TIMES, decimals=2)),
        Column("Running", _RUNNING, {"decimals": 1}),
        Column("Waiting", _WAITING, {"decimals": 1}),
        Column(
            "Tokens a second", _increase("generation_tokens"), {"unit": style.TOKENS_A_SECOND, "decimals": 0}
        ),
        Column(
            "Engines",
            _arms(_of_arms("spec_decode_window_seconds", window="$short"), "count"),
            {"decimals": 0},
        ),
        Column("Method", _arms(_of_arms("spec_decode_engine_info"), "count", ", method"), label="method"),
    ]


def _table() -> Panel:
    return rows(
        "Arms side by side",
        "One row for each value of the chosen label, summed over its engines: ratios are ratios of sums. "
        "Speed-up and load are against the baseline, running and waiting requests are means of an engine.",
        {"arm": "Arm"},
        _columns(),
        looks={},
        order=("Speed-up", "Arm", "Method"),
        worst="Speed-up",
        no_value=_MISSING,
    )


_GRAPHS: tuple[tuple[str, str, str, Look], ...] = (
    (
        "Speed-up against $baseline over time",
        "Time per output token of the baseline over that of the arm. The baseline itself is the line at 1.",
        _SPEEDUP,
        Look(unit="none", decimals=2, steps=style.PAYS, colour=_BY_ARM, no_value=_MISSING),
    ),
    (
        "Time per output token",
        "Time in decode steps over tokens after the first: what a user waits for each token.",
        _PER_TOKEN,
        Look(unit="s", least=0, colour=_BY_ARM, no_value=_MISSING),
    ),
    (
        "Tokens per step",
        "Tokens that a decode step of a request gives, with a draft or without; 1 without speculation.",
        _PER_STEP,
        Look(unit="none", decimals=2, least=0, colour=_BY_ARM, no_value=_MISSING),
    ),
    (
        "Acceptance",
        "Accepted tokens over draft tokens. An arm without speculation has none.",
        _ACCEPTED,
        Look(unit="percentunit", least=0, most=1, colour=_BY_ARM, no_value=_MISSING),
    ),
    (
        "Running requests of an engine",
        "Mean over the arm's engines. Arms can be compared while these lines lie near each other.",
        _RUNNING,
        Look(unit="none", decimals=1, least=0, colour=_BY_ARM, no_value=_MISSING),
    ),
    (
        "Waiting requests of an engine",
        "Mean over the arm's engines. An arm with a queue is at its limit, whatever its time per token.",
        _WAITING,
        Look(unit="none", decimals=1, least=0, colour=_BY_ARM, no_value=_MISSING, axis=(None, 1)),
    ),
)


def _graphs() -> list[Band]:
    made = [
        lines(
            title,
            description,
            [Query(expr, "{{arm}}", _TIMES if "Speed-up" in title else {})],
            look,
            limit="Speed-up" in title,
        )
        for title, description, expr, look in _GRAPHS
    ]
    return [Band(8, [(12, left), (12, right)]) for left, right in zip(made[::2], made[1::2], strict=True)]


_ARM = ("instance", "experiment", "arm")
"""What tells one arm of the exporter's own experiments from another."""

_PER_OUTPUT_TOKEN = "time_per_output_token"  # noqa: S105 - a token of text
_NOT_CONFIGURED = "No exporter compares arms: see `experiments` in its configuration."


def _compared(metric: str, key: Sequence[str] = _ARM, how: str = "max", **matchers: str) -> str:
    """Return what the exporter says of its experiments' arms, over the long window."""
    return by(key, EXPERIMENTS(f"spec_decode_experiment_{metric}", window="$long", **matchers), how)


def _speedup_by(basis: str, bound: str = "") -> str:
    return _compared(f"speedup_ratio{bound}", basis=basis)


def _winner(basis: str) -> str:
    return by(_ARM, EXPERIMENTS("spec_decode_experiment_winner", basis=basis))


def _own_columns() -> list[Column]:
    faster = {"unit": style.TIMES, "decimals": 2}
    return [
        Column(
            "Speed-up",
            _speedup_by(_PER_OUTPUT_TOKEN),
            cell(style.AGAINST_BASELINE, unit=style.TIMES, decimals=2),
        ),
        Column("At least", _speedup_by(_PER_OUTPUT_TOKEN, "_lower"), faster),
        Column("At most", _speedup_by(_PER_OUTPUT_TOKEN, "_upper"), faster),
        Column("Fastest", _winner(_PER_OUTPUT_TOKEN), cell(words=style.WINS)),
        Column("End to end", _speedup_by("end_to_end"), faster),
        Column("Throughput", _speedup_by("throughput_per_request"), faster),
        Column("Comparable", _compared("comparable", how="min"), cell(words=style.YES_NO)),
        Column("Length", _compared("acceptance_length_tokens"), {"decimals": 2}),
        Column("Requests", _compared("requests"), {"decimals": 0}),
        Column("Engines", _compared("engines"), {"decimals": 0}),
    ]


def _own_table() -> Panel:
    return rows(
        "Experiments that the exporter compares",
        "One row for each arm of an experiment in an exporter's configuration, over the long window. The "
        "speed-up is by the time per output token, with its 95 % bounds; empty where arm and baseline do "
        "not do the same work. The fastest is statistically significant (95 %).",
        {"instance": "Exporter", "experiment": "Experiment", "arm": "Arm"},
        _own_columns(),
        looks={},
        order=("Experiment", "Arm", "Speed-up"),
        last="Exporter",
        worst="Speed-up",
        no_value=_NOT_CONFIGURED,
    )


def _own_graphs() -> Band:
    bounds = (("", "{{experiment}} / {{arm}}"), ("_lower", "{{arm}} at least"), ("_upper", "{{arm}} at most"))
    faster = lines(
        "Speed-up with its bounds",
        "Time per output token of the baseline over that of the arm, over the long window, with 95 % bounds. "
        "An arm whose lower bound is above 1 is significantly faster (95 %).",
        [Query(_speedup_by(_PER_OUTPUT_TOKEN, bound), legend, _TIMES) for bound, legend in bounds],
        Look(unit="none", decimals=2, steps=style.PAYS, colour=_BY_ARM, no_value=_NOT_CONFIGURED),
        limit=True,
    )
    alike = timeline(
        "What makes arms comparable",
        "Whether arm and baseline had enough requests, a like load, and prompts and answers of like lengths, "
        "over the long window. One that does not hold leaves the arm without a speed-up.",
        [Query(_compared("comparable", (*_ARM, "check"), how="min"), "{{experiment}} / {{arm}}: {{check}}")],
        Look(unit="none", words=style.ALIKE, no_value=_NOT_CONFIGURED),
    )
    return Band(9, [(12, faster), (12, alike)])


def experiments() -> dashboard.Dashboard:
    """Return the dashboard that compares the arms of an experiment."""
    return board(
        UID,
        "Speculative decoding / Experiments",
        "Arms side by side: speculation on against off, method against method, model against model. Any "
        "label tells the arms apart: one that the exporter's configuration or Prometheus' relabelling sets.",
        variables=[
            variables.datasource(),
            variables.job(),
            variables.instance(),
            variables.model_name(),
            variables.compare(),
            *variables.arms(),
            variables.experiment(),
            *variables.windows(),
        ],
        marks=[alerts(FLEET)],
        sections=[
            Section([_tiles(), Band(7, [(24, _table())])]),
            Section(_graphs(), "Over time"),
            Section([Band(7, [(24, _own_table())]), _own_graphs()], "By one exporter"),
        ],
    )
