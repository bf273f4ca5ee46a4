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

from exporter.scrape.plan import MOST_POSITIONS

PATH: Final = "server_info?config_format=json"
"""Where it is, beside the metrics page. An older vLLM ignores the query and answers with text in the JSON."""

_MOST_METHOD: Final = 64
_MOST_DRAFT_MODEL: Final = 256
_WITHOUT_MODEL: Final = frozenset({"ngram", "ngram_gpu", "suffix", "extract_hidden_states", "custom_class"})
"""Methods whose ``model`` is no model: vLLM writes the method's name there, or a class."""
_FIELDS: Final = ("method", "model", "num_speculative_tokens", "num_speculative_tokens_per_batch_size")
_TEXT: Final = re.compile(
    r"speculative_config=SpeculativeConfig\("
    r"method='([^']*)', model=(?:None|'([^']*)'), num_spec_tokens=([0-9]{1,4})\)"
)


@dataclass(frozen=True, slots=True)
class ServedSpeculation:
    """How a server says that it speculates; what it does not say, or not usably, is empty or None."""

    method: str = ""
    tokens: int | None = None
    """K, the most tokens that are drafted at a time."""
    draft_model: str = ""
    """The name or path that it was loaded from."""
    schedule: tuple[tuple[int, int], ...] = ()
    """For batches of so many requests and more so many tokens, ascending; empty where K always holds."""


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
    method = writable(method, _MOST_METHOD)
    return ServedSpeculation(
        method,
        tokens if type(tokens) is int and 0 < tokens <= MOST_POSITIONS else None,
        "" if method in _WITHOUT_MODEL else writable(model, _MOST_DRAFT_MODEL),
        _schedule(schedule),
    )


def _schedule(value: object) -> tuple[tuple[int, int], ...]:
    """Read ``[[first batch size, last, tokens], …]``. Past a last one its tokens hold on, so none is kept."""
    found = []
    for entry in value if isinstance(value, list) else ():
        match entry:
            case [int(first), int(), int(tokens)]:
                found.append((first, tokens))
            case _:
                return ()
    return tuple(sorted(found))


def writable(value: object, most: int) -> str:
    """Return a text that can be a label, of so many characters at most; for anything else, nothing.

    Half a surrogate pair, for one, can stand in JSON and cannot be written on a page.
    """
    return value if isinstance(value, str) and value.isprintable() and len(value) <= most else ""
