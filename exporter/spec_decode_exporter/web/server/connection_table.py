"""The open connections by the address of their clients, and the one that makes room for another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator


class Timed(Protocol):
    """A connection that knows for how long it has been busy."""

    @property
    def slow(self) -> bool:
        """True if its request, or the client's reading of the answer, takes long."""
        ...


C = TypeVar("C", bound=Timed)


class ConnectionTable(Generic[C]):
    """The open connections. An address with many of them makes room for one with fewer."""

    def __init__(self) -> None:
        self._addresses: dict[C, str] = {}
        self._idle: dict[str, dict[C, None]] = {}
        """Connections without a request in hand by address, the longest waiting first."""
        self._busy: dict[str, dict[C, None]] = {}
        """The others, the longest busy first."""

    def __len__(self) -> int:
        return len(self._addresses)

    def __iter__(self) -> Iterator[C]:
        return iter(tuple(self._addresses))

    def __contains__(self, connection: C) -> bool:
        return connection in self._addresses

    def add(self, connection: C, address: str) -> None:
        """Add a connection that waits for its first request."""
        self._addresses[connection] = address
        self._idle.setdefault(address, {})[connection] = None

    def busy(self, connection: C) -> None:
        """Note that a connection has a request in hand."""
        self._move(connection, self._busy)

    def idle(self, connection: C) -> None:
        """Note that a connection has none any more."""
        self._move(connection, self._idle)

    def discard(self, connection: C) -> None:
        """Remove a connection, if it is there."""
        address = self._addresses.pop(connection, None)
        if address is not None:
            self._remove(connection, address)

    def for_newcomer(self, address: str) -> C | None:
        """Return the connection to end for a new one from ``address``; None if there is none.

        Addresses with most connections come first, those without more than the newcomer's never. An address
        ends the connection that has waited longest for a request. Without one, it ends a busy connection if
        the newcomer's address would still have fewer: a slow one before the longest busy. The newcomer's own
        address ends slow ones, never others that are busy.
        """
        mine = self._count(address)
        for other in self._by_count():
            count = self._count(other)
            found = self._first_idle(other) if count > mine or other == address else None
            if found is None and (count > mine + 1 or other == address):
                found = self._first_slow(other)
            if found is None and count > mine + 1:
                found = next(iter(self._busy[other]))
            if found is not None:
                return found
        return None

    def longest_idle(self) -> C | None:
        """Return the longest waiting connection of the address with the most; None if all are busy."""
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
