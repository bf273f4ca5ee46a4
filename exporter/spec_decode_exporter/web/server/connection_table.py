"""Open connections by client address, and the choice of the one that a new connection replaces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator


class TrackedConnection(Protocol):
    """A connection that measures how long it is busy."""

    @property
    def slow(self) -> bool:
        """True if its request, or the transfer of the response, takes long."""
        ...


C = TypeVar("C", bound=TrackedConnection)


class ConnectionTable(Generic[C]):
    """Open connections. A new one replaces one of the address that has the most."""

    def __init__(self) -> None:
        self._addresses: dict[C, str] = {}
        self._idle: dict[str, dict[C, None]] = {}
        """Connections without an active request by address, the longest idle first."""
        self._busy: dict[str, dict[C, None]] = {}
        """Connections with an active request by address, the longest busy first."""

    def __len__(self) -> int:
        return len(self._addresses)

    def __iter__(self) -> Iterator[C]:
        return iter(tuple(self._addresses))

    def __contains__(self, connection: C) -> bool:
        return connection in self._addresses

    def add(self, connection: C, address: str) -> None:
        """Add an idle connection."""
        self._addresses[connection] = address
        self._idle.setdefault(address, {})[connection] = None

    def mark_busy(self, connection: C) -> None:
        """Mark a connection as one with an active request."""
        self._move(connection, self._busy)

    def mark_idle(self, connection: C) -> None:
        """Mark a connection as one without an active request."""
        self._move(connection, self._idle)

    def discard(self, connection: C) -> None:
        """Remove a connection, if it is in the table."""
        address = self._addresses.pop(connection, None)
        if address is not None:
            self._remove(connection, address)

    def replaceable(self, address: str) -> C | None:
        """Return the connection to close for a new one from ``address``; None if there is none.

        The address with the most connections comes first; one with no more than the new client's never loses
        any. An address loses its longest idle connection. If all are busy, it loses one only if the new
        client's address would still have fewer: a slow one before the longest busy. The new client's own
        address loses idle and slow connections only.
        """
        own_count = self._count(address)
        for other in self._by_count():
            count = self._count(other)
            chosen = self._first_idle(other) if count > own_count or other == address else None
            if chosen is None and (count > own_count + 1 or other == address):
                chosen = self._first_slow(other)
            if chosen is None and count > own_count + 1:
                chosen = next(iter(self._busy[other]))
            if chosen is not None:
                return chosen
        return None

    def longest_idle(self) -> C | None:
        """Return the longest idle connection of the address with the most; None if all are busy."""
        return next(
            (each for other in self._by_count() if (each := self._first_idle(other)) is not None), None
        )

    def _by_count(self) -> list[str]:
        return sorted({*self._idle, *self._busy}, key=self._count, reverse=True)

    def _count(self, address: str) -> int:
        return len(self._idle.get(address, ())) + len(self._busy.get(address, ()))

    def _first_idle(self, address: str) -> C | None:
        return next(iter(self._idle.get(address, ())), None)

    def _first_slow(self, address: str) -> C | None:
        return next((each for each in self._busy.get(address, ()) if each.slow), None)

    def _move(self, connection: C, kind: dict[str, dict[C, None]]) -> None:
        address = self._addresses.get(connection)
        if address is not None:
            self._remove(connection, address)
            kind.setdefault(address, {})[connection] = None

    def _remove(self, connection: C, address: str) -> None:
        for kind in (self._idle, self._busy):
            kind.get(address, {}).pop(connection, None)
            if not kind.get(address, True):
                del kind[address]
