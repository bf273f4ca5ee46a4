"""What is looked at again and again is claimed only once it has stood for some time.

A test that is right 19 times of 20 is wrong at some moment of most hours if it is made every few seconds.
What held at every look of a whole window was seen in two windows that share nothing, and in all between them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, TypeVar

T = TypeVar("T")


class PersistenceFilter(Generic[T]):
    """Remembers since when each claim was made at every look."""

    def __init__(self) -> None:
        """Begin with no claim."""
        self._since: dict[T, float] = {}

    def look(self, claims: Iterable[T], now: float, seconds: float) -> frozenset[T]:
        """Return which of the claims of ``now`` (monotonic) were made at every look for ``seconds``."""
        self._since = {claim: self._since.get(claim, now) for claim in claims}
        return frozenset(claim for claim, since in self._since.items() if now - since >= seconds)
