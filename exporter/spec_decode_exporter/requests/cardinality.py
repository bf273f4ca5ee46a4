"""Bounded cardinality of request labels: the values with the most requests keep their names.

A new value takes a free slot. At the end of a period, as long as the longest window, the free slots go to the
most frequent of the other values. Then these are compared with the holders of slots: one with at least
``TAKEOVER_FACTOR`` times the requests takes over the slot, as does any value if the holder had no requests.
So chance does not move a slot, and unused names do not remain. Values without a slot are counted in bounded
memory by the algorithm of Misra and Gries (*Finding repeated elements*, 1982), which never overcounts.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Final, Generic, TypeVar

from spec_decode_exporter.config.request_settings import RequestSettings
from spec_decode_exporter.requests.request_findings import OTHER, UNKNOWN, GroupKey
from spec_decode_exporter.requests.request_record import RequestRecord

Value = TypeVar("Value", bound=Hashable)

TAKEOVER_FACTOR: Final = 2
"""Requests of a value that takes over a slot, relative to those of its holder."""
MAX_WAITING: Final = 256
"""Values without a slot that are counted."""
_RESERVED: Final = frozenset({OTHER, UNKNOWN})
"""Labels that need no slot."""


class CardinalityLimiter(Generic[Value]):
    """Slots for a bounded number of values."""

    def __init__(self, slots: int) -> None:
        """Distinguish at most ``slots`` values."""
        self._slots = slots
        self._holders: dict[Value, int] = {}
        self._waiting: dict[Value, int] = {}
        self._period_began: float | None = None
        self.folded = 0
        """Requests whose value had no slot."""

    def __contains__(self, value: Value) -> bool:
        return value in self._holders

    def __iter__(self) -> Iterator[Value]:
        return iter(tuple(self._holders))

    def end_period(self, now: float, period: float) -> list[Value]:
        """Return the values that lose their slots if a period ends ``now``; else none."""
        if self._period_began is None:
            self._period_began = now
        if now - self._period_began < period:
            return []
        self._period_began = now
        lost = self._take_over()
        self._holders = dict.fromkeys(self._holders, 0)
        self._waiting = {}
        return lost

    def admit(self, value: Value) -> bool:
        """Count a request of ``value``; return whether the value has a slot."""
        if value in self._holders or len(self._holders) < self._slots:
            self._holders[value] = self._holders.get(value, 0) + 1
            return True
        self._wait(value)
        self.folded += 1
        return False

    def release(self, value: Value) -> None:
        """Free the slot of a value that cannot come again."""
        self._holders.pop(value, None)

    def forget_waiting(self, is_past: Callable[[Value], bool]) -> None:
        """Forget values without a slot that cannot come again, or whose count is wrong now."""
        self._waiting = {value: count for value, count in self._waiting.items() if not is_past(value)}

    def _take_over(self) -> list[Value]:
        """Give the free slots, then those of the smallest holders, to the most frequent waiting values.

        Return the holders that lose their slots.
        """
        holders = sorted(self._holders, key=self._holders.__getitem__)
        waiting = sorted(self._waiting, key=self._waiting.__getitem__, reverse=True)
        free = self._slots - len(holders)
        self._holders.update(dict.fromkeys(waiting[:free], 0))
        pairs = [
            (holder, value)
            for holder, value in zip(holders, waiting[free:], strict=False)
            if self._waiting[value] >= max(1, TAKEOVER_FACTOR * self._holders[holder])
        ]
        for holder, value in pairs:
            del self._holders[holder]
            self._holders[value] = 0
        return [holder for holder, _ in pairs]

    def _wait(self, value: Value) -> None:
        if value in self._waiting or len(self._waiting) < MAX_WAITING:
            self._waiting[value] = self._waiting.get(value, 0) + 1
        else:
            self._waiting = {name: count - 1 for name, count in self._waiting.items() if count > 1}


class RequestLabels:
    """Labels of requests: models, request types, temperatures, their combinations, and users."""

    def __init__(self, settings: RequestSettings) -> None:
        self._temperatures = TemperatureBuckets(settings.temperatures)
        self._models = CardinalityLimiter[str](settings.models)
        self._types = CardinalityLimiter[str](settings.types)
        self._groups = CardinalityLimiter[GroupKey](settings.groups)
        self._users = CardinalityLimiter[str](settings.users.max if settings.users else 0)

    def key(self, request: RequestRecord) -> GroupKey:
        """Count a request and return the key of its group."""
        model_name = _label(self._models, request.model_name)
        request_type = _label(self._types, request.request_type)
        key = GroupKey(model_name, request_type, self._temperatures.label(request.temperature))
        if request.user:
            _label(self._users, request.user)
        return key if self._groups.admit(key) else remainder_of(key.model_name)

    def user(self, user: str) -> str:
        """Return the present label of a user."""
        return user if user in self._users else OTHER

    def end_period(self, now: float, period: float) -> dict[GroupKey, GroupKey]:
        """Return the groups that lose their labels if a period ends ``now``, and their new keys."""
        models, types = self._models.end_period(now, period), self._types.end_period(now, period)
        ended = [key for key in self._groups if key.model_name in models or key.request_type in types]
        for key in ended:
            self._groups.release(key)
        past_models, past_types = _with_other(models), _with_other(types)
        self._groups.forget_waiting(
            lambda key: key.model_name in past_models or key.request_type in past_types
        )
        self._users.end_period(now, period)
        lost = [*ended, *(remainder_of(model) for model in models), *self._groups.end_period(now, period)]
        return {key: remainder_of(OTHER if key.model_name in models else key.model_name) for key in lost}

    def folded(self) -> dict[str, int]:
        """Return the number of requests that were counted as ``other``, by label."""
        return {
            "model_name": self._models.folded,
            "request_type": self._types.folded,
            "user": self._users.folded,
            "group": self._groups.folded,
        }


def remainder_of(model_name: str) -> GroupKey:
    """Return the key of a model's combinations that have no slot."""
    return GroupKey(model_name, OTHER, OTHER)


def _with_other(lost: Sequence[str]) -> Sequence[str]:
    """Return the labels that change: if one loses its slot, its successor was ``other`` until now."""
    return [*lost, OTHER] if lost else []


def _label(limiter: CardinalityLimiter[str], value: str) -> str:
    if not value:
        return UNKNOWN
    return value if value in _RESERVED or limiter.admit(value) else OTHER


class TemperatureBuckets:
    """Temperature buckets of the configuration: acceptance depends on the temperature."""

    def __init__(self, bounds: Sequence[float]) -> None:
        """Take ascending upper bounds, each of which belongs to its bucket."""
        self._bounds = bounds
        self._labels = temperature_labels(bounds)

    def label(self, temperature: float | None) -> str:
        """Return the label of a temperature's bucket; greedy decoding, 0, has its own."""
        if temperature is None:
            return UNKNOWN
        return self._labels[bisect_left(self._bounds, temperature)]


def temperature_labels(bounds: Sequence[float]) -> list[str]:
    """Return the labels of the buckets below ascending upper ``bounds``, and of the one above them all."""
    texts = [str(bound).removesuffix(".0") for bound in bounds]
    below = [text if bound == 0 else f"to {text}" for bound, text in zip(bounds, texts, strict=True)]
    return [*below, f"above {texts[-1]}"]
