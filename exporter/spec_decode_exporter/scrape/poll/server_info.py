"""Speculation settings from vLLM's ``/server_info``.

vLLM serves it in development mode only (``VLLM_SERVER_DEV_MODE=1``). The format follows
``vllm/config/speculative.py``; its fields and ``__repr__`` are unchanged since vLLM 0.9.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from spec_decode_exporter.config.batch_schedule import (
    NO_SCHEDULE,
    SCHEDULE_KEY,
    BatchSchedule,
    ScheduleError,
    batch_schedule,
)
from spec_decode_exporter.scrape.sample import MAX_POSITIONS

SERVER_INFO_PATH: Final = "server_info?config_format=json"
"""Path beside the metrics page. An older vLLM ignores the query and returns text in the JSON."""
MAX_RESPONSE_BYTES: Final = 64 * 1024
"""Maximum bytes of a response to ``/server_info`` or ``/version``. vLLM's has 22 kB."""

_MAX_METHOD: Final = 64
_MAX_DRAFT_MODEL: Final = 256
_MAX_REJECTION_METHOD: Final = 64
_WITHOUT_MODEL: Final = frozenset({"ngram", "ngram_gpu", "suffix", "extract_hidden_states", "custom_class"})
"""Methods whose ``model`` is not a draft model but the method's name or a class."""
_FIELDS: Final = ("method", "model", "num_speculative_tokens", SCHEDULE_KEY, "rejection_sample_method")
_TEXT: Final = re.compile(
    r"speculative_config=SpeculativeConfig\("
    r"method='([^']{0,64}+)', model=(?:None|'([^']{0,256}+)'), num_spec_tokens=([0-9]{1,4}+)\)"
)


@dataclass(frozen=True, slots=True)
class ServedSpeculation:
    """Speculation settings of a server; unknown or unusable ones are empty or None."""

    method: str = ""
    tokens: int | None = None
    """K, the maximum number of draft tokens a step."""
    draft_model: str = ""
    """Name or path of the draft model."""
    schedule: BatchSchedule = NO_SCHEDULE
    problem: str = ""
    """Reason for an unused schedule; empty if the schedule is used or absent."""
    rejection_method: str = ""
    """``rejection_sample_method``: ``standard``, ``block``, ``fly``, …."""


def served_speculation(body: bytes) -> ServedSpeculation | None:
    """Parse a response; return None if it has no speculation settings."""
    return speculation_in(_loaded(body))


def speculation_in(response: object) -> ServedSpeculation | None:
    """Return the speculation settings of a decoded response; None if it has none."""
    match response:
        case {"vllm_config": {"speculative_config": {**settings}}}:
            return speculation_of(settings)
        case {"vllm_config": str(text)} if fields := _TEXT.search(text):
            method, model, tokens = fields.groups()
            return _usable(method, model, int(tokens))
    return None


def speculation_of(settings: Mapping[Any, object]) -> ServedSpeculation:
    """Return the usable part of vLLM's speculation settings, which are untrusted."""
    return _usable(*(settings.get(field) for field in _FIELDS))


def _loaded(body: bytes) -> object:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _usable(
    method: object, model: object, tokens: object, schedule: object = None, rejection_method: object = None
) -> ServedSpeculation:
    method = usable_label(method, _MAX_METHOD)
    try:
        used, problem = batch_schedule(schedule), ""
    except ScheduleError as error:
        used, problem = NO_SCHEDULE, str(error)
    return ServedSpeculation(
        method,
        tokens if type(tokens) is int and 0 < tokens <= MAX_POSITIONS else None,
        "" if method in _WITHOUT_MODEL else usable_label(model, _MAX_DRAFT_MODEL),
        used,
        problem,
        usable_label(rejection_method, _MAX_REJECTION_METHOD),
    )


def usable_label(value: object, max_characters: int) -> str:
    """Return a text that can be a label value; empty for anything else.

    JSON can contain half a surrogate pair, for example, which no page can contain.
    """
    return value if isinstance(value, str) and value.isprintable() and len(value) <= max_characters else ""
