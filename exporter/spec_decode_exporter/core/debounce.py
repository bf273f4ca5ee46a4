"""What is shown does not flicker: a new value is shown only once it has stayed for some time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Seen(Generic[T]):
    value: T
    at: float


class Debounce(Generic[T]):
    """Holds on to a value until another one was offered without interruption for some time.

    It also lets go, for the newest, of a value that was not offered for twice as long: others that take turns
    do not keep it up for ever.
    """

    def __init__(self, seconds: float) -> None:
        """Show another value only after ``seconds``; with 0, at once."""
        self._seconds = seconds
        self._shown: _Seen[T] | None = None
        self._newest: _Seen[T] | None = None

    def offer(self, value: T, now: float) -> T:
        """Return what is to be shown at ``now`` (monotonic). The first value is shown at once."""
        if self._newest is None or self._newest.value != value:
            self._newest = _Seen(value, now)
        if self._shown is None or self._shown.value == value or self._is_over(self._shown, self._newest, now):
            self._shown = _Seen(value, now)
        return self._shown.value

    def _is_over(self, shown: _Seen[T], newest: _Seen[T], now: float) -> bool:
        """Return whether the newest value has stayed, or the one that is shown was gone, for long enough."""
        return now - newest.at >= self._seconds or now - shown.at >= 2 * self._seconds
