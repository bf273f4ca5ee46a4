"""vLLM's ``/server_info``: how a server speculates, in its own words.

vLLM serves it in development mode only (``VLLM_SERVER_DEV_MODE=1``). What is read here follows
``vllm/config/speculative.py``, whose fields and ``__repr__`` have been the same since vLLM 0.9.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from spec_decode_exporter.scrape.page.layout_map import MAX_POSITIONS
from spec_decode_exporter.scrape.poll.batch_schedule import (
    NO_SCHEDULE,
    SCHEDULE_KEY,
    BatchSchedule,
    ScheduleError,
    batch_schedule,
)

SERVER_INFO_PATH: Final = "server_info?config_format=json"
"""Where it is, beside the metrics page. An older vLLM ignores the query and answers with text in the JSON."""
MAX_RESPONSE_BYTES: Final = 64 * 1024
"""Bytes of an answer to ``/server_info`` or ``/version``. vLLM's own has 22 kB."""

_MAX_METHOD: Final = 64
_MAX_DRAFT_MODEL: Final = 256
_WITHOUT_MODEL: Final = frozenset({"ngram", "ngram_gpu", "suffix", "extract_hidden_states", "custom_class"})
"""Methods whose ``model`` is no model: vLLM writes the method's name there, or a class."""
_FIELDS: Final = ("method", "model", "num_speculative_tokens", SCHEDULE_KEY)
_TEXT: Final = re.compile(
    r"speculative_config=SpeculativeConfig\("
    r"method='([^']{0,64}+)', model=(?:None|'([^']{0,256}+)'), num_spec_tokens=([0-9]{1,4}+)\)"
)


@dataclass(frozen=True, slots=True)
class ServedSpeculation:
    """How a server says that it speculates; what it does not say, or not usably, is empty or None."""

    method: str = ""
    tokens: int | None = None
    """K, the most tokens that are drafted at a time."""
    draft_model: str = ""
    """The name or path that it was loaded from."""
    schedule: BatchSchedule = NO_SCHEDULE
    problem: str = ""
    """Why the schedule that was found is not used; empty if it is used, or there is none."""


def served_speculation(body: bytes) -> ServedSpeculation | None:
    """Read an answer; None for one that says nothing of speculation."""
    match _loaded(body):
        case {"vllm_config": {"speculative_config": {**settings}}}:
            return speculation_of(settings)
        case {"vllm_config": str(text)} if found := _TEXT.search(text):
            method, model, tokens = found.groups()
            return _usable(method, model, int(tokens))
    return None


def speculation_of(settings: Mapping[Any, object]) -> ServedSpeculation:
    """Take from vLLM's own settings of speculation what can be used; they may hold anything."""
    return _usable(*(settings.get(field) for field in _FIELDS))


def _loaded(body: bytes) -> object:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _usable(method: object, model: object, tokens: object, schedule: object = None) -> ServedSpeculation:
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
    )


def usable_label(value: object, most: int) -> str:
    """Return a text that can be a label, of so many characters at most; for anything else, nothing.

    Half a surrogate pair, for one, can stand in JSON and cannot be written on a page.
    """
    return value if isinstance(value, str) and value.isprintable() and len(value) <= most else ""
