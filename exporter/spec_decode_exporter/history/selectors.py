"""Selectors of the series that the scraper knows, and of one target."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from spec_decode_exporter.config.types import label_matchers
from spec_decode_exporter.core.user_errors import UsageError
from spec_decode_exporter.scrape.engines import (
    ENGINES,
    HISTOGRAMS,
    MEANINGS,
    PROCESS_START,
    Counter,
    EngineKind,
    EngineMark,
    Quantity,
)

PYTHON_MARKS: Final = ("python_info", "http_request_duration_seconds_count")
"""Series that only a Python front end has: vLLM's Rust front end counts drafts at 0 without speculation."""


def checked_match(text: str) -> str:
    """Return matchers such as ``job="vllm"``, without braces.

    Raises:
        UsageError: It is something else.
    """
    try:
        return label_matchers(text)
    except ValueError as error:
        raise UsageError(f"--match {text[:80]!r} {error}") from None


def every_engine(match: str) -> str:
    """Return the selector of all counters and gauges of every known engine, with the user's matchers."""
    parts = [_names(kind, _plain(kind)) for kind in ENGINES]
    return _selector("|".join(parts), match)


def servers(match: str) -> str:
    """Return the selector of the series by which the servers of all known engines are found: few of each."""
    parts = [_names(kind, _identifying(kind)) for kind in ENGINES]
    return _selector("|".join(parts), match)


def activity(kind: EngineKind, prefix: str, labels: Mapping[str, str]) -> str:
    """Return the selector of a target's counters of generated tokens and of drafts."""
    names = _names_of(kind, (Counter.GENERATION_TOKENS, Counter.DRAFTS))
    return _selector(f"{re.escape(prefix)}({'|'.join(names)})", _matchers(labels))


def of_target(kind: EngineKind, prefix: str, labels: Mapping[str, str]) -> str:
    """Return the selector of the series of one target, with its process' start, without histograms."""
    names = "|".join(_plain(kind))
    every = f"{re.escape(prefix)}({names})|{PROCESS_START}"
    return _selector(every, _matchers(labels))


def identifying(prefix: str, kind: EngineKind, labels: Mapping[str, str]) -> str:
    """Return the selector of the counter and the start times by which a target's process is recognised."""
    every = f"{re.escape(prefix)}({'|'.join(_identifying(kind))})|{PROCESS_START}"
    return _selector(every, _matchers(labels))


def python_marks(labels: Mapping[str, str]) -> str:
    """Return the selector of series that only a Python front end of a target has."""
    return _selector("|".join(PYTHON_MARKS), _matchers(labels))


def _identifying(kind: EngineKind) -> list[str]:
    return _names_of(kind, (Counter.GENERATION_TOKENS, EngineMark.CREATED))


def _names_of(kind: EngineKind, wanted: Iterable[Quantity]) -> list[str]:
    return [name for quantity in wanted for name in kind.names.get(quantity, ())]


def _plain(kind: EngineKind) -> list[str]:
    return [name for quantity, names in kind.names.items() if quantity not in HISTOGRAMS for name in names]


def _names(kind: EngineKind, names: Iterable[str]) -> str:
    return f"({'|'.join(map(re.escape, kind.prefixes))})({'|'.join(names)})"


def _matchers(labels: Mapping[str, str]) -> str:
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in sorted(labels.items()))


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _selector(names: str, matchers: str) -> str:
    name = names.replace("\\", "\\\\")
    return f'{{__name__=~"{name}"{"," if matchers else ""}{matchers}}}'


def is_known(name: str) -> bool:
    """Return whether a sample name is one that the scraper reads."""
    return name.encode() in MEANINGS
