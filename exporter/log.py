"""The log: event words with keys and values, as logfmt or JSON, on standard error."""

from __future__ import annotations

import logging
import sys
from typing import Literal

import structlog


def configure_log(level: str, form: Literal["logfmt", "json"]) -> None:
    """Send what is at least as severe as ``level`` to standard error, one event a line."""
    renderer = (
        structlog.processors.LogfmtRenderer(key_order=["timestamp", "level", "event"], bool_as_flag=False)
        if form == "logfmt"
        else structlog.processors.JSONRenderer()
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        # Loggers made before a reload follow the new level.
        cache_logger_on_first_use=False,
    )
