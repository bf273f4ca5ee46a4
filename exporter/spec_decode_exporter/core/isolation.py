"""Isolate internal errors: omit the item that fails, serve the others, and report its begin and end once."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from math import inf
from types import MappingProxyType
from typing import Final, TypeVar

import structlog

T = TypeVar("T")
R = TypeVar("R")

Item = Mapping[str, str]
"""Labels that name an item, such as ``target``; empty for a part that has no items."""
NO_ITEM: Final[Item] = MappingProxyType({})
RECOVERED_AFTER: Final = 60.0
"""Seconds without a failure after which an item works again: it may fail only now and then."""
FORGOTTEN_AFTER: Final = 600.0
"""Seconds after the last failure of an item that did not work since: it may be gone."""
MAX_FAILING: Final = 20
"""Failing items of a part that are reported; further ones are omitted without a report."""

_NAMES: Final = ("target", "model_name", "engine", "experiment", "arm", "request_type", "temperature", "user")
"""The labels that name an item, in their order."""


def log_internal_error(part: str, item: Item, error: Exception | None) -> None:
    """Log an item that fails, with its traceback, or that works again."""
    log = structlog.get_logger()
    if error is None:
        log.info("internal_error_ended", part=part, **item)
    else:
        log.error("internal_error", part=part, **item, exc_info=error)


class Isolation:
    """Runs work on single items, such as engines; an item that raises does not affect the others.

    A part is where the item is omitted, such as ``page``.
    """

    def __init__(
        self,
        now: Callable[[], float] = time.monotonic,
        report: Callable[[str, Item, Exception | None], None] = log_internal_error,
    ) -> None:
        """Pass part, item and error to ``report``, None if the item works again; ``now`` is monotonic."""
        self._now, self._report = now, report
        self._failed_at: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}

    def attempt(self, part: str, item: Item, work: Callable[[], T]) -> T | None:
        """Return the result of ``work``, or None if it raises."""
        try:
            result = work()
        except Exception as error:  # noqa: BLE001  # the other items are served whatever it is
            self._failed(part, item, error)
            return None
        self.worked(part, item)
        return result

    async def attempt_async(
        self, part: str, work: Callable[[], Awaitable[T]], item: Item = NO_ITEM
    ) -> T | None:
        """Await ``work``; return its result, or None if it raises."""
        try:
            result = await work()
        except Exception as error:  # noqa: BLE001  # as above
            self._failed(part, item, error)
            return None
        self.worked(part, item)
        return result

    def each(
        self, part: str, items: Iterable[T], name: Callable[[T], Item], work: Callable[[T], R]
    ) -> Iterator[R]:
        """Yield the result of ``work`` for each item, one at a time; omit an item for which it raises."""
        for item in items:
            try:
                result = work(item)
            except Exception as error:  # noqa: BLE001  # as above
                self._failed(part, name(item), error)
                continue
            if part in self._failed_at:
                self.worked(part, name(item))
            yield result

    def whole(self, part: str, item: Item, iterate: Callable[[], Iterable[T]]) -> Iterator[T]:
        """Yield every element of an iterable; if it raises, end with those before."""
        try:
            yield from iterate()
        except Exception as error:  # noqa: BLE001  # as above
            self._failed(part, item, error)
        else:
            self.worked(part, item)

    def worked(self, part: str, item: Item) -> None:
        """Report the recovery of an item that works, if its last failure is a minute ago."""
        failed_at = self._failed_at.get(part)
        if failed_at and self._now() - failed_at.get(key := _key(item), inf) > RECOVERED_AFTER:
            del failed_at[key]
            if not failed_at:
                del self._failed_at[part]
            self._report(part, dict(key), None)

    def _failed(self, part: str, item: Item, error: Exception) -> None:
        now, key = self._now(), _key(item)
        before = self._failed_at.get(part, {})
        failing = {each: at for each, at in before.items() if now - at <= FORGOTTEN_AFTER}
        if key in failing or len(failing) < MAX_FAILING:
            self._failed_at[part] = {**failing, key: now}
            if key not in failing:
                self._report(part, dict(key), error)


def _key(item: Item) -> tuple[tuple[str, str], ...]:
    return tuple((name, item[name]) for name in _NAMES if name in item)
