"""Requests that drafted enough to say how well their own drafts are accepted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

LEAST_TOKENS: Final = 32
"""A request whose drafts gave fewer tokens says little of how well its own are accepted."""
MOST_REQUESTS: Final = 1000
"""More are not needed to know their mix: shares are known to 0.03 then. So many are picked evenly."""

Row = tuple[int, int, int, int, float]
"""The fields of ``InformativeRequests``: of many requests objects take too long."""


class InformativeRequests(NamedTuple):
    """One request of at least ``LEAST_TOKENS``."""

    tokens: int
    """K."""
    drafts: int
    draft_tokens: int
    accepted_tokens: int
    needed: float
    """Accepted tokens a draft from which on it pays, c0 + c·T/D; NaN where the cost is not known."""


def picked(rows: Sequence[Row]) -> list[InformativeRequests]:
    """Return at most ``MOST_REQUESTS``, picked evenly."""
    most = min(len(rows), MOST_REQUESTS)
    return [InformativeRequests._make(rows[place * len(rows) // most]) for place in range(most)]


def by_tokens(requests: Iterable[InformativeRequests]) -> list[list[InformativeRequests]]:
    """Return the requests of each K, the commonest first: what is accepted falls with K by itself."""
    groups: dict[int, list[InformativeRequests]] = {}
    for request in requests:
        groups.setdefault(request.tokens, []).append(request)
    return sorted(groups.values(), key=len, reverse=True)
