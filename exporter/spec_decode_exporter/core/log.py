"""The log: event words with keys and values, as logfmt or JSON, on standard error."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable
from contextlib import suppress
from io import TextIOBase
from typing import Final, Literal, TextIO, cast

import structlog
from structlog.typing import EventDict, WrappedLogger


def configure_log(level: str, form: Literal["logfmt", "json"]) -> None:
    """Send what is at least as severe as ``level`` to standard error, one event a line."""
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            *_RENDERERS[form],
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.WriteLoggerFactory(cast("TextIO", Unfailing(sys.stderr))),
        # Loggers made before a reload follow the new level.
        cache_logger_on_first_use=False,
    )


class Unfailing(TextIOBase):
    """A stream that cannot fail: a full disk or a reader that went away is no reason to stop watching."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write what can be written."""
        with suppress(OSError, ValueError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Flush what can be flushed."""
        with suppress(OSError, ValueError):
            self._stream.flush()


def _printable(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Write what a terminal would act on as an escape: names of models are chosen by strangers."""
    return {key: _escaped(value) if isinstance(value, str) else value for key, value in event.items()}


def _with_commas(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Write lists as values with commas between them: logfmt has none."""
    return {key: _joined(value) if isinstance(value, list | tuple) else value for key, value in event.items()}


def _joined(values: Iterable[object]) -> str:
    return ",".join("" if value is None else str(value) for value in values)


def _escaped(text: str) -> str:
    # Line ends stay: the renderers escape them, and tracebacks have them.
    return "".join(
        char if char.isprintable() or char == "\n" else char.encode("unicode_escape").decode()
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
