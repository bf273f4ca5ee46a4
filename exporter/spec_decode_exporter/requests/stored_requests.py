"""The requests that are kept for the windows, oldest first, column by column: some 80 bytes each.

A request as an object takes ten times that, and a window would have to look at each of them one by one.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import nan
from operator import itemgetter
from typing import Any, Final

from spec_decode_exporter.requests.pathology import pathology
from spec_decode_exporter.requests.request import Request
from spec_decode_exporter.requests.request_group import RequestGroup

MOST_SHARED: Final = 1024
"""Different texts that are kept once each."""


def _integers() -> array[int]:
    return array("q")


def _numbers() -> array[float]:
    return array("d")


def _flags() -> array[int]:
    return array("b")


def _seconds_per_token(request: Request) -> float:
    """Return the time from the first token to the last over the tokens after the first."""
    seconds, tokens = request.decode_seconds, request.completion_tokens
    return nan if seconds is None or tokens is None or tokens <= 1 else seconds / (tokens - 1)


@dataclass(slots=True)
class RequestRows:
    """Requests by column, all of one length."""

    taken_at: array[float] | list[float] = field(default_factory=_numbers)
    drafts: array[int] | list[int] = field(default_factory=_integers)
    draft_tokens: array[int] | list[int] = field(default_factory=_integers)
    accepted_tokens: array[int] | list[int] = field(default_factory=_integers)
    tokens: array[int] | list[int] = field(default_factory=_integers)
    seconds_per_token: array[float] | list[float] = field(default_factory=_numbers)
    """NaN where the request does not say."""
    pathologies: array[int] | list[int] = field(default_factory=_flags)
    groups: list[RequestGroup] = field(default_factory=list)
    targets: list[str] = field(default_factory=list)
    users: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.taken_at)

    def columns(self) -> list[Any]:
        """Return every column, in the order of the fields."""
        return [getattr(self, name) for name in self.__slots__]

    def append(self, request: Request, group: RequestGroup, now: float, shared: Callable[[str], str]) -> None:
        """Add a request that was taken ``now``."""
        self.taken_at.append(now)
        self.drafts.append(request.drafts)
        self.draft_tokens.append(request.draft_tokens)
        self.accepted_tokens.append(request.accepted_tokens)
        self.tokens.append(request.tokens)
        self.seconds_per_token.append(_seconds_per_token(request))
        self.pathologies.append(pathology(request.drafts, request.draft_tokens, request.accepted_tokens))
        self.groups.append(group)
        self.targets.append(shared(request.target))
        self.users.append(shared(request.user))

    def since(self, moment: float, begin: int = 0) -> RequestRows:
        """Return those from ``begin`` on that were taken at ``moment`` or later."""
        first = bisect_left(self.taken_at, moment, begin)
        return RequestRows(*(column[first:] for column in self.columns()))

    def at(self, places: Sequence[int]) -> RequestRows:
        """Return those at some ascending places, of which there is at least one."""
        if len(places) == 1:
            return RequestRows(*([column[places[0]]] for column in self.columns()))
        get = itemgetter(*places)
        return RequestRows(*(list(get(column)) for column in self.columns()))

    def drop(self, number: int) -> None:
        """Let go the oldest."""
        for column in self.columns():
            del column[:number]


class Shared:
    """Texts of which the same are kept once, as far as there are few.

    Not ``sys.intern``: Python 3.12 gave interned strings back only from 3.12.6 on, and senders choose these.
    """

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def one(self, text: str) -> str:
        """Return the text that is kept for all that equal it."""
        if len(self._texts) >= MOST_SHARED:
            self._texts.clear()
        return self._texts.setdefault(text, text)


class StoredRequests:
    """A ring of requests."""

    def __init__(self, most: int) -> None:
        """Keep ``most`` requests."""
        self._most = most
        self._slack = max(most // 16, 16)
        self._rows = RequestRows()
        self._shared = Shared()
        self._gone = 0
        """How many at the beginning are let go but still there: to move the others each time takes long."""
        self.newest_lost: float | None = None
        """When the newest was taken of those that are let go: from later on, all are kept."""

    def __len__(self) -> int:
        return len(self._rows) - self._gone

    def add(self, request: Request, group: RequestGroup, now: float) -> None:
        """Keep a request, and let the oldest go if there is no room."""
        self._rows.append(request, group, now, self._shared.one)
        if len(self) > self._most:
            self._let_go(self._gone + 1)

    def forget(self, before: float) -> None:
        """Let go what was taken before a moment."""
        self._let_go(bisect_left(self._rows.taken_at, before, self._gone))

    def since(self, moment: float) -> RequestRows:
        """Return a copy of those that were taken at ``moment`` or later."""
        return self._rows.since(moment, self._gone)

    def _let_go(self, number: int) -> None:
        if number > self._gone:
            self.newest_lost = self._rows.taken_at[number - 1]
        self._gone = number
        if self._gone >= self._slack:
            self._rows.drop(self._gone)
            self._gone = 0
