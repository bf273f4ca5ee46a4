"""Event log: events of engines, targets and requests become log lines, and the newest are kept."""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

import structlog

from spec_decode_exporter.core.event import Event
from spec_decode_exporter.core.internal_errors import InternalErrors

MAX_EVENTS: Final = 1000
"""Kept events, of about half a kilobyte each."""

EVENT_ID: Final = "^([0-9a-f]{1,16})-([0-9]{1,15})$"
"""Identifier of an event, as a regular expression of JSON Schema."""

_IDENTIFIER: Final = re.compile(EVENT_ID, re.ASCII)

_log = structlog.get_logger()

Plain = bool | int | float | str | None
"""Value of a field that JSON can represent."""


def run_name(started: float) -> str:
    """Return the identifier of a run of the exporter: its start in milliseconds of Unix time, hexadecimal."""
    return f"{max(0, round(started * 1000)):x}"


class UnknownEventError(ValueError):
    """Text that is not the identifier of an event."""


@dataclass(frozen=True, slots=True, eq=False)
class RecordedEvent:
    """Event with its identifier, time and subject."""

    id: str
    time: float
    """Unix time."""
    type: str
    bad: bool
    """True if an operator should read it."""
    target: str
    """Label ``target``; empty for an event of requests."""
    model_name: str | None
    engine: str | None
    """Label ``engine``; None for an event of a target or of requests."""
    fields: Mapping[str, Plain | tuple[Plain, ...]]
    """Fields of the log line, without those of internal errors."""


@dataclass(frozen=True, slots=True)
class Since:
    """Events after a given one."""

    events: tuple[RecordedEvent, ...]
    """Oldest first."""
    gap: bool
    """True if events are missing: no longer kept, or of an earlier run."""
    last: str
    """Identifier for the next request."""


class EventLog:
    """Records every event: it gets an identifier and a log line, and is kept.

    Identifiers are ``<run>-<number>``. Numbers begin with 1 and grow by one, so readers detect gaps.
    """

    def __init__(self, run: str, capacity: int = MAX_EVENTS, errors: InternalErrors | None = None) -> None:
        """Keep the newest ``capacity`` events; ``run`` is hexadecimal and unique to this start."""
        self._errors = errors or InternalErrors()
        self._run = run
        self._number = 0
        self._kept: deque[RecordedEvent] = deque(maxlen=capacity)
        self._arrival = asyncio.Event()
        self.closed = False
        """True if the log ended."""

    @property
    def last(self) -> str:
        """Identifier of the newest event; before the first one, number 0."""
        return f"{self._run}-{self._number}"

    def record(
        self,
        event: Event,
        wall: float,
        target: str = "",
        engine: tuple[str, str] | None = None,
        model_name: str | None = None,
    ) -> None:
        """Write an event to the log and keep it.

        Args:
            event: Event without its subject.
            wall: Unix time.
            target: Label ``target``; empty for an event of requests.
            engine: Labels ``model_name`` and ``engine`` of an event of an engine.
            model_name: Model of an event of requests.
        """
        model_name, number = engine or (model_name, None)
        names = {"target": target or None, "model_name": model_name, "engine": number}
        subject = {name: value for name, value in names.items() if value is not None}
        identifier = f"{self._run}-{self._number + 1}"
        recorded = self._errors.attempt(
            "events", subject, partial(_recorded, identifier, event, wall, subject)
        )
        if recorded is None:
            return
        self._number += 1
        self._kept.append(recorded)
        self._wake()

    def close(self) -> None:
        """End the log, and wake its readers."""
        self.closed = True
        self._wake()

    def since(self, identifier: str | None = None) -> Since:
        """Return the events after one, or all kept events.

        Raises:
            UnknownEventError: The identifier is invalid.
        """
        number = 0 if identifier is None else self._number_of(identifier)
        oldest = self._number - len(self._kept) + 1
        gap = identifier is not None and (number < oldest - 1 or not self._is_of_this_run(identifier))
        return Since(tuple(self._kept)[max(0, number + 1 - oldest) :], gap, self.last)

    async def beyond(self, identifier: str) -> None:
        """Wait for an event after this one, or for the end of the log."""
        while identifier == self.last and not self.closed:
            await self._arrival.wait()

    def _wake(self) -> None:
        arrived, self._arrival = self._arrival, asyncio.Event()
        arrived.set()

    def _number_of(self, identifier: str) -> int:
        """Return the number of an event; 0 for one of an earlier run."""
        match = _IDENTIFIER.fullmatch(identifier)
        if match is None:
            raise UnknownEventError(f"{identifier!r} is not the id of an event")
        return min(int(match[2]), self._number) if self._is_of_this_run(identifier) else 0

    def _is_of_this_run(self, identifier: str) -> bool:
        return identifier.startswith(f"{self._run}-")


def _recorded(identifier: str, event: Event, wall: float, subject: Mapping[str, str]) -> RecordedEvent:
    """Write an event to the log and return its record."""
    recorded = RecordedEvent(
        id=identifier,
        time=wall,
        type=event.name,
        bad=event.is_bad,
        target=subject.get("target", ""),
        model_name=subject.get("model_name"),
        engine=subject.get("engine"),
        fields=_public_fields(event),
    )
    write = _log.warning if event.is_bad else _log.info
    write(event.name, event_id=identifier, **subject, **event.fields)
    return recorded


def _public_fields(event: Event) -> dict[str, Plain | tuple[Plain, ...]]:
    """Return the fields; the text of an internal error stays in the log, since it may be confidential."""
    fields = event.fields
    public = fields.keys() - {"exc_info", "error"} if "exc_info" in fields else fields.keys()
    return {name: _plain(value) for name, value in fields.items() if name in public}


def _plain(value: object) -> Plain | tuple[Plain, ...]:
    """Return a value of the log in a form that JSON can represent."""
    if isinstance(value, list | tuple):
        return tuple(each if isinstance(each, Plain) else str(each) for each in value)
    return value if isinstance(value, Plain) else str(value)
