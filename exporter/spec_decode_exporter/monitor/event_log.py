"""Event log: events of engines, targets and requests become log lines within a rate; the newest are kept."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Annotated, Final

import structlog
from pydantic import Field

from spec_decode_exporter.core.event import Event, Fields
from spec_decode_exporter.core.isolation import Item
from spec_decode_exporter.core.recurring import TokenBucket
from spec_decode_exporter.monitor.events import EVENT_TYPES, is_bad
from spec_decode_exporter.monitor.snapshot import id_of

MAX_EVENTS: Final = 1000  # kept events, of about half a kilobyte each
EVENT_ID: Final = "^([0-9a-f]{1,16})-([0-9]{1,15})$"  # a regular expression of JSON Schema
BURST, EVENT_EVERY = 8_000, 0.2
"""Events at once, four of each of two thousand engines as at a restart; seconds until one more."""
REPEATED_AFTER: Final = 600.0  # seconds after which the log repeats that events are omitted
_IDENTIFIER: Final = re.compile(EVENT_ID, re.ASCII)

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class RecordedEvent:
    """Event of an engine, a target or a model's requests; the log has the same names and fields."""

    id: str
    """`<run of the exporter>-<number>`; numbers grow by one."""
    time: float
    """Unix time of the event."""
    type: Annotated[str, Field(json_schema_extra={"enum": list(EVENT_TYPES)})]
    """Name of the event, as in the log: `acceptance_dropped`, …"""
    bad: bool
    """True if an operator should react to it."""
    target: str
    """Empty for events of requests."""
    model_name: str | None
    """Null for events of a target."""
    engine: str | None
    """Null for events of a target or of requests."""
    engine_id: str | None
    """Identifier of the engine, as in the snapshot."""
    fields: Fields
    """Other fields of the log, by `type`, without the text of an internal error."""


class EventLog:
    """Records events: each gets an identifier and a log line, and the newest are kept.

    Identifiers are ``<run>-<number>``. Numbers begin with 1 and grow by one, so readers detect gaps.
    Events of all targets share one rate, so that neither a target nor a list that flaps fills the log.
    """

    def __init__(self, run: str, now: Callable[[], float], capacity: int = MAX_EVENTS) -> None:
        """Keep the newest ``capacity`` events; ``run`` is hexadecimal and unique, ``now`` monotonic."""
        self._run, self._number = run, 0
        self._kept: deque[RecordedEvent] = deque(maxlen=capacity)
        self._rate = TokenBucket(BURST, EVENT_EVERY, now)
        self._omitted, self._reports = 0, TokenBucket(1, REPEATED_AFTER, now)
        self._now, self._quiet_until = now, -inf

    def be_quiet(self, seconds: float) -> None:
        """Write lines of the level debug for events that are not bad, so that others are seen."""
        self._quiet_until = self._now() + seconds

    @property
    def last(self) -> str:
        """Identifier of the newest event; before the first one, number 0."""
        return f"{self._run}-{self._number}"

    def record(self, event: Event, wall: float, labels: Item) -> None:
        """Write an event of an engine or a target to the log at a Unix time and keep it.

        Beyond the rate, count it instead.
        """
        if self._rate.take():
            self._keep(event, wall, labels)
            return
        self._omitted += 1
        if self._reports.take():
            omitted = Event("events_omitted", {"omitted": self._omitted, "example": event.name})
            self._keep(omitted, wall, {"target": labels["target"]})

    @property
    def kept(self) -> tuple[RecordedEvent, ...]:
        """Kept events, oldest first."""
        return tuple(self._kept)

    def since(self, identifier: str) -> tuple[tuple[RecordedEvent, ...], bool]:
        """Return the events after one, and whether some are missing: not kept any longer, or of another run.

        Raises:
            ValueError: The identifier is invalid.
        """
        match = _IDENTIFIER.fullmatch(identifier)
        if match is None:
            raise ValueError(f"{identifier!r} is not the id of an event")
        is_own, before = match[1] == self._run, self._number - len(self._kept)
        number = min(int(match[2]), self._number) if is_own else 0
        return self.kept[max(0, number - before) :], number < before or not is_own

    def _keep(self, event: Event, wall: float, labels: Item) -> None:
        identifier, bad = f"{self._run}-{self._number + 1}", is_bad(event)
        model_name, engine = labels.get("model_name"), labels.get("engine")
        subject = (labels["target"], model_name, engine, None if engine is None else id_of(labels))
        recorded = RecordedEvent(identifier, wall, event.name, bad, *subject, event.fields)
        log = _log.bind(event_id=identifier, **labels, **event.fields)
        if event.error:
            log.error(event.name, exc_info=event.error)
        else:
            usual = log.debug if self._now() < self._quiet_until else log.info
            (log.warning if bad else usual)(event.name)
        self._number += 1
        self._kept.append(recorded)
