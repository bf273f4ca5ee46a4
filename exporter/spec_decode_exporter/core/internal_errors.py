"""Isolate internal errors: omit the item that fails, and log it once until it works again."""

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
"""Log fields that name an item, such as ``target``; empty for a part that has no items."""
NO_ITEM: Final[Item] = MappingProxyType({})

RECOVERED_AFTER: Final = 60.0
"""Seconds without a failure until an item is logged as working again: it may fail only now and then."""
LOGGED_AGAIN_AFTER: Final = 600.0
"""Seconds after the last failure, with no success since, after which the next failure is logged again."""
MAX_LOGGED: Final = 20
"""Failing items of one part that are logged; further ones are omitted without a line."""

_NAMES: Final = ("target", "model_name", "engine", "experiment", "arm", "request_type", "temperature", "user")
"""The labels that name an item in the log, in their order."""

_log = structlog.get_logger()

_Key = tuple[tuple[str, str], ...]


class InternalErrors:
    """Runs work on single items, such as engines; an item that raises does not affect the others.

    A part is where the item is omitted, such as ``page``. For each part the first failure of an item is
    logged with its traceback, and its recovery a minute after the last failure.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        """Log nothing yet; ``now`` returns monotonic seconds."""
        self._now = now
        self._failed_at: dict[str, dict[_Key, float]] = {}

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

    def _failed(self, part: str, item: Item, error: Exception) -> None:
        now, key = self._now(), _key(item)
        failed_at = self._failed_at.setdefault(part, {})
        is_new = now - failed_at.get(key, -inf) > LOGGED_AGAIN_AFTER
        if key not in failed_at and len(failed_at) >= MAX_LOGGED:
            for old in [old for old, moment in failed_at.items() if now - moment > LOGGED_AGAIN_AFTER]:
                del failed_at[old]
            if len(failed_at) >= MAX_LOGGED:
                return
        failed_at[key] = now
        if is_new:
            _log.error("internal_error", part=part, **dict(key), exc_info=error)

    def is_failing(self, part: str) -> bool:
        """Return True while an item of a part fails or has not been logged as working again."""
        return bool(self._failed_at.get(part))

    def worked(self, part: str, item: Item) -> None:
        """Log the recovery of an item that works, if its last failure is a minute ago."""
        failed_at = self._failed_at.get(part)
        if not failed_at:
            return
        key = _key(item)
        if self._now() - failed_at.get(key, self._now()) > RECOVERED_AFTER:
            del failed_at[key]
            _log.info("internal_error_ended", part=part, **dict(key))


def _key(item: Item) -> _Key:
    return tuple((name, item[name]) for name in _NAMES if name in item)
