"""Logging: events with keys and values, as logfmt or JSON, on standard error."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable
from typing import Final, Literal

import structlog
from structlog.typing import EventDict, WrappedLogger


def configure_log(level: str, form: Literal["logfmt", "json"]) -> None:
    """Log events of ``level`` and above to standard error, one a line."""
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            *_RENDERERS[form],
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        # Loggers made before a reload follow the new level.
        cache_logger_on_first_use=False,
    )


def _printable(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Escape control characters for terminals: names of models are untrusted text."""
    return {key: escaped(value) if isinstance(value, str) else value for key, value in event.items()}


def _with_commas(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Join lists with commas: logfmt has no lists."""
    return {key: _joined(value) if isinstance(value, list | tuple) else value for key, value in event.items()}


def _joined(values: Iterable[object]) -> str:
    return ",".join("" if value is None else str(value) for value in values)


def escaped(text: str, kept: str = "\n") -> str:
    """Escape control, direction and line-break characters of untrusted text, but those in ``kept``.

    Line breaks stay by default: the renderers of the log escape them, and tracebacks have them.
    """
    return "".join(
        char if char.isprintable() or char in kept else char.encode("unicode_escape").decode()
        for char in text
    )


_RENDERERS: Final = {
    "logfmt": (
        _with_commas,
        _printable,
        structlog.processors.LogfmtRenderer(key_order=["timestamp", "level", "event"], bool_as_flag=False),
    ),
    "json": (_printable, structlog.processors.JSONRenderer()),
}
