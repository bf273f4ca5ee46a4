"""Subjects of metrics: parts of a snapshot, each with the labels of its series."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final, NamedTuple, TypeVar

from spec_decode_exporter.config.types import format_duration
from spec_decode_exporter.monitor.snapshot import Snapshot
from spec_decode_exporter.requests.model_findings import ModelFindings
from spec_decode_exporter.requests.store import GroupFindings, RequestFindings, WindowFindings
from spec_decode_exporter.requests.summary import RequestTotals

Key = TypeVar("Key", bound=Hashable)
Item = TypeVar("Item")
Parts = Sequence[tuple[str, Item | None]]
"""Windows of a subject by the label ``window``, ascending by length; None: it has no series there."""


@dataclass(frozen=True, slots=True, eq=False)
class Subject:
    """Part of a snapshot that metrics read."""

    labels: tuple[str, ...]
    """Labels of its series; the configured labels of a target follow those of an engine or target."""
    views: Callable[[Snapshot], Iterable[tuple[Mapping[str, str], Any]]]
    """Return each such part of a snapshot with its labels."""
    parts: Callable[[Any], Parts[Any]] = lambda _: ()  # return the windows of such a part; none by default


class GroupRequests(NamedTuple):
    """Requests of one model, type and temperature."""

    since_start: RequestTotals | None
    windows: Parts[GroupFindings]


def _groups(snapshot: Snapshot) -> Iterator[tuple[Mapping[str, str], GroupRequests]]:
    found = snapshot.requests
    windows = _by_window(found, attrgetter("groups"), attrgetter("key"))
    for key in dict.fromkeys([*found.since_start, *windows]):
        yield key._asdict(), GroupRequests(found.since_start.get(key), windows.get(key, ()))


def _models(snapshot: Snapshot) -> Iterator[tuple[Mapping[str, str], Parts[ModelFindings]]]:
    windows = _by_window(snapshot.requests, attrgetter("models"), attrgetter("model_name"))
    return (({"model_name": name}, parts) for name, parts in windows.items())


def _by_window(
    found: RequestFindings,
    items: Callable[[WindowFindings], Iterable[Item]],
    key: Callable[[Item], Key],
) -> dict[Key, Parts[Item]]:
    """Return the windows of each key; a window without it has None."""
    by_label = {label: {key(item): item for item in items(window)} for label, window in found.windows.items()}
    keys = dict.fromkeys(name for by_key in by_label.values() for name in by_key)
    return {name: [(label, by_key.get(name)) for label, by_key in by_label.items()] for name in keys}


ENGINE: Final = Subject(
    ("target", "model_name", "engine"),
    lambda snapshot: snapshot.engines,
    lambda engine: [(its.label, its) for its in engine.evaluation.windows],
)
ARM: Final = Subject(
    ("experiment", "arm", "baseline"),
    lambda snapshot: snapshot.experiments,
    lambda arm: [(format_duration(window.length), window) for window in arm.windows],
)
GROUP: Final = Subject(("model_name", "request_type", "temperature"), _groups, attrgetter("windows"))
MODEL: Final = Subject(("model_name",), _models, tuple)
PROMPTS: Final = Subject(
    ("model_name",),
    lambda snapshot: [({"model_name": its.model_name}, its) for its in snapshot.requests.prompts],
)
USER: Final = Subject(
    ("user", "model_name"),
    lambda snapshot: [
        ({"user": its.user, "model_name": its.model_name}, its.summary) for its in snapshot.requests.users
    ],
)
RECEIVER: Final = Subject((), lambda snapshot: [({}, snapshot.requests)] if snapshot.requests.enabled else [])
TARGET: Final = Subject(("target",), lambda snapshot: snapshot.targets)
EXPORTER: Final = Subject((), lambda snapshot: snapshot.exporter)
