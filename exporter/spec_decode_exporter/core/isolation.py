"""Isolate internal errors: omit the item that fails, serve the others, and report it now and then."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final, TypeVar

import structlog

T = TypeVar("T")
R = TypeVar("R")

Item = Mapping[str, str]  # labels that name an item, such as ``target``; empty for a part that has no items
NO_ITEM: Final[Item] = MappingProxyType({})
REPORTED_EVERY: Final = 600.0  # seconds between two reports of an item that fails
MAX_FAILING: Final = 20  # items of a part that are reported in that time; further ones are omitted silently

_NAMES: Final = ("target", "model_name", "engine", "experiment", "arm", "request_type", "temperature", "user")
"""The labels that name an item, in their order."""


def log_internal_error(part: str, item: Item, error: Exception) -> None:
    """Log an item that fails, with its traceback."""
    structlog.get_logger().error("internal_error", part=part, **item, exc_info=error)


class Isolation:
    """Runs work on single items, such as engines; an item that raises does not affect the others.

    A part is where the item is omitted, such as ``page``.
    """

    def __init__(
        self,
        now: Callable[[], float] = time.monotonic,
        report: Callable[[str, Item, Exception], None] = log_internal_error,
    ) -> None:
        """Pass part, item and error to ``report``; ``now`` is monotonic."""
        self._now, self._report = now, report
        self._reported_at: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}

    def attempt(self, part: str, item: Item, work: Callable[[], T]) -> T | None:
        """Return the result of ``work``, or None if it raises."""
        try:
            return work()
        except Exception as error:  # noqa: BLE001  # the other items are served whatever it is
            self._failed(part, item, error)
            return None

    async def attempt_async(
        self, part: str, work: Callable[[], Awaitable[T]], item: Item = NO_ITEM
    ) -> T | None:
        """Await ``work``; return its result, or None if it raises."""
        try:
            return await work()
        except Exception as error:  # noqa: BLE001  # as above
            self._failed(part, item, error)
            return None

    def each(
        self, part: str, items: Iterable[T], name: Callable[[T], Item], work: Callable[[T], R]
    ) -> Iterator[R]:
        """Yield the result of ``work`` for each item, one at a time; omit an item for which it raises."""
        for item in items:
            try:
                result = work(item)
            except Exception as error:  # noqa: BLE001  # as above
                self._failed(part, name(item), error)
            else:
                yield result

    def whole(self, part: str, item: Item, iterate: Callable[[], Iterable[T]]) -> Iterator[T]:
        """Yield every element of an iterable; if it raises, end with those before."""
        try:
            yield from iterate()
        except Exception as error:  # noqa: BLE001  # as above
            self._failed(part, item, error)

    def _failed(self, part: str, item: Item, error: Exception) -> None:
        now, key = self._now(), tuple((name, item[name]) for name in _NAMES if name in item)
        reported = self._reported_at.get(part, {})
        recent = {name: moment for name, moment in reported.items() if now - moment < REPORTED_EVERY}
        self._reported_at[part] = recent
        if key not in recent and len(recent) < MAX_FAILING:
            recent[key] = now
            self._report(part, dict(key), error)
