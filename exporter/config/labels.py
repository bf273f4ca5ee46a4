"""The labels that a target may be given: any but those that Prometheus or this exporter set."""

from __future__ import annotations

import re
from typing import Annotated, Final

from pydantic import AfterValidator, WithJsonSchema

_NAME: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*", flags=re.ASCII)

_OF_PROMETHEUS: Final = frozenset({"instance", "job", "le", "quantile"})

RESERVED_LABELS: Final = frozenset(
    {
        "action",
        "arm",
        "baseline",
        "basis",
        "cause",
        "check",
        "discovery",
        "draft_model",
        "effect",
        "engine",
        "engine_kind",
        "experiment",
        "front_end",
        "implementation",
        "kind",
        "label",
        "latency",
        "length",
        "major",
        "method",
        "method_source",
        "minor",
        "model_name",
        "page",
        "patchlevel",
        "percentile",
        "position",
        "python_version",
        "reason",
        "request_type",
        "revision",
        "source",
        "state",
        "target",
        "temperature",
        "tokens",
        "user",
        "verdict",
        "version",
        "window",
    }
)
"""The labels that metrics of this exporter carry."""


def label_problem(name: str) -> str | None:
    """Return what is wrong with a label's name and the remedy; None if a target may carry it."""
    if not _NAME.fullmatch(name):
        return "is not a label name; use letters, digits and underscores, and no digit first"
    if name.startswith("__"):
        return "begins with two underscores, which Prometheus keeps for itself; choose another name"
    if name in _OF_PROMETHEUS:
        return "is a label that Prometheus sets; choose another name"
    if name in RESERVED_LABELS:
        return "is a label of the exporter's own metrics; choose another name"
    return None


def _checked(name: str) -> str:
    problem = label_problem(name)
    if problem is not None:
        raise ValueError(problem)
    return name


LabelName = Annotated[str, AfterValidator(_checked)]


def writable(value: str) -> str:
    """Return a text that can be written on a page; ValueError for one that no encoding has."""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(
            "holds half of a surrogate pair, which is no character; write the character itself"
        ) from None
    return value


LabelValue = Annotated[
    str, AfterValidator(writable), WithJsonSchema({"type": ["string", "number", "boolean"], "title": "text"})
]
"""Any text. A number in YAML is the text it is written as: 1.10 stays 1.10."""
