"""Labels of targets: valid names and values, and their limits."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Final, TypeVar

from pydantic import AfterValidator, WithJsonSchema

MAX_LABELS: Final = 64
"""Labels of one target, and label names of all targets together: each series has every name."""
MAX_LABEL_NAME: Final = 128
"""Characters of a label's name."""
MAX_LABEL_VALUE: Final = 1_024
"""Characters of a label's value: every series of a target repeats it."""
MAX_LABEL_CHARACTERS: Final = 2_048
"""Characters of the names and values of all labels that discovery gives to a target."""

_NAME: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*", flags=re.ASCII)

_OF_PROMETHEUS: Final = frozenset({"instance", "job", "le"})

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
        "external_url",
        "front_end",
        "implementation",
        "kind",
        "label",
        "length",
        "major",
        "method",
        "method_source",
        "minor",
        "model_name",
        "page",
        "patchlevel",
        "position",
        "python_version",
        "quantile",
        "reason",
        "request_type",
        "revision",
        "source",
        "state",
        "target",
        "temperature",
        "prompt_tokens",
        "tokens",
        "user",
        "verdict",
        "version",
        "window",
    }
)
"""Labels of this exporter's own metrics."""


def label_problem(name: str) -> str | None:
    """Return the mistake in a label's name and the remedy; None if it is valid."""
    if len(name) > MAX_LABEL_NAME:
        return f"has a name of more than {MAX_LABEL_NAME} characters; choose a shorter one"
    if not _NAME.fullmatch(name):
        return "is not a label name; use letters, digits and underscores, and no digit first"
    if name.startswith("__"):
        return "begins with two underscores, which Prometheus reserves; choose another name"
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


def value_problem(value: str) -> str | None:
    """Return the mistake in a label's value and the remedy; None if it is valid."""
    if len(value) > MAX_LABEL_VALUE:
        return f"has a value of more than {MAX_LABEL_VALUE:,} characters; shorten it"
    # Half a surrogate pair is not printable either: it cannot be encoded.
    if not value.isprintable():
        return "has a value with a character that cannot be printed, such as a line break; remove it"
    return None


def printable(value: str) -> str:
    """Return a text that is a valid label value; raise ValueError for any other."""
    problem = value_problem(value)
    if problem is not None:
        raise ValueError(problem)
    return value


LabelValue = Annotated[
    str,
    AfterValidator(printable),
    WithJsonSchema({"type": ["string", "number", "boolean"], "maxLength": MAX_LABEL_VALUE, "title": "text"}),
]
"""Printable text. A number in YAML keeps its text: 1.10 stays 1.10."""

Value = TypeVar("Value")


def _not_too_many(labels: Mapping[str, Value]) -> Mapping[str, Value]:
    if len(labels) > MAX_LABELS:
        raise ValueError(f"has {len(labels)} labels; a target may have {MAX_LABELS}, so remove some")
    return labels


AtMostLabels = AfterValidator(_not_too_many)
"""Check of the number of labels."""
