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
    PROCESS_START,
    Counter,
    EngineKind,
    EngineMark,
    Quantity,
)

PYTHON_MARKS: Final = ("python_info", "http_request_duration_seconds_count")
"""Series that only a Python front end has: vLLM's Rust front end counts drafts at 0 without speculation."""
_IDENTIFYING: Final = (Counter.GENERATION_TOKENS, EngineMark.CREATED)


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
    return _of_all([_plain(kind) for kind in ENGINES], match)


def servers(match: str) -> str:
    """Return the selector of the series by which the servers of all known engines are found: few of each."""
    return _of_all([_names(kind, _IDENTIFYING) for kind in ENGINES], match)


def activity(kind: EngineKind, prefix: str, labels: Mapping[str, str]) -> str:
    """Return the selector of a target's counters of generated tokens and of drafts."""
    wanted = _names(kind, (Counter.GENERATION_TOKENS, Counter.DRAFTS))
    return _selector(f"{re.escape(prefix)}({wanted})", _matchers(labels))


def of_target(kind: EngineKind, prefix: str, labels: Mapping[str, str]) -> str:
    """Return the selector of the series of one target, with its process' start, without histograms."""
    return _selector(f"{re.escape(prefix)}({_plain(kind)})|{PROCESS_START}", _matchers(labels))


def identifying(kind: EngineKind, prefix: str, labels: Mapping[str, str]) -> str:
    """Return the selector of the counter and the start times by which a target's process is recognised."""
    names = _names(kind, _IDENTIFYING)
    return _selector(f"{re.escape(prefix)}({names})|{PROCESS_START}", _matchers(labels))


def python_marks(labels: Mapping[str, str]) -> str:
    """Return the selector of series that only a Python front end of a target has."""
    return _selector("|".join(PYTHON_MARKS), _matchers(labels))


def _plain(kind: EngineKind) -> str:
    return _names(kind, (quantity for quantity in kind.names if quantity not in HISTOGRAMS))


def _names(kind: EngineKind, wanted: Iterable[Quantity]) -> str:
    return "|".join(name for quantity in wanted for name in kind.names.get(quantity, ()))


def _of_all(names: Iterable[str], match: str) -> str:
    prefixes = ("|".join(map(re.escape, kind.prefixes)) for kind in ENGINES)
    parts = (f"({prefix})({each})" for prefix, each in zip(prefixes, names, strict=True))
    return _selector("|".join(parts), match)


def _matchers(labels: Mapping[str, str]) -> str:
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in sorted(labels.items()))


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _selector(names: str, matchers: str) -> str:
    name = names.replace("\\", "\\\\")
    return f'{{__name__=~"{name}"{"," if matchers else ""}{matchers}}}'
