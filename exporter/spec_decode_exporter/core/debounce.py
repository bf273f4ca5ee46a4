"""Debounce values and claims: a new one counts only after it has stayed for some time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Offer(Generic[T]):
    value: T
    at: float


class Debounce(Generic[T]):
    """Keeps a value until another one was offered without interruption for some time.

    A value that was not offered for twice that time is also replaced, by the newest one: alternating other
    values do not keep it.
    """

    def __init__(self, seconds: float) -> None:
        """Replace the value after ``seconds``; with 0, at once."""
        self._seconds = seconds
        self._shown: _Offer[T] | None = None
        self._newest: _Offer[T] | None = None

    def offer(self, value: T, now: float, seconds: float | None = None) -> T:
        """Return the value to show at ``now`` (monotonic). The first value is shown at once.

        ``seconds`` replaces the time from now on.
        """
        self._seconds = self._seconds if seconds is None else seconds
        if self._newest is None or self._newest.value != value:
            self._newest = _Offer(value, now)
        if self._shown is None or self._shown.value == value or self._is_over(self._shown, self._newest, now):
            self._shown = _Offer(value, now)
        return self._shown.value

    def _is_over(self, shown: _Offer[T], newest: _Offer[T], now: float) -> bool:
        """Return True if the newest value has stayed, or the shown one was absent, for long enough."""
        return now - newest.at >= self._seconds or now - shown.at >= 2 * self._seconds


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
