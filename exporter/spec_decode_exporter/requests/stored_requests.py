"""Stored requests of the windows, oldest first, by column: about 100 bytes each.

A request as an object takes ten times as much memory.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import nan
from operator import itemgetter
from typing import Any, Final

from spec_decode_exporter.requests.group_totals import RequestGroup
from spec_decode_exporter.requests.pathology import pathology
from spec_decode_exporter.requests.request_record import RequestRecord
from spec_decode_exporter.requests.request_steps import decoded_tokens

MAX_POOLED_STRINGS: Final = 1024
"""Different strings in the pool."""
UNKNOWN_TOKENS: Final = -1
"""Stands for an unknown number of tokens."""


def _integers() -> array[int]:
    return array("q")


def _numbers() -> array[float]:
    return array("d")


def _flags() -> array[int]:
    return array("b")


def _seconds_per_token(request: RequestRecord) -> float:
    """Return the time from the first token to the last over the tokens after the first."""
    seconds, tokens = request.decode_seconds, request.completion_tokens
    return nan if seconds is None or tokens is None or tokens <= 1 else seconds / (tokens - 1)


def _decoded_tokens(request: RequestRecord) -> int:
    counts = (request.drafts, request.accepted_tokens, request.tokens)
    return decoded_tokens(*counts, request.completion_tokens)


def _tokens(number: int | None) -> int:
    return UNKNOWN_TOKENS if number is None else number


@dataclass(slots=True)
class RequestRows:
    """Columns of requests, all of the same length."""

    taken_at: array[float] | list[float] = field(default_factory=_numbers)
    drafts: array[int] | list[int] = field(default_factory=_integers)
    draft_tokens: array[int] | list[int] = field(default_factory=_integers)
    accepted_tokens: array[int] | list[int] = field(default_factory=_integers)
    tokens: array[int] | list[int] = field(default_factory=_integers)
    decoded_tokens: array[int] | list[int] = field(default_factory=_integers)
    """Tokens after the first."""
    seconds_per_token: array[float] | list[float] = field(default_factory=_numbers)
    """NaN if unknown."""
    first_token_seconds: array[float] | list[float] = field(default_factory=_numbers)
    """NaN if unknown."""
    prompt_tokens: array[int] | list[int] = field(default_factory=_integers)
    """``UNKNOWN_TOKENS`` if unknown, as are the cached tokens."""
    cached_tokens: array[int] | list[int] = field(default_factory=_integers)
    pathologies: array[int] | list[int] = field(default_factory=_flags)
    groups: list[RequestGroup] = field(default_factory=list)
    targets: list[str] = field(default_factory=list)
    users: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.taken_at)

    def columns(self) -> list[Any]:
        """Return all columns, in the order of the fields."""
        return [getattr(self, name) for name in self.__slots__]

    def append(
        self, request: RequestRecord, group: RequestGroup, now: float, pooled: Callable[[str], str]
    ) -> None:
        """Add a request that was taken ``now``."""
        self.taken_at.append(now)
        self.drafts.append(request.drafts)
        self.draft_tokens.append(request.draft_tokens)
        self.accepted_tokens.append(request.accepted_tokens)
        self.tokens.append(request.tokens)
        self.decoded_tokens.append(_decoded_tokens(request))
        self.seconds_per_token.append(_seconds_per_token(request))
        self.first_token_seconds.append(
            nan if request.first_token_seconds is None else request.first_token_seconds
        )
        self.prompt_tokens.append(_tokens(request.prompt_tokens))
        self.cached_tokens.append(_tokens(request.cached_tokens))
        self.pathologies.append(pathology(request.drafts, request.draft_tokens, request.accepted_tokens))
        self.groups.append(group)
        self.targets.append(pooled(request.target))
        self.users.append(pooled(request.user))

    def since(self, moment: float, begin: int = 0) -> RequestRows:
        """Return a copy of the rows from ``begin`` on that were taken at ``moment`` or later."""
        first = bisect_left(self.taken_at, moment, begin)
        return RequestRows(*(column[first:] for column in self.columns()))

    def at(self, indices: Sequence[int]) -> RequestRows:
        """Return a copy of the rows at one or more ascending indices."""
        if len(indices) == 1:
            return RequestRows(*([column[indices[0]]] for column in self.columns()))
        get = itemgetter(*indices)
        return RequestRows(*(list(get(column)) for column in self.columns()))

    def drop(self, number: int) -> None:
        """Remove the oldest rows."""
        for column in self.columns():
            del column[:number]


class StringPool:
    """Stores equal strings once, in bounded memory.

    ``sys.intern`` is unsuitable: before Python 3.12.6 interned strings are never freed, and senders choose
    these.
    """

    def __init__(self) -> None:
        self._strings: dict[str, str] = {}

    def pooled(self, text: str) -> str:
        """Return the stored string that equals ``text``."""
        if len(self._strings) >= MAX_POOLED_STRINGS:
            self._strings.clear()
        return self._strings.setdefault(text, text)


class StoredRequests:
    """A ring of requests."""

    def __init__(self, capacity: int) -> None:
        """Store at most ``capacity`` requests."""
        self._capacity = capacity
        self._slack = max(capacity // 16, 16)
        self._rows = RequestRows()
        self._pool = StringPool()
        self._removed = 0
        """Rows at the beginning that are removed but still in memory: each removal moves all other rows."""
        self.newest_removed: float | None = None
        """The newest removed request was taken at this time: later requests are complete."""

    def __len__(self) -> int:
        return len(self._rows) - self._removed

    def add(self, request: RequestRecord, group: RequestGroup, now: float) -> None:
        """Store a request; remove the oldest if the ring is full."""
        self._rows.append(request, group, now, self._pool.pooled)
        if len(self) > self._capacity:
            self._remove(self._removed + 1)

    def remove_before(self, moment: float) -> None:
        """Remove the requests that were taken before a moment."""
        self._remove(bisect_left(self._rows.taken_at, moment, self._removed))

    def since(self, moment: float) -> RequestRows:
        """Return a copy of the requests that were taken at ``moment`` or later."""
        return self._rows.since(moment, self._removed)

    def _remove(self, number: int) -> None:
        if number > self._removed:
            self.newest_removed = self._rows.taken_at[number - 1]
        self._removed = number
        if self._removed >= self._slack:
            self._rows.drop(self._removed)
            self._removed = 0
