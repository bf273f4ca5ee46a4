"""Labels of targets: valid names and values, and their limits."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Final

from pydantic import Field, WithJsonSchema

from spec_decode_exporter.config.types import refuses

MAX_LABELS: Final = 64
"""Labels of one target, and label names of all targets together: each series has every name."""
MAX_LABEL_NAME: Final = 128
"""Characters of a label's name."""
MAX_LABEL_VALUE: Final = 1_024
"""Characters of a label's value: every series of a target repeats it."""
MAX_LABEL_CHARACTERS: Final = 2_048
"""Characters of the names and values of all labels that discovery gives to a target."""
_OWN_LABELS: Final = (
    "action arm baseline basis cause check discovery draft_model effect engine engine_kind experiment "
    "external_url front_end implementation kind label length major method method_source minor model_name "
    "page patchlevel position prompt_tokens python_version quantile reason request_type revision source "
    "state target temperature tokens user verdict version window"
)
RESERVED_LABELS: Final = frozenset(_OWN_LABELS.split())
"""Labels of this exporter's own metrics."""

_NAME: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*", re.ASCII)


def label_problem(name: str) -> str | None:
    """Return the mistake in a label's name and the remedy; None if it is valid."""
    if len(name) > MAX_LABEL_NAME:
        return f"has a name of more than {MAX_LABEL_NAME} characters; choose a shorter one"
    if not _NAME.fullmatch(name):
        return "is not a label name; use letters, digits and underscores, and no digit first"
    if name.startswith("__"):
        return "begins with two underscores, which Prometheus reserves; choose another name"
    if name in {"instance", "job", "le"}:
        return "is a label that Prometheus sets; choose another name"
    if name in RESERVED_LABELS:
        return "is a label of the exporter's own metrics; choose another name"
    return None


def value_problem(value: str) -> str | None:
    """Return the mistake in a label's value and the remedy; None if it is valid."""
    if len(value) > MAX_LABEL_VALUE:
        return f"has a value of more than {MAX_LABEL_VALUE:,} characters; shorten it"
    # Half a surrogate pair is not printable either: it cannot be encoded.
    if not value.isprintable():
        return "has a value with a character that cannot be printed, such as a line break; remove it"
    return None


Printable = refuses(value_problem)
"""The check that a text can be the value of a label."""
LabelName = Annotated[str, refuses(label_problem)]
LabelValue = Annotated[
    str,
    Printable,
    WithJsonSchema({"type": ["string", "number", "boolean"], "maxLength": MAX_LABEL_VALUE, "title": "text"}),
]
"""Printable text. A number in YAML keeps its text: 1.10 stays 1.10."""
Labels = Annotated[Mapping[LabelName, LabelValue], Field(max_length=MAX_LABELS)]
