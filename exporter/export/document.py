"""Writes docs/metrics.md from the catalogue, so that it cannot fall behind it."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from exporter.analysis.arm import Basis
from exporter.analysis.comparability import Condition
from exporter.analysis.cost import CostSource
from exporter.analysis.drop import DropKind
from exporter.analysis.integrity import Check
from exporter.analysis.recommendation import Action
from exporter.analysis.state import State
from exporter.analysis.verdict import Verdict
from exporter.config.schema import Group
from exporter.export.catalogue import CATALOGUE, ENGINE_LABELS, TARGET_METRICS
from exporter.export.experiment_catalogue import ARM_LABELS, EXPERIMENT_METRICS
from exporter.export.metric import Metric, Stability
from exporter.export.reads import PERCENTILES, SPREAD_PERCENTILES
from exporter.requests.findings import Effect
from exporter.requests.request import Refusal
from exporter.scrape.engines import Latency
from exporter.scrape.errors import REASONS
from exporter.window.counts import Reset

_INTRODUCTION: Final = """\
# Metrics

<!-- Generated from exporter/export/catalogue.py by `make docs`. Change the rows there. -->

The names, labels and meanings below are what dashboards and alerts can hold on to: they stay within a major
version, those marked *experimental* within a minor one. [semantics.md](semantics.md) says what the numbers
mean and how they are computed.

- A gauge that has no value is **absent**: not 0, not NaN, not the last one. A ratio of nothing has no value.
- Counters are never absent: they start at 0 for every engine that is known, and for every cause and reason.
- When no poll of a target succeeds for three intervals (at least 10 s), its windowed gauges vanish.
- `metrics: {enable: [...], disable: [...]}` in the [configuration](configuration.md) switches groups and
  single metrics on and off; a name goes before its group.
- `process_*` and `python_*` metrics of the exporter's own process come besides.
"""

_GROUPS: Final = {
    Group.COUNTERS: "What the exporter counted since it first saw an engine: for `rate()` over any time and "
    "sums over any set of engines.",
    Group.ACCEPTANCE: "How much of what is drafted survives.",
    Group.RATES: "Tokens and drafts a second, by the time that a window really covers.",
    Group.SUMS: "What the windows' ratios are made of: sum these over engines, then divide.",
    Group.LATENCY: "Latency under speculation.",
    Group.LOAD: "What the server was busy with meanwhile.",
    Group.DISTRIBUTION: "How acceptance is spread. Off by default.",
    Group.PAY: "Whether speculation pays, at which cost, and what to do. What needs the cost is absent where "
    "that is unknown.",
    Group.DROPS: "Whether acceptance is below what is usual for the engine.",
    Group.EXPERIMENTS: "Arms of targets that are held against each other, where `experiments` say so: "
    "[experiments.md](experiments.md).",
    Group.REQUESTS: "Single requests by kind, where `requests.ingest` is on: [requests.md](requests.md).",
    Group.INTEGRITY: "Whether the server's counters can be trusted.",
    Group.EXPORTER: "How the exporter itself fares.",
}


def _values(values: Iterable[object]) -> str:
    return ", ".join(f"`{value}`" for value in values)


_LABELS: Final = {
    "target": "the target's configured name, else its host and port",
    "model_name": "the served model; the target's name where the engine does not say",
    "engine": "the engine of a data-parallel server; `0` where there is only one",
    "window": "a configured window, such as `30s` or `5m`; some metrics have only the longest",
    "position": "a draft position, from `0`",
    "length": "accepted tokens of a draft, from `0`",
    "latency": _values(Latency),
    "percentile": _values(dict.fromkeys(name for name, _ in (*SPREAD_PERCENTILES, *PERCENTILES))),
    "method": "the method as vLLM calls it, such as `eagle3` or `ngram`; empty where it is not known",
    "method_source": "`configured`, `label`, `pod_arguments`, `server_info`; empty where it is not known",
    "draft_model": "the draft model; empty where it is not known or there is none",
    "source": _values(CostSource),
    "tokens": "a number of draft tokens, from `1`",
    "basis": "`measured`; `extrapolated` beyond the positions that are drafted now; of an experiment "
    + _values(Basis),
    "experiment": "the name of an experiment",
    "arm": "an arm of it",
    "baseline": "the arm that the others are held against",
    "request_type": "what the sender calls this kind of work; `unknown` where it says nothing, `other` "
    "beyond `requests.types`",
    "temperature": "the bucket of `requests.temperatures`, such as `0`, `to 0.3` or `above 1`; `unknown` "
    "where the request leaves it to the server, `other` beyond `requests.groups`",
    "effect": _values(Effect),
    "user": "a hash of who sent the request",
    "label": "the label of which values are folded into `other`",
    "state": _values(State),
    "verdict": _values(Verdict),
    "action": _values(Action),
    "kind": f"of a drop {_values(DropKind)}; of pathological requests `rejected`, `repetitive`",
    "check": f"{_values(Check)}; of an experiment {_values(Condition)}",
    "cause": _values(Reset),
    "reason": f"of a poll {_values(REASONS)}; of a request {_values(Refusal)}",
    "engine_kind": "`vllm`, `lmdeploy`, `llamacpp`, `sglang`; empty if the page shows none of them",
    "front_end": "of vLLM: `python`, `rust`, `ray`, `v0`",
    "page": "`filtered`, `full`",
    "version": "of the server, or of the exporter",
    "revision": "the source revision that the exporter was built from",
    "python_version": "the Python that runs the exporter",
    "discovery": "the way in which targets were found",
}


def markdown() -> str:
    """Return docs/metrics.md."""
    parts = [_INTRODUCTION, _labels(), *map(_group, Group)]
    return "\n".join(parts)


def _labels() -> str:
    rows = [f"| `{name}` | {meaning} |" for name, meaning in _LABELS.items()]
    introduction = (
        f"## Labels\n\nEvery metric of an engine carries {_values(ENGINE_LABELS)} and the target's\n"
        "configured labels, those of a target `target` and the configured labels. A target without a label\n"
        "that another one has carries it empty. Those of an experiment carry "
        f"{_values(ARM_LABELS)}\nand nothing of a target. Those of requests carry what their table says.\n"
    )
    return "\n".join([introduction, "| Label | Value |", "|---|---|", *rows, ""])


def _group(group: Group) -> str:
    rows = [_row(metric) for metric in CATALOGUE if metric.group is group]
    table = ["| Metric | Type | Labels | Default | Meaning |", "|---|---|---|---|---|", *rows]
    return "\n".join([f"## {group}\n", f"{_GROUPS[group]}\n", *table, ""])


def _row(metric: Metric[Any]) -> str:
    default = "on" if metric.default else "off"
    experimental = " *Experimental.*" if metric.stability is Stability.EXPERIMENTAL else ""
    meaning = metric.help.replace("|", r"\|") + experimental
    return f"| `{metric.name}` | {metric.kind} | {_labels_of(metric)} | {default} | {meaning} |"


def _labels_of(metric: Metric[Any]) -> str:
    """Name the labels beyond those of the engine; of a target's metrics the target too."""
    carried = ("target",) if metric in TARGET_METRICS else ARM_LABELS if metric in EXPERIMENT_METRICS else ()
    return _values((*carried, *metric.labels))


def main(arguments: list[str]) -> None:
    """Write the documentation to the path given."""
    (path,) = map(Path, arguments)
    path.write_text(markdown(), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
