"""Debounce a value: a new one replaces the current one only after it has stayed for some time."""

from __future__ import annotations

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
