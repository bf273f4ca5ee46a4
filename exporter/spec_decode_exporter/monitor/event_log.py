"""What happened to engines and targets: written to the log, and the last of it kept for whoever asks."""

from __future__ import annotations

import asyncio
import re
from collections import deque
from dataclasses import dataclass
from typing import Final

import structlog

from spec_decode_exporter.core.event import Event
from spec_decode_exporter.core.internal_errors import InternalErrors
from spec_decode_exporter.views.engine_view import engine_id
from spec_decode_exporter.views.models import EventView, Plain

MOST_KEPT: Final = 1000
"""Events that are kept; at half a kilobyte each, whoever is told of the rest has seen a bad day."""

EVENT_ID: Final = "^([0-9a-f]{1,16})-([0-9]{1,15})$"
"""What an identifier looks like, as a regular expression of JSON Schema."""

_IDENTIFIER: Final = re.compile(EVENT_ID, re.ASCII)

_log = structlog.get_logger()


def run_name(started: float) -> str:
    """Return what tells a run of the exporter from others: its start (Unix time), to the millisecond."""
    return f"{max(0, round(started * 1000)):x}"


class UnknownEventError(ValueError):
    """A text that is not the identifier of any event."""


@dataclass(frozen=True, slots=True)
class Since:
    """The events after one of them."""

    events: tuple[EventView, ...]
    """Oldest first."""
    gap: bool
    """Whether some are no longer kept, or the exporter was restarted in between."""
    last: str
    """The identifier to ask with next."""


class EventLog:
    """The one door through which events go: each gets an identifier, a line in the log, and a place here.

    Identifiers are ``<run>-<number>``. Numbers begin with 1 and grow by one, so a reader sees what it missed.
    """

    def __init__(self, run: str, most: int = MOST_KEPT, errors: InternalErrors | None = None) -> None:
        """Keep the newest ``most`` events; ``run`` is hexadecimal and differs from one start to the next."""
        self._errors = errors or InternalErrors()
        self._run = run
        self._number = 0
        self._kept: deque[EventView] = deque(maxlen=most)
        self._arrival = asyncio.Event()
        self.closed = False
        """Whether nothing more will come."""

    @property
    def last(self) -> str:
        """The identifier of the newest event; before the first one, number 0."""
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
            event: What happened.
            wall: When, in Unix time.
            target: The label ``target`` of what it happened to; empty if it happened to no server.
            engine: The labels ``model_name`` and ``engine``, if it happened to an engine.
            model_name: The model, if it happened to the requests of one.
        """
        model_name, number = engine or (model_name, None)
        names = {"target": target or None, "model_name": model_name, "engine": number}
        whose = {name: value for name, value in names.items() if value is not None}
        write = _log.warning if event.is_bad else _log.info
        identifier = f"{self._run}-{self._number + 1}"
        view = self._errors.attempt(
            "events",
            whose,
            lambda: EventView(
                id=identifier,
                time=wall,
                type=event.name,
                bad=event.is_bad,
                target=target,
                model_name=model_name,
                engine=number,
                engine_id=engine and engine_id(target, *engine),
                fields=_told(event),
            ),
        )
        if view is None:
            return
        write(event.name, event_id=identifier, **whose, **event.fields)
        self._number += 1
        self._kept.append(view)
        self._wake()

    def close(self) -> None:
        """Let go of those who wait for the next event."""
        self.closed = True
        self._wake()

    def since(self, identifier: str | None = None) -> Since:
        """Return what came after an event, or everything that is kept.

        Raises:
            UnknownEventError: the identifier is none.
        """
        number = 0 if identifier is None else self._seen(identifier)
        oldest = self._number - len(self._kept) + 1
        gap = identifier is not None and (number < oldest - 1 or not self._is_ours(identifier))
        return Since(tuple(self._kept)[max(0, number + 1 - oldest) :], gap, self.last)

    async def beyond(self, identifier: str) -> None:
        """Return as soon as there is an event after this one, or there will be none."""
        while identifier == self.last and not self.closed:
            await self._arrival.wait()

    def _wake(self) -> None:
        arrived, self._arrival = self._arrival, asyncio.Event()
        arrived.set()

    def _seen(self, identifier: str) -> int:
        """Return the number up to which a reader has seen the events of this run."""
        match = _IDENTIFIER.fullmatch(identifier)
        if match is None:
            raise UnknownEventError(f"{identifier!r} is not the id of an event")
        return min(int(match[2]), self._number) if self._is_ours(identifier) else 0

    def _is_ours(self, identifier: str) -> bool:
        return identifier.startswith(f"{self._run}-")


def _told(event: Event) -> dict[str, Plain | tuple[Plain, ...]]:
    """Return the fields; the text of an error of ours stays in the log: it may be nobody's business."""
    fields = event.fields
    kept = fields.keys() - {"exc_info", "error"} if "exc_info" in fields else fields.keys()
    return {name: _plain(value) for name, value in fields.items() if name in kept}


def _plain(value: object) -> Plain | tuple[Plain, ...]:
    """Return a value of the log in a form that JSON can hold."""
    if isinstance(value, list | tuple):
        return tuple(each if isinstance(each, Plain) else str(each) for each in value)
    return value if isinstance(value, Plain) else str(value)
