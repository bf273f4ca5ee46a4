"""By which names a request is counted: as many as the configuration tells apart, and ``other``."""

from __future__ import annotations

from collections.abc import Sequence

from spec_decode_exporter.config.request_settings import RequestSettings
from spec_decode_exporter.requests.cardinality import CardinalityLimiter
from spec_decode_exporter.requests.request import Request
from spec_decode_exporter.requests.request_findings import OTHER, UNKNOWN, GroupKey
from spec_decode_exporter.requests.temperatures import Temperatures

_ALWAYS = frozenset({OTHER, UNKNOWN})
"""Labels that need no slot."""


class Names:
    """Models, request types, temperatures, their combinations, and users."""

    def __init__(self, settings: RequestSettings) -> None:
        self._temperatures = Temperatures(settings.temperatures)
        self._models = CardinalityLimiter[str](settings.models)
        self._types = CardinalityLimiter[str](settings.types)
        self._groups = CardinalityLimiter[GroupKey](settings.groups)
        self._users = CardinalityLimiter[str](settings.users.most if settings.users else 0)

    def key(self, request: Request) -> GroupKey:
        """Count a request and return the group that it belongs to."""
        model_name = _label(self._models, request.model_name)
        kind = _label(self._types, request.request_type)
        key = GroupKey(model_name, kind, self._temperatures.label(request.temperature))
        if request.user:
            _label(self._users, request.user)
        return key if self._groups.admit(key) else rest_of(key.model_name)

    def user(self, user: str) -> str:
        """Return the name by which a user goes now."""
        return user if user in self._users else OTHER

    def turn(self, now: float, period: float) -> dict[GroupKey, GroupKey]:
        """Return the groups that lose their names now, and what is kept of each is counted as."""
        models, kinds = self._models.turn(now, period), self._types.turn(now, period)
        ended = [key for key in self._groups if key.model_name in models or key.request_type in kinds]
        for key in ended:
            self._groups.release(key)
        past_models, past_kinds = _renamed(models), _renamed(kinds)
        self._groups.forget_waiting(
            lambda key: key.model_name in past_models or key.request_type in past_kinds
        )
        self._users.turn(now, period)
        lost = [*ended, *(rest_of(model) for model in models), *self._groups.turn(now, period)]
        return {key: rest_of(OTHER if key.model_name in models else key.model_name) for key in lost}

    def folded(self) -> dict[str, int]:
        """Return how many requests were counted as ``other``, by label."""
        return {
            "model_name": self._models.folded,
            "request_type": self._types.folded,
            "user": self._users.folded,
            "group": self._groups.folded,
        }


def rest_of(model_name: str) -> GroupKey:
    """Return what the combinations of a model are counted as that have no name of their own."""
    return GroupKey(model_name, OTHER, OTHER)


def _renamed(lost: Sequence[str]) -> Sequence[str]:
    """Return the labels whose requests go by another from now on: who took over was ``other`` until now."""
    return [*lost, OTHER] if lost else []


def _label(slots: CardinalityLimiter[str], value: str) -> str:
    if not value:
        return UNKNOWN
    return value if value in _ALWAYS or slots.admit(value) else OTHER
