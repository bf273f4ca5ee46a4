"""Confirm the claims of repeated tests: a claim counts only after it has held for some time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, TypeVar

T = TypeVar("T")


class PersistenceFilter(Generic[T]):
    """Confirms the claims of repeated tests: a claim counts only after it has held for some time.

    A test with 5 % false positives is wrong at some moment of most hours if it runs every few seconds. A
    claim that held at every test of a whole window is confirmed by two disjoint windows, and by all between.
    """

    def __init__(self) -> None:
        """Begin without a claim."""
        self._since: dict[T, float] = {}

    def confirmed(self, claims: Iterable[T], now: float, seconds: float) -> frozenset[T]:
        """Return the claims of ``now`` (monotonic) that have held at every test for ``seconds``."""
        self._since = {claim: self._since.get(claim, now) for claim in claims}
        return frozenset(claim for claim, since in self._since.items() if now - since >= seconds)
