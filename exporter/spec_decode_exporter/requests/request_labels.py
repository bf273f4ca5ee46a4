"""Labels of requests: model, request type, temperature bucket and user, each with bounded cardinality."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

from spec_decode_exporter.config.request_settings import RequestSettings
from spec_decode_exporter.requests.bucket_labels import bucket_labels
from spec_decode_exporter.requests.cardinality import CardinalityLimiter
from spec_decode_exporter.requests.request_findings import OTHER, UNKNOWN, GroupKey
from spec_decode_exporter.requests.request_record import RequestRecord

_RESERVED: Final = frozenset({OTHER, UNKNOWN})
"""Labels that need no slot."""


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
        self._labels = bucket_labels(bounds)

    def label(self, temperature: float | None) -> str:
        """Return the label of a temperature's bucket; greedy decoding, 0, has its own."""
        if temperature is None:
            return UNKNOWN
        return self._labels[bisect_left(self._bounds, temperature)]
